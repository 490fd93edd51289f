"""Bounds on the latency of every legal plan, from sizes alone (machine model, last section)."""

from __future__ import annotations

import math
from fractions import Fraction

from cmswitch.costs.work import PieceWork
from cmswitch.costs.workload import Piece, Workload


def roofline(workload: Workload, resident_weights: bool = False) -> int:
    """Cycles below which no plan of the workload can run (weights that are resident already cost nothing)."""
    network, chip = workload.network, workload.chip
    multiply = Fraction(0)
    vector = 0
    for index, (operator, grid) in enumerate(zip(network.operators, workload.footprints, strict=True)):
        whole = PieceWork(workload, Piece(index, 0, grid.blocks if grid else 1))
        vector += whole.vector_cycles
        if grid is None or operator.product is None:
            continue
        multiply += Fraction(operator.product.rows * grid.arrays * whole.row_cycles, chip.arrays)
    weights = 0 if resident_weights else chip.main_cycles(network.weight_bytes(chip.precision.weight_bits))
    ends = [t for i, t in enumerate(network.tensors) if t.is_output or (t.producer is None and network.consumers[i])]
    moved = chip.main_cycles(sum(chip.activation_bytes(t.elements) for t in ends))
    return max(weights + max(math.ceil(multiply), vector), moved)
