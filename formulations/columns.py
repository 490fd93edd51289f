r"""Segment allocation under the machine model with one binary per joint option of a stage (Pyomo).

An *option* q of stage i is a number of copies d together with a placement of every tensor that the stage fetches or writes. All
that (5) to (8) say about the stage follows from it, and is worked out before, in rational numbers: the program is small in
rows, has no busy cycles or latencies as variables, and its linear relaxation is the tightest of the forms. It grows with the
product of the choices of one stage. Options with more copies than another of the same placements, and no shorter time, are
left out.

Sets and data as in :mod:`formulations.allocation`; Q_i options of stage i, d(q) its copies, o_e(q) its placement of tensor e
Variables
    q in {0,1} for q in Q_i,  z_eo in [0,1];  s_i, f_i, g_i, r_i, T, H_r, Q_r, R as there, also in units of ``model.unit`` cycles

    minimise  T + R                                                                                     [cycles]
    (1)  sum_{q in Q_i} q = 1
    (2)  sum_o z_eo = 1 ;  z_eo = sum_{q in Q_i, o_e(q) = o} q  for every stage i that fetches or writes e
    (3)  sum_i sum_q a_i d(q) q <= A_compute ;  sum_eo arrays_eo z_eo <= A_memory ;  both together <= A
    (4)  sum_eo bytes_eo z_eo <= buffer bytes
    (8)  f_i >= s_i + sum_q t_i(C_i | q) q
         for every dependence k -> j, m over the stages between:
             s_j >= s_k + sum_q t_k(first | q) q + sum_m sum_q lambda_m(q) q
             f_j >= f_k + sum_m sum_q lambda_m(q) q + sum_q t_j(last | q) q
         dynamic operands as there, with w_j = sum_q max(w_j, ceil(W_j d(q) / P)) q
    (9)  as there, with t_j(last) = sum_q t_j(last | q) q
    (10) R >= reload cycles ;  P R >= sum_i sum_q W_i d(q) q

z is whole because q is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import pyomo.core as pyo

from formulations.blocks import Expr, Terms, add_rows, choices, chosen, linear, one_each
from formulations.schedule import PlacedLoads, add_room, add_schedule, declare_schedule
from formulations.segment import Placement, SegmentAllocation, SegmentProblem
from formulations.stages import placements, problem_unit
from formulations.stagetime import (
    Loads,
    StageTiming,
    Traffic,
    check_problem,
    operand_write_cycles,
    reloaded,
    stage_timing,
)

MOST_OPTIONS = 20_000


@dataclass(frozen=True)
class Option:
    """``copies`` of a stage, ``places`` (tensor, placement) of what it fetches and writes, and its times: ``fetch`` cycles of the
    longest fetch."""

    copies: int
    places: tuple[tuple[int, int], ...]
    timing: StageTiming
    fetch: int


def build_segment_columns(problem: SegmentProblem, most_options: int = MOST_OPTIONS) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if that is not well formed, or has more than ``most_options`` options."""
    check_problem(problem)
    options: list[list[Option]] = []
    left = most_options
    for i in range(len(problem.stages)):
        options.append(list(itertools.islice(stage_options(problem, i, most_options), left + 1)))
        left -= len(options[i])
        if left < 0:
            raise ValueError(f"more than {most_options} joint options of copies and placements")
    model = pyo.ConcreteModel(name="segment_columns")
    model.unit = problem_unit(problem)
    model.q = choices([range(len(own)) for own in options])
    model.z = pyo.Var([(e, o) for e, own in enumerate(placements(problem)) for o in own], bounds=(0, 1))
    declare_schedule(model, problem)
    loads, times = PlacedLoads(model, problem), _OptionTimes(model, problem, options)
    model.options = options
    add_rows(model, "one_choice", _one_choice(model, problem, options))
    add_room(model, problem, times.arrays())
    add_schedule(model, problem, times, loads, times.written())
    return model


