"""Rows of the segment problem that say when stages run, for every form in which its choices may be written.

Equation numbers are those of :mod:`formulations.allocation`. What a form has to offer is :class:`StageTimes`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyomo.core as pyo

from formulations.blocks import Expr, Terms, add_rows, after, at_least, capacity, linear, makespan, shared
from formulations.pipeline import pipeline, saturation
from formulations.segment import SegmentProblem
from formulations.stagetime import Traffic


class StageTimes(Protocol):
    """Times of the stages as linear expressions of a form's variables, in model time units."""

    def latency(self, i: int) -> Expr:
        """(8) ``lambda_i``."""
        ...

    def pace(self, i: int, chunks: int) -> list[Expr]:
        """(8) The terms of ``t_i(chunks)``, the greatest of which it is."""
        ...

    def writing(self, j: int) -> Expr:
        """(8) ``w_j`` of a dynamic operand."""
        ...

    def first_vector(self) -> Expr:
        """(9) ``fetch_1/C_1 + c_1``: when the vector unit may begin."""
        ...


class PlacedLoads:
    """(6) Traffic as linear expressions of the placements ``z[e, o]``, in model time units: per stage, action and port."""

    def __init__(self, model: pyo.ConcreteModel, problem: SegmentProblem) -> None:
        self.ports: dict[str, set[int]] = {"main": set(), "buffer": set()}
        self._constant: dict[tuple[int, str, str], float] = {}
        self._terms: dict[tuple[int, str, str], list[tuple[float, Expr]]] = {}
        fixed = Traffic()
        fixed.add(problem.fixed, None)
        for key, cycles in fixed.cycles.items():
            self._constant[key] = cycles / model.unit
            self._note(key)
        for e, places in enumerate(problem.tensors):
            for o, place in enumerate(places):
                chosen = Traffic()
                chosen.add(place.uses, e)
                for key, cycles in chosen.cycles.items():
                    self._terms.setdefault(key, []).append((cycles / model.unit, model.z[e, o]))
                    self._note(key)

    def _note(self, key: tuple[int, str, str]) -> None:
        self.ports.setdefault(key[2], set())
        if key[1] != "operand":
            self.ports[key[2]].add(key[0])

    def of(self, port: str, stages: set[int], actions: tuple[str, ...]) -> Expr | None:
        """Cycles on ``port`` of ``stages`` together for ``actions``; None if there is no such traffic."""
        keys = [(i, action, port) for i in sorted(stages) for action in actions]
        terms = [term for key in keys for term in self._terms.get(key, [])]
        constant = sum(self._constant.get(key, 0.0) for key in keys)
        return linear(terms, constant) if terms or constant else None


def add_room(model: pyo.ConcreteModel, problem: SegmentProblem, compute: Terms) -> None:
    """(3), (4) with ``compute`` arrays of all stages."""
    places = [(place, model.z[e, o]) for e, all_of in enumerate(problem.tensors) for o, place in enumerate(all_of)]
    memory = [(float(place.arrays), z) for place, z in places if place.arrays]
    buffer = [(place.buffer_bytes / max(1, problem.buffer_bytes), z) for place, z in places if place.buffer_bytes]

    def rows() -> Iterator[Expr]:
        for terms, limit in (
            (list(compute), problem.compute_arrays),
            (memory, problem.memory_arrays),
            ([*compute, *memory], problem.total_arrays),
            (buffer, min(1, problem.buffer_bytes)),
        ):
            yield from capacity(terms, limit, none=model.T)

    add_rows(model, "capacity", rows())


def declare_schedule(model: pyo.ConcreteModel, problem: SegmentProblem) -> None:
    """The variables of the rows of this module: s, f, g, r by stage, T, R, and H, Q by resource."""
    for name in ("s", "f", "g", "r"):
        model.add_component(name, pyo.Var(list(range(len(problem.stages))), domain=pyo.NonNegativeReals))
    model.T = pyo.Var(domain=pyo.NonNegativeReals)
    model.R = pyo.Var(domain=pyo.NonNegativeReals)
    for name in ("H", "Q"):
        model.add_component(name, pyo.Var(["vector", "main", "buffer"], domain=pyo.NonNegativeReals))


