r"""Weight tiles on the cores of a chip with a network on chip (Pyomo): bin packing at the least traffic times distance.

Sets
    t, v blocks: tiles that stay together;  k, l cores;  (t, v) pairs of blocks that exchange data
Data (integers)
    a_t arrays of block t, A_k arrays of core k, f_tv bytes between the blocks t and v, D_kl hops between the cores k and l
Variables
    x_tk in {0,1}  block t is on core k;  y_tvkl >= 0  x_tk x_vl

    minimise  sum_tv f_tv sum_kl D_kl y_tvkl                                                            [byte hops]
    (1)  sum_k x_tk = 1
    (2)  sum_t a_t x_tk <= A_k
    (3)  sum_l y_tvkl = x_tk ;  sum_k y_tvkl = x_vl
    (4)  sum_k k x_tk <= sum_k k x_vk          for successive blocks t < v that are interchangeable
    (5)  x_tl <= sum_{v < t} x_vk              for successive cores k < l that are interchangeable
    (6)  x_0k = 0                              for a core k that a symmetry of the chip takes to one with a smaller number

(3) is exact where x is whole, and as tight as any linear description of one product of two choices. (4) to (6) keep, of all
solutions that symmetry makes equal, the one whose list of cores by block is first in lexicographic order: exchanging two
blocks, two cores or mirroring the chip would otherwise give an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyomo.environ as pyo

from formulations.blocks import Expr, add_rows, capacity, choices, chosen, linear, one_each


@dataclass(frozen=True)
class MappingProblem:
    """``blocks`` a_t and ``cores`` A_k in arrays; ``traffic`` (t, v, bytes) with t < v; ``hops[k][l]``, symmetric, 0 if k = l."""

    blocks: tuple[int, ...]
    cores: tuple[int, ...]
    traffic: tuple[tuple[int, int, int], ...]
    hops: tuple[tuple[int, ...], ...]


def mesh(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """Hops between the cores of a mesh, numbered row by row."""
    cores = [divmod(k, columns) for k in range(rows * columns)]
    return tuple(tuple(abs(y - v) + abs(x - u) for v, u in cores) for y, x in cores)


def build_mapping(problem: MappingProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if traffic is not between blocks t < v, or hops are not symmetric."""
    _check(problem)
    model = pyo.ConcreteModel(name="mapping")
    cores = range(len(problem.cores))
    options = [cores for _ in problem.blocks]
    model.x = choices(options)
    model.y = pyo.Var([(t, v) for t, v, _ in problem.traffic], cores, cores, domain=pyo.NonNegativeReals)
    model.zero = pyo.Var(bounds=(0, 0))
    add_rows(model, "one_choice", one_each(model.x, options))
    add_rows(model, "arrays", _arrays(model, problem))
    add_rows(model, "products", _products(model, problem))
    add_rows(model, "symmetry", _symmetry(model, problem))
    cost = [
        (float(f * problem.hops[k][m]), model.y[t, v, k, m])
        for t, v, f in problem.traffic
        for k in cores
        for m in cores
    ]
    model.objective = pyo.Objective(expr=linear(cost))
    return model


def read_mapping(model: pyo.ConcreteModel, problem: MappingProblem) -> tuple[int, ...]:
    """The core of each block. ValueError if the model has no values (nothing was solved)."""
    return chosen(model.x, [range(len(problem.cores)) for _ in problem.blocks])


def evaluate_mapping(problem: MappingProblem, placed: tuple[int, ...]) -> int:
    """Byte hops of ``placed``. ValueError, naming the constraint, if it violates one."""
    if len(placed) != len(problem.blocks) or any(not 0 <= k < len(problem.cores) for k in placed):
        raise ValueError("(1): every block is on one core of the chip")
    for k, room in enumerate(problem.cores):
        used = sum(arrays for arrays, core in zip(problem.blocks, placed, strict=True) if core == k)
        if used > room:
            raise ValueError(f"(2) arrays of core {k}: {used} used, {room} available")
    return sum(f * problem.hops[placed[t]][placed[v]] for t, v, f in problem.traffic)


