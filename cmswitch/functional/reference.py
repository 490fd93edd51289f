"""The integer reference: every product on the whole operator at once, without tiles, digits or a program."""

from __future__ import annotations

from typing import Any

import numpy as np

from cmswitch.functional.description import Convolution, Multiplication, PositionProduct, Product
from cmswitch.functional.formats import Array

_EXACT = ((np.float32, 2**24), (np.float64, 2**53))
"""Types whose matrix products are fast, with the whole numbers up to which they are exact."""


def reference_product(product: Product, matrix: Array, operand: Array) -> Array:
    """The product of two inputs given as signed whole numbers in the layout of the node, int64 in that of its output."""
    geometry = product.geometry
    match geometry:
        case Convolution():
            return _convolution(product, geometry, matrix, operand)
        case PositionProduct(groups):
            spread = matrix.reshape(matrix.shape[0], groups, -1, int(np.prod(matrix.shape[2:])))
            kernels = operand.reshape(groups, operand.shape[0] // groups, -1)
            return _times(np.swapaxes(kernels, 1, 2)[None], spread).reshape(product.shape)
        case Multiplication():
            left, right = (operand, matrix) if geometry.swapped else (matrix, operand)
            left = left.T if geometry.transpose_left and left.ndim == 2 else left
            right = right.T if geometry.transpose_right and right.ndim == 2 else right
            return _times(left, right).reshape(product.shape)


def _convolution(product: Product, geometry: Convolution, data: Array, weight: Array) -> Array:
    """One kernel position after another: its weights times the input that it meets at every output position."""
    shape = product.shape
    if geometry.last:
        data, shape = np.moveaxis(data, -1, 1), (shape[0], shape[-1], *shape[1:-1])
    space, groups = shape[2:], geometry.groups
    data = data.astype(np.int32)
    total = np.zeros((shape[0], groups, shape[1] // groups, int(np.prod(space))), np.int64)
    for tap in np.ndindex(*weight.shape[2:]):
        met = np.zeros((*data.shape[:2], *space), data.dtype)
        inside: list[Any] = [...]
        source: list[Any] = [...]
        for axis, out in enumerate(space):
            stride = geometry.strides[axis]
            start = tap[axis] * geometry.dilations[axis] - geometry.pads[axis]
            first = max(0, -(start // stride))
            count = max(0, min(out, (data.shape[2 + axis] - 1 - start) // stride + 1) - first)
            inside.append(slice(first, first + count))
            source.append(slice(start + first * stride, start + (first + count) * stride, stride))
        met[tuple(inside)] = data[tuple(source)]
        taps = weight[(slice(None), slice(None), *tap)].reshape(groups, shape[1] // groups, -1)
        total += _times(taps[None], met.reshape(shape[0], groups, data.shape[1] // groups, -1))
    found = total.reshape(shape)
    return np.moveaxis(found, 1, -1) if geometry.last else found


def sampled_product(product: Product, matrix: Array, operand: Array, rows: Array) -> Array:
    """The same at ``rows`` of every group, which count output positions batch by batch; 0 elsewhere."""
    geometry = product.geometry
    match geometry:
        case Convolution():
            return _sampled_convolution(product, geometry, matrix, operand, rows)
        case PositionProduct(groups):
            batch, place = np.unravel_index(rows, (matrix.shape[0], int(np.prod(matrix.shape[2:]))))
            spread = matrix.reshape(matrix.shape[0], groups, -1, int(np.prod(matrix.shape[2:])))[batch, :, :, place]
            kernels = operand.reshape(groups, operand.shape[0] // groups, -1)
            made = _times(np.moveaxis(spread, 0, 1), kernels)
            found = np.zeros((product.shape[0], groups, product.columns, matrix[0, 0].size), np.int64)
            found[batch, :, :, place] = np.moveaxis(made, 1, 0)
            return found.reshape(product.shape)
        case Multiplication():
            return _sampled_multiplication(product, geometry, matrix, operand, rows)


def _sampled_convolution(product: Product, geometry: Convolution, data: Array, weight: Array, rows: Array) -> Array:
    """One kernel position after another: its weights times the input that it meets at the chosen output positions."""
    shape = product.shape
    if geometry.last:
        data, shape = np.moveaxis(data, -1, 1), (shape[0], shape[-1], *shape[1:-1])
    groups = geometry.groups
    batch, *places = np.unravel_index(rows, (shape[0], *shape[2:]))
    total = np.zeros((groups, shape[1] // groups, len(rows)), np.int64)
    for tap in np.ndindex(*weight.shape[2:]):
        inside = np.ones(len(rows), np.bool_)
        met: list[Array] = []
        for axis, place in enumerate(places):
            at = place * geometry.strides[axis] + tap[axis] * geometry.dilations[axis] - geometry.pads[axis]
            inside &= (at >= 0) & (at < data.shape[2 + axis])
            met.append(np.clip(at, 0, data.shape[2 + axis] - 1))
        key: tuple[Any, ...] = (batch, slice(None), *met)
        taken = np.where(inside[:, None], data[key], 0).reshape(len(rows), groups, -1)
        taps = weight[(slice(None), slice(None), *tap)].reshape(groups, shape[1] // groups, -1)
        total += _times(taps, taken.transpose(1, 2, 0))
    found = np.zeros(shape, np.int64)
    at_rows: tuple[Any, ...] = (batch, slice(None), *places)
    found[at_rows] = total.reshape(shape[1], len(rows)).T
    return np.moveaxis(found, 1, -1) if geometry.last else found


def _sampled_multiplication(
    product: Product, geometry: Multiplication, matrix: Array, operand: Array, rows: Array
) -> Array:
    """Rows of the streamed input times the held one that belongs to them."""
    left, right = (operand, matrix) if geometry.swapped else (matrix, operand)
    left = left[None] if left.ndim == 1 else left.T if geometry.transpose_left else left
    right = right[:, None] if right.ndim == 1 else right.T if geometry.transpose_right else right
    streamed, held = (right.swapaxes(-1, -2), left.swapaxes(-1, -2)) if geometry.swapped else (left, right)
    shared = [axis for axis in range(len(product.batch)) if axis not in product.separate]
    order = [*product.separate, *shared, len(product.batch), len(product.batch) + 1]
    apart: list[Any] = [slice(None)] * len(product.separate)
    by_group = np.broadcast_to(streamed, (*product.batch, *streamed.shape[-2:])).transpose(order)
    weights = np.broadcast_to(held, (*product.batch, *held.shape[-2:])).transpose(order)
    chosen = np.unravel_index(rows, by_group.shape[len(apart) : -1])
    found = np.zeros((*by_group.shape[:-1], product.columns), np.int64)
    first_of_each: list[Any] = [0] * len(shared)
    same = weights[(*apart, *first_of_each)]
    found[(*apart, *chosen)] = _times(by_group[(*apart, *chosen)], same)
    back = found.transpose([order.index(axis) for axis in range(len(order))])
    return (back.swapaxes(-1, -2) if geometry.swapped else back).reshape(product.shape)


def _times(left: Array, right: Array) -> Array:
    """A product of whole numbers, in floats where every sum is exact in them."""
    bound = left.shape[-1] * float(np.abs(left).max(initial=0)) * float(np.abs(right).max(initial=0))
    kind = next((kind for kind, largest in _EXACT if bound < largest), np.int64)
    return np.asarray(np.matmul(left.astype(kind), right.astype(kind))).astype(np.int64)
