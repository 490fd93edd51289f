r"""One lower bound of every run of a sequence at once, from the prices of one linear program.

A *flow* sends one unit from the end of the execution back to its start, over the precedence rows of (8) and (9) of
:mod:`formulations.allocation`. It is a mean of chains of rows, each of which the makespan T is no shorter than, so

    T >= sum_k ( x_k moved_k + mu_k m_k + beta_k L_k + nu_k c_k + omega_k w_k ) + constants

where the rows that charge operator k give x_k, mu_k (MVMs m), beta_k (other busy cycles L), nu_k (MVMs c of the first chunk)
and omega_k (writing w of its operand). With 0 <= theta <= 1 and rho >= 0 row (10) gives
``R >= theta sum_k W_k d_k / P + (1 - theta) r``, r being what the reload takes at least, and row (3) gives
``rho sum_k a_k d_k <= rho A``. Together

    T + R >= sum_k v_k + (1 - theta) r - rho A + constants ,
    v_k = x_k moved_k + min_d ( mu_k m_k(d) + beta_k L_k(d) + nu_k c_k(d) + omega_k w_k(d) + theta W_k d / P + rho a_k d ) ,

whatever the flow, theta and rho: good ones are the dual prices of a run's linear program, which make this its optimum. Flows
are rebuilt from prices so that they are flows exactly; rounding or a poor solver weakens the bound and cannot falsify it.

The flow of a long run bounds every run S inside it. What it charges to operators outside S is left out, and what is left of
each chain is still no longer than T:

* It enters S at a start or finish, none of which is negative. If that is by ``f_j >= f_k + sum_m lambda_m + t_j(last)`` from
  outside, then the m in S are one after another before j, so that ``s_j >= sum_m lambda_m``, and
  ``f_j >= s_j + t_j(C_j) >= s_j + t_j(last)``.
* It leaves S at a finish, or at a start s_k by ``s_j >= s_k + t_k(first) + sum_m lambda_m`` to the outside:
  ``f_k >= s_k + t_k(C_k) >= s_k + t_k(first)``, and the m in S finish at least lambda_m after one another.
* An operand that arises outside S is written by the reload: its operator is charged theta W d / P instead of omega w. A
  chain over the write drivers, from one operand that arises in S to the next that does not, would be broken in its middle;
  what comes before the break is left out (of the flow, not of the reload).
* A chain that ends in the row of the vector unit, ``T >= sum V + s_j - done_j``, counts the V and done of S if j is in S,
  ``T >= sum V`` if j is before S; if j is after S, it ends like any other that leaves S.

So a bound is a sum over the operators of S, and those of all runs cost little more than one.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Row
from dataclasses import dataclass

import numpy as np

from formulations.segment import Dependence
from formulations.sequence import Pace, Program, Sequence, Vector
from formulations.sharing import SAFETY

LEAST_PRICE = 1e-12  # smaller prices are rounding, and cannot be divided by


@dataclass(frozen=True)
class Flow:
    """What a flow charges to each operator. ``vector`` is the part that ends in the row of the vector unit, ``heads[j]`` that
    through the start of j. ``drivers`` are the rows over the write drivers."""

    mvm: Vector
    busy: Vector
    chunk: Vector
    moved: Vector
    operand: Vector
    drivers: frozenset[tuple[int, int]]
    heads: Mapping[int, float]
    vector: float
    theta: float
    rho: float


def flow_of(sequence: Sequence, program: Program, prices: Row[float]) -> Flow:
    """The flow that the dual prices (one per row, not negative) of a run's ``program`` stand for."""
    return _Tracer(sequence, program, prices).flow()