def read_segment_columns(model: pyo.ConcreteModel, problem: SegmentProblem) -> SegmentAllocation:
    """The choice that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    taken = chosen(model.q, [range(len(own)) for own in model.options])
    copies = tuple(own[n].copies for own, n in zip(model.options, taken, strict=True))
    return SegmentAllocation(copies, chosen(model.z, placements(problem)))


def stage_options(problem: SegmentProblem, i: int, most_options: int = MOST_OPTIONS) -> Iterator[Option]:
    """The joint options of stage i that no other of the same placements makes pointless."""
    stage = problem.stages[i]
    touched = [e for e, places in enumerate(problem.tensors) if _streams(places, i)]
    if math.prod(len(problem.tensors[e]) for e in touched) > most_options:  # each placement has an option at least
        raise ValueError(f"stage {i} alone has more than {most_options} joint options of copies and placements")
    paces = _chunk_counts(problem, i)
    for chosen_places in itertools.product(*(range(len(problem.tensors[e])) for e in touched)):
        traffic = Traffic()
        traffic.add(problem.fixed, None)
        for e, o in zip(touched, chosen_places, strict=True):
            traffic.add(problem.tensors[e][o].uses, e)
        loads = Loads(problem, traffic)
        best: list[Fraction] | None = None
        for copies in stage.copies:
            timing = stage_timing(stage, copies, loads, i)
            times = [Fraction(timing.first), timing.latency, *(timing.pace(n) for n in paces)]
            if best is None or any(now < before for now, before in zip(times, best, strict=True)):
                best = times
                yield Option(copies, tuple(zip(touched, chosen_places, strict=True)), timing, loads.longest(i, "fetch"))


def _streams(places: tuple[Placement, ...], i: int) -> bool:
    return any(use.stage == i and use.action != "operand" for place in places for use in place.uses)


def _chunk_counts(problem: SegmentProblem, i: int) -> list[int]:
    """The n for which some row of (8) or (9) charges ``t_i(n)``."""
    starts = {dep.first for dep in problem.dependences if dep.before == i}
    ends = {dep.last for dep in problem.dependences if dep.after == i}
    return sorted(starts | ends | {problem.stages[i].chunks})


class _OptionTimes:
    """A form of :class:`formulations.schedule.StageTimes`."""

    def __init__(self, model: pyo.ConcreteModel, problem: SegmentProblem, options: list[list[Option]]) -> None:
        self.model, self.problem, self.options = model, problem, options

    def _sum(self, i: int, values: list[Fraction]) -> Expr:
        return linear([(float(v) / self.model.unit, self.model.q[i, n]) for n, v in enumerate(values) if v])

    def latency(self, i: int) -> Expr:
        return self._sum(i, [option.timing.latency for option in self.options[i]])

    def pace(self, i: int, chunks: int) -> list[Expr]:
        return [self._sum(i, [option.timing.pace(chunks) for option in self.options[i]])]

    def writing(self, j: int) -> Expr:
        stage, drivers = self.problem.stages[j], self.problem.write_drivers
        return self._sum(j, [Fraction(operand_write_cycles(stage, o.copies, drivers)) for o in self.options[j]])

    def first_vector(self) -> Expr:
        chunks = self.problem.stages[0].chunks
        return self._sum(0, [Fraction(option.fetch, chunks) + option.timing.first for option in self.options[0]])

    def arrays(self) -> Terms:
        """(3)."""
        stages = enumerate(self.problem.stages)
        return [
            (float(stage.arrays * option.copies), self.model.q[i, n])
            for i, stage in stages
            if stage.arrays
            for n, option in enumerate(self.options[i])
        ]

    def written(self) -> Terms:
        """(10)."""
        stages = self.problem.stages
        return [
            (stages[i].copy_write_cycles * option.copies / self.model.unit, self.model.q[i, n])
            for i in reloaded(self.problem)
            for n, option in enumerate(self.options[i])
        ]


def _one_choice(model: pyo.ConcreteModel, problem: SegmentProblem, options: list[list[Option]]) -> Iterator[Expr]:
    """(1), (2)."""
    yield from one_each(model.q, [range(len(own)) for own in options])
    yield from one_each(model.z, placements(problem))
    for i, own in enumerate(options):
        agreeing: dict[tuple[int, int], list[tuple[float, Expr]]] = {}
        for n, option in enumerate(own):
            for place in option.places:
                agreeing.setdefault(place, []).append((1.0, model.q[i, n]))
        for place, terms in agreeing.items():
            yield linear([*terms, (-1.0, model.z[place])]) == 0
