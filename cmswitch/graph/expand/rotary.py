"""Rotary position embedding: pairs of elements of every head turned by an angle that depends on the position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cmswitch.graph.expand.attend import Heads, heads
from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.ir import Node, Shape, Unsupported
from cmswitch.graph.table import MICROSOFT
from cmswitch.naming import quantity


@dataclass(frozen=True)
class Angles:
    """Cosines and sines: tables of one row for each position, looked up by ``places`` [batch, length], or [batch, length,
    angles] if there are none. ``interleaved``: a pair is two neighbours, not an element of either half."""

    cosines: str
    sines: str
    shape: Shape
    places: str | None
    interleaved: bool


def rotated(parts: Parts, given: Heads, angles: Angles, turned: int, output: str | None = None) -> Heads:
    """The first ``turned`` elements of every head (0: all) turned; ``output`` names the value."""
    half, size = (turned or given.size) // 2, given.size
    if 2 * half > size or half > angles.shape[-1]:
        raise Unsupported(
            f"{quantity(2 * half, 'element')} of heads of {size} cannot be turned by {quantity(angles.shape[-1], 'angle')}",
            "correct the number of heads or the tables",
        )
    value = parts.reshape(given.value, given.axes) if given.by_token else given.value
    rest = [size - 2 * half] if size > 2 * half else []
    if angles.interleaved:
        kept = parts.split(value, 3, [2 * half, *rest]) if rest else [value]
        pairs = parts.reshape(kept[0], (*given.axes[:3], half, 2))
        halves = [parts.reshape(one, (*given.axes[:3], half)) for one in parts.split(pairs, 4, (1, 1))]
        kept = kept[1:]
    else:
        first, second, *kept = parts.split(value, 3, [half, half, *rest])
        halves = [first, second]
    cosine, sine = (_looked_up(parts, given, angles, table, half) for table in (angles.cosines, angles.sines))
    left, right = halves
    real = parts.add("Sub", parts.add("Mul", left, cosine), parts.add("Mul", right, sine))
    imaginary = parts.add("Add", parts.add("Mul", left, sine), parts.add("Mul", right, cosine))
    if angles.interleaved:
        halves = [parts.reshape(one, (*given.axes[:3], half, 1)) for one in (real, imaginary)]
        joined = parts.reshape(parts.add("Concat", *halves, axis=4), (*given.axes[:3], 2 * half))
    else:
        joined = parts.add("Concat", real, imaginary, *kept, axis=3)
        kept = []
    if kept:
        joined = parts.add("Concat", joined, *kept, axis=3)
    shape = (given.batch, given.length, given.count * size) if given.by_token else given.axes
    return replace(given, value=parts.reshape(joined, shape, output=output))


def _looked_up(parts: Parts, given: Heads, angles: Angles, table: str, half: int) -> str:
    """The angles of every position, the same for all heads."""
    if angles.shape[-1] > half:
        limits = [parts.constant((i,)) for i in (0, half, -1)]
        table = parts.add("Slice", table, *limits)
    if angles.places is not None:
        table = parts.add("Gather", table, angles.places)
    return parts.reshape(table, (-1, given.length, 1, half) if given.by_token else (-1, 1, given.length, half))


def counted(parts: Parts, first: str, length: int) -> str:
    """Positions [batch, length] from ``first`` [batch] on."""
    return parts.add("Add", parts.reshape(first, (-1, 1)), parts.count(length, (1, -1)))


@EXPANSIONS.of("RotaryEmbedding")
def rotary_embedding(node: Node) -> Sequence[Part]:
    """RotaryEmbedding (ai.onnx): the positions are input 3, or the tables have a row for each."""
    return _embedded(node, 1, 2, node.inputs[3] if node.has(3) else None)


@EXPANSIONS.of("RotaryEmbedding", domain=MICROSOFT)
def microsoft_rotary_embedding(node: Node) -> Sequence[Part]:
    """RotaryEmbedding of com.microsoft: input 1 is every position, or the first."""
    return _embedded(node, 2, 3, node.inputs[1])


def _embedded(node: Node, cosines: int, sines: int, places: str | None) -> Sequence[Part]:
    parts = Parts(node)
    turned = node.integer("rotary_embedding_dim", 0)
    width = node.shape(0)[-1]
    given = heads(node, 0, node.integer("num_heads", 0) or width // (2 * node.shape(cosines)[-1]))
    if node.domain and len(node.shape(1)) == 1:
        places = counted(parts, node.inputs[1], given.length)
    interleaved = bool(node.integer("interleaved", 0))
    angles = Angles(node.inputs[cosines], node.inputs[sines], node.shape(cosines), places, interleaved)
    rotated(parts, given, angles, turned, node.outputs[0])
    return parts.list