class _Tracer:
    """Splits one unit from the makespan backwards in proportion to the prices of the rows."""

    def __init__(self, sequence: Sequence, program: Program, prices: Row[float]) -> None:
        self.sequence = sequence
        self.into: dict[tuple[str, int], list[tuple[float, tuple[object, ...]]]] = {}
        self.theta = self.rho = 0.0
        self.operators: set[int] = set()
        for tag, price in zip(program.tags, prices, strict=True):
            price = max(0.0, price) if tag[0] != "arrays" else max(0.0, -price)
            match tag:
                case ("reload",):
                    self.theta = min(1.0, price)
                case ("arrays",):
                    self.rho = price
                case ("end", _) | ("vector",):
                    self._note("makespan", -1, price, tag)
                case ("run", int(k), Pace()):
                    self.operators.add(k)
                    self._note("finish", k, price, tag)
                case ("finish", Dependence() as dep, Pace()):
                    self._note("finish", dep.after, price, tag)
                case ("start", Dependence() as dep, Pace()):
                    self._note("start", dep.after, price, tag)
                case ("written", int(j)):
                    self._note("start", j, price, tag)
                case ("operand", Dependence() as dep):
                    self._note("written", dep.after, price, tag)
                case ("drivers", _, int(j)):
                    self._note("written", j, price, tag)
                case ("head", _):
                    self._note("head", -1, price, tag)
        count = len(sequence.stages)
        self.mvm, self.busy, self.chunk, self.moved, self.operand = (np.zeros(count) for _ in range(5))
        self.drivers: set[tuple[int, int]] = set()
        self.heads: dict[int, float] = {}
        self.amount: dict[tuple[str, int], float] = {}

    def _note(self, node: str, k: int, price: float, tag: tuple[object, ...]) -> None:
        price = price if price > LEAST_PRICE else 0.0
        self.into.setdefault((node, k), []).append((price, tag))

    def _split(self, node: str, k: int, amount: float, whole: bool) -> list[tuple[float, tuple[object, ...]]]:
        """``amount`` over the rows into a node; what the prices do not explain begins there, unless the ``whole`` must go on."""
        rows = self.into.get((node, k), [])
        total = sum(price for price, _ in rows)
        if not rows or not amount or (not total and not whole):
            return []
        if not total:
            return [(amount, rows[0][1])]
        scale = amount / (total if whole else max(total, amount))
        return [(price * scale, tag) for price, tag in rows if price]

    def _send(self, node: str, k: int, amount: float) -> None:
        self.amount[node, k] = self.amount.get((node, k), 0.0) + amount

    def flow(self) -> Flow:
        vector = 0.0
        for amount, tag in self._split("makespan", -1, 1.0, whole=True):
            match tag:
                case ("end", int(k)):
                    self._send("finish", k, amount)
                case _:
                    vector = amount
        for amount, tag in self._split("head", -1, vector, whole=False):
            match tag:
                case ("head", int(j)):
                    self.heads[j] = amount
                    self._send("start", j, amount)
        for k in sorted(self.operators, reverse=True):
            for node, whole in (("finish", True), ("start", False), ("written", True)):
                for amount, tag in self._split(node, k, self.amount.get((node, k), 0.0), whole):
                    self._follow(amount, tag)
        return Flow(
            self.mvm,
            self.busy,
            self.chunk,
            self.moved,
            self.operand,
            frozenset(self.drivers),
            self.heads,
            vector,
            self.theta,
            self.rho,
        )

    def _follow(self, amount: float, tag: tuple[object, ...]) -> None:
        """Charge a row and go on to where it comes from."""
        match tag:
            case ("run", int(k), Pace() as pace):
                self._charge(pace, amount)
                self._send("start", k, amount)
            case ("start", Dependence() as dep, Pace() as pace):
                self._charge(pace, amount)
                self._send("start", dep.before, amount)
            case ("finish", Dependence() as dep, Pace() as pace):
                self._charge(pace, amount)
                self._send("finish", dep.before, amount)
            case ("written", int(j)):
                self._send("written", j, amount)
            case ("operand", Dependence() as dep):
                self.operand[dep.after] += amount
                self._send("finish", dep.before, amount)
            case ("drivers", int(i), int(j)):
                self.operand[j] += amount
                self.drivers.add((i, j))
                self._send("written", i, amount)

    def _charge(self, pace: Pace, amount: float) -> None:
        k = pace.operator
        self.mvm[k] += amount * pace.mvm
        self.busy[k] += amount * pace.busy
        self.chunk[k] += amount * pace.chunk
        self.moved[k] += amount
        for m in pace.between:
            self.chunk[m] += amount
            self.moved[m] += amount


