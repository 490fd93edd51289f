"""The plan checker: hand-made plans with hand-computed costs, and for every rule a corruption that breaks exactly it."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import hw
from cmswitch.checker import CheckReport, check_plan, load_plan
from cmswitch.errors import InputError
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, VectorWork, Write
from cmswitch.segmentation.plan import Plan, PlannedPiece, PlannedPlace, PlannedSegment

CHIP = hw.load_chip("dynaplasia").with_changes(
    **{
        "name": "tiny",
        "arrays_per_core": 8,
        "array.rows": 4,
        "array.columns": 4,
        "array.bits_per_cell": 8,
        "array.max_active_rows": 4,
        "array.dac_bits": 8,
        "array.cycles_per_pass": 1,
        "array.arrays_written_at_once": 1,
        "modes.bandwidth": 2,
        "buffer.capacity_bytes": 64,
        "buffer.bandwidth": 4,
        "main_memory.bandwidth": 1,
        "vector.lanes": 4,
    }
)
"""Arrays of 4 x 4 one-byte weights: tau 1, 4 cycles to write, 16 bytes as memory. Main 1, buffer 4, array 2 bytes per cycle."""

NEXT = Need(1, 1, 1, 1)
"""One chunk for one chunk."""


def product(weight: str, columns: int = 4, inner: int = 4) -> MatrixProduct:
    return MatrixProduct(rows=4, inner=inner, columns=columns, weight=weight)


def read(tensor: int, role: Any = "matrix", need: Need = NEXT, elements: int = 16) -> Read:
    return Read(tensor, role, elements, elements, need)


def operator(
    name: str, matrix: MatrixProduct | None, reads: list[Read], writes: list[int], *vector: VectorWork
) -> Operator:
    return Operator(name, (name,), matrix, 4, tuple(reads), vector, tuple(Write(t) for t in writes))


X, P, Q, R, Y = range(5)
ADD = VectorWork("d", "add", 16)
CHAIN = Network(
    name="chain",
    operators=(
        operator("a", product("wa"), [read(X)], [P]),
        operator("b", product("wb"), [read(P)], [Q]),
        operator("c", product("wc"), [read(Q)], [R]),
        operator("d", None, [read(Q, "side"), read(R, "side")], [Y], ADD),
    ),
    tensors=(
        Tensor("x", 16, None),
        Tensor("p", 16, 0),
        Tensor("q", 16, 1),
        Tensor("r", 16, 2),
        Tensor("y", 16, 3, True),
    ),
    node_count=4,
)

# Segment 0, a and b, one copy each. Reload: two tiles of 16 bytes at 1 byte/cycle, 32; the writes of 4 hide behind them.
# a: fetch 4 x 4 from main, MVMs 4, write 4 x 1 to the buffer: busy 16, chunk latency (16 + 4) / 4 + 1 = 6, end 6 + 3/4 16 = 18.
# b: fetch 4 x 1, write 4 x 2 to one array: latency (4 + 8) / 4 + 1 = 4; starts at 6, its last chunk ends at 18 + 4 = 22.
# Two arrays switch: 2.
# Segment 1, c in two copies and d. Reload: one tile, 16. The array of q moves 8 for c and 8 for d.
# c: busy 16, latency (8 + 4) / 4 + 1 = 4, finish 4 + 12 = 16. d: fetch 8, add 4 x 1, write 16 to main: latency 7; 16 + 7 = 23.
PLAN = Plan(
    network="chain",
    chip="tiny",
    chip_sha256=CHIP.sha256,
    schedule="dual-mode",
    resident_weights=False,
    compute_limit=8,
    memory_limit=8,
    predicted_cycles=22 + 32 + 2 + 23 + 16,
    bound_cycles=90,
    segments=(
        PlannedSegment(
            pieces=(PlannedPiece(0, "a", 0, 1, 1), PlannedPiece(1, "b", 0, 1, 1)),
            places=(
                PlannedPlace(P, "p", "buffer", 0, 12, 3, False, False),
                PlannedPlace(Q, "q", "arrays", 1, 16, None, False, True),
            ),
            compute_arrays=2,
            memory_arrays=1,
            compute_mode=2,
            execute="22",
            reload="32",
            switch=2,
        ),
        PlannedSegment(
            pieces=(PlannedPiece(2, "c", 0, 1, 2), PlannedPiece(3, "d", 0, 1, 0)),
            places=(
                PlannedPlace(Q, "q", "arrays", 1, 16, None, True, False),
                PlannedPlace(R, "r", "buffer", 0, 16, None, False, False),
            ),
            compute_arrays=2,
            memory_arrays=1,
            compute_mode=2,
            execute="23",
            reload="16",
            switch=0,
        ),
    ),
)


def rules(plan: Plan, network: Network = CHAIN, chip: hw.Chip = CHIP) -> list[str]:
    return [v.rule for v in check_plan(plan, network, chip).violations]


def segment(number: int, **changes: Any) -> Plan:
    """PLAN with fields of one segment replaced."""
    segments = list(PLAN.segments)
    segments[number] = replace(segments[number], **changes)
    return replace(PLAN, segments=tuple(segments))


def piece(number: int, index: int, **changes: Any) -> Plan:
    pieces = list(PLAN.segments[number].pieces)
    pieces[index] = replace(pieces[index], **changes)
    return segment(number, pieces=tuple(pieces))


def place(number: int, index: int, memory_arrays: int = 1, **changes: Any) -> Plan:
    places = list(PLAN.segments[number].places)
    places[index] = replace(places[index], **changes)
    return segment(number, places=tuple(places), memory_arrays=memory_arrays)


def without(number: int, index: int, memory_arrays: int) -> Plan:
    places = PLAN.segments[number].places
    return segment(number, places=places[:index] + places[index + 1 :], memory_arrays=memory_arrays)


def with_buffer(number: int, tensor: int, name: str, kept_after: bool = False) -> Plan:
    """PLAN with one more tensor of 16 bytes in the buffer."""
    added = PlannedPlace(tensor, name, "buffer", 0, 16, None, False, kept_after)
    return segment(number, places=(*PLAN.segments[number].places, added))


def test_hand_made_plan_costs_what_was_computed_by_hand() -> None:
    assert check_plan(PLAN, CHAIN, CHIP) == CheckReport((), Fraction(95))


CORRUPTIONS: dict[str, tuple[str, str, Plan]] = {
    "other version": ("version", "plan", replace(PLAN, version=2)),
    "other network": ("network", "plan", replace(PLAN, network="chains")),
    "other chip": ("chip", "plan", replace(PLAN, chip="large")),
    "other figures": ("chip", "plan", replace(PLAN, chip_sha256="0")),
    "impossible limit": ("limits", "compute_limit", replace(PLAN, compute_limit=9)),
    "no array to compute on": ("limits", "compute_limit", replace(PLAN, compute_limit=0)),
    "memory when all compute": ("limits", "memory_limit", replace(PLAN, schedule="all-compute")),
    "split of more than all": ("limits", "plan", replace(PLAN, schedule="static")),
    "weights of two segments": ("resident-weights", "plan", replace(PLAN, resident_weights=True)),
    "empty segment": (
        "empty",
        "segment 2",
        replace(PLAN, segments=(*PLAN.segments, segment(0, pieces=()).segments[0])),
    ),
    "unknown operator": (
        "operator",
        "segment 1, operator 'd'",
        segment(1, pieces=(*PLAN.segments[1].pieces, PlannedPiece(4, "d", 0, 1, 0))),
    ),
    "wrong name": ("operator", "segment 0, operator 'aa'", piece(0, 0, name="aa")),
    "no copy": ("copies", "segment 1, operator 'c'", piece(1, 0, copies=0)),
    "copies of vector work": ("copies", "segment 1, operator 'd'", piece(1, 1, copies=1)),
    "missing": ("coverage", "operator 'd'", segment(1, pieces=PLAN.segments[1].pieces[:1])),
    "twice": (
        "coverage",
        "operator 'd'",
        replace(PLAN, segments=(*PLAN.segments, segment(1, pieces=PLAN.segments[1].pieces[1:]).segments[1])),
    ),
    "consumer first": ("order", "segment 0, operator 'a'", segment(0, pieces=PLAN.segments[0].pieces[::-1])),
    "wrong tensor": ("tensor", "segment 0, tensor 'pp'", place(0, 0, name="pp")),
    "unknown tensor": ("tensor", "segment 0, tensor 'p'", place(0, 0, tensor=-4)),
    "two places": (
        "tensor",
        "segment 0, tensor 'p'",
        segment(0, places=PLAN.segments[0].places[:1] + PLAN.segments[0].places),
    ),
    "arrays in the buffer": ("place", "segment 1, tensor 'r'", place(1, 1, arrays=1, memory_arrays=2)),
    "arrays without arrays": ("place", "segment 1, tensor 'r'", place(1, 1, where="arrays")),
    "place in main memory": ("place", "segment 1, tensor 'r'", place(1, 1, where="main")),
    "input on chip": ("touched", "segment 0, tensor 'x'", with_buffer(0, X, "x")),
    "untouched": ("touched", "segment 0, tensor 'r'", with_buffer(0, R, "r")),
    "nobody reads": ("touched", "segment 1, tensor 'y'", with_buffer(1, Y, "y")),
    "short window": ("window", "segment 0, tensor 'p'", place(0, 0, window=2, bytes=8)),
    "window without room": ("size", "segment 0, tensor 'p'", place(0, 0, bytes=11)),
    "whole without room": ("size", "segment 1, tensor 'r'", place(1, 1, bytes=15)),
    "too few arrays": ("size", "segment 0, tensor 'p'", place(0, 0, 2, where="arrays", arrays=1, window=5, bytes=20)),
    "full buffer": ("buffer", "segment 0", place(0, 0, bytes=65)),
    "compute arrays": ("compute-arrays", "segment 1", segment(1, compute_arrays=1)),
    "memory arrays": ("memory-arrays", "segment 1", segment(1, memory_arrays=2)),
    "few in compute mode": ("compute-mode", "segment 0", segment(0, compute_mode=1)),
    "many in compute mode": ("compute-mode", "segment 1", segment(1, compute_mode=8)),
    "compute mode beyond limit": ("compute-mode", "segment 0", replace(segment(0, compute_mode=3), compute_limit=2)),
    "compute limit": ("compute-limit", "segment 1", replace(PLAN, compute_limit=1)),
    "memory limit": ("memory-limit", "segment 0", replace(PLAN, memory_limit=0)),
    "more arrays than there are": (
        "arrays",
        "segment 1",
        replace(
            piece(1, 0, copies=8),
            segments=(PLAN.segments[0], replace(piece(1, 0, copies=8).segments[1], compute_arrays=8, compute_mode=8)),
        ),
    ),
    "kept input": ("kept-input", "tensor 'x'", with_buffer(0, X, "x", kept_after=True)),
    "dropped early": ("kept-span", "segment 1, tensor 'q'", without(1, 0, memory_arrays=0)),
    "kept from nowhere": ("kept-span", "segment 0, tensor 'q'", without(0, 1, memory_arrays=0)),
    "kept too long": ("kept-span", "segment 1, tensor 'q'", place(1, 0, kept_after=True)),
    "kept for nobody": ("kept-span", "segment 0, tensor 'p'", place(0, 0, kept_after=True, window=None, bytes=16)),
    "moved": ("kept-home", "segment 1, tensor 'q'", place(1, 0, where="buffer", arrays=0, memory_arrays=0)),
    "window kept": ("kept-home", "segment 0, tensor 'q'", place(0, 1, window=3)),
    "switch": ("switch", "segment 0", segment(0, switch=1)),
    "reload": ("reload", "segment 1", segment(1, reload="17")),
    "execute below": ("execute", "segment 0", segment(0, execute="43/2")),
    "execute above": ("execute", "segment 0", segment(0, execute="45/2")),
    "no number": ("execute", "segment 0", segment(0, execute="22/0")),
    "cheaper claimed": ("predicted", "plan", replace(PLAN, predicted_cycles=94)),
    "costlier claimed": ("predicted", "plan", replace(PLAN, predicted_cycles=96)),
    "bound above": ("bound", "plan", replace(PLAN, bound_cycles=96)),
}


@pytest.mark.parametrize(("rule", "where", "plan"), CORRUPTIONS.values(), ids=CORRUPTIONS.keys())
def test_corruption_is_named_and_nothing_else(rule: str, where: str, plan: Plan) -> None:
    report = check_plan(plan, CHAIN, CHIP)
    assert {v.rule for v in report.violations} == {rule}
    assert where in [v.where for v in report.violations]
    assert all(str(v) == f"{v.rule}: {v.where}: {v.text}" for v in report.violations)
    assert (report.cost is None) == (rule not in {"switch", "reload", "execute", "predicted", "bound"})


def test_kept_in_too_many_arrays() -> None:
    plan = replace(PLAN, segments=(place(0, 1, 2, arrays=2).segments[0], place(1, 0, 2, arrays=2).segments[1]))
    assert rules(plan) == ["kept-home", "kept-home"]


def test_costlier_plan_is_rejected_for_its_stated_cost_only() -> None:
    """q in main memory is legal, and slower than PLAN states: b's write, c's and d's fetch move 16 each on the main port."""
    dropped = replace(
        PLAN, segments=(without(0, 1, memory_arrays=0).segments[0], without(1, 0, memory_arrays=0).segments[1])
    )
    report = check_plan(dropped, CHAIN, CHIP)
    assert [v.rule for v in report.violations] == ["execute", "execute", "predicted"]
    assert report.cost is not None
    assert report.cost > 95


