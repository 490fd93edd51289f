"""How the machine lays tensors out for its arrays: im2col matrices, operands by group, and results back in place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cmswitch.functional.description import Convolution, Multiplication, PositionProduct, Product
from cmswitch.functional.formats import Array


def matrix(product: Product, codes: Array, zero: int) -> Array:
    """The streamed input as [groups, rows, inner]; positions outside a convolution's input hold ``zero``."""
    geometry = product.geometry
    match geometry:
        case Convolution():
            data = np.moveaxis(codes, -1, 1) if geometry.last else codes
            return _windows(product, geometry, data, zero)
        case PositionProduct(groups):
            parts = codes.reshape(codes.shape[0], groups, product.inner, -1)
            return parts.transpose(1, 0, 3, 2).reshape(groups, product.rows, product.inner)
        case Multiplication():
            return _Batches(product, geometry).matrix(codes)


def operand(product: Product, codes: Array) -> Array:
    """The held input as [groups, inner, columns], for the whole inner dimension of the node."""
    geometry = product.geometry
    match geometry:
        case Convolution(groups):
            return codes.reshape(groups, product.columns, -1).transpose(0, 2, 1)
        case PositionProduct(groups):
            return codes.reshape(groups, -1, product.columns)
        case Multiplication():
            return _Batches(product, geometry).operand(codes)


def result(product: Product, sums: Array) -> Array:
    """Sums [groups, rows, columns] in the shape of the node's output."""
    geometry, shape = product.geometry, product.shape
    if isinstance(geometry, Multiplication):
        return _Batches(product, geometry).result(sums)
    last = isinstance(geometry, Convolution) and geometry.last
    space = shape[1:-1] if last else shape[2:]
    placed = sums.reshape(product.groups, shape[0], *space, product.columns)
    channels = np.moveaxis(placed, 0, -2).reshape(shape[0], *space, product.groups * product.columns)
    return channels if last else np.moveaxis(channels, -1, 1)


def _windows(product: Product, geometry: Convolution, data: Array, zero: int) -> Array:
    space = product.shape[1:-1] if geometry.last else product.shape[2:]
    channels = data.shape[1] // geometry.groups
    reach = [dilation * (size - 1) + 1 for dilation, size in zip(geometry.dilations, product.kernel, strict=True)]
    pads = [(0, 0), (0, 0)]
    for axis, out in enumerate(space):
        needed = (out - 1) * geometry.strides[axis] + reach[axis]
        before = geometry.pads[axis]
        pads.append((before, max(0, needed - before - data.shape[2 + axis])))
    padded = np.pad(data, pads, constant_values=zero)
    axes = tuple(range(2, data.ndim))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, axes)
    places = [slice(0, (out - 1) * stride + 1, stride) for out, stride in zip(space, geometry.strides, strict=True)]
    views = views[(slice(None), slice(None), *places, *(slice(None, None, d) for d in geometry.dilations))]
    rank = len(space)
    grouped = views.reshape(data.shape[0], geometry.groups, channels, *views.shape[2:])
    order = (1, 0, *range(3, 3 + rank), 2, *range(3 + rank, 3 + 2 * rank))
    return grouped.transpose(order).reshape(geometry.groups, product.rows, product.total)


@dataclass(frozen=True)
class _Batches:
    """A batched product: the batch axes of its result."""

    product: Product
    geometry: Multiplication

    def _turned(self, codes: Array, held: bool) -> Array:
        """The input as [*batch, rows, inner] or, if ``held``, [*batch, inner, columns], with one-axis inputs filled up."""
        left = held == self.geometry.swapped
        transposed = self.geometry.transpose_left if left else self.geometry.transpose_right
        if codes.ndim == 1:
            codes = codes[None, :] if left else codes[:, None]
        elif transposed:
            codes = np.swapaxes(codes, -1, -2)
        return np.swapaxes(codes, -1, -2) if self.geometry.swapped else codes

    def _split(self) -> tuple[list[int], list[int]]:
        shared = [axis for axis in range(len(self.product.batch)) if axis not in self.product.separate]
        return list(self.product.separate), shared

    def matrix(self, codes: Array) -> Array:
        """As [groups, rows, inner]."""
        turned = self._turned(codes, held=False)
        whole = np.broadcast_to(turned, (*self.product.batch, *turned.shape[-2:]))
        separate, shared = self._split()
        rank = len(self.product.batch)
        ordered = whole.transpose(*separate, *shared, rank, rank + 1)
        return ordered.reshape(self.product.groups, self.product.rows, turned.shape[-1])

    def operand(self, codes: Array) -> Array:
        """As [groups, inner, columns]."""
        turned = self._turned(codes, held=True)
        return turned.reshape(self.product.groups, *turned.shape[-2:])

    def result(self, sums: Array) -> Array:
        """From [groups, rows, columns]."""
        separate, shared = self._split()
        sizes = [self.product.batch[axis] for axis in (*separate, *shared)]
        placed = sums.reshape(*sizes, -1, self.product.columns)
        rank = len(self.product.batch)
        order = [*separate, *shared]
        back = placed.transpose(*(order.index(axis) for axis in range(rank)), rank, rank + 1)
        if self.geometry.swapped:
            back = np.swapaxes(back, -1, -2)
        return back.reshape(self.product.shape)
