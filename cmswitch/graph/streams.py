"""How values stream: which chunk of its operator makes which part of a value, and what a consumer therefore needs.

A value is cut into *units* along its streaming axes (rows of a map, tokens). All relations are affine and exact
(``Fraction``); each is an upper bound on when something is available, so that every :class:`Need` is sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import ceil, floor, lcm, prod

from cmswitch.graph.ir import Shape
from cmswitch.graph.network import Need

MOST_UNITS = 2**20
"""Units whose reads are found one by one; what has more waits for all of its input."""


@dataclass(frozen=True)
class Stream:
    """Unit ``u`` (mixed radix over ``axes``) exists when ``min(total, ceil(rate u + offset))`` chunks are done."""

    axes: tuple[int, ...]
    rate: Fraction
    offset: Fraction

    def available(self, unit: int, total: int) -> int:
        """Chunks of the operator, of ``total``, after which ``unit`` exists."""
        return min(total, max(0, ceil(self.rate * unit + self.offset)))


@dataclass(frozen=True)
class Window:
    """Output position ``i`` reads the input positions from ``stride i - pad`` to ``stride i - pad + extent - 1`` that exist.

    The figures are fractions where several output positions read one input position.
    """

    stride: int | Fraction = 1
    pad: int | Fraction = 0
    extent: int | Fraction = 1


SAME = Window()

Link = Mapping[int, tuple[int, Window]]
"""For each output axis along which a node can stream: the input axis it follows, and the window it reads there."""


def covering(stride: int | Fraction, reads: Iterable[tuple[int, int, int]]) -> Window:
    """The smallest window of ``stride`` that covers ``reads``: (output position, first and last input position it reads)."""
    residues = [(first - stride * output, last - stride * output) for output, first, last in reads]
    low = min((first for first, _ in residues), default=0)
    high = max((last for _, last in residues), default=0)
    return Window(stride, -low, high - low + 1)


@dataclass(frozen=True)
class Reach:
    """Output unit ``u`` reads input units between ``rate u + low`` and ``rate u + high`` (both included)."""

    rate: Fraction
    low: Fraction
    high: Fraction


def squeeze(axes: Iterable[int], shape: Shape) -> tuple[int, ...]:
    """``axes`` without those of size 1."""
    return tuple(a for a in axes if shape[a] != 1)


def units(axes: Iterable[int], shape: Shape) -> int:
    """How many units ``shape`` has along ``axes``."""
    return prod(shape[a] for a in axes)


def rows(axes: Iterable[int], shape: Shape, chunks: int) -> Stream | None:
    """Stream of a product's own output, whose units are made in order in ``chunks`` equal chunks. None: one unit only."""
    kept = squeeze(axes, shape)
    if not kept or 0 in shape:
        return None
    rate = Fraction(chunks, units(kept, shape))
    return Stream(kept, rate, rate)


@lru_cache(maxsize=4096)
def reach(inputs: tuple[int, ...], outputs: tuple[int, ...], windows: tuple[Window, ...]) -> Reach:
    """Affine bounds on the input units that an output unit reads; axis sizes are given outermost first."""
    large = [i for i, size in enumerate(outputs) if size > 1 or inputs[i] > 1]
    if len(large) == 1:
        window = windows[large[0]]
        low, high = -Fraction(window.pad), Fraction(window.extent - 1 - window.pad)
        return Reach(Fraction(window.stride), low, high)
    if all(window == SAME for window in windows) and inputs == outputs:
        return Reach(Fraction(1), Fraction(0), Fraction(0))
    if prod(outputs) > MOST_UNITS:
        return Reach(Fraction(0), Fraction(0), Fraction(prod(inputs) - 1))  # any may read all
    rate = Fraction(prod(inputs), prod(outputs))
    lows: list[Fraction] = []
    highs: list[Fraction] = []
    for unit, position in enumerate(product(*(range(size) for size in outputs))):
        first = last = 0
        for i, size, window in zip(position, inputs, windows, strict=True):
            start = window.stride * i - window.pad
            first = first * size + min(max(ceil(start), 0), size - 1)
            last = last * size + min(max(floor(start + window.extent - 1), 0), size - 1)
        lows.append(first - rate * unit)
        highs.append(last - rate * unit)
    return Reach(rate, min(lows), max(highs))