def test_chip_that_cannot_switch_has_no_memory_arrays() -> None:
    fixed = CHIP.with_changes(**{"modes": {"switchable": False}})
    assert rules(replace(PLAN, chip_sha256=fixed.sha256), CHAIN, fixed) == ["limits"]


def test_chip_that_cannot_switch_has_all_arrays_in_compute_mode() -> None:
    fixed = CHIP.with_changes(**{"modes": {"switchable": False}})
    segments = [replace(s, places=(), memory_arrays=0) for s in PLAN.segments]
    plan = replace(PLAN, chip_sha256=fixed.sha256, memory_limit=0)
    few = replace(plan, segments=(segments[0], replace(segments[1], compute_mode=8)))
    assert [str(v) for v in check_plan(few, CHAIN, fixed).violations] == [
        "compute-mode: segment 0: 2 arrays in compute mode on a chip with 8 in it for good"
    ]
    for_good = replace(plan, segments=tuple(replace(s, compute_mode=8, switch=0) for s in segments))
    assert {"switch", "compute-mode"}.isdisjoint(rules(for_good, CHAIN, fixed))


def test_chip_whose_rows_hold_no_weight_has_no_plan() -> None:
    narrow = CHIP.with_changes(**{"array.bits_per_cell": 1})
    assert rules(replace(PLAN, chip_sha256=narrow.sha256), CHAIN, narrow) == ["limits"]


