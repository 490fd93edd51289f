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
from math import ceil, lcm, prod

from cmswitch.graph.ir import Shape
from cmswitch.graph.network import Need


@dataclass(frozen=True)
class Stream:
    """Unit ``u`` (mixed radix over ``axes``) exists when ``min(total, ceil(rate u + offset))`` chunks of the operator are done."""

    axes: tuple[int, ...]
    rate: Fraction
    offset: Fraction

    def available(self, unit: int, total: int) -> int:
        """Chunks of the operator, of ``total``, after which ``unit`` exists."""
        return min(total, max(0, ceil(self.rate * unit + self.offset)))


@dataclass(frozen=True)
class Window:
    """Output position ``i`` of an axis reads input positions ``[stride i - pad, stride i - pad + extent)`` that exist."""

    stride: int = 1
    pad: int = 0
    extent: int = 1


SAME = Window()

Link = Mapping[int, tuple[int, Window]]
"""For each output axis along which a node can stream: the input axis it follows, and the window it reads there."""


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
    if not kept:
        return None
    rate = Fraction(chunks, units(kept, shape))
    return Stream(kept, rate, rate)


@lru_cache(maxsize=4096)
def reach(inputs: tuple[int, ...], outputs: tuple[int, ...], windows: tuple[Window, ...]) -> Reach:
    """Affine bounds on the input units that an output unit reads; axis sizes are given outermost first."""
    large = [i for i, size in enumerate(outputs) if size > 1 or inputs[i] > 1]
    if len(large) == 1:
        window = windows[large[0]]
        low, high = Fraction(-window.pad), Fraction(window.extent - 1 - window.pad)
        return Reach(Fraction(window.stride), low, high)
    if all(window == SAME for window in windows) and inputs == outputs:
        return Reach(Fraction(1), Fraction(0), Fraction(0))
    rate = Fraction(prod(inputs), prod(outputs))
    low = high = None
    for unit, position in enumerate(product(*(range(size) for size in outputs))):
        first = last = 0
        for i, size, window in zip(position, inputs, windows, strict=True):
            start = window.stride * i - window.pad
            first = first * size + min(max(start, 0), size - 1)
            last = last * size + min(max(start + window.extent - 1, 0), size - 1)
        low = first - rate * unit if low is None else min(low, first - rate * unit)
        high = last - rate * unit if high is None else max(high, last - rate * unit)
    assert low is not None and high is not None
    return Reach(rate, low, high)


def through(stream: Stream | None, link: Link | None, inputs: Shape, outputs: Shape) -> Stream | None:
    """Stream of a node's output, from that of an input made by the same operator. None: it exists only at the end."""
    if stream is None or link is None:
        return None
    backward = {source: axis for axis, (source, _) in link.items()}
    if any(axis not in backward for axis in stream.axes):
        return None
    axes = tuple(backward[axis] for axis in stream.axes)
    kept = squeeze(axes, outputs)
    if not kept:
        return None
    found = reach(
        tuple(inputs[a] for a in stream.axes), tuple(outputs[a] for a in axes), tuple(link[a][1] for a in axes)
    )
    return Stream(kept, stream.rate * found.rate, stream.rate * found.high + stream.offset)


def join(streams: Iterable[Stream | None], shape: Shape) -> Stream | None:
    """Stream of a value that is complete when all of ``streams`` (over ``shape``) are."""
    joined: list[Stream] = []
    for stream in streams:
        if stream is None or (joined and joined[0].axes != stream.axes):
            return None
        joined.append(stream)
    if not joined:
        return None
    last = units(joined[0].axes, shape) - 1
    start = max(s.offset for s in joined)
    end = max(s.rate * last + s.offset for s in joined)
    return Stream(joined[0].axes, (end - start) / last, start)


def reshape(stream: Stream | None, inputs: Shape, outputs: Shape) -> Stream | None:
    """Stream through a change of shape: kept where the streaming axes lead their group of merged or split axes."""
    if stream is None or 0 in inputs:
        return None
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
    if position != len(stream.axes):
        return None
    rate, offset = stream.rate, stream.offset
    exact = rate.numerator == 1 and ((offset - rate) * rate.denominator).denominator == 1
    kept = squeeze(axes, outputs)
    return Stream(kept, rate / finer, offset - rate + rate / finer if exact else offset) if kept else None


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
    schedule: Stream | None, chunks: int, link: Link | None, outputs: Shape, producer: Stream | None, inputs: Shape, total: int
) -> Need:
    """What one use of a value needs.

    ``schedule`` is the stream over ``outputs`` of the node that reads the value, in an operator of ``chunks`` chunks;
    ``producer`` the stream over ``inputs`` of the value that is read, whose operator has ``total`` chunks.
    """
    if schedule is None or producer is None or link is None or total == 1:
        return Need.whole(total)
    if any(axis not in link for axis in schedule.axes):
        return Need.whole(total)
    sources = tuple(link[axis][0] for axis in schedule.axes)
    if squeeze(sources, inputs) != producer.axes:
        return Need.whole(total)
    found = reach(
        tuple(inputs[a] for a in sources),
        tuple(outputs[a] for a in schedule.axes),
        tuple(link[a][1] for a in schedule.axes),
    )
    rate = schedule.rate
    last = units(schedule.axes, outputs) - 1
    early = min(schedule.offset, chunks - rate * last)
    grain = 1 / rate
    step = Fraction(1, _common(grain, schedule.offset * grain))
    slack = (schedule.offset - early) * grain + grain - step
    slope = producer.rate * found.rate * grain
    start = producer.rate * (found.rate * (1 - early) * grain + found.high) + producer.offset
    span = ceil(producer.rate * (found.rate * slack + found.high - found.low)) + 1
    common = _common(slope, start)
    return Need(int(slope * common), common, int(start * common), min(total, span))


def merge(first: Need, second: Need, total: int) -> Need:
    """One need that covers both."""
    if first == second:
        return first
    if first.numerator * second.denominator != second.numerator * first.denominator:
        return Need.whole(total)
    low, high = sorted((first, second), key=lambda n: Fraction(n.offset, n.denominator))
    gap = ceil(Fraction(high.offset, high.denominator) - Fraction(low.offset, low.denominator))
    return Need(high.numerator, high.denominator, high.offset, min(total, max(high.span, low.span + gap)))


def _common(*fractions: Fraction) -> int:
    return lcm(*(fraction.denominator for fraction in fractions))
