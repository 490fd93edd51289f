"""How far ahead of a consumer's chunk its ancestors in a segment must be, and the windows that follow ("Execute")."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cmswitch.checker.demand import round_up
from cmswitch.graph.network import Network, Read


@dataclass(frozen=True)
class Lead:
    """For each chunk of a later operator, how many chunks of an earlier one must be available, over every path between them.

    ``between`` are the operators strictly between on the path that holds the first chunk back most (of equal ones, the longest);
    ``operand``: the earlier one makes the dynamic operand of the later one.
    """

    needed: tuple[int, ...]
    between: tuple[int, ...]
    operand: bool


Leads = dict[tuple[int, int], Lead]
"""By (earlier operator, later operator)."""


def needed_by(network: Network, reader: int, read: Read) -> tuple[int, ...]:
    """For each chunk of ``reader``, the chunks of the read tensor's producer that it waits for."""
    producer = network.tensors[read.tensor].producer
    assert producer is not None, "network inputs have no chunks"
    total, chunks = network.operators[producer].chunks, range(network.operators[reader].chunks)
    if read.role == "operand":
        return tuple(total for _ in chunks)
    return tuple(read.need.chunks(c, total) for c in chunks)


def leads_of(network: Network, operators: Iterable[int]) -> Leads:
    """The leads between all ``operators`` of one segment, given in topological order."""
    leads: Leads = {}
    earlier: list[int] = []
    for after in operators:
        direct: dict[int, list[Read]] = {}
        for read in network.operators[after].reads:
            producer = network.tensors[read.tensor].producer
            if producer in earlier:
                direct.setdefault(producer, []).append(read)
        for producer, reads in direct.items():
            own = tuple(map(max, zip(*(needed_by(network, after, r) for r in reads), strict=True)))
            written = any(r.role == "operand" for r in reads)
            _join(leads, (producer, after), Lead(own, (), written))
            for before in earlier:
                if (before, producer) in leads:
                    through = leads[before, producer]
                    composed = tuple(through.needed[n - 1] if n else 0 for n in own)
                    _join(leads, (before, after), Lead(composed, (*through.between, producer), False))
        earlier.append(after)
    return leads


def _join(leads: Leads, key: tuple[int, int], path: Lead) -> None:
    """Add one more path to what is known of a pair."""
    known = leads.get(key)
    if known is None:
        leads[key] = path
        return
    slower = (path.needed[0], len(path.between)) > (known.needed[0], len(known.between))
    leads[key] = Lead(
        tuple(map(max, known.needed, path.needed)),
        path.between if slower else known.between,
        known.operand or path.operand,
    )


def least_window(network: Network, leads: Leads, tensor: int, readers: Sequence[int]) -> int:
    """Chunks of ``tensor`` that must be on chip at once for ``readers`` (of its producer's segment) never to wait for each other.

    What must be available before a reader's chunk, over every path, less what its earlier chunks released; what passes the
    operators between meanwhile, one chunk of the reader in each; and two chunks more, one that is being written and one that
    is being read. An operator after the reader may hold it up until its own needs are met: then the reader has released only what
    the chunks that this operator needs of it took.
    """
    producer = network.tensors[tensor].producer
    assert producer is not None, "only what an operator writes has a window"
    total, most = network.operators[producer].chunks, 1
    for reader in readers:
        ahead = leads[producer, reader].needed
        passing = _longest_chain(leads, producer, reader) * round_up(total, network.operators[reader].chunks)
        for read in network.operators[reader].reads:
            if read.tensor != tensor:
                continue
            own = needed_by(network, reader, read)
            released = [0, *(max(0, n - read.need.span) for n in own[1:]), total]
            for chunk, available in enumerate(ahead):
                most = max(most, available - released[chunk] + passing)
            for before, after in leads:
                if before == reader:
                    for available, made in zip(leads[producer, after].needed, leads[reader, after].needed, strict=True):
                        most = max(most, available - released[made])
    return min(total, most + 2)


def _longest_chain(leads: Leads, before: int, after: int) -> int:
    """Operators strictly between two on the longest chain of dependences from one to the other."""
    length = {before: -1}
    for operator in sorted({m for pair in leads for m in pair if before < m <= after}):
        behind = [length[m] + 1 for m in length if (m, operator) in leads]
        if behind:
            length[operator] = max(behind)
    return length[after]
