"""Chunk dependences between operators, composed over every path between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmswitch.graph.network import Network, Read

Chunks = NDArray[np.int64]


@dataclass(frozen=True)
class Composed:
    """How operator ``after`` depends on ``before``: for each chunk of ``after``, the chunks of ``before`` it needs.

    ``between`` are the operators strictly between on the path that delays the first chunk most; ``operand``: direct, through
    a dynamic operand.
    """

    needed: Chunks
    between: tuple[int, ...]
    operand: bool


@dataclass(frozen=True)
class Lead:
    """A composed dependence in numbers: chunks of the producer before the first chunk of the consumer (``first``), chunks of the
    consumer that need the producer's last (``last``), and the operators between on that path."""

    first: int
    last: int
    between: tuple[int, ...]
    operand: bool


class Dependences:
    """Composed dependences of a network's operators, each computed once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._composed: dict[tuple[int, int], Composed | None] = {}
        self._leads: dict[tuple[int, int], Lead | None] = {}
        self._lengths: dict[tuple[int, int], int] = {}
        self._waits: dict[tuple[int, Read], list[int]] = {}
        self._direct: list[dict[int, list[Read]]] = []
        for operator in network.operators:
            reads: dict[int, list[Read]] = {}
            for read in operator.reads:
                producer = network.tensors[read.tensor].producer
                if producer is not None:
                    reads.setdefault(producer, []).append(read)
            self._direct.append(reads)

    def needed_by_read(self, after: int, read: Read) -> Chunks:
        """For each chunk of ``after``, the chunks of the read tensor's producer that must be available."""
        producer = self._network.tensors[read.tensor].producer
        assert producer is not None
        total = self._network.operators[producer].chunks
        chunks = self._network.operators[after].chunks
        if read.role == "operand":
            return np.full(chunks, total, dtype=np.int64)
        need = read.need
        ahead = need.numerator * np.arange(chunks, dtype=np.int64) + need.offset
        return np.clip(-(-ahead // need.denominator), 0, total)

    def composed(self, before: int, after: int) -> Composed | None:
        """How ``after`` depends on ``before`` over all paths; None if it does not."""
        key = (before, after)
        if key not in self._composed:
            self._composed[key] = self._compose(before, after)
        return self._composed[key]

    def lead(self, before: int, after: int) -> Lead | None:
        """The composed dependence of ``after`` on ``before``; None if there is none."""
        key = (before, after)
        if key not in self._leads:
            composed = self.composed(before, after)
            if composed is None:
                self._leads[key] = None
            else:
                total = self._network.operators[before].chunks
                last = len(composed.needed) - int(composed.needed.searchsorted(total))
                first = max(1, int(composed.needed[0]))
                self._leads[key] = Lead(first, max(1, last), composed.between, composed.operand)
        return self._leads[key]

    def _compose(self, before: int, after: int) -> Composed | None:
        needed: Chunks | None = None
        between: tuple[int, ...] = ()
        operand = False
        for producer, reads in self._direct[after].items():
            if producer < before:
                continue
            own = np.maximum.reduce([self.needed_by_read(after, r) for r in reads])
            if producer == before:
                path: tuple[int, ...] = ()
                operand = any(r.role == "operand" for r in reads)
            else:
                through = self.composed(before, producer)
                if through is None:
                    continue
                own = np.where(own > 0, through.needed[np.maximum(own, 1) - 1], 0)
                path = (*through.between, producer)
            if needed is None or (own[0], len(path)) > (needed[0], len(between)):
                between = path
            needed = own if needed is None else np.maximum(needed, own)
        return None if needed is None else Composed(needed, between, operand)

    def window(self, tensor: int, readers: dict[int, list[Read]], last: int) -> int:
        """Chunks of ``tensor``'s producer that must be on chip together so that ``readers`` never deadlock, in a segment that
        ends with operator ``last``.

        The live window of the machine model ("Where data lives"): what a reader, or an operator after it, needs over every path,
        less what the reader has released, plus two chunks (one being written, one being read) and one chunk of the reader
        for each operator between, so that nothing starves.
        """
        producer = self._network.tensors[tensor].producer
        assert producer is not None
        total = self._network.operators[producer].chunks
        most = 1
        for reader, reads in readers.items():
            passing = self._between(producer, reader) * -(-total // self._network.operators[reader].chunks)
            for read in reads:
                most = max(most, self._ahead(reader, read) + passing, *self._held_up(reader, read, last))
        return min(total, most + 2)

    def _ahead(self, reader: int, read: Read) -> int:
        """How many chunks the producer is ahead of what ``reader`` has released by ``read`` when the reader can go on."""
        producer = self._network.tensors[read.tensor].producer
        assert producer is not None
        composed = self.composed(producer, reader)
        assert composed is not None
        return int((composed.needed - self._released(reader, read)[:-1]).max())

    def _held_up(self, reader: int, read: Read, last: int) -> list[int]:
        """The same for each operator after ``reader``, up to ``last``, whose own output the reader can be held up by."""
        producer = self._network.tensors[read.tensor].producer
        assert producer is not None
        known = self._waits.setdefault((reader, read), [])
        for after in range(reader + 1 + len(known), last + 1):
            made = self.composed(reader, after)
            needed = self.composed(producer, after)
            if made is None or needed is None:
                known.append(0)
            else:
                known.append(int((needed.needed - self._released(reader, read)[made.needed]).max()))
        return known[: last - reader]

    def _released(self, reader: int, read: Read) -> Chunks:
        """Chunks of the producer that ``reader`` has released once it has fetched 0, 1, .. all of its own chunks."""
        own = self.needed_by_read(reader, read)
        producer = self._network.tensors[read.tensor].producer
        assert producer is not None
        released = np.append(np.maximum(own - read.need.span, 0), self._network.operators[producer].chunks)
        released[0] = 0
        return released

    def _between(self, before: int, after: int) -> int:
        """Operators strictly between two on the longest chain of dependences."""
        key = (before, after)
        if key not in self._lengths:
            steps = [
                1 + self._between(before, producer)
                for producer in self._direct[after]
                if producer > before and self.composed(before, producer) is not None
            ]
            self._lengths[key] = max(steps, default=0)
        return self._lengths[key]