def test_hole_in_the_life_of_a_kept_tensor() -> None:
    """q skips a segment of its own between b and c."""
    between = operator("n", product("wn"), [read(X)], [Y + 1])
    network = replace(
        CHAIN,
        operators=(*CHAIN.operators[:2], between, *CHAIN.operators[2:]),
        tensors=(
            *CHAIN.tensors[:3],
            replace(CHAIN.tensors[R], producer=3),
            replace(CHAIN.tensors[Y], producer=4),
            Tensor("z", 16, 2, True),
        ),
    )
    first, second = PLAN.segments
    middle = replace(first, pieces=(PlannedPiece(2, "n", 0, 1, 1),), places=(), compute_arrays=1, memory_arrays=0)
    moved = tuple(replace(p, operator=p.operator + 1) for p in second.pieces)
    plan = replace(PLAN, segments=(first, middle, replace(second, pieces=moved)))
    assert [str(v) for v in check_plan(plan, network, CHIP).violations] == [
        "kept-span: segment 1, tensor 'q': not kept here, between segments 0 and 2"
    ]


def test_order_of_violations_is_stable() -> None:
    plan = replace(segment(0, execute="1", reload="1", switch=1), predicted_cycles=1, bound_cycles=100)
    assert rules(plan) == ["switch", "reload", "execute", "predicted", "bound"]