class RunBounds:
    """Evaluates flows on every run of a sequence. Cells are numbered from 0; a run is ``first`` to ``last`` (exclusive)."""

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        times = sequence.times
        self.sizes = np.array([len(t.copies) for t in times])
        self.offsets = np.concatenate(([0], np.cumsum(self.sizes)[:-1]))
        self.mvm, self.busy, self.chunk, self.operand, self.writing, self.arrays = (
            np.concatenate([getattr(t, name) for t in times])
            for name in ("mvm", "busy", "chunk", "operand", "writing", "arrays")
        )
        self.moved = np.array([t.moved for t in times])
        self.operator = np.array([c.operator for c in sequence.cells])
        starts = np.array(sequence.first_cell)
        self.starts, self.ends = starts[:-1], starts[1:]
        self.whole = self.ends - self.starts == 1
        self.cut = ~self.whole[self.operator]
        self.cut_writing = np.array([c.copy_write_cycles / sequence.write_drivers for c in sequence.cells]) * self.cut
        self.cut_arrays = np.array([float(c.arrays) for c in sequence.cells]) * self.cut
        self.vector = sequence.vector[self.operator] * ~self.cut
        # An operand arises in the run if the run begins before its producer ends.
        self.inside_until = np.array([self._inside_until(k) for k in range(len(times))])

    def _inside_until(self, k: int) -> int:
        producer = self.sequence.producer.get(k)
        return 0 if producer is None else int(self.ends[producer])

    def bounds(self, flow: Flow, theta: float, rho: float) -> Vector:
        """Cycles by (first, last) that no allocation of the run undercuts; 0 where last <= first."""
        cells = len(self.operator)
        result = np.zeros((cells + 1, cells + 1))
        weight = theta * self.writing + rho * self.arrays
        charged = self._charged(flow)
        operand = self._repeat(flow.operand) * self.operand + rho * self.arrays
        moved = flow.moved * self.moved
        outside = self._cells(self._least(charged + weight) + moved, theta, rho)
        inside = self._cells(self._least(charged + operand) + moved, 0.0, rho)
        idle_outside = self._cells(self._least(weight), theta, rho)
        idle_inside = self._cells(self._least(rho * self.arrays), 0.0, rho)
        until = self.inside_until[self.operator]
        heads = [(j, amount, np.cumsum(self.sequence.preceding(j)[::-1])[::-1]) for j, amount in flow.heads.items()]
        for first in range(cells):
            here = slice(first, cells)
            begin = self._unbroken(flow, first)
            within = until[here] > first
            values = np.where(within, inside[here], outside[here])
            early = self.starts[self.operator[here]] < begin
            values = np.where(early, np.where(within, idle_inside[here], idle_outside[here]), values)
            share = np.full(cells - first, flow.vector - sum(flow.heads.values()))
            for j, amount, preceding in heads:
                position = self.starts[j] - first
                share[max(0, position) :] += amount
                if position >= 0 and self.starts[j] >= begin:
                    k = self.operator[first]
                    values[position] -= amount * (preceding[k] if k < j else 0.0)
            result[first, first + 1 :] = (
                np.cumsum(values)
                + (1 - theta) * self.sequence.reading[first, first:]
                + share * np.cumsum(self.vector[here])
            ) - rho * self.sequence.compute_arrays
        bounds = SAFETY * np.maximum(result, 0.0)
        return np.asarray(bounds, dtype=np.float64)

    def excess(self, flow: Flow, first: int, last: int) -> dict[int, dict[int, float]]:
        """Cycles by which each number of copies of an operator raises the bound of a run, by operator and copies."""
        weight = flow.theta * self.writing + flow.rho * self.arrays
        charged = self._charged(flow)
        outside = charged + weight
        inside = charged + self._repeat(flow.operand) * self.operand + flow.rho * self.arrays
        begin, found = self._unbroken(flow, first), {}
        for k in range(self.operator[first], self.operator[last - 1] + 1):
            if self.whole[k] and self.starts[k] >= begin:
                own = slice(self.offsets[k], self.offsets[k] + self.sizes[k])
                values = (inside if self.inside_until[k] > first else outside)[own]
                copies = self.sequence.stages[k].copies
                found[k] = dict(zip(copies, (SAFETY * (values - values.min())).tolist(), strict=True))
        return found

    def _charged(self, flow: Flow) -> Vector:
        """Cycles on the chains of a flow, by operator and copies."""
        charged: Vector = self._repeat(flow.mvm) * self.mvm + self._repeat(flow.busy) * self.busy
        charged += self._repeat(flow.chunk) * self.chunk
        return charged

    def _repeat(self, by_operator: Vector) -> Vector:
        return np.repeat(by_operator, self.sizes)

    def _least(self, by_copies: Vector) -> Vector:
        least: Vector = np.minimum.reduceat(by_copies, self.offsets)
        return least

    def _cells(self, by_operator: Vector, theta: float, rho: float) -> Vector:
        """By cell: of an operator of several cells, one copy of each."""
        cut: Vector = theta * self.cut_writing + rho * self.cut_arrays
        return np.where(self.cut, cut, by_operator[self.operator])

    def _unbroken(self, flow: Flow, first: int) -> int:
        """The cell before which a flow is left out of the runs from ``first``."""
        begin = first
        for i, j in flow.drivers:
            if self.ends[i] > first and self.inside_until[i] > first >= self.inside_until[j]:
                begin = max(begin, int(self.ends[i]))
        return begin
