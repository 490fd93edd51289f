"""A mixed integer linear program as arrays, read from a Pyomo model; and the exchange with a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from solvers.errors import SolverFailure
from solvers.result import Feature, Termination

INFINITY = float("inf")


@dataclass(frozen=True)
class LinearProgram:
    """``minimise (maximise) cost x + offset`` subject to ``row_lower <= A x <= row_upper``, ``lower <= x <= upper``.

    ``A`` is stored by rows: entries ``starts[r]`` to ``starts[r + 1]`` of ``columns`` and ``coefficients`` are row r. ``names``
    are the variable names of the Pyomo model, ``row_names`` those of its constraints. ``source`` is the Pyomo model and its
    variables by column, for a backend that reads the model itself.
    """

    maximise: bool
    offset: float
    cost: list[float]
    lower: list[float]
    upper: list[float]
    integer: list[bool]
    names: list[str]
    row_lower: list[float]
    row_upper: list[float]
    row_names: list[str]
    starts: list[int]
    columns: list[int]
    coefficients: list[float]
    source: tuple[Any, list[Any]] | None = field(default=None, compare=False, repr=False)

    def row(self, r: int) -> list[tuple[int, float]]:
        """(column, coefficient) of the terms of row ``r``."""
        span = slice(self.starts[r], self.starts[r + 1])
        return list(zip(self.columns[span], self.coefficients[span], strict=True))

    def without_costs(self) -> LinearProgram:
        """The same constraints with nothing to optimise."""
        return replace(self, cost=[0.0] * len(self.cost), offset=0.0, source=None)

    def with_rows(self, rows: Iterable[int]) -> LinearProgram:
        """The program with only these rows, in this order, and nothing to optimise."""
        kept = list(rows)
        terms = [self.row(r) for r in kept]
        starts = [0]
        for row in terms:
            starts.append(starts[-1] + len(row))
        return replace(
            self.without_costs(),
            row_lower=[self.row_lower[r] for r in kept],
            row_upper=[self.row_upper[r] for r in kept],
            row_names=[self.row_names[r] for r in kept],
            starts=starts,
            columns=[column for row in terms for column, _ in row],
            coefficients=[a for row in terms for _, a in row],
        )

    def with_fixed(self, values: Mapping[int, float]) -> LinearProgram:
        """The linear program of the continuous variables once the columns of ``values`` have these values."""
        lower, upper = list(self.lower), list(self.upper)
        for column, x in values.items():
            lower[column] = upper[column] = x
        return replace(self, lower=lower, upper=upper, integer=[False] * len(self.integer), source=None)

    def objective(self, values: list[float]) -> float:
        """Objective of ``values``."""
        return self.offset + sum(c * x for c, x in zip(self.cost, values, strict=True))

    def violation(self, values: list[float], tolerance: float) -> str | None:
        """Description of a bound, row or integrality that ``values`` violate by more than ``tolerance``, or None.

        A row's violation is measured relative to its largest term.
        """
        for name, x, low, high, whole in zip(self.names, values, self.lower, self.upper, self.integer, strict=True):
            slack = tolerance * max(1.0, abs(x))
            if not low - slack <= x <= high + slack:
                return f"{name} = {x} is outside [{low}, {high}]"
            if whole and abs(x - round(x)) > slack:
                return f"{name} = {x} is not a whole number"
        for r, (name, low, high) in enumerate(zip(self.row_names, self.row_lower, self.row_upper, strict=True)):
            row = self.row(r)
            terms = [a * values[column] for column, a in row]
            total, slack = sum(terms), tolerance * max([1.0, *(abs(a) for _, a in row), *map(abs, terms)])
            if not low - slack <= total <= high + slack:
                return f"{name}: {total} is outside [{low}, {high}]"
        return None


@dataclass(frozen=True)
class Settings:
    """How to solve. ``warm_start`` gives values by column number; ``options`` are the backend's own.

    ``on_incumbent`` is given the objective of every incumbent, in the thread that called the backend.
    """

    time_limit: float | None = None
    gap: float = 0.0
    threads: int = 1
    seed: int = 0
    warm_start: Mapping[int, float] | None = None
    options: Mapping[str, bool | int | float | str] = field(default_factory=dict)
    should_stop: Callable[[], bool] | None = None
    on_incumbent: Callable[[float], None] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a backend hands back. ``values`` (one per column) only if it has an incumbent; ``bound`` only if proven.

    ``prices`` are the dual values (one per row), only of a linear program solved to optimality.
    ``rounded``: the backend worked on rounded numbers, so that its optimum and ``bound`` may differ by more than the gap.
    """

    termination: Termination
    values: list[float] | None
    bound: float | None
    nodes: int = 0
    log: str = ""
    prices: list[float] | None = None
    rounded: bool = False