# -- operators larger than the chip -------------------------------------------------------------------------------------

WIDE = Network(
    name="wide",
    operators=(
        operator("a", product("wa", columns=40), [read(0)], [1], VectorWork("s", "softmax", 160, columnwise=False)),
        operator("b", None, [read(1, "side", elements=160)], [2], VectorWork("r", "add", 160)),
    ),
    tensors=(Tensor("x", 16, None), Tensor("p", 160, 0), Tensor("y", 160, 1, True)),
    node_count=2,
)


def wide(*parts: list[tuple[int, int, int]], places: tuple[tuple[PlannedPlace, ...], ...] = ((), ())) -> Plan:
    """A plan of WIDE: for each segment its pieces (operator, first block, last block)."""
    segments = []
    for pieces, held in zip(parts, places, strict=True):
        arrays = sum(last - first for index, first, last in pieces if index == 0)
        planned = tuple(
            PlannedPiece(i, "b" if i else f"a[{first}:{last}]", first, last, 1 - i) for i, first, last in pieces
        )
        segments.append(
            PlannedSegment(
                planned, held, arrays, sum(p.arrays for p in held), arrays, execute="0", reload="0", switch=0
            )
        )
    return replace(PLAN, network="wide", segments=tuple(segments))


COSTS = {"execute", "reload", "switch", "predicted", "bound"}


