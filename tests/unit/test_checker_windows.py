"""Windows that are too small for the needs of all readers in the segment, over every path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cmswitch.checker.leads import leads_of, least_window
from cmswitch.costs.dependence import Dependences
from cmswitch.graph.network import Need, Network, Tensor
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
    assert Dependences(network).window(1, readers) == 3 + 2 * 3 + 2


def test_tensor_that_does_not_stream_is_whole() -> None:
    broken = joined(Need.whole(8))
    assert broken(7) == ["window"]
    assert broken(None) == []
