"""Scaled dot-product attention as parts: what every attention operator reduces to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod, sqrt

from cmswitch.graph.expand.parts import Parts
from cmswitch.graph.ir import Node, Shape, Unsupported
from cmswitch.naming import quantity


@dataclass(frozen=True)
class Heads:
    """A value of ``count`` heads: [batch, count, length, size], or [batch, length, count x size] if ``by_token``."""

    value: str
    batch: int
    count: int
    length: int
    size: int
    by_token: bool

    @property
    def axes(self) -> Shape:
        """Shape with the heads as an axis of their own."""
        if self.by_token:
            return self.batch, self.length, self.count, self.size
        return self.batch, self.count, self.length, self.size


def heads(node: Node, index: int, count: int | None = None) -> Heads:
    """Input number ``index``: 4-D, or 3-D with ``count`` heads in its last axis."""
    return heads_of(node.inputs[index], node.shape(index), count)


def heads_of(value: str, shape: Shape, count: int | None) -> Heads:
    """See :func:`heads`."""
    if len(shape) == 4:
        return Heads(value, shape[0], shape[1], shape[2], shape[3], False)
    if len(shape) != 3 or not count or shape[2] % count:
        raise Unsupported(
            f"{value!r} with {quantity(len(shape), 'axis', 'axes')} cannot be split into "
            f"{quantity(count, 'head') if count else 'an unknown number of heads'}",
            "correct the number of heads",
        )
    return Heads(value, shape[0], count, shape[1], shape[2] // count, True)


@dataclass(frozen=True)
class Mask:
    """What hides keys from queries: ``shape`` broadcasts to [batch, heads, queries, keys]; ``boolean``: True where a query
    sees a key, else numbers to add."""

    value: str
    shape: Shape
    boolean: bool


@dataclass(frozen=True)
class Scores:
    """How scores become weights: ``scale`` (None: 1 / sqrt of the head size), ``softcap`` (0: none) and ``masks``.

    ``output`` names the value that keeps them after step ``kept`` (0 product, 1 softcap, 2 masks, 3 softmax); None: no one
    reads it.
    """

    scale: float | None
    softcap: float
    masks: Sequence[Mask]
    output: str | None = None
    kept: int = 0


def in_front(parts: Parts, given: Heads, output: str | None = None) -> Heads:
    """With the heads in front of the tokens; ``output`` names the value."""
    if given.by_token:
        value = parts.add("Transpose", parts.reshape(given.value, given.axes), perm=[0, 2, 1, 3], output=output)
    else:
        value = parts.add("Identity", given.value, output=output) if output else given.value
    return replace(given, value=value, by_token=False)


def appended(parts: Parts, past: str, length: int, new: Heads, output: str | None) -> Heads:
    """``new`` after the ``length`` cached positions of ``past`` ("": none); ``output`` names the extended cache, if it is one."""
    if not past:
        return in_front(parts, new, output) if output else new
    new = in_front(parts, new)
    value = parts.add("Concat", past, new.value, axis=2, output=output)
    return replace(new, value=value, length=length + new.length)


def attend(parts: Parts, query: Heads, key: Heads, value: Heads, scores: Scores, output: str) -> None:
    """``output`` = softmax(query . key' x scale, masked) . value, laid out like ``query``.

    Query heads that share a key head are rows of one product, so that keys and values are written into the arrays once.
    """
    if query.count % key.count or key.count != value.count or key.size != query.size:
        raise Unsupported(
            f"{query.count} query heads of {query.size} do not match {key.count} key heads of {key.size} "
            f"and {value.count} value heads",
            "correct the numbers of heads",
        )
    grid = _Grid(query, key.count, key.length)
    scale = scores.scale or 1 / sqrt(query.size)
    rows = grid.rows(parts, parts.add("Mul", query.value, parts.number(scale, query.value)))
    found = parts.add("MatMul", rows, _transposed(parts, key))
    grid.keep(parts, found, scores, 0)
    if scores.softcap:
        found = parts.add("Mul", found, parts.number(1 / scores.softcap, query.value))
        found = parts.add("Mul", parts.add("Tanh", found), parts.number(scores.softcap, query.value))
    grid.keep(parts, found, scores, 1)
    if scores.masks:
        found = parts.reshape(found, grid.cells)
        for mask in scores.masks:
            hidden = grid.aligned(parts, mask)
            if mask.boolean:
                found = parts.add("Where", hidden, found, parts.number(-inf, query.value))
            else:
                found = parts.add("Add", found, hidden)
        found = parts.reshape(found, grid.flat)
    grid.keep(parts, found, scores, 2)
    found = parts.add("Softmax", found, axis=-1)
    grid.keep(parts, found, scores, 3)
    mixed = parts.add("MatMul", found, in_front(parts, value).value)
    if query.by_token:
        mixed = parts.reshape(mixed, (*grid.cells[:-1], value.size))
        mixed = parts.add("Transpose", mixed, perm=[0, 2, 1, 3, 4])
        shape: Shape = (query.batch, query.length, query.count * value.size)
    else:
        shape = (query.batch, query.count, query.length, value.size)
    parts.reshape(mixed, shape, output=output)


def _transposed(parts: Parts, key: Heads) -> str:
    """Keys as [batch, heads, size, length]."""
    if key.by_token:
        return parts.add("Transpose", parts.reshape(key.value, key.axes), perm=[0, 2, 3, 1])
    return parts.add("Transpose", key.value, perm=[0, 1, 3, 2])


class _Grid:
    """Scores of the queries of each key head: ``cells`` [batch, key heads, ..., keys] with the queries and the heads of one
    group as axes in the order in which they stream, ``flat`` with the two merged into rows."""

    def __init__(self, query: Heads, groups: int, keys: int) -> None:
        self.query, self.groups, self.share = query, groups, query.count // groups
        between = (query.length, self.share) if query.by_token else (self.share, query.length)
        self.cells: Shape = (query.batch, groups, *between, keys)
        self.flat: Shape = (query.batch, groups, prod(between), keys)

    def rows(self, parts: Parts, value: str) -> str:
        """The queries ``value`` as rows of one product for each key head."""
        query = self.query
        if query.by_token:
            shape = (query.batch, query.length, self.groups, self.share, query.size)
            value = parts.reshape(value, shape)
            value = parts.add("Transpose", value, perm=[0, 2, 1, 3, 4])
        return parts.reshape(value, (*self.flat[:3], query.size))

    def aligned(self, parts: Parts, mask: Mask) -> str:
        """A mask that broadcasts to ``cells``."""
        batch, count, queries, keys = (1,) * (4 - len(mask.shape)) + mask.shape
        groups, share = (self.groups, self.share) if count > 1 else (1, 1)
        value = parts.reshape(mask.value, (batch, groups, share, queries, keys))
        return parts.add("Transpose", value, perm=[0, 1, 3, 2, 4]) if self.query.by_token else value

    def keep(self, parts: Parts, value: str, scores: Scores, step: int) -> None:
        """Write the scores after ``step`` as [batch, heads, queries, keys] if they are an output."""
        if scores.output is None or scores.kept != step:
            return
        if self.query.by_token:
            value = parts.reshape(value, self.cells)
            value = parts.add("Transpose", value, perm=[0, 1, 3, 2, 4])
        shape = (self.query.batch, self.query.count, self.query.length, self.flat[3])
        parts.reshape(value, shape, output=scores.output)


@dataclass(frozen=True)
class Visible:
    """Which keys queries see. Query ``i`` of ``queries`` is at position ``p = first + i`` and sees the keys from ``p - before``
    to ``p + after`` (None: no limit) that come before key ``valid`` (None: all of ``keys``).

    ``first`` is a number or, like ``valid``, a value of shape [batch, 1, 1, 1].
    """

    batch: int
    queries: int
    keys: int
    first: int | str = 0
    before: int | None = None
    after: int | None = None
    valid: str | None = None

    def masks(self, parts: Parts) -> list[Mask]:
        """As masks, none if every query sees every key."""
        if self.before is None and self.after is None and self.valid is None:
            return []
        places = parts.count(self.queries, (1, 1, -1, 1))
        if isinstance(self.first, str) or self.first:
            first = self.first if isinstance(self.first, str) else parts.constant(self.first)
            places = parts.add("Add", places, first)
        numbers = parts.count(self.keys, (1, 1, 1, -1))
        found = []
        if self.before is not None:
            oldest = parts.add("Sub", places, parts.constant(self.before))
            found.append(parts.add("GreaterOrEqual", numbers, oldest))
        if self.after is not None:
            newest = parts.add("Add", places, parts.constant(self.after)) if self.after else places
            found.append(parts.add("LessOrEqual", numbers, newest))
        if self.valid is not None:
            found.append(parts.add("Less", numbers, self.valid))
        mask = found[0]
        for other in found[1:]:
            mask = parts.add("And", mask, other)
        along = self.before is not None or self.after is not None
        per_batch = self.valid is not None or (along and isinstance(self.first, str))
        shape = (self.batch if per_batch else 1, 1, self.queries if along else 1, self.keys)
        return [Mask(mask, shape, True)]
