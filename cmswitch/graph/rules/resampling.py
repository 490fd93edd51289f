"""Operators that change the size of axes: padding, cropping, tiling, scaling, and reading at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor, prod

from cmswitch.graph.ir import Node, Shape
from cmswitch.graph.rules.rule import RULES, Vector, View, along, axis_of
from cmswitch.graph.streams import SAME, Link, Window, covering

_FINEST = 64
"""A scale streams if it is a ratio with at most this denominator."""

LONGEST_AXIS = 2**20
"""Longest axis of an output that streams: what it reads is found position by position."""

_ROUNDING: dict[str, Callable[[Fraction], int]] = {
    "floor": floor,
    "ceil": ceil,
    "round_prefer_floor": lambda x: ceil(x - Fraction(1, 2)),
    "round_prefer_ceil": lambda x: floor(x + Fraction(1, 2)),
}
_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}
"""Input elements along one axis that an output element is made of."""


def _text(node: Node, name: str, default: str) -> str:
    found = node.attributes.get(name, default)
    return found.decode() if isinstance(found, bytes) else str(found)


@RULES.of("Pad")
def pad(node: Node) -> Vector | View:
    """Pad: a copy into a larger (or, with negative pads, smaller) tensor; a view if nothing is padded."""
    data, out = node.shape(0), node.output_shape()
    pads = node.integers("pads", 1) or ()
    axes = node.integers("axes", 3) or tuple(range(len(data)))
    if not any(pads):
        return View()
    source = _PADDING[_text(node, "mode", "constant")]
    link: dict[int, tuple[int, Window]] = dict(along(range(len(data))))
    for axis, before in zip(axes, pads, strict=False):
        place = axis_of(axis, len(data))
        if out[place] > LONGEST_AXIS:
            del link[place]
            continue
        found = [(i, source(i - before, data[place])) for i in range(out[place])]
        link[place] = (place, covering(1, [(i, read, read) for i, read in found if 0 <= read < data[place]]))
    return Vector("copy", prod(out), ((link, *({} for _ in node.inputs[1:])),), columnwise=False)


def _reflected(position: int, size: int) -> int:
    period = max(1, 2 * (size - 1))
    return min(position % period, -position % period)


_PADDING: dict[str, Callable[[int, int], int]] = {
    "constant": lambda position, size: position,
    "edge": lambda position, size: min(max(position, 0), size - 1),
    "reflect": _reflected,
    "wrap": lambda position, size: position % size,
}
"""The input position that an output position reads, before the input's first counted negative (outside: none)."""