def coarsen(stream: Stream, count: int, shape: Shape) -> Stream | None:
    """The same stream seen in units of its first ``count`` axes only; None for no axis."""
    if not count:
        return None
    finer = units(stream.axes[count:], shape)
    return Stream(stream.axes[:count], stream.rate * finer, stream.rate * (finer - 1) + stream.offset)


def _shared(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """How many leading axes are the same."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )


def through(stream: Stream | None, link: Link | None, inputs: Shape, outputs: Shape) -> Stream | None:
    """Stream of a node's output, from that of an input made by the same operator. None: it exists only at the end."""
    if stream is None or link is None:
        return None
    backward = {source: axis for axis, (source, _) in link.items()}
    count = next((i for i, axis in enumerate(stream.axes) if axis not in backward), len(stream.axes))
    stream = coarsen(stream, count, inputs)
    if stream is None:
        return None
    axes = tuple(backward[axis] for axis in stream.axes)
    kept = squeeze(axes, outputs)
    if not kept:
        return None
    found = reach(
        tuple(inputs[a] for a in stream.axes), tuple(outputs[a] for a in axes), tuple(link[a][1] for a in axes)
    )
    offset = _refined(stream, lcm(found.rate.denominator, found.high.denominator))
    return Stream(kept, stream.rate * found.rate, stream.rate * found.high + offset)


def _refined(stream: Stream, parts: int) -> Fraction:
    """Offset at which ``rate y + offset`` serves multiples ``y`` of ``1 / parts``, each standing for unit ``floor(y)``."""
    rate, offset = stream.rate, stream.offset
    exact = rate.numerator == 1 and ((offset - rate) * rate.denominator).denominator == 1
    return offset - rate + rate / parts if exact else offset


def join(streams: Iterable[Stream | None], shape: Shape) -> Stream | None:
    """Stream of a value that is complete when all of ``streams`` (over ``shape``) are."""
    joined = list(streams)
    if not joined or joined[0] is None:
        return None
    axes = joined[0].axes
    for stream in joined[1:]:
        axes = axes[: _shared(axes, stream.axes) if stream else 0]
    coarse = [coarsen(stream, len(axes), shape) for stream in joined if stream]
    same = [stream for stream in coarse if stream]
    if not same:
        return None
    last = units(axes, shape) - 1
    start = max(s.offset for s in same)
    end = max(s.rate * last + s.offset for s in same)
    return Stream(axes, (end - start) / last, start)


def reshape(stream: Stream | None, inputs: Shape, outputs: Shape) -> Stream | None:
    """Stream through a change of shape: along as many of its axes as lead their group of merged or split axes."""
    while stream is not None and 0 not in inputs:
        found = _through_groups(stream, inputs, outputs)
        if found is not None:
            kept = squeeze(found[0], outputs)
            return Stream(kept, stream.rate / found[1], _refined(stream, found[1])) if kept else None
        stream = coarsen(stream, len(stream.axes) - 1, inputs)
    return None


def _through_groups(stream: Stream, inputs: Shape, outputs: Shape) -> tuple[list[int], int] | None:
    """Output axes that all streaming axes become, and how many of their units make one of the stream; None if they do not."""
    axes: list[int] = []
    finer = 1
    position = 0
    for old, new in _groups(inputs, outputs):
        count = 0
        while position + count < len(stream.axes) and stream.axes[position + count] in old:
            count += 1
        if not count:
            continue
        if finer != 1 or tuple(a for a in old if inputs[a] > 1)[:count] != stream.axes[position : position + count]:
            return None
        size = units(stream.axes[position : position + count], inputs)
        leading = 1
        for axis in new:
            if leading >= size:
                break
            leading *= outputs[axis]
            axes.append(axis)
        if leading % size:
            return None
        finer = leading // size
        position += count
    return (axes, finer) if position == len(stream.axes) else None


def _groups(inputs: Shape, outputs: Shape) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Smallest runs of input and output axes of equal product, axes of size 1 left out."""
    left, right = list(squeeze(range(len(inputs)), inputs)), list(squeeze(range(len(outputs)), outputs))
    groups = []
    while left and right:
        old, new = [left.pop(0)], [right.pop(0)]
        a, b = inputs[old[0]], outputs[new[0]]
        while a != b:
            if a < b:
                old.append(left.pop(0))
                a *= inputs[old[-1]]
            else:
                new.append(right.pop(0))
                b *= outputs[new[-1]]
        groups.append((tuple(old), tuple(new)))
    return groups


def need(
    schedule: Stream | None,
    chunks: int,
    link: Link | None,
    outputs: Shape,
    producer: Stream | None,
    inputs: Shape,
    total: int,
) -> Need:
    """What one use of a value needs.

    ``schedule`` is the stream over ``outputs`` of the node that reads the value, in an operator of ``chunks`` chunks;
    ``producer`` the stream over ``inputs`` of the value that is read, whose operator has ``total`` chunks.
    """
    if schedule is None or producer is None or link is None or total == 1:
        return Need.whole(total)
    follows = next((i for i, axis in enumerate(schedule.axes) if axis not in link), len(schedule.axes))
    sources = tuple(link[axis][0] for axis in schedule.axes[:follows])
    shared = _shared(squeeze(sources, inputs), producer.axes)
    coarse = coarsen(producer, shared, inputs)
    if coarse is None:
        return Need.whole(total)
    count = sources.index(producer.axes[shared - 1]) + 1
    axes = schedule.axes[:count]
    found = reach(
        tuple(inputs[a] for a in sources[:count]), tuple(outputs[a] for a in axes), tuple(link[a][1] for a in axes)
    )
    finer = units(schedule.axes[count:], outputs)
    found = Reach(found.rate / finer, found.low - found.rate * Fraction(finer - 1, finer), found.high)
    made, read = units(schedule.axes, outputs), units(coarse.axes, inputs)
    return _steady_need(schedule, made, chunks, found, coarse, read, total)


@lru_cache(maxsize=4096)
def _steady_need(
    schedule: Stream, made: int, chunks: int, found: Reach, producer: Stream, read: int, total: int
) -> Need:
    """Need of a consumer that makes ``made`` units in ``chunks`` chunks from ``read`` units that come in ``total`` chunks.

    Unit ``u`` is handled in chunk ``ceil(rate u + offset) - 1``, the last chunk handling what the schedule would put after it.
    """
    rate, offset = schedule.rate, schedule.offset
    early = min(offset, chunks - rate * (made - 1))
    slope = producer.rate * found.rate / rate
    start = producer.rate * (found.rate * (1 - early) / rate + found.high) + producer.offset
    common = lcm(slope.denominator, start.denominator)
    numerator, shift = int(slope * common), int(start * common)
    wanted = Need(numerator, common, shift, total)
    span = 1
    for chunk in range(chunks):
        unit = max(0, floor((chunk - offset) / rate) + 1) if chunk else 0
        first = min(max(0, ceil(found.rate * unit + found.low)), read - 1)
        oldest = min(max(producer.available(first, total) - 1, 0), first * total // read)
        span = max(span, wanted.chunks(chunk, total) - oldest)
    return Need(numerator, common, shift, min(total, span))


def merge(first: Need, second: Need, total: int) -> Need:
    """One need that covers both."""
    if first == second:
        return first
    if first.numerator * second.denominator != second.numerator * first.denominator:
        return Need.whole(total)
    low, high = sorted((first, second), key=lambda n: Fraction(n.offset, n.denominator))
    gap = ceil(Fraction(high.offset, high.denominator) - Fraction(low.offset, low.denominator))
    return Need(high.numerator, high.denominator, high.offset, min(total, max(high.span, low.span + gap)))
