r"""Weight tiles on the cores of a chip with a network on chip (Pyomo): bin packing at the least traffic times distance.

Sets
    t, v blocks: tiles that stay together;  k, l cores;  (t, v) pairs of blocks that exchange data
Data (integers, but for f)
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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pyomo.core as pyo

from formulations.blocks import Expr, add_rows, capacity, choices, chosen, linear, one_each


@dataclass(frozen=True)
class MappingProblem:
    """``blocks`` a_t and ``cores`` A_k in arrays; ``traffic`` (t, v, bytes) with t < v; ``hops[k][l]``, symmetric, 0 if k = l."""

    blocks: tuple[int, ...]
    cores: tuple[int, ...]
    traffic: tuple[tuple[int, int, int | Fraction], ...]
    hops: tuple[tuple[int, ...], ...]


def mesh(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """Hops between the cores of a mesh, numbered row by row."""
    cores = [divmod(k, columns) for k in range(rows * columns)]
    return tuple(tuple(abs(y - v) + abs(x - u) for v, u in cores) for y, x in cores)


def build_mapping(problem: MappingProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if that is malformed (:func:`check_mapping`)."""
    check_mapping(problem)
    model = pyo.ConcreteModel(name="mapping")
    cores = range(len(problem.cores))
    options = [cores for _ in problem.blocks]
    model.x = choices(options)
    model.y = pyo.Var([(t, v) for t, v, _ in problem.traffic], cores, cores, bounds=(0, 1))
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


def evaluate_mapping(problem: MappingProblem, placed: tuple[int, ...]) -> int | Fraction:
    """Byte hops of ``placed``. ValueError, naming the constraint, if it violates one."""
    if len(placed) != len(problem.blocks) or any(not 0 <= k < len(problem.cores) for k in placed):
        raise ValueError("(1): every block is on one core of the chip")
    for k, room in enumerate(problem.cores):
        used = sum(arrays for arrays, core in zip(problem.blocks, placed, strict=True) if core == k)
        if used > room:
            raise ValueError(f"(2) arrays of core {k}: {used} used, {room} available")
    return sum(f * problem.hops[placed[t]][placed[v]] for t, v, f in problem.traffic)


def check_mapping(problem: MappingProblem) -> None:
    """ValueError if traffic is not between blocks t < v, once for a pair, or hops are not symmetric."""
    if any(not 0 <= t < v < len(problem.blocks) for t, v, _ in problem.traffic):
        raise ValueError("traffic is between blocks t < v of the problem")
    if len({(t, v) for t, v, _ in problem.traffic}) < len(problem.traffic):
        raise ValueError("traffic names a pair of blocks twice")
    symmetric = problem.hops == tuple(zip(*problem.hops, strict=True)) and len(problem.hops) == len(problem.cores)
    if not symmetric or any(problem.hops[k][k] for k in range(len(problem.cores))):
        raise ValueError("hops are a symmetric matrix with a row for each core and zeros on its diagonal")


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
    for k in _not_first(problem) if problem.blocks else ():
        yield linear([(1.0, model.x[0, k])]) <= 0


def _interchangeable(sizes: tuple[int, ...], related: Sequence[Sequence[int | Fraction]]) -> Iterator[tuple[int, int]]:
    """Successive members of the classes whose exchange changes neither sizes nor relations to all others."""
    last: list[int] = []  # of each class
    for n, size in enumerate(sizes):
        for c, m in enumerate(last):
            others = (o for o in range(len(sizes)) if o not in (m, n))
            if sizes[m] == size and all(related[m][o] == related[n][o] for o in others):
                yield m, n
                last[c] = n
                break
        else:
            last.append(n)


def _not_first(problem: MappingProblem) -> Iterator[int]:
    """(6) Cores that a symmetry of the chip takes to one with a smaller number."""
    profiles = [(room, sorted(hops)) for room, hops in zip(problem.cores, problem.hops, strict=True)]
    exchanged = {m for _, m in _interchangeable(problem.cores, problem.hops)}
    first: list[int] = []
    for k, profile in enumerate(profiles):
        if k in exchanged or any(profile == profiles[m] and _symmetric(problem, k, m) for m in first):
            yield k
        else:
            first.append(k)


def _symmetric(problem: MappingProblem, start: int, image: int) -> bool:
    """Whether some permutation of the cores that keeps their sizes and distances takes ``start`` to ``image``."""
    cores, hops = problem.cores, problem.hops
    order = sorted(range(len(cores)), key=lambda k: (k != start, hops[start][k]))  # near ones first: they decide most

    def extend(images: list[int]) -> bool:
        if len(images) == len(order):
            return True
        k = order[len(images)]
        for m in set(range(len(cores))) - set(images):
            kept = all(hops[m][image] == hops[k][order[o]] for o, image in enumerate(images))
            if kept and cores[m] == cores[k] and extend([*images, m]):
                return True
        return False

    return extend([image])