class Solver(Protocol):
    """A backend: one file that turns a :class:`LinearProgram` into an :class:`Outcome`.

    It reads no value from a solve without an incumbent, prints nothing, starts from nothing an earlier solve left behind,
    refuses unknown options with :class:`~solvers.errors.UnknownOption` and programs that it cannot take with
    :class:`~solvers.errors.Unsuitable`, and on KeyboardInterrupt returns its incumbent with termination ``INTERRUPTED``.
    ``lacks`` is what it ignores; ``reads_model``: it needs ``program.source``.
    """

    lacks: frozenset[Feature]
    reads_model: bool

    def solve(self, program: LinearProgram, settings: Settings) -> Outcome:
        """Solve ``program``."""
        ...


def read_model(model: Any) -> tuple[LinearProgram, list[Any]]:
    """The active linear program of a Pyomo model, and its variables by column.

    SolverFailure if an expression is not linear, the objective is not unique, or a row without variables does not hold.
    """
    from pyomo.core.base import Constraint, Objective, Var, maximize, value
    from pyomo.repn import generate_standard_repn

    objectives = list(model.component_data_objects(Objective, active=True))
    if len(objectives) != 1:
        raise SolverFailure(f"the model has {len(objectives)} active objectives, not one")
    variables = [var for var in model.component_data_objects(Var) if not var.fixed]
    number = {id(var): column for column, var in enumerate(variables)}

    def terms(expression: Any, name: str) -> tuple[dict[int, float], float]:
        repn = generate_standard_repn(expression, quadratic=False)
        if repn.nonlinear_expr is not None:
            raise SolverFailure(f"{name} is not linear")
        row: dict[int, float] = {}
        for coefficient, var in zip(repn.linear_coefs, repn.linear_vars, strict=True):
            column = number.get(id(var))
            if column is None:
                raise SolverFailure(f"{name} uses the variable {var.name}, which is not part of the model")
            row[column] = row.get(column, 0.0) + float(coefficient)
        return row, float(repn.constant)

    cost, offset = terms(objectives[0].expr, objectives[0].name)
    row_lower: list[float] = []
    row_upper: list[float] = []
    row_names: list[str] = []
    starts: list[int] = [0]
    columns: list[int] = []
    coefficients: list[float] = []
    for constraint in model.component_data_objects(Constraint, active=True):
        low, body, high = constraint.to_bounded_expression(evaluate_bounds=True)
        row, constant = terms(body, constraint.name)
        row_lower.append(-INFINITY if low is None else low - constant)
        row_upper.append(INFINITY if high is None else high - constant)
        row_names.append(constraint.name)
        columns.extend(row)
        coefficients.extend(row.values())
        starts.append(len(columns))
    bounds = [(value(var.lb), value(var.ub)) for var in variables]
    program = LinearProgram(
        maximise=objectives[0].sense == maximize,
        offset=offset,
        cost=[cost.get(column, 0.0) for column in range(len(variables))],
        lower=[-INFINITY if low is None else float(low) for low, _ in bounds],
        upper=[INFINITY if high is None else float(high) for _, high in bounds],
        integer=[not var.is_continuous() for var in variables],
        names=[var.name for var in variables],
        row_lower=row_lower,
        row_upper=row_upper,
        row_names=row_names,
        starts=starts,
        columns=columns,
        coefficients=coefficients,
        source=(model, variables),
    )
    return program, variables