@pytest.mark.parametrize(
    ("parts", "broken"),
    [
        ([[(0, 0, 5)], [(0, 5, 10), (1, 0, 1)]], set()),
        ([[(0, 0, 5)], [(0, 6, 10), (1, 0, 1)]], {"coverage"}),
        ([[(0, 0, 5)], [(0, 4, 10), (1, 0, 1)]], {"coverage"}),
        ([[(0, 0, 5)], [(0, 5, 11), (1, 0, 1)]], {"blocks", "coverage"}),
        ([[(0, 5, 10)], [(0, 0, 5), (1, 0, 1)]], {"order"}),
        ([[(0, 0, 2), (0, 2, 5)], [(0, 5, 10), (1, 0, 1)]], {"one-piece"}),
        ([[(0, 0, 5), (1, 0, 1)], [(0, 5, 10)]], {"order"}),
    ],
)
def test_pieces_of_a_cut_operator(parts: list[list[tuple[int, int, int]]], broken: set[str]) -> None:
    assert set(rules(wide(*parts), WIDE)) - COSTS == broken


def test_operator_that_fits_is_not_cut() -> None:
    chip = CHIP.with_changes(arrays_per_core=10)
    plan = replace(wide([(0, 0, 5)], [(0, 5, 10), (1, 0, 1)]), chip_sha256=chip.sha256, compute_limit=10)
    assert set(rules(plan, WIDE, chip)) == {"cut"}


