"""Rows (5) to (8) of :mod:`formulations.allocation` for a program that knows the copies and placements only as variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, at_least, choices, one_each, time_unit
from formulations.copies import Copies
from formulations.schedule import PlacedLoads, add_room, add_schedule, declare_schedule
from formulations.segment import SegmentProblem
from formulations.stagetime import check_problem, first_chunk_cycles, mvm_cycles, operand_write_cycles


def problem_unit(problem: SegmentProblem) -> float:
    """The unit of time of a program of ``problem``: the slowest stage at most copies, or the reload, is scaled."""
    slowest = (max(mvm_cycles(stage, stage.copies[-1]), stage.vector_cycles) for stage in problem.stages)
    return time_unit(max(problem.reload_cycles, *slowest))


def placements(problem: SegmentProblem) -> list[range]:
    """Numbers of the placements of each tensor."""
    return [range(len(places)) for places in problem.tensors]


def segment_program(
    problem: SegmentProblem, name: str, copies: Callable[[pyo.ConcreteModel, SegmentProblem], Copies]
) -> pyo.ConcreteModel:
    """The program of ``problem`` in which ``copies`` makes the variables for the copies. ValueError if it is not well formed."""
    check_problem(problem)
    model = pyo.ConcreteModel(name=name)
    model.unit = problem_unit(problem)
    own = copies(model, problem)
    model.z = choices(placements(problem))
    stages = StageRows(model, problem, own)
    declare_schedule(model, problem)
    loads = PlacedLoads(model, problem)
    stages.add_choices()
    add_room(model, problem, own.arrays())
    stages.add(loads)
    add_schedule(model, problem, stages, loads, own.written())
    return model


class StageRows:
    """``latency_of``, ``moved``, ``fetched``, ``written`` and ``L`` by stage; the times that the schedule needs."""

    def __init__(self, model: pyo.ConcreteModel, problem: SegmentProblem, copies: Copies) -> None:
        self.model, self.problem, self.copies = model, problem, copies
        for name in ("L", "latency_of", "moved", "fetched", "written"):
            model.add_component(name, pyo.Var(list(range(len(problem.stages))), domain=pyo.NonNegativeReals))

    def add(self, loads: PlacedLoads) -> None:
        """Add rows (5), (7) and the first part of (8)."""
        add_rows(self.model, "busy", self._busy(loads))
        add_rows(self.model, "latency", self._latency(loads))

    def add_choices(self) -> None:
        """Add rows (1) and (2)."""

        def rows() -> Iterator[Expr]:
            yield from self.copies.rows()
            yield from one_each(self.model.z, placements(self.problem))

        add_rows(self.model, "one_choice", rows())

    def latency(self, i: int) -> Expr:
        return self.model.latency_of[i]

    def pace(self, i: int, chunks: int) -> list[Expr]:
        model, stage = self.model, self.problem.stages[i]
        terms = [model.latency_of[i] + (chunks - 1) / stage.chunks * model.L[i]]
        if stage.arrays and chunks > 1:  # for one chunk the first term is the greater
            terms.append(model.moved[i] + chunks / stage.chunks * self.copies.cycles(i, mvm_cycles))
        return terms

    def writing(self, j: int) -> Expr:
        drivers = self.problem.write_drivers
        return self.copies.cycles(j, lambda stage, copies: operand_write_cycles(stage, copies, drivers))

    def first_vector(self) -> Expr:
        first = self.copies.cycles(0, first_chunk_cycles)
        return self.model.fetched[0] / self.problem.stages[0].chunks + first

    def _busy(self, loads: PlacedLoads) -> Iterator[Expr]:
        """(5), (7)."""
        model, moving = self.model, ("fetch", "write")
        for i, stage in enumerate(self.problem.stages):
            if stage.recurrent:
                yield model.L[i] >= stage.chunks * model.latency_of[i]
            model.L[i].setlb(stage.vector_cycles / model.unit)
            for port, users in loads.ports.items():
                if i in users:
                    load = loads.of(port, users if port.startswith("arrays:") else {i}, moving)
                    if load is not None:
                        yield model.L[i] >= load

    def _latency(self, loads: PlacedLoads) -> Iterator[Expr]:
        """(8) The latency of one chunk."""
        model = self.model
        for i, stage in enumerate(self.problem.stages):
            for var, action in ((model.fetched[i], "fetch"), (model.written[i], "write")):
                moves = [load for port in loads.ports if (load := loads.of(port, {i}, (action,))) is not None]
                yield from at_least(var, moves)
            moved = model.fetched[i] + model.written[i] + stage.vector_cycles / model.unit
            yield model.moved[i] == moved / stage.chunks
            yield model.latency_of[i] == model.moved[i] + self.copies.cycles(i, first_chunk_cycles)
