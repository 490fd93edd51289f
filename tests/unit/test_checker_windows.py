"""Windows that are too small for the needs of all readers in the segment, over every path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cmswitch.checker.leads import leads_of, least_window
from cmswitch.costs.dependence import Dependences
from cmswitch.graph.network import MatrixProduct, Need, Network, Tensor, Write
from cmswitch.segmentation.plan import PlannedPiece, PlannedPlace, PlannedSegment
from tests.unit.test_checker import NEXT, PLAN, operator, read, rules


def joined(skip: Need, middle: Need = NEXT) -> Callable[[int | None], list[str]]:
    """Operator a makes p (8 chunks) for m and for the join j, which also reads m's q: rules that a window of p breaks."""
    chunk = 2
    make = replace(operator("a", None, [read(0, "side")], [1]), chunks=8)
    through = replace(operator("m", None, [read(1, "side", middle)], [2]), chunks=8)
    join = replace(operator("j", None, [read(1, "side", skip), read(2, "side")], [3]), chunks=8)
    tensors = (Tensor("x", 16, None), Tensor("p", 16, 0), Tensor("q", 16, 1), Tensor("y", 16, 2, True))
    network = Network("joined", (make, through, join), tensors, 3)

    def broken(window: int | None) -> list[str]:
        size = 16 if window is None else window * chunk
        only = PlannedSegment(
            pieces=tuple(PlannedPiece(i, n, 0, 1, 0) for i, n in enumerate("amj")),
            places=(PlannedPlace(1, "p", "buffer", 0, size, window, False, False),),
            compute_arrays=0,
            memory_arrays=0,
            compute_mode=0,
            execute="0",
            reload="0",
            switch=0,
        )
        plan = replace(PLAN, network="joined", segments=(only,))
        return [r for r in rules(plan, network) if r not in {"execute", "predicted", "bound"}]

    return broken


def test_window_counts_the_skew_of_the_longer_path() -> None:
    """m needs 3 chunks more than j reads directly: each of j's waits for 4 of p and releases one; one is in m, and two more."""
    broken = joined(NEXT, middle=Need(1, 1, 4, 4))
    assert broken(6) == ["window"]
    assert broken(7) == []
    assert broken(None) == []


def test_window_has_room_for_what_passes_the_operators_between() -> None:
    """j has 5 chunks for a's 12: chunk c waits for ceil(12 (c + 1) / 5) = 3, 5, 8, 10, 12 of them and has released 0, 2, 5, 7, 9.

    Of 3 live chunks, j is behind m and n on the longest way (only m on another): 2 x ceil(12 / 5), and two more.
    """
    lead = Need(12, 5, 12, 3)
    pass_on = [replace(operator(name, None, [read(i + 1, "side")], [i + 2]), chunks=12) for i, name in enumerate("mn")]
    network = Network(
        "joined",
        (
            replace(operator("a", None, [read(0, "side")], [1]), chunks=12),
            *pass_on,
            replace(operator("j", None, [read(t, "side", lead) for t in (1, 2, 3)], [4]), chunks=5),
        ),
        (Tensor("x", 24, None), *(Tensor(f"t{i}", 24, i) for i in range(3)), Tensor("y", 24, 3, True)),
        4,
    )
    leads = leads_of(network, range(4))
    assert least_window(network, leads, 1, [1, 3]) == 3 + 2 * 3 + 2
    assert least_window(network, leads, 1, [1]) == 1 + 2
    assert least_window(network, leads, 2, [2, 3]) == 3 + 3 + 2
    readers = {i: [r for r in network.operators[i].reads if r.tensor == 1] for i in (1, 3)}
    assert Dependences(network).window(1, readers, 3) == 3 + 2 * 3 + 2


def test_a_reader_that_waits_for_an_operand_elsewhere_holds_the_window_open() -> None:
    """The query q and the key k read p (8 chunks); the scores s read q chunk by chunk and all of k.

    Before s takes its first chunk of q, k has needed all 8 of p, while q, which s holds up, need not have gone beyond its first
    chunk and released 1: p is whole. q's own window waits for s alone: one chunk, and two more.
    """
    make, *readers = (
        replace(operator(name, None, [read(source, "side")], [source + 1 + i]), chunks=8)
        for i, (name, source) in enumerate((("p", 0), ("q", 1), ("k", 1)))
    )
    readers = [replace(r, writes=(Write(t),)) for r, t in zip(readers, (2, 3), strict=True)]
    scores = operator("s", MatrixProduct(8, 4, 4), [read(2), read(3, "operand", Need.whole(8))], [4])
    tensors = (Tensor("x", 16, None), *(Tensor(n, 16, i) for i, n in enumerate("pqk")), Tensor("y", 16, 3, True))
    network = Network("attention", (make, *readers, replace(scores, chunks=8)), tensors, 4)
    leads, uses = leads_of(network, range(4)), {i: [network.operators[i].reads[0]] for i in (1, 2, 3)}
    dependences = Dependences(network)
    assert least_window(network, leads, 1, [1, 2]) == dependences.window(1, {1: uses[1], 2: uses[2]}, 3) == 8
    assert least_window(network, leads, 2, [3]) == dependences.window(2, {3: uses[3]}, 3) == 3
    assert dependences.window(1, {1: uses[1], 2: uses[2]}, 2) == 3  # without the scores in the segment


def test_tensor_that_does_not_stream_is_whole() -> None:
    broken = joined(Need.whole(8))
    assert broken(7) == ["window"]
    assert broken(None) == []