def test_partly_made_tensor_has_no_window() -> None:
    held = PlannedPlace(1, "p", "buffer", 0, 30, 3, False, False)
    parts: list[list[tuple[int, int, int]]] = [[(0, 0, 5)], [(0, 5, 10), (1, 0, 1)]]
    assert rules(wide(*parts, places=((), (held,))), WIDE) == ["partial"]


def test_cost_of_pieces_by_hand() -> None:
    """Both pieces read all of x; the last one runs the softmax of whole rows and reads the first one's share back.

    Segment 0: five tiles of 16 bytes, 80 to reload, 5 to switch. Fetch 4 x 4 and write 4 x 20 on the main port: 96 in all.
    The operator is busy 96 and its chunk latency (16 + 80) / 4 + 1 = 25: 25 + 3/4 96 = 97.
    Segment 1: the same reload. a[5:10] fetches 16 + 80, writes 80, softmax 4 x ceil(3 x 40 / 4) = 120: busy 176, latency
    (96 + 120 + 80) / 4 + 1 = 75, finish 75 + 132 = 207. b fetches 160, adds 4 x 10, writes 160: busy 320, latency 90; it starts
    at 75 and ends at 75 + 90 + 240 = 405. The main port moves 176 + 320 = 496. Before b starts it moves a chunk of a, 44: it
    idles 31. When a has ended, one chunk of b is left, 90 of which 80 move: it idles 10. In all 496 + 31 + 10 = 537.
    """
    plan = wide([(0, 0, 5)], [(0, 5, 10), (1, 0, 1)])
    first, second = plan.segments
    first = replace(first, execute="97", reload="80", switch=5)
    second = replace(second, execute="537", reload="80")
    plan = replace(plan, segments=(first, second), predicted_cycles=97 + 80 + 5 + 537 + 80)
    assert check_plan(plan, WIDE, CHIP) == CheckReport((), Fraction(799))


# -- loading --------------------------------------------------------------------------------------------------------------


def test_plan_survives_json() -> None:
    assert load_plan(PLAN.to_json()) == PLAN


def edited(**changes: Any) -> str:
    return json.dumps(json.loads(PLAN.to_json()) | changes)


def edited_part(kind: str, number: int, index: int, **changes: Any) -> str:
    """The JSON of PLAN with one piece or place changed."""
    content: dict[str, Any] = json.loads(PLAN.to_json())
    content["segments"][number][kind][index].update(changes)
    return json.dumps(content)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the plan is not JSON: Expecting property name"),
        ("[" * 100_000, "the plan is nested too deeply"),
        ("[]", "the plan: must be a JSON object, not []"),
        (edited(version=9), "version: this is a plan of version 9, not 1"),
        (edited(chips="x"), "chips: unknown field (did you mean 'chip'?"),
        (edited(segments={}), "segments: must be a list, not {}"),
        (edited(segments=[{}]), "segments[0].pieces: missing"),
        (edited(predicted_cycles=95.0), "predicted_cycles: must be a whole number, not 95.0"),
        (edited(predicted_cycles=True), "predicted_cycles: must be a whole number, not true"),
        (edited(resident_weights=0), "resident_weights: must be true or false, not 0"),
        (edited_part("pieces", 1, 0, copies="2"), 'segments[1].pieces[0].copies: must be a whole number, not "2"'),
        (
            edited_part("places", 0, 1, where="array"),
            "segments[0].places[1].where: unknown value 'array' (did you mean 'arrays'?",
        ),
        (
            edited_part("places", 0, 1, where=[]),
            "segments[0].places[1].where: must be one of main, buffer, arrays, not []",
        ),
        (
            edited_part("places", 0, 0, window="3"),
            'segments[0].places[0].window: must be a whole number or null, not "3"',
        ),
    ],
)
def test_unusable_text_names_the_field(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_plan(text)
    assert str(caught.value).startswith(message)
