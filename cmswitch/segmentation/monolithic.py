"""The plan space of a tiny network, written out in full for :mod:`formulations.monolithic`."""

from __future__ import annotations

import math

from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.segmentation.search import CutGraph, KeptGraph, Node
from formulations.monolithic import Candidate, MonolithicProblem


def monolithic_problem(pricer: MachinePricer) -> MonolithicProblem:
    """Every segment between every two states that can be reached, with nothing pruned by a bound."""
    graph, chip = KeptGraph(CutGraph(pricer)), pricer.workload.chip
    nodes = [Node(0, ())]
    numbers = {nodes[0]: 0}
    candidates = []
    for node in nodes:  # grows while it is walked
        if node.cut == len(pricer.workload.cells):
            continue
        for edge in graph.edges(node, 0.0, math.inf):
            if edge.target not in numbers:
                numbers[edge.target] = len(nodes)
                nodes.append(edge.target)
            problem = pricer.segment(node.cut, edge.target.cut, edge.resident).problem
            candidates.append(Candidate(numbers[node], numbers[edge.target], node.cut, edge.kept_arrays, problem))
    return MonolithicProblem(
        end=numbers[Node(len(pricer.workload.cells), ())],
        positions=len(pricer.workload.cells),
        candidates=tuple(candidates),
        arrays=chip.arrays,
        to_compute_cycles=chip.modes.to_compute_cycles,
        to_memory_cycles=chip.modes.to_memory_cycles,
        switched_at_once=chip.modes.switched_at_once,
    )