def _check(problem: MappingProblem) -> None:
    if any(not 0 <= t < v < len(problem.blocks) for t, v, _ in problem.traffic):
        raise ValueError("traffic is between blocks t < v of the problem")
    if len({(t, v) for t, v, _ in problem.traffic}) < len(problem.traffic):
        raise ValueError("traffic names a pair of blocks twice")
    if problem.hops != tuple(zip(*problem.hops, strict=True)) or len(problem.hops) != len(problem.cores):
        raise ValueError("hops are a symmetric matrix with a row for each core")


def _arrays(model: pyo.ConcreteModel, problem: MappingProblem) -> Iterator[Expr]:
    """(2)."""
    for k, room in enumerate(problem.cores):
        terms = [(float(arrays), model.x[t, k]) for t, arrays in enumerate(problem.blocks)]
        yield from capacity(terms, room, none=model.zero)


def _products(model: pyo.ConcreteModel, problem: MappingProblem) -> Iterator[Expr]:
    """(3)."""
    cores = range(len(problem.cores))
    for t, v, _ in problem.traffic:
        for k in cores:
            yield linear([*((1.0, model.y[t, v, k, m]) for m in cores), (-1.0, model.x[t, k])]) == 0
            yield linear([*((1.0, model.y[t, v, m, k]) for m in cores), (-1.0, model.x[v, k])]) == 0


def _symmetry(model: pyo.ConcreteModel, problem: MappingProblem) -> Iterator[Expr]:
    """(4) to (6)."""
    cores, between = range(len(problem.cores)), {(t, v): f for t, v, f in problem.traffic}
    traffic = [
        [between.get((min(t, v), max(t, v)), 0) for v in range(len(problem.blocks))] for t in range(len(problem.blocks))
    ]
    for t, v in _interchangeable(problem.blocks, traffic):
        terms = [(float(k), model.x[t, k]) for k in cores] + [(-float(k), model.x[v, k]) for k in cores]
        yield linear(terms) <= 0
    for k, m in _interchangeable(problem.cores, problem.hops):
        for t in range(len(problem.blocks)):
            yield linear([(1.0, model.x[t, m]), *((-1.0, model.x[v, k]) for v in range(t))]) <= 0
    if problem.blocks:
        for k in cores:
            if any(_symmetric(problem, k, m) for m in range(k)):
                yield linear([(1.0, model.x[0, k])]) <= 0


def _interchangeable(sizes: tuple[int, ...], related: object) -> Iterator[tuple[int, int]]:
    """Successive members of the classes whose exchange changes neither sizes nor relations to all others."""
    matrix: list[list[int]] = [list(row) for row in related]  # type: ignore[attr-defined]
    last: list[int] = []  # of each class
    for n, size in enumerate(sizes):
        for c, m in enumerate(last):
            if sizes[m] == size and all(matrix[m][o] == matrix[n][o] for o in range(len(sizes)) if o not in (m, n)):
                yield m, n
                last[c] = n
                break
        else:
            last.append(n)


def _symmetric(problem: MappingProblem, start: int, image: int) -> bool:
    """Whether some permutation of the cores that keeps their sizes and distances takes ``start`` to ``image``."""
    count = len(problem.cores)
    order = [start, *(k for k in range(count) if k != start)]
    taken = [image]

    def extend() -> bool:
        n = len(taken)
        if n == count:
            return True
        k = order[n]
        for m in range(count):
            if (
                m not in taken
                and problem.cores[m] == problem.cores[k]
                and all(problem.hops[m][image_of] == problem.hops[k][order[o]] for o, image_of in enumerate(taken))
            ):
                taken.append(m)
                if extend():
                    return True
                taken.pop()
        return False

    return problem.cores[start] == problem.cores[image] and extend()
