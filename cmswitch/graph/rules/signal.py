"""Transforms of signals and matrices: Fourier transforms, windows, determinants."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node, Unsupported
from cmswitch.graph.network import HOST
from cmswitch.graph.rules.indexing import host
from cmswitch.graph.rules.rule import RULES, Vector, along, axis_of
from cmswitch.graph.streams import SAME, Window

_PER_COMPLEX_PRODUCT = 2
"""Multiply-accumulates for each of the two parts of a product of complex numbers."""


def _passes(length: int) -> int:
    """Complex products for each output of a fast Fourier transform of ``length``: the sum of its prime factors."""
    total, factor = 0, 2
    while length > 1:
        while length % factor == 0:
            total, length = total + factor, length // factor
        factor = factor + 1 if factor * factor <= length else max(length, 2)
    return max(1, total)


@RULES.of("DFT")
def fourier(node: Node) -> Vector:
    """DFT along one axis, as a fast transform with mixed radices."""
    data, out = node.shape(0), node.output_shape()
    given = node.integers("axis", 2)
    axis = axis_of(given[0] if given else (1 if node.version < 20 else -2), len(data))
    length = (node.integers("dft_length", 1) or (data[axis],))[0]
    link = along(a for a in range(len(data) - 1) if a != axis)
    work = prod(out) * _passes(length) * _PER_COMPLEX_PRODUCT
    return Vector("elementwise", work, ((link, {}, {}),), columnwise=False)


@RULES.of("STFT")
def short_time_fourier(node: Node) -> Vector:
    """STFT: a window and a transform for each frame."""
    out = node.output_shape()
    step = (node.integers("frame_step", 1) or (1,))[0]
    given = node.integers("frame_length", 3)
    if given is None and not node.has(2):
        raise Unsupported("it has neither a window nor a frame length", "give one of them")
    length = given[0] if given else node.shape(2)[0]
    frames = prod(out[:2])
    work = frames * length + prod(out) * _passes(length) * _PER_COMPLEX_PRODUCT
    link = {0: (0, SAME), 1: (1, Window(step, 0, length))}
    return Vector("elementwise", work, ((link, {}, {}, {}),), columnwise=False)


@RULES.of("Det")
def determinant(node: Node) -> Vector:
    """Det: elimination on the host, a step for each row, each over the whole matrix."""
    data = node.shape(0)
    return Vector(HOST, prod(data) * data[-1], ((along(range(len(data) - 2)),),), columnwise=False)


RULES.of("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix")(host)
