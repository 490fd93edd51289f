r"""Segment allocation under the machine model, as a mixed integer linear program (Pyomo).

Sets
    i, j, k   stages (operators) in topological order;  d in copies_i  candidate numbers of copies
    e         tensors with a choice;  o  placements of e;  p  ports: main memory, buffer, the arrays of each tensor
Data (integers; cycles over all chunks)
    a_i arrays of one copy, M_i rows, tau_i cycles of one MVM, C_i chunks, V_i vector cycles, w_i write cycles of
    the longest tile, W_i of all tiles of a copy, P arrays written at once, A arrays,
    use_{i,eo,p,action} traffic (action: fetch, write, operand)
Variables
    y_id, z_eo in {0,1};  L_i busy cycles but for the MVMs, lambda_i latency of one chunk, s_i start, f_i finish,
    g_i writing and r_i end of writing of an operand,
    T makespan, H_r, Q_r idle time of a saturated resource r (vector unit, main memory, buffer) at the start and end, R reload

    minimise  T + R                                                                                     [cycles]
    (1)  sum_d y_id = 1
    (2)  sum_o z_eo = 1
    (3)  sum_id a_i d y_id <= A_compute ;  sum_eo arrays_eo z_eo <= A_memory ;  both together <= A
    (4)  sum_eo bytes_eo z_eo <= buffer bytes
    (5)  m_i = sum_d ceil(M_i / d) tau_i y_id            (recurrent: C_i times the MVMs of a chunk, as in lambda)
    (6)  load_{i,p} = fixed_{i,p} + sum_eo use_{i,eo,p} z_eo     without operand reads; the arrays of e carry all users' load
    (7)  L_i >= V_i ;  L_i >= load_{i,p} for p main memory and buffer ;  L_i >= sum_k load_{k,arrays of e}  for each user i of e ;
         L_i >= C_i lambda_i  for a recurrent stage
    (8)  lambda_i = v_i + sum_d ceil(ceil(M_i / C_i) / d) tau_i y_id ,  v_i = (fetch_i + V_i + write_i) / C_i ,
             fetch_i >= fetch_{i,p} ,  write_i >= write_{i,p}  for every port p
         n chunks of i take  t_i(n) = max( lambda_i + (n - 1)/C_i L_i ,  v_i + n/C_i m_i )  (one row for each term)
         f_i >= s_i + t_i(C_i)
         for every dependence k -> j, m over the stages between:
             s_j >= s_k + t_k(first) + sum_m lambda_m
             f_j >= f_k + sum_m lambda_m + t_j(last)
         for every dynamic operand k -> j instead, w_j(d) = max(w_j, ceil(W_j d / P)) the time on the write drivers, which take
         one operand after another (i the one before j):
             s_j >= r_j ,  r_j >= f_k + g_j ,  r_j >= r_i + sum_d w_j(d) y_jd ,  g_j >= operand_{j,p} ,  g_j >= sum_d w_j(d) y_jd
    (9)  T >= f_i ;  T >= sum of all traffic of p, for the arrays p of each tensor ;  T >= work_r + H_r + Q_r  for every
         resource r with work: it idles while the pipeline fills, H_r >= s_j - done_jr  for every j > 1 , and for the vector unit
         H >= fetch_1/C_1 + c_1 ; and while the last stages drain, Q_r >= t_j(last) - rest_jr  for their direct dependences.
         work_r is all of the resource's work, operand reads included; done_jr what must precede the start of j, rest_jr what is
         left of j's when its producer has finished; c is the sum over d in lambda.
    (10) i over the stages with weights to reload:
         R >= reload cycles (reading the weights and writing one copy, a constant) ;  P R >= sum_id W_i d y_id

Improves on equations (6) to (10) of CMSwitch (arXiv 2502.17006): copies are whole, every port is priced, the pipeline fills,
memory arrays hold data. Times are in units of ``model.unit`` cycles inside the model, to keep coefficients within 1 .. 1e6;
the objective is in cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr.numeric_expr import LinearExpression

from formulations.pipeline import pipeline, saturation
from formulations.segment import SegmentAllocation, SegmentProblem
from formulations.stagetime import (
    Traffic,
    check_problem,
    first_chunk_cycles,
    mvm_cycles,
    operand_write_cycles,
    reloaded,
)

Expr = Any  # a Pyomo expression or relation: Pyomo has no static types
LARGEST_TIME = 1e5  # of the least makespan in model units
TIME_MARGIN = 1e-6  # by how much floating-point sums of the rows may exceed the exact cost
STAGE_TIMES = ("L", "latency_of", "moved", "fetched", "written", "s", "f", "g", "r")
IDLE_TIMES = ("H", "Q")


def build_segment_allocation(problem: SegmentProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if the problem is not well formed.

    ``model.y[i, d]`` and ``model.z[e, o]`` are the choices; :func:`read_segment_allocation` reads them back.
    """
    check_problem(problem)
    model = pyo.ConcreteModel(name="segment_allocation")
    model.unit = _time_unit(problem)
    _variables(model, problem)
    loads = _Loads(model, problem)
    for name, rows in (
        ("one_choice", _one_choice(model, problem)),
        ("capacity", _capacity(model, problem)),
        ("busy", _busy(model, problem, loads)),
        ("latency", _latency(model, problem, loads)),
        ("precedence", _precedence(model, problem)),
        ("operands", _operands(model, problem, loads)),
        ("makespan", _makespan(model)),
        ("arrays", _arrays(model, problem, loads)),
        ("resources", _resources(model, problem, loads)),
        ("reload", _reload(model, problem)),
    ):
        constraints = pyo.ConstraintList()
        model.add_component(name, constraints)
        for row in rows:
            constraints.add(row)
    model.objective = pyo.Objective(expr=model.unit * (model.T + model.R), sense=pyo.minimize)
    return model


