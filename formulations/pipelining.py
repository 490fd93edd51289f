r"""Start times and initiation interval of a pipeline whose stages hand items on through finite windows (Pyomo).

Sets
    i, j, k stages in topological order;  e = (k, j) streams;  w in W_e windows (items) that stream e may have;  r shared ports
Data (integers)
    p_i cycles of one item, c_i items that stage i works on at once, b_e bytes of an item of stream e, B bytes of buffer,
    u_ir cycles of one item of stage i on port r, N items
Variables
    lambda >= 1 whole  cycles between successive items;  s_i >= 0  start of the first item;  F  finish of the first item
    x_ew in {0,1}  stream e has window w;  q_ew  lambda where x_ew = 1, else 0

    minimise  (N - 1) lambda + F                                                                        [cycles]
    (1)  sum_w x_ew = 1
    (2)  sum_e sum_w b_e w x_ew <= B
    (3)  s_j >= s_k + p_k                   for every e = (k, j)
    (4)  s_j + p_j <= s_k + sum_w w q_ew    for every e: an item holds its place from the start of k to the end of j
    (5)  sum_w q_ew = lambda ;  low x_ew <= q_ew <= high x_ew
    (6)  c_i lambda >= p_i ;  lambda >= sum_i u_ir  for every r
    (7)  F >= s_i + p_i

(5) is the exact product of lambda and x. ``low`` is (6), and ``high`` the longest path of (3), or low if that is more: with
that interval, windows of one item are no restriction, so no optimum has a longer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyomo.core as pyo

from formulations.blocks import (
    Expr,
    add_rows,
    after,
    capacity,
    choices,
    chosen,
    linear,
    makespan,
    one_each,
    require_solution,
)
from formulations.stagetime import ceil_div


@dataclass(frozen=True)
class PipelinedStage:
    """``cycles`` p of one item, ``servers`` c; ``port_cycles`` u on each shared port."""

    cycles: int
    servers: int = 1
    port_cycles: tuple[int, ...] = ()


@dataclass(frozen=True)
class Stream:
    """From stage ``source`` to the later ``target``; ``item_bytes`` b, ``windows`` W ascending."""

    source: int
    target: int
    item_bytes: int
    windows: tuple[int, ...]


@dataclass(frozen=True)
class PipeliningProblem:
    """``items`` N pass all ``stages``; ``buffer_bytes`` B hold all windows together."""

    stages: tuple[PipelinedStage, ...]
    streams: tuple[Stream, ...]
    buffer_bytes: int
    items: int


@dataclass(frozen=True)
class PipeliningPlan:
    """``windows`` of each stream and the ``interval`` between items, in cycles."""

    windows: tuple[int, ...]
    interval: int


def build_pipelining(problem: PipeliningProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if a stream does not lead forward or has no window of an item or more."""
    for stream in problem.streams:
        if not 0 <= stream.source < stream.target < len(problem.stages) or min(stream.windows, default=0) < 1:
            raise ValueError(f"not a stream of this pipeline: {stream}")
    model = pyo.ConcreteModel(name="pipelining")
    options = [stream.windows for stream in problem.streams]
    low, high = interval_limits(problem)
    model.interval = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(low, high))
    model.s = pyo.Var(range(len(problem.stages)), domain=pyo.NonNegativeReals)
    model.F = pyo.Var(domain=pyo.NonNegativeReals)
    model.x = choices(options)
    model.q = pyo.Var(list(model.x), domain=pyo.NonNegativeReals)
    add_rows(model, "one_choice", one_each(model.x, options))
    held = [(float(s.item_bytes * w), model.x[e, w]) for e, s in enumerate(problem.streams) for w in s.windows]
    add_rows(model, "buffer", capacity(held, problem.buffer_bytes, none=model.F))
    add_rows(model, "streams", _streams(model, problem))
    add_rows(model, "product", _product(model, options, low, high))
    ends = (model.s[i] + stage.cycles for i, stage in enumerate(problem.stages))
    add_rows(model, "makespan", makespan(model.F, ends))
    model.objective = pyo.Objective(expr=(problem.items - 1) * model.interval + model.F)
    return model


def read_pipelining(model: pyo.ConcreteModel, problem: PipeliningProblem) -> PipeliningPlan:
    """The plan that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    require_solution(model.s)
    windows = chosen(model.x, [stream.windows for stream in problem.streams])
    return PipeliningPlan(windows, round(model.interval.value))


def interval_limits(problem: PipeliningProblem) -> tuple[int, int]:
    """(6) The least interval, and the greatest that an optimum can have."""
    ports = zip(*(stage.port_cycles for stage in problem.stages), strict=True)
    low = max(1, *(ceil_div(stage.cycles, stage.servers) for stage in problem.stages), *map(sum, ports))
    finish = [0] * len(problem.stages)
    for i, stage in enumerate(problem.stages):
        finish[i] = stage.cycles + max((finish[s.source] for s in problem.streams if s.target == i), default=0)
    return low, max(low, *finish)


def evaluate_pipelining(problem: PipeliningProblem, plan: PipeliningPlan) -> int:
    """Cycles until the last item is finished. ValueError, naming the constraint, if the plan violates one."""
    for e, (stream, window) in enumerate(zip(problem.streams, plan.windows, strict=True)):
        if window not in stream.windows:
            raise ValueError(f"(1) stream {e}: {window} items are not among its windows {stream.windows}")
    held = sum(stream.item_bytes * w for stream, w in zip(problem.streams, plan.windows, strict=True))
    if held > problem.buffer_bytes:
        raise ValueError(f"(2) buffer bytes: {held} used, {problem.buffer_bytes} available")
    low, _ = interval_limits(problem)
    if plan.interval < low:
        raise ValueError(f"(6) interval {plan.interval}: no stage or port allows less than {low}")
    starts = [0] * len(problem.stages)
    for _ in range(len(starts) + 1):  # longest paths; one round more than any path has streams
        before = list(starts)
        for stream, window in zip(problem.streams, plan.windows, strict=True):
            k, j = stream.source, stream.target
            starts[j] = max(starts[j], starts[k] + problem.stages[k].cycles)
            starts[k] = max(starts[k], starts[j] + problem.stages[j].cycles - window * plan.interval)
        if starts == before:
            ends = (s + stage.cycles for s, stage in zip(starts, problem.stages, strict=True))
            return (problem.items - 1) * plan.interval + max(ends)
    raise ValueError(f"(4) interval {plan.interval}: too short for the windows {plan.windows}")


def _streams(model: pyo.ConcreteModel, problem: PipeliningProblem) -> Iterator[Expr]:
    """(3), (4)."""
    for e, stream in enumerate(problem.streams):
        k, j = stream.source, stream.target
        yield from after(model.s[j], model.s[k], [problem.stages[k].cycles])
        held = linear([(float(w), model.q[e, w]) for w in stream.windows])
        yield model.s[j] + problem.stages[j].cycles <= model.s[k] + held


def _product(model: pyo.ConcreteModel, options: list[tuple[int, ...]], low: int, high: int) -> Iterator[Expr]:
    """(5)."""
    for e, windows in enumerate(options):
        yield linear([*((1.0, model.q[e, w]) for w in windows), (-1.0, model.interval)]) == 0
        for w in windows:
            yield model.q[e, w] >= low * model.x[e, w]
            yield model.q[e, w] <= high * model.x[e, w]
