"""Cost model ``eq10`` end to end on a network of two products that is worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import hw
from cmswitch.checker import check_plan
from cmswitch.errors import InputError
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, VectorWork, Write
from cmswitch.pipeline import Options, Result, compile_network
from cmswitch.segmentation.plan import AssignedArrays, Plan, SharedArrays

CHIP = hw.load_chip("dynaplasia").with_changes(
    **{
        "arrays_per_core": 6,
        "array.rows": 4,
        "array.columns": 8,
        "array.max_active_rows": 4,
        "array.cycles_per_pass": 1,
        "buffer.bandwidth": "0.5",
        "main_memory.bandwidth": "0.5",
        "modes.bandwidth": 1,
    }
)


def product(number: int, inner: int, source: int) -> Operator:
    """12 rows of one column, a row at a time, with an activation."""
    name = f"o{number}"
    read = Read(source, "matrix", 12 * inner, 12 * inner, Need(1, 1, 1, 1))
    vector = (VectorWork(f"{name}.relu", "elementwise", 12),)
    return Operator(
        name, (name,), MatrixProduct(12, inner, 1, 1, f"w{number}"), 12, (read,), vector, (Write(number + 1),)
    )


NETWORK = Network(
    "two",
    (product(0, 4, 0), product(1, 1, 1)),
    (Tensor("x", 48, None), Tensor("t", 12, 0), Tensor("y", 12, 1, is_output=True)),
    2,
)


def compiled(chip: hw.Chip = CHIP, schedule: str = "dual-mode", solver: str = "auto") -> Result:
    """The network with no gap allowed."""
    return compile_network(NETWORK, chip, Options(cost_model="eq10", schedule=schedule, solver=solver, gap=0.0))


@pytest.mark.parametrize("solver", ["combinatorial", "highs"])
def test_one_segment_by_hand(solver: str) -> None:
    """Each product is 12 * 8 = 96 cycles on one array; the first fetches 48 bytes, the second 12.

    Two arrays each: 48 cycles, if one array of t feeds the first (48 / (0.5 + 1) = 32); writing 2 arrays of 4 rows takes 8,
    bringing 4 arrays into compute mode 4. Three each leave the first 48 / 0.5 = 96 cycles of fetching.
    """
    plan = compiled(solver=solver).plan
    (segment,) = plan.segments
    assert (segment.execute, segment.reload, segment.write_back, segment.switch) == ("48", "8", "0", 4)
    assert plan.predicted_cycles == 60
    assert plan.cost_model == "eq10"
    assigned = segment.assigned
    assert assigned is not None and assigned.compute == (2, 2)
    assert 1 <= assigned.private[0] + sum(s.arrays for s in assigned.shared) <= 2
    assert [p.copies for p in segment.pieces] == [2, 2]


def test_what_leaves_a_segment_is_written_back() -> None:
    """One array each time: 96 cycles, 4 of writing; between them 12 bytes at half a byte per cycle."""
    plan = compiled(CHIP.with_changes(arrays_per_core=1, **{"buffer.bandwidth": 1})).plan
    costs = [(s.execute, s.reload, s.write_back, s.switch) for s in plan.segments]
    assert costs == [("96", "4", "24", 1), ("96", "4", "0", 0)]
    assert plan.predicted_cycles == 96 + 4 + 24 + 1 + 96 + 4


def test_without_memory_mode_the_first_product_waits_for_its_input() -> None:
    """48 bytes at half a byte per cycle are 96 cycles, so one array each is enough."""
    plan = compiled(schedule="all-compute").plan
    (segment,) = plan.segments
    assert (segment.execute, segment.reload, segment.switch) == ("96", "4", 2)
    assert segment.assigned == AssignedArrays((1, 1), (0, 0), ())


@pytest.mark.parametrize("schedule", ["dual-mode", "all-compute", "static"])
def test_prediction_is_the_objective_and_the_simulator_knows_nothing_of_it(schedule: str) -> None:
    result = compiled(schedule=schedule)
    assert check_plan(result.plan, NETWORK, CHIP).violations == ()
    assert result.certificate.objective_cycles == result.plan.predicted_cycles == result.certificate.bound_cycles
    assert result.certificate.gap == 0.0
    assert result.timing.total_cycles != result.plan.predicted_cycles
    assert result.schedule_used == schedule
    assert any(
        w.startswith("cost model eq10: prediction and bound are the published equations") for w in result.warnings
    )


def test_resident_weights_are_not_written() -> None:
    result = compile_network(NETWORK, CHIP, Options(cost_model="eq10", weights="resident", gap=0.0))
    (segment,) = result.plan.segments
    assert result.plan.resident_weights and segment.reload == "0"
    assert check_plan(result.plan, NETWORK, CHIP).violations == ()


def changed(plan: Plan, **changes: object) -> Plan:
    """The plan with fields of its only segment replaced."""
    return replace(plan, segments=(replace(plan.segments[0], **changes),))  # type: ignore[arg-type]


def broken_plans() -> dict[str, tuple[Plan, str]]:
    """Plans that are wrong in one way, and the rule that finds it."""
    plan = compiled().plan
    compute, private = (2, 2), (0, 0)
    share = SharedArrays(1, 1)
    return {
        "another model": (replace(plan, cost_model="machine"), "assigned"),
        "nothing assigned": (changed(plan, assigned=None), "assigned"),
        "a number missing": (changed(plan, assigned=AssignedArrays((2,), private, (share,))), "assigned"),
        "less than the copies take": (changed(plan, assigned=AssignedArrays((1, 2), private, (share,))), "assigned"),
        "too many in all": (changed(plan, assigned=AssignedArrays(compute, (5, 0), (share,))), "assigned"),
        "more than hold the tensor": (
            changed(plan, assigned=AssignedArrays(compute, private, (SharedArrays(1, 4),))),
            "assigned",
        ),
        "another tensor": (changed(plan, assigned=AssignedArrays(compute, private, (SharedArrays(0, 1),))), "assigned"),
        "one tensor twice": (changed(plan, assigned=AssignedArrays(compute, private, (share, share))), "assigned"),
        "faster claimed": (changed(plan, execute="47"), "execute"),
        "cheaper reload claimed": (changed(plan, reload="4"), "reload"),
        "a write-back claimed": (changed(plan, write_back="1"), "write-back"),
        "no rational": (changed(plan, write_back="x"), "write-back"),
    }


@pytest.mark.parametrize("name", list(broken_plans()))
def test_the_checker_recomputes_the_equations(name: str) -> None:
    plan, rule = broken_plans()[name]
    assert rule in {violation.rule for violation in check_plan(plan, NETWORK, CHIP).violations}


def test_the_recomputed_cost_is_by_the_equations() -> None:
    assert check_plan(compiled().plan, NETWORK, CHIP).cost == Fraction(60)


def test_an_unknown_cost_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown cost model 'eq11' \(did you mean 'eq10'\?"):
        compile_network(NETWORK, CHIP, Options(cost_model="eq11"))
