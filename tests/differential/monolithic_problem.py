"""The plan space of a tiny network, written out in full for :mod:`formulations.monolithic`."""

from __future__ import annotations

from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.segmentation.search import Node, every_edge
from formulations.monolithic import Candidate, MonolithicProblem


def monolithic_problem(pricer: MachinePricer) -> MonolithicProblem:
    """Every segment between every two states that can be reached, with nothing pruned by a bound."""
    chip, numbers, candidates = pricer.workload.chip, {Node(0, ()): 0}, []
    for edge in every_edge(pricer):
        source, target = numbers[edge.source], numbers.setdefault(edge.target, len(numbers))
        first, last = edge.source.cut, edge.target.cut
        problem = pricer.segment(first, last, edge.resident).problem
        candidates.append(Candidate(source, target, first, edge.kept_arrays, problem))
    return MonolithicProblem(
        end=numbers[Node(len(pricer.workload.cells), ())],
        positions=len(pricer.workload.cells),
        candidates=tuple(candidates),
        arrays=chip.arrays,
        to_compute_cycles=chip.modes.to_compute_cycles,
        to_memory_cycles=chip.modes.to_memory_cycles,
        switched_at_once=chip.modes.switched_at_once,
    )