@RULES.of("CenterCropPad")
def center_crop_pad(node: Node) -> Vector | View:
    """CenterCropPad: every axis is cropped or padded on both sides."""
    data, out = node.shape(0), node.output_shape()
    if data == out:
        return View()
    shifts = [(o - i) // 2 if o > i else -((i - o) // 2) for i, o in zip(data, out, strict=True)]
    link: Link = {axis: (axis, Window(pad=shift)) for axis, shift in enumerate(shifts)}
    return Vector("copy", prod(out), ((link, {}),), columnwise=False)


@RULES.of("Tile")
def tile(node: Node) -> Vector | View:
    """Tile: axes that are not repeated stream."""
    data, out = node.shape(0), node.output_shape()
    if data == out:
        return View()
    link = along(axis for axis, size in enumerate(data) if size == out[axis])
    return Vector("copy", prod(out), ((link, *({} for _ in node.inputs[1:])),), columnwise=False)


@RULES.of("DepthToSpace")
def depth_to_space(node: Node) -> Vector:
    """DepthToSpace: an input row becomes ``blocksize`` output rows."""
    data, out = node.shape(0), node.output_shape()
    block = node.integer("blocksize", 1)
    link: dict[int, tuple[int, Window]] = {0: (0, SAME)}
    for axis in range(2, len(data)):
        link[axis] = (axis, covering(Fraction(1, block), [(i, i // block, i // block) for i in range(block)]))
    return Vector("copy", prod(out), ((link,),), columnwise=False)


@RULES.of("SpaceToDepth")
def space_to_depth(node: Node) -> Vector:
    """SpaceToDepth: ``blocksize`` input rows become one output row."""
    data, block = node.shape(0), node.integer("blocksize", 1)
    link: Link = {0: (0, SAME), **{axis: (axis, Window(block, 0, block)) for axis in range(2, len(data))}}
    return Vector("copy", prod(data), ((link,),), columnwise=False)


@RULES.of("Resize", "Upsample")
def resize(node: Node) -> Vector | View:
    """Resize, Upsample: every output element is a weighted sum of 1, 2 or 4 input elements along each resized axis."""
    data, out = node.shape(0), node.output_shape()
    mode = _text(node, "mode", "nearest")
    scales = _scales(node, data, out)
    resized = [axis for axis, scale in enumerate(scales) if scale != 1 or data[axis] != out[axis]]
    if not resized:
        return View()
    smooth = node.integer("antialias", 0) == 1
    link: dict[int, tuple[int, Window]] = dict(along(axis for axis in range(len(data)) if axis not in resized))
    taps = 1
    for axis in resized:
        scale = scales[axis]
        shrink = max(1, -(-data[axis] // out[axis])) if smooth else 1
        taps *= _TAPS[mode] * shrink
        unknown = scale is None or smooth or out[axis] > LONGEST_AXIS
        window = None if unknown or scale is None else _resized(node, mode, scale, data[axis], out[axis])
        if window is not None:
            link[axis] = (axis, window)
    kind = "copy" if taps == 1 else "pool"
    return Vector(kind, prod(out) * taps, ((link, *({} for _ in node.inputs[1:])),), columnwise=False)


def _scales(node: Node, data: Shape, out: Shape) -> list[Fraction | None]:
    """Output size over input size of every axis as the operator uses it; None: unknown or no simple ratio."""
    attribute = node.attributes.get("scales")
    place = 2 if node.operator == "Resize" and node.version >= 11 else 1
    stored = node.value(place).data if node.has(place) else None
    given: Sequence[float] = (
        attribute if attribute is not None else () if stored is None else stored.reshape(-1).tolist()
    )
    axes = [axis_of(axis, len(data)) for axis in node.integers("axes") or range(len(data))]
    found: list[Fraction | None] = [Fraction(1)] * len(data)
    stretched = _text(node, "keep_aspect_ratio_policy", "stretch") == "stretch"
    for position, axis in enumerate(axes):
        if len(given):
            near = Fraction(given[position]).limit_denominator(_FINEST)
            found[axis] = near if near and abs(near - Fraction(given[position])) < near / 10**6 else None
        else:
            found[axis] = Fraction(out[axis], data[axis]) if stretched else None
    return found


def _resized(node: Node, mode: str, scale: Fraction, size: int, length: int) -> Window | None:
    """What positions of an axis of ``size`` the ``length`` output positions read; None where the operator is free to choose."""
    old = node.operator == "Upsample" or node.version < 11
    transformation = _text(node, "coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    symmetric = size * scale == length
    if transformation == "tf_crop_and_resize" or (transformation == "half_pixel_symmetric" and not symmetric):
        return None
    stride = Fraction(size - 1, max(1, length - 1)) if transformation == "align_corners" else 1 / scale
    start = (stride - 1) / 2
    if transformation in ("align_corners", "asymmetric"):
        start = Fraction(0)
    elif transformation == "tf_half_pixel_for_nn":
        start = stride / 2
    rounding = _ROUNDING[_text(node, "nearest_mode", "round_prefer_floor")]

    def read(x: Fraction) -> tuple[int, int]:
        if mode == "nearest":
            return (floor(x), ceil(x)) if old else (rounding(x), rounding(x))
        further = _TAPS[mode] // 2 - 1
        return floor(x) - further, ceil(x) + further

    def inside(position: int) -> int:
        return min(max(position, 0), size - 1)

    reads = ((i, *map(inside, read(stride * i + start))) for i in range(length))
    return covering(stride, [(i, first, last) for i, first, last in reads])


@RULES.of("AffineGrid")
def affine_grid(node: Node) -> Vector:
    """AffineGrid: each coordinate of a position is a product with a row of the image's matrix."""
    out = node.output_shape()
    return Vector("elementwise", prod(out) * (out[-1] + 1), ((along((0,)), {}),), columnwise=False)


@RULES.of("MaxUnpool")
def max_unpool(node: Node) -> Vector:
    """MaxUnpool: an empty image, and every element into the place that its index gives."""
    link = along((0, 1))
    return Vector("gather", node.output_elements() + prod(node.shape(0)), ((link, link, {}),), columnwise=False)


@RULES.of("RoiAlign")
def roi_align(node: Node) -> Vector:
    """RoiAlign: every output element averages samples of four input elements; unless given, as many as a whole image needs."""
    data, out = node.shape(0), node.output_shape()
    ratio = node.integer("sampling_ratio", 0)
    samples = ratio**2 if ratio else prod(-(-i // o) for i, o in zip(data[2:], out[2:], strict=True))
    link = along((0,))
    return Vector("gather", prod(out) * samples * 4, (({}, link, link),), columnwise=False)


@RULES.of("MaxRoiPool")
def max_roi_pool(node: Node) -> Vector:
    """MaxRoiPool: a region may be as large as the image."""
    data, rois = node.shape(0), node.shape(1)
    return Vector("pool", rois[0] * prod(data[1:]), (({}, along((0,))),), columnwise=False)