def add_schedule(
    model: pyo.ConcreteModel, problem: SegmentProblem, times: StageTimes, loads: PlacedLoads, written: Terms
) -> None:
    """(8) from the start rows on, (9), (10) with the ``written`` cycles of one driver, and the objective."""
    add_rows(model, "precedence", _precedence(model, problem, times))
    add_rows(model, "operands", _operands(model, problem, times, loads))
    add_rows(model, "makespan", makespan(model.T, model.f.values()))
    add_rows(model, "arrays", _arrays(model, problem, loads))
    add_rows(model, "resources", _resources(model, problem, times, loads))
    add_rows(model, "reload", _reload(model, problem, written))
    model.objective = pyo.Objective(expr=model.unit * (model.T + model.R), sense=pyo.minimize)


def _precedence(model: pyo.ConcreteModel, problem: SegmentProblem, times: StageTimes) -> Iterator[Expr]:
    """(8) The pipeline, without the rows that others imply."""
    s, f = model.s, model.f
    for i, stage in enumerate(problem.stages):
        yield from after(f[i], s[i], times.pace(i, stage.chunks))
    edges = pipeline(problem)
    for dep in edges.starts:
        via = pyo.quicksum([times.latency(m) for m in dep.between])
        yield from after(s[dep.after], s[dep.before], (t + via for t in times.pace(dep.before, dep.first)))
    for dep in edges.finishes:
        via = pyo.quicksum([times.latency(m) for m in dep.between])
        yield from after(f[dep.after], f[dep.before], (t + via for t in times.pace(dep.after, dep.last)))


def _operands(
    model: pyo.ConcreteModel, problem: SegmentProblem, times: StageTimes, loads: PlacedLoads
) -> Iterator[Expr]:
    """(8) Dynamic operands that arise in the segment."""
    written = pipeline(problem).operands
    for dep in written:
        yield model.r[dep.after] >= model.f[dep.before] + model.g[dep.after]
    previous = None
    for j in sorted({dep.after for dep in written}):
        reading = [load for port in loads.ports if (load := loads.of(port, {j}, ("operand",))) is not None]
        yield from at_least(model.g[j], reading)
        writing = times.writing(j)
        yield model.g[j] >= writing
        yield model.s[j] >= model.r[j]
        if previous is not None:
            yield model.r[j] >= model.r[previous] + writing
        previous = j


def _arrays(model: pyo.ConcreteModel, problem: SegmentProblem, loads: PlacedLoads) -> Iterator[Expr]:
    """(9) The arrays of a tensor carry all of its traffic within the makespan."""
    everyone = set(range(len(problem.stages)))
    for port in loads.ports:
        if port.startswith("arrays:"):
            load = loads.of(port, everyone, ("fetch", "write", "operand"))
            if load is not None:
                yield load <= model.T


def _resources(
    model: pyo.ConcreteModel, problem: SegmentProblem, times: StageTimes, loads: PlacedLoads
) -> Iterator[Expr]:
    """(9) The work on what all stages share, and its idle time while a saturated pipeline fills and drains."""
    stages, everyone = problem.stages, range(len(problem.stages))
    ideal = saturation(problem)
    vector = [stage.vector_cycles / model.unit for stage in stages]
    none: list[Expr] = [0.0 for _ in stages]

    def of(port: str, action: tuple[str, ...]) -> list[Expr]:
        return [0.0 if (load := loads.of(port, {i}, action)) is None else load for i in everyone]

    for resource, work, operand in (
        ("vector", vector, none),
        ("main", of("main", ("fetch", "write")), of("main", ("operand",))),
        ("buffer", of("buffer", ("fetch", "write")), of("buffer", ("operand",))),
    ):
        if all(isinstance(load, float) and not load for load in (*work, *operand)):
            continue
        fill, drain = model.H[resource], model.Q[resource]
        yield shared([*work, *operand, fill, drain], model.T)
        for j in everyone[1:]:
            done = [float(share) * work[i] for i, share in enumerate(ideal.before[j])]
            yield model.s[j] - pyo.quicksum([*done, *operand[: j + 1]]) <= fill
        for dep, share in ideal.ends:
            for time in times.pace(dep.after, dep.last):
                yield time - float(share) * work[dep.after] <= drain
    if any(vector):
        yield times.first_vector() <= model.H["vector"]


def _reload(model: pyo.ConcreteModel, problem: SegmentProblem, written: Terms) -> Iterator[Expr]:
    """(10)."""
    yield problem.reload_cycles / model.unit <= model.R
    yield linear([(cycles / problem.write_drivers, count) for cycles, count in written]) <= model.R
