"""What the programs of this package are built from: a choice of one option, capacity, precedence, makespan, a shared resource.

Every function returns or yields linear Pyomo relations; :func:`add_rows` puts them into a model. Coefficients are floats that
the caller has scaled (:func:`time_unit`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyomo.core as pyo
from pyomo.core.expr.numeric_expr import LinearExpression

Expr = Any  # a Pyomo expression or relation: Pyomo has no static types
Terms = Sequence[tuple[float, Expr]]
LARGEST_TIME = 1e5  # of a program's least times, in model units


def linear(terms: Terms, constant: float = 0.0) -> Expr:
    """``sum coefficient variable + constant``, built without intermediate expressions."""
    return LinearExpression(constant=constant, linear_coefs=[c for c, _ in terms], linear_vars=[v for _, v in terms])


def add_rows(model: pyo.ConcreteModel, name: str, rows: Iterable[Expr]) -> None:
    """Add ``rows`` to ``model`` as the list of constraints ``name``. ValueError for a constant row that does not hold."""
    constraints = pyo.ConstraintList()
    model.add_component(name, constraints)
    for row in rows:
        if row is False:
            raise ValueError(f"a row of {name} has no variables and does not hold")
        if row is not True:
            constraints.add(row)


def time_unit(least_cycles: float) -> float:
    """A power of two of cycles of which ``least_cycles`` are at most :data:`LARGEST_TIME`: the unit of time inside a model."""
    unit = 1.0
    while least_cycles > LARGEST_TIME * unit:
        unit *= 2
    return unit


# -- choice ----------------------------------------------------------------------------------------------------------------


def choices(options: Sequence[Iterable[Hashable]]) -> pyo.Var:
    """Binaries ``x[n, o]``: choice n takes option o of ``options[n]``."""
    return pyo.Var([(n, o) for n, own in enumerate(options) for o in own], domain=pyo.Binary)


def one_each(choice: Any, options: Sequence[Iterable[Hashable]]) -> Iterator[Expr]:
    """``sum_o x_no = 1`` for every choice n."""
    for n, own in enumerate(options):
        yield linear([(1.0, choice[n, o]) for o in own]) == 1


def chosen(choice: Any, options: Sequence[Iterable[Hashable]]) -> tuple[Any, ...]:
    """The option that the values of ``choice`` take, for every choice. ValueError if the model has not been solved."""
    require_solution(choice)
    return tuple(max(own, key=lambda o: float(choice[n, o].value)) for n, own in enumerate(options))


def require_solution(variables: Any) -> None:
    """ValueError if an indexed variable has no values: nothing was solved, or nothing was found."""
    if not has_solution(variables):
        raise ValueError("the model holds no solution")


def has_solution(variables: Any) -> bool:
    """Whether an indexed variable has values."""
    return all(variable.value is not None for variable in variables.values())


def start_at(name: str, options: Sequence[Iterable[Hashable]], taken: Sequence[Hashable]) -> dict[str, float]:
    """Values by variable name with which the choices ``name`` take the options ``taken``: part of a warm start."""
    return {f"{name}[{n},{o}]": float(o == taken[n]) for n, own in enumerate(options) for o in own}


# -- resources -------------------------------------------------------------------------------------------------------------


def capacity(terms: Terms, limit: float, none: Expr) -> Iterator[Expr]:
    """``sum amount x <= limit``.

    Without terms nothing is taken, which a negative limit excludes too: ``none`` is a variable that is not negative.
    """
    if terms or limit < 0:
        yield linear(terms or [(1.0, none)]) <= limit


def shared(work: Iterable[Expr], makespan: Expr) -> Expr:
    """A resource that serves all of ``work`` one after another: ``sum work <= T``."""
    return pyo.quicksum(list(work)) <= makespan


# -- time ------------------------------------------------------------------------------------------------------------------


def after(later: Expr, earlier: Expr, durations: Iterable[Expr]) -> Iterator[Expr]:
    """``later >= earlier + duration`` for each of ``durations``, the longest of which counts."""
    for duration in durations:
        yield later >= earlier + duration


def at_least(variable: Expr, terms: Iterable[Expr]) -> Iterator[Expr]:
    """``variable >= max terms``."""
    for term in terms:
        yield variable >= term


def makespan(total: Expr, finishes: Iterable[Expr]) -> Iterator[Expr]:
    """``f <= T``."""
    for finish in finishes:
        yield finish <= total


def envelope(points: Mapping[int, float]) -> list[tuple[float, float]]:
    """The lower convex envelope of ``points`` (x -> y) as lines ``slope x + intercept``, the greatest of which it is."""
    hull: list[tuple[int, float]] = []
    for point in sorted(points.items()):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (point[0] - hull[-1][0]) >= (point[1] - hull[-1][1]) * (
            hull[-1][0] - hull[-2][0]
        ):
            hull.pop()
        hull.append(point)
    if len(hull) == 1:
        return [(0.0, float(hull[0][1]))]
    lines = []
    for (x0, y0), (x1, y1) in pairwise(hull):
        slope = (y1 - y0) / (x1 - x0)
        lines.append((slope, y0 - slope * x0))
    return lines
