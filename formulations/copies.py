"""How many copies each stage has, as variables of a program: one binary per option, or whole numbers in pieces.

Either class turns a function of the copies of a stage (cycles) into a linear expression. Equation numbers are those of
:mod:`formulations.allocation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import pyomo.core as pyo

from formulations.blocks import Expr, Terms, at_least, choices, envelope, linear, one_each, require_solution
from formulations.segment import SegmentProblem, StageData
from formulations.stagetime import reloaded

Cycles = Callable[[StageData, int], int]
Piece = tuple[int, ...]  # neighbouring candidates of one stage, ascending


class Copies(Protocol):
    """The copies of every stage."""

    def cycles(self, i: int, function: Cycles) -> Expr:
        """``function`` of the copies of stage i, or a variable no less than (an underestimate of) it; in model time units."""
        ...

    def rows(self) -> Iterator[Expr]:
        """(1)."""
        ...

    def arrays(self) -> Terms:
        """(3) Compute arrays of all stages."""
        ...

    def written(self) -> Terms:
        """(10) Cycles of one write driver that the reload takes, in model time units times drivers."""
        ...


class OptionCopies:
    """``y[i, d]`` in {0, 1}: stage i has d copies. Exact whatever the function."""

    def __init__(self, model: pyo.ConcreteModel, problem: SegmentProblem) -> None:
        self.model, self.problem = model, problem
        self.options = [stage.copies for stage in problem.stages]
        model.y = choices(self.options)

    def cycles(self, i: int, function: Cycles) -> Expr:
        stage = self.problem.stages[i]
        return linear([(function(stage, d) / self.model.unit, self.model.y[i, d]) for d in stage.copies])

    def rows(self) -> Iterator[Expr]:
        yield from one_each(self.model.y, self.options)

    def arrays(self) -> Terms:
        stages, y = self.problem.stages, self.model.y
        return [(float(s.arrays * d), y[i, d]) for i, s in enumerate(stages) for d in s.copies if s.arrays]

    def written(self) -> Terms:
        stages, y = self.problem.stages, self.model.y
        copies = [(i, d) for i in reloaded(self.problem) for d in stages[i].copies]
        return [(stages[i].copy_write_cycles * d / self.model.unit, y[i, d]) for i, d in copies]


class PiecewiseCopies:
    """``u[i, p]`` in {0, 1}: the copies of stage i lie in its piece p; ``d[i, p]`` whole: how many, 0 in all other pieces.

    A function of the copies is replaced by its lower convex envelope over the candidates of each piece, disaggregated: exact at
    the ends of every piece, and everywhere else too where the candidates lie in convex position.
    """

    def __init__(self, model: pyo.ConcreteModel, problem: SegmentProblem, pieces: Sequence[Sequence[Piece]]) -> None:
        self.model, self.problem, self.pieces = model, problem, pieces
        self.options = [range(len(own)) for own in pieces]
        model.u = choices(self.options)
        model.d = pyo.Var(list(model.u), domain=pyo.NonNegativeIntegers)
        for (i, p), copies in model.d.items():
            copies.setub(pieces[i][p][-1])
        model.estimates = pyo.VarList(domain=pyo.NonNegativeReals)
        model.envelope = pyo.ConstraintList()
        self._estimates: dict[tuple[int, Cycles], Expr] = {}

    def cycles(self, i: int, function: Cycles) -> Expr:
        known = self._estimates.get((i, function))
        if known is None:
            known = self._estimates[i, function] = self._estimate(i, function)
        return known

    def _estimate(self, i: int, function: Cycles) -> Expr:
        """``sum_p v_p`` with ``v_p >= slope d_ip + intercept u_ip`` for every line of the envelope over piece p."""
        stage, unit, total = self.problem.stages[i], self.model.unit, []
        for p, piece in enumerate(self.pieces[i]):
            u, d = self.model.u[i, p], self.model.d[i, p]
            lines = envelope({copies: function(stage, copies) / unit for copies in piece})
            if len(lines) == 1:
                total += [(slope, var) for slope, var in ((lines[0][0], d), (lines[0][1], u)) if slope]
            else:
                estimate = self.model.estimates.add()
                for row in at_least(estimate, [linear([(slope, d), (height, u)]) for slope, height in lines]):
                    self.model.envelope.add(row)
                total.append((1.0, estimate))
        return linear(total)

    def rows(self) -> Iterator[Expr]:
        yield from one_each(self.model.u, self.options)
        for (i, p), u in self.model.u.items():
            piece = self.pieces[i][p]
            yield linear([(1.0, self.model.d[i, p]), (-float(piece[0]), u)]) >= 0
            yield linear([(1.0, self.model.d[i, p]), (-float(piece[-1]), u)]) <= 0

    def arrays(self) -> Terms:
        stages = self.problem.stages
        return [(float(stages[i].arrays), d) for (i, _), d in self.model.d.items() if stages[i].arrays]

    def written(self) -> Terms:
        stages, rewritten = self.problem.stages, set(reloaded(self.problem))
        return [
            (stages[i].copy_write_cycles / self.model.unit, d) for (i, _), d in self.model.d.items() if i in rewritten
        ]


def whole_copies(model: pyo.ConcreteModel) -> tuple[int, ...]:
    """The copies of each stage by the values of a model with :class:`PiecewiseCopies`, candidates or not.

    ValueError if it has no values (nothing was solved).
    """
    require_solution(model.d)
    whole: dict[int, int] = {}
    for (i, _), copies in model.d.items():
        whole[i] = whole.get(i, 0) + round(copies.value)
    return tuple(whole.values())
