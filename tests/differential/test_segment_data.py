"""What a segment's program is built from, against the enumeration's and the checker's own derivation: windows and the reload."""

from __future__ import annotations

from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st

import hw
from cmswitch.allocation.segment import Limits, SegmentBuilder
from cmswitch.checker.cost import Home, segment_cost
from cmswitch.checker.demand import blocks_of, demand_of
from cmswitch.checker.leads import leads_of, least_window
from cmswitch.costs.dependence import Dependences
from cmswitch.costs.workload import build_workload
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, VectorWork, Write
from tests.differential.oracle import PlanSpace, Run
from tests.differential.oracle_rows import reload_cycles

ROOMY = 1 << 20
"""More write drivers than there are arrays."""

CHIP = hw.load_chip("dynaplasia").with_changes(
    **{
        "arrays_per_core": 1024,
        "precision.weight_bits": 4,
        "array.rows": 12,
        "array.columns": 16,
        "array.max_active_rows": 12,
        "array.arrays_written_at_once": ROOMY,
        "buffer.bandwidth": 4,
        "modes.bandwidth": 2,
    }
)
"""Tiles of up to 12 rows of 4 half-byte weights."""


@st.composite
def streams(draw: st.DrawFn) -> Network:
    """Up to six vector-only operators, each of which streams what one to three of the earlier ones make."""
    operators: list[Operator] = []
    for index in range(draw(st.integers(3, 6))):
        chunks, reads = draw(st.integers(1, 40)), []
        for tensor in draw(st.sets(st.integers(max(0, index - 3), index), min_size=1, max_size=3)):
            total = operators[tensor - 1].chunks if tensor else 1
            lead = total + draw(st.integers(-1, 2)) * chunks
            whole = draw(st.integers(0, 11)) == 0
            need = Need.whole(total) if whole else Need(total, chunks, lead, draw(st.integers(1, 4)))
            reads.append(Read(tensor, "side", 40, 40, need))
        work = (VectorWork(f"v{index}", "add", 40),)
        operators.append(Operator(f"o{index}", (f"n{index}",), None, chunks, tuple(reads), work, (Write(index + 1),)))
    made = [Tensor(f"t{index}", 40, index, index == len(operators) - 1) for index in range(len(operators))]
    return Network("streams", tuple(operators), (Tensor("input", 40, None), *made), len(operators))


@settings(max_examples=100)
@given(streams())
def test_windows_are_the_same(network: Network) -> None:
    space, dependences = PlanSpace(network, CHIP, 1, 0), Dependences(network)
    leads = leads_of(network, range(len(network.operators)))
    for tensor, readers in enumerate(network.consumers):
        if tensor and readers:
            reads = {i: [r for r in network.operators[i].reads if r.tensor == tensor] for i in readers}
            windows = {
                dependences.window(tensor, reads, len(network.operators) - 1),
                least_window(network, leads, tensor, tuple(readers)),
                space.window(tensor, [Run(space, i, 0, 1) for i in readers], len(network.operators) - 1),
            }
            assert len(windows) == 1


@st.composite
def products(draw: st.DrawFn) -> Network:
    """Up to four products that have little to do with each other but their weights; the operands of some are the output of the
    first operator."""
    count = draw(st.integers(1, 4))
    operators = [
        Operator(
            "o0", ("n0",), None, 1, (Read(0, "side", 8, 8, Need.whole(1)),), (VectorWork("v", "add", 8),), (Write(1),)
        )
    ]
    for index in range(1, count + 1):
        inner, columns, dynamic = draw(st.integers(1, 14)), draw(st.integers(1, 5)), draw(st.integers(0, 2)) == 0
        product = MatrixProduct(1, inner, columns, 1, None if dynamic else f"w{index}")
        reads = [Read(0, "matrix", inner, inner, Need.whole(1))]
        if dynamic:
            reads.append(Read(1, "operand", inner * columns, inner * columns, Need.whole(1)))
        operators.append(Operator(f"o{index}", (f"n{index}",), product, 1, tuple(reads), (), (Write(index + 1),)))
    made = [Tensor(f"t{index}", 8, index, index > 0) for index in range(count + 1)]
    return Network("products", tuple(operators), (Tensor("input", 8, None), *made), len(operators))


@settings(max_examples=200)
@given(
    products(),
    st.sampled_from([1, 3, 5]),
    st.sampled_from(["0.5", "1", "4"]),
    st.sampled_from(["main", "buffer", "arrays"]),
    st.booleans(),
)
def test_reloads_of_one_copy_are_the_same(
    network: Network,
    write_cycles: int,
    bandwidth: str,
    home: Literal["main", "buffer", "arrays"],
    resident: bool,
) -> None:
    """All products in one segment, the first operator before it: its output is an operand that exists already."""
    chip = CHIP.with_changes(**{"array.write_cycles_per_row": write_cycles, "main_memory.bandwidth": bandwidth})
    workload = build_workload(network, chip)
    cells, limits = len(workload.cells), Limits(chip.arrays, chip.arrays)
    read = any(r.tensor == 1 for o in network.operators for r in o.reads)
    kept: dict[int, Literal["buffer", "arrays"]] = {1: home} if home != "main" and read else {}
    built = SegmentBuilder(workload).build(1, cells, kept, limits, resident).problem.reload_cycles

    space = PlanSpace(network, chip, chip.arrays, chip.arrays, resident)
    runs = space._runs(1, cells)
    places = {t.tensor: space.home(t.tensor, "main") for run in runs for t in (*run.reads, *run.writes)}
    places |= {tensor: space.home(tensor, where) for tensor, where in kept.items()}
    stages, _ = space._traffic(runs, places, cells, frozenset(kept.items()), resident)
    assert built == reload_cycles(stages, [1] * len(stages), ROOMY)

    blocks = [blocks_of(o.product, chip) if o.product else None for o in network.operators]
    demands = [
        demand_of(network, chip, index, blocks[index], 0, len(blocks[index] or ()))
        for index in range(1, len(network.operators))
    ]
    homes = {tensor: Home(where, space.home(tensor, where).arrays, False) for tensor, where in kept.items()}
    leads = leads_of(network, range(1, len(network.operators)))
    assert built == segment_cost(chip, demands, [1] * len(demands), homes, leads, resident).reload
