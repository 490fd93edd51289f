"""``report.json`` (schema 1) and its short form for people.

Cycles are integers. ``objective_cycles`` is what the formulation promises and equals ``predicted_cycles``;
simulated cycles are what the timing simulator measured on the program; the roofline is a bound that no plan can beat.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from cmswitch.errors import InputError
from cmswitch.listing import network_in_words, nodes_by_place
from cmswitch.naming import quantity
from cmswitch.options import ModelOptions

if TYPE_CHECKING:
    from cmswitch.graph.network import Network
    from cmswitch.pipeline import Certificate, Result
    from hw import Chip

SCHEMA = 1
SUMMARY_ROWS = 20
LARGEST_ERROR = 0.08
"""How far a prediction may be from the simulation, relative to the latter. The accuracy benchmark fails beyond: there the proof
of an optimum says little about what the chip does."""


@dataclass(frozen=True)
class ModelSection:
    """The network; ``nodes`` counts those of the file after binding, ``nodes_by_place`` those that run, ``macs`` are those of
    matrix products, on arrays all of them. ``weight_bytes`` are those of the constant weights in main memory."""

    name: str
    nodes: int
    nodes_by_place: dict[str, int]
    cim_operators: int
    macs: int
    weight_elements: int
    weight_bytes: int


@dataclass(frozen=True)
class ChipSection:
    """The chip; ``sha256`` identifies its description, defaults included."""

    name: str
    arrays: int
    clock_mhz: float
    sha256: str


@dataclass(frozen=True)
class FallbackSection:
    """``solver`` failed on so many ``programs`` for this ``reason``, and ``used`` took over."""

    solver: str
    used: str
    reason: str
    programs: int


@dataclass(frozen=True)
class SolveSection:
    """Why the search stopped, what it holds and how good that is: see :class:`cmswitch.pipeline.Certificate`.

    ``gap`` is relative; ``seconds`` are CPU seconds.
    """

    termination: str
    status: str
    objective_cycles: int
    bound_cycles: int
    gap: float
    segments_considered: int
    programs_solved: int
    cache_hits: int
    fallbacks: tuple[FallbackSection, ...]
    seconds: dict[str, float]


@dataclass(frozen=True)
class LatencySection:
    """Cycles of one inference, and ``interval_cycles`` between the ends of successive ones that do not overlap."""

    predicted_cycles: int
    simulated_cycles: int
    roofline_cycles: int
    first_weight_write_cycles: int
    interval_cycles: int


@dataclass(frozen=True)
class EnergySection:
    """Picojoules by component; what is not modelled is listed as such and not counted as zero.

    ``total_pj``: None if the chip file gives no figure at all.
    """

    total_pj: float | None
    by_component: dict[str, float]
    not_modelled: tuple[str, ...]


@dataclass(frozen=True)
class PowerSection:
    """Arrays that compute at the same moment, at most; ``peak_mw`` is not modelled yet."""

    peak_active_arrays: int
    peak_mw: None = None


@dataclass(frozen=True)
class ModesSection:
    """Share of array-cycles spent in use as memory, and array switches in either direction."""

    memory_fraction: float
    switches: int
    switch_cycles: int


@dataclass(frozen=True)
class SegmentCycles:
    """Cycles of a segment by phase. ``write_back``: of moving to main memory what is dropped on chip, which is nothing in plans
    of the machine model."""

    execute: int
    reload: int
    write_back: int
    switch: int

    @property
    def total(self) -> int:
        """The phases follow one another."""
        return self.execute + self.reload + self.write_back + self.switch


@dataclass(frozen=True)
class SegmentSection:
    """One segment: its operators, the arrays it uses in each mode, and the copies of each operator.

    ``cycles`` are those that the simulator measured, ``predicted_cycles`` those that the plan promises, rounded up.
    """

    index: int
    operators: tuple[str, ...]
    compute_arrays: int
    memory_arrays: int
    cycles: SegmentCycles
    predicted_cycles: SegmentCycles
    copies: dict[str, int]


@dataclass(frozen=True)
class Report:
    """All sections; ``to_json`` gives ``report.json``. ``options`` holds everything that decided the result."""

    model: ModelSection
    chip: ChipSection
    options: dict[str, object]
    solve: SolveSection
    latency: LatencySection
    energy: EnergySection
    power: PowerSection
    modes: ModesSection
    segments: tuple[SegmentSection, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> str:
        """The report as text, with keys in the documented order."""
        return json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, indent=2, allow_nan=False) + "\n"


def build_report(
    network: Network,
    chip: Chip,
    options: dict[str, object],
    result: Result,
    import_seconds: float,
    total_seconds: float,
) -> Report:
    """The report of a compilation that took ``total_seconds``, of which ``import_seconds`` went into reading its inputs."""
    certificate, timing = result.certificate, result.timing
    segments = tuple(
        SegmentSection(
            index=index,
            operators=tuple(piece.name for piece in planned.pieces),
            compute_arrays=planned.compute_arrays,
            memory_arrays=planned.memory_arrays,
            cycles=SegmentCycles(run.execute_cycles, run.reload_cycles, run.store_cycles, run.switch_cycles),
            predicted_cycles=SegmentCycles(
                ceil(Fraction(planned.execute)),
                ceil(Fraction(planned.reload)),
                ceil(Fraction(planned.write_back)),
                planned.switch,
            ),
            copies={piece.name: piece.copies for piece in planned.pieces if piece.copies},
        )
        for index, (planned, run) in enumerate(zip(result.plan.segments, timing.segments, strict=True))
    )
    resident = result.program.resident_weights
    return Report(
        model=ModelSection(
            name=network.name,
            nodes=network.node_count,
            nodes_by_place=nodes_by_place(network),
            cim_operators=sum(o.product is not None for o in network.operators),
            macs=network.macs,
            weight_elements=network.weight_elements,
            weight_bytes=network.weight_bytes(chip.precision.weight_bits),
        ),
        chip=ChipSection(chip.name, chip.arrays, float(chip.clock_mhz), chip.sha256),
        options=options,
        solve=SolveSection(
            termination=certificate.termination,
            status=certificate.status,
            objective_cycles=certificate.objective_cycles,
            bound_cycles=certificate.bound_cycles,
            gap=certificate.gap,
            segments_considered=certificate.segments_considered,
            programs_solved=certificate.programs_solved,
            cache_hits=certificate.cache_hits,
            fallbacks=tuple(
                FallbackSection(fallback.solver, fallback.used, fallback.reason, count)
                for fallback, count in certificate.fallbacks.items()
            ),
            seconds={
                key: round(value, 6)
                for key, value in {"import": import_seconds, **result.seconds, "total": total_seconds}.items()
            },
        ),
        latency=LatencySection(
            predicted_cycles=certificate.objective_cycles,
            simulated_cycles=timing.total_cycles,
            roofline_cycles=result.roofline_cycles,
            first_weight_write_cycles=0 if resident else timing.first_reload_cycles,
            interval_cycles=_interval(timing.total_cycles, segments, resident),
        ),
        energy=EnergySection(
            total_pj=timing.energy.total_pj if timing.energy.by_component else None,
            by_component=dict(timing.energy.by_component),
            not_modelled=timing.energy.not_modelled,
        ),
        power=PowerSection(timing.peak_active_arrays),
        modes=ModesSection(
            memory_fraction=_memory_fraction(segments, chip.arrays),
            switches=timing.switches,
            switch_cycles=timing.switch_cycles,
        ),
        segments=segments,
        warnings=(*result.warnings, *_misprediction(certificate, timing.total_cycles)),
    )


def read_origin(text: str, name: str) -> tuple[ModelOptions, str]:
    """The network and the chip that the report ``text`` is about. Raises InputError, naming the file ``name``."""
    try:
        options = json.loads(text)["options"]
        origin = ModelOptions(options["model"], options["dims"], options["batch"], options["seq"], options["values"])
        return origin, options["hw"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{name}: not a report of cmswitch solve; give --model and --hw") from error


def _misprediction(certificate: Certificate, simulated: int) -> list[str]:
    """The warning that an optimum is one of the prediction alone; empty if the simulation confirms it."""
    predicted = certificate.objective_cycles
    if certificate.status != "optimal" or _is_confirmed(predicted, simulated):
        return []
    return [
        f"the plan is optimal as predicted ({predicted:,} cycles), but the simulation takes {simulated:,} cycles, which "
        f"differs by more than {100 * LARGEST_ERROR:g} %; another plan may be faster in simulation"
    ]


def _is_confirmed(predicted: int, simulated: int) -> bool:
    return abs(predicted - simulated) <= LARGEST_ERROR * simulated


def _interval(simulated: int, segments: tuple[SegmentSection, ...], resident: bool) -> int:
    """A network in one segment keeps weights and modes for the next inference; in several, each rewrites the arrays."""
    if len(segments) != 1:
        return simulated
    first = segments[0].cycles
    return simulated - first.switch - (0 if resident else first.reload)


def _memory_fraction(segments: tuple[SegmentSection, ...], arrays: int) -> float:
    cycles = sum(s.cycles.total for s in segments)
    used = sum(s.memory_arrays * s.cycles.total for s in segments)
    return round(used / (arrays * cycles), 6) if cycles else 0.0


def summary(report: Report) -> str:
    """The report in a screenful, for people."""
    model, chip, solve, latency = report.model, report.chip, report.solve, report.latency
    state = solve.status if solve.status == solve.termination else f"{solve.status}, stopped by {solve.termination}"
    lines = [
        f"model      {model.name}: {network_in_words(model.nodes, model.nodes_by_place, model.macs, model.weight_elements)} "
        f"of {quantity(model.weight_bytes, 'byte')}",
        f"chip       {chip.name}: {quantity(chip.arrays, 'array')} at {chip.clock_mhz:g} MHz",
        f"plan       {report.options['schedule_used']}: {state}, gap {100 * solve.gap:.3f} %; "
        f"{quantity(solve.programs_solved, 'program')} solved; {solve.seconds['total']:.1f} CPU s in all",
    ]
    for name, cycles, remark in (
        ("predicted", latency.predicted_cycles, f"   no plan is predicted below {solve.bound_cycles:,}"),
        ("simulated", latency.simulated_cycles, _deviation(latency, solve.status)),
        ("roofline", latency.roofline_cycles, ""),
    ):
        lines.append(f"{name:<10} {cycles:>15,} cycles {cycles / chip.clock_mhz:>14,.1f} us{remark}")
    energy = "no energy figures" if report.energy.total_pj is None else f"{report.energy.total_pj / 1e6:,.1f} uJ"
    missing = f" (not modelled: {', '.join(report.energy.not_modelled)})" if report.energy.not_modelled else ""
    if report.options["weights"] == "resident" and len(report.segments) == 1:  # several segments each write their own
        lines.append(
            "weights    resident, in the arrays beforehand: no cycles of writing them are counted; --weights cold counts them"
        )
    lines.append(f"memory     {100 * report.modes.memory_fraction:.1f} % of array-cycles in use as memory")
    lines.append(f"energy     {energy}{missing}")
    lines += ["", *_segment_table(report.segments)]
    return "\n".join(lines) + "\n"


def _deviation(latency: LatencySection, status: str) -> str:
    predicted, simulated = latency.predicted_cycles, latency.simulated_cycles
    if not predicted:
        return ""
    confirmed = status != "optimal" or _is_confirmed(predicted, simulated)
    return f"   {100 * (simulated / predicted - 1):+.1f} %" + ("" if confirmed else ", optimal as predicted only")


def _segment_table(segments: tuple[SegmentSection, ...]) -> list[str]:
    shown = segments if len(segments) <= SUMMARY_ROWS else segments[: SUMMARY_ROWS - 1]
    heads = ("segment", "operators", "compute", "memory", "execute", "reload", "write-back", "switch", "first operator")
    rows = [
        (
            str(s.index),
            str(len(s.operators)),
            str(s.compute_arrays),
            str(s.memory_arrays),
            f"{s.cycles.execute:,}",
            f"{s.cycles.reload:,}",
            f"{s.cycles.write_back:,}",
            f"{s.cycles.switch:,}",
            s.operators[0] if s.operators else "-",
        )
        for s in shown
    ]
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads) - 1)]
    lines = ["  ".join([*(c.rjust(w) for c, w in zip(row, widths, strict=False)), row[-1]]) for row in (heads, *rows)]
    if len(shown) < len(segments):
        rest = segments[len(shown) :]
        lines.append(
            f"... and {quantity(len(rest), 'more segment')}"
            f", {quantity(sum(s.cycles.total for s in rest), 'cycle')} (all in report.json)"
        )
    return lines