def relax_segment_allocation(problem: SegmentProblem) -> pyo.ConcreteModel:
    """The program of ``problem`` without integrality: a linear program whose optimum bounds it from below, usually closely."""
    model = build_segment_allocation(problem)
    for choice in (*model.y.values(), *model.z.values()):
        choice.domain = pyo.UnitInterval
    return model


def read_segment_allocation(model: pyo.ConcreteModel, problem: SegmentProblem) -> SegmentAllocation:
    """The choice that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    if any(var.value is None for var in model.y.values()):
        raise ValueError("the model holds no solution")

    def chosen(choice: Any, number: int, options: Iterable[int]) -> int:
        return max(options, key=lambda option: float(choice[number, option].value))

    return SegmentAllocation(
        copies=tuple(chosen(model.y, i, stage.copies) for i, stage in enumerate(problem.stages)),
        placements=tuple(chosen(model.z, e, range(len(places))) for e, places in enumerate(problem.tensors)),
    )


def allocation_start(problem: SegmentProblem, allocation: SegmentAllocation) -> dict[str, float]:
    """Values of the choices of ``allocation`` by variable name: a warm start."""
    start = {f"y[{i},{d}]": float(d == allocation.copies[i]) for i, s in enumerate(problem.stages) for d in s.copies}
    chosen = enumerate(allocation.placements)
    return start | {f"z[{e},{o}]": float(o == best) for e, best in chosen for o in range(len(problem.tensors[e]))}


def bound_times(model: pyo.ConcreteModel, cycles: float) -> None:
    """Bound every time of the program from above, for a solver that needs finite ranges.

    ``cycles`` is what some allocation costs. The optimum stays: with each variable as small as its rows allow, none of them
    exceeds T or R, and neither of these the objective.
    """
    longest = cycles * (1 + TIME_MARGIN) / model.unit
    for name in (*STAGE_TIMES, "T", "R", *IDLE_TIMES):
        model.component(name).setub(longest)


def _time_unit(problem: SegmentProblem) -> float:
    """A power of two such that the slowest stage at most copies, or the reload, is at most LARGEST_TIME units."""
    least = max(
        problem.reload_cycles,
        *(max(mvm_cycles(stage, stage.copies[-1]), stage.vector_cycles) for stage in problem.stages),
    )
    unit = 1.0
    while least > LARGEST_TIME * unit:
        unit *= 2
    return unit


def _variables(model: pyo.ConcreteModel, problem: SegmentProblem) -> None:
    stages = range(len(problem.stages))
    model.y = pyo.Var([(i, d) for i in stages for d in problem.stages[i].copies], domain=pyo.Binary)
    model.z = pyo.Var(
        [(e, o) for e, places in enumerate(problem.tensors) for o in range(len(places))], domain=pyo.Binary
    )
    for name in STAGE_TIMES:
        model.add_component(name, pyo.Var(list(stages), domain=pyo.NonNegativeReals))
    model.T = pyo.Var(domain=pyo.NonNegativeReals)
    model.R = pyo.Var(domain=pyo.NonNegativeReals)
    for name in IDLE_TIMES:
        model.add_component(name, pyo.Var(["vector", "main", "buffer"], domain=pyo.NonNegativeReals))


class _Loads:
    """(6) Traffic of the program as linear expressions in model time units: per stage, action and port."""

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
        return _linear(terms, constant) if terms or constant else None


def _linear(terms: list[tuple[float, Expr]], constant: float = 0.0) -> Expr:
    return LinearExpression(constant=constant, linear_coefs=[c for c, _ in terms], linear_vars=[v for _, v in terms])


def _by_copies(model: pyo.ConcreteModel, problem: SegmentProblem, i: int, cycles: Any) -> Expr:
    """``sum_d cycles(stage, d) y_id`` in model time units."""
    stage = problem.stages[i]
    return _linear([(cycles(stage, d) / model.unit, model.y[i, d]) for d in stage.copies])


def _one_choice(model: pyo.ConcreteModel, problem: SegmentProblem) -> Iterator[Expr]:
    """(1) and (2)."""
    for i, stage in enumerate(problem.stages):
        yield _linear([(1.0, model.y[i, d]) for d in stage.copies]) == 1
    for e, places in enumerate(problem.tensors):
        yield _linear([(1.0, model.z[e, o]) for o in range(len(places))]) == 1


def _capacity(model: pyo.ConcreteModel, problem: SegmentProblem) -> Iterator[Expr]:
    """(3) arrays in each mode and together; (4) the share of the buffer in use."""
    compute = [
        (float(stage.arrays * d), model.y[i, d])
        for i, stage in enumerate(problem.stages)
        for d in stage.copies
        if stage.arrays
    ]
    places = [(place, model.z[e, o]) for e, all_of in enumerate(problem.tensors) for o, place in enumerate(all_of)]
    memory = [(float(place.arrays), z) for place, z in places if place.arrays]
    buffer = [(place.buffer_bytes / max(1, problem.buffer_bytes), z) for place, z in places if place.buffer_bytes]
    nothing = [(1.0, model.T)]  # not negative: stands for no room taken, which a negative limit excludes too
    for terms, limit in (
        (compute, problem.compute_arrays),
        (memory, problem.memory_arrays),
        (compute + memory, problem.total_arrays),
        (buffer, min(1, problem.buffer_bytes)),
    ):
        if terms or limit < 0:
            yield _linear(terms or nothing) <= limit


def _busy(model: pyo.ConcreteModel, problem: SegmentProblem, loads: _Loads) -> Iterator[Expr]:
    """(5), (7)."""
    moving = ("fetch", "write")
    for i, stage in enumerate(problem.stages):
        if stage.recurrent:
            yield model.L[i] >= stage.chunks * model.latency_of[i]
        model.L[i].setlb(stage.vector_cycles / model.unit)
        for port, users in loads.ports.items():
            if (
                i in users
                and (load := loads.of(port, users if port.startswith("arrays:") else {i}, moving)) is not None
            ):
                yield model.L[i] >= load


def _latency(model: pyo.ConcreteModel, problem: SegmentProblem, loads: _Loads) -> Iterator[Expr]:
    """(8) first part: the latency of one chunk."""
    for i, stage in enumerate(problem.stages):
        for var, action in ((model.fetched[i], "fetch"), (model.written[i], "write")):
            for port in loads.ports:
                if (load := loads.of(port, {i}, (action,))) is not None:
                    yield var >= load
        moved = model.fetched[i] + model.written[i] + stage.vector_cycles / model.unit
        yield model.moved[i] == moved / stage.chunks
        yield model.latency_of[i] == model.moved[i] + _by_copies(model, problem, i, first_chunk_cycles)


def _pace(model: pyo.ConcreteModel, problem: SegmentProblem, i: int, chunks: int) -> list[Expr]:
    """(8) The terms of ``t_i(chunks)``, the greatest of which it is."""
    stage = problem.stages[i]
    terms = [model.latency_of[i] + (chunks - 1) / stage.chunks * model.L[i]]
    if stage.arrays and chunks > 1:  # for one chunk the first term is the greater
        terms.append(model.moved[i] + chunks / stage.chunks * _by_copies(model, problem, i, mvm_cycles))
    return terms


def _precedence(model: pyo.ConcreteModel, problem: SegmentProblem) -> Iterator[Expr]:
    """(8) second part: the pipeline, without the rows that others imply."""
    s, f = model.s, model.f
    for i, stage in enumerate(problem.stages):
        for time in _pace(model, problem, i, stage.chunks):
            yield f[i] >= s[i] + time
    edges = pipeline(problem)
    for dep in edges.starts:
        via = _linear([(1.0, model.latency_of[m]) for m in dep.between])
        for time in _pace(model, problem, dep.before, dep.first):
            yield s[dep.after] >= s[dep.before] + time + via
    for dep in edges.finishes:
        via = _linear([(1.0, model.latency_of[m]) for m in dep.between])
        for time in _pace(model, problem, dep.after, dep.last):
            yield f[dep.after] >= f[dep.before] + time + via


def _operands(model: pyo.ConcreteModel, problem: SegmentProblem, loads: _Loads) -> Iterator[Expr]:
    """(8) third part: dynamic operands that arise in the segment."""
    written = pipeline(problem).operands
    for dep in written:
        yield model.r[dep.after] >= model.f[dep.before] + model.g[dep.after]
    previous = None
    for j in sorted({dep.after for dep in written}):
        for port in loads.ports:
            if (load := loads.of(port, {j}, ("operand",))) is not None:
                yield model.g[j] >= load
        writing = _by_copies(model, problem, j, lambda stage, d: operand_write_cycles(stage, d, problem.write_drivers))
        yield model.g[j] >= writing
        yield model.s[j] >= model.r[j]
        if previous is not None:
            yield model.r[j] >= model.r[previous] + writing
        previous = j


def _makespan(model: pyo.ConcreteModel) -> Iterator[Expr]:
    """(9) first part."""
    for finish in model.f.values():
        yield finish <= model.T


def _arrays(model: pyo.ConcreteModel, problem: SegmentProblem, loads: _Loads) -> Iterator[Expr]:
    """(9) second part: the arrays of a tensor carry all of its traffic within the makespan."""
    everyone = set(range(len(problem.stages)))
    for port in loads.ports:
        if port.startswith("arrays:"):
            load = loads.of(port, everyone, ("fetch", "write", "operand"))
            if load is not None:
                yield load <= model.T


def _resources(model: pyo.ConcreteModel, problem: SegmentProblem, loads: _Loads) -> Iterator[Expr]:
    """(9) third part: the work on what all stages share, and its idle time while a saturated pipeline fills and drains."""
    stages, unit, everyone = problem.stages, model.unit, range(len(problem.stages))
    ideal = saturation(problem)
    vector = [stage.vector_cycles / unit for stage in stages]
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
        yield pyo.quicksum([*work, *operand]) + fill + drain <= model.T
        for j in everyone[1:]:
            done = [float(share) * work[i] for i, share in enumerate(ideal.before[j])]
            yield model.s[j] - pyo.quicksum([*done, *operand[: j + 1]]) <= fill
        for dep, share in ideal.ends:
            for time in _pace(model, problem, dep.after, dep.last):
                yield time - float(share) * work[dep.after] <= drain
    if any(vector):
        first = _by_copies(model, problem, 0, first_chunk_cycles)
        yield model.fetched[0] / stages[0].chunks + first <= model.H["vector"]


def _reload(model: pyo.ConcreteModel, problem: SegmentProblem) -> Iterator[Expr]:
    """(10)."""
    stages, unit, ports = problem.stages, model.unit, problem.write_drivers
    yield problem.reload_cycles / unit <= model.R
    copies = [(i, d) for i in reloaded(problem) for d in stages[i].copies]
    yield _linear([(stages[i].copy_write_cycles * d / (ports * unit), model.y[i, d]) for i, d in copies]) <= model.R
