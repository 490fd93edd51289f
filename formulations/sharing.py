r"""A lower bound from what the stages of one path share: the arrays, and the write drivers.

Along a path of the pipeline the times of several stages add up, and each falls only as its copies take arrays from the
others and make the reload longer. With ``ceil(M/d) tau >= M tau / d`` a path's length is at least ``K + sum_k alpha_k / d_k``.

(a) As ``sum_k a_k d_k <= A``, the Cauchy-Schwarz inequality gives
    ``sum_k alpha_k / d_k >= (sum_k sqrt(alpha_k a_k))^2 / A``, where A leaves one copy to every stage off the path.
(b) As ``R >= theta sum_k W_k d_k / P + (1 - theta) reload cycles``, length and reload together are at least
    ``K + sum_k min_d (alpha_k / d + theta W_k d / P)`` and the rest of R at one copy.

Paths of row (8): from the start through any stage to the end; of row (9): the idle time of the vector unit while the pipeline
fills and drains.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from formulations.pipeline import Saturation
from formulations.segment import Dependence, SegmentProblem, StageData
from formulations.stagetime import reloaded

SAFETY = 1 - 1e-9
THETAS = (0.5, 1.0)


@dataclass(frozen=True)
class _Path:
    """Cycles that no copies change, the sum of ``sqrt(alpha a)``, the arrays of one copy of the path's stages, and for each theta
    the sum of ``min_d (alpha/d + theta W d/P)`` less ``theta W/P``."""

    fixed: float = 0.0
    root: float = 0.0
    arrays: int = 0
    traded: tuple[float, ...] = (0.0,) * len(THETAS)

    def joined(self, other: _Path) -> _Path:
        traded = tuple(a + b for a, b in zip(self.traded, other.traded, strict=True))
        return _Path(self.fixed + other.fixed, self.root + other.root, self.arrays + other.arrays, traded)

    def longer(self, fixed: float) -> _Path:
        return _Path(self.fixed + fixed, self.root, self.arrays, self.traded)


def shared_bound(problem: SegmentProblem, ideal: Saturation) -> float:
    """Cycles of execution and reload that no allocation of ``problem`` undercuts (0 if this argument yields nothing).

    ``ideal`` is ``saturation(problem)``.
    """
    stages = problem.stages
    rewritten = set(reloaded(problem))
    writing = [s.copy_write_cycles / problem.write_drivers if i in rewritten else 0.0 for i, s in enumerate(stages)]
    whole = [_step(stage, 1.0, w) for stage, w in zip(stages, writing, strict=True)]
    direct = [d for d in problem.dependences if not d.between and not d.operand]

    def fill(dep: Dependence) -> _Path:
        return _step(stages[dep.before], dep.first / stages[dep.before].chunks, writing[dep.before])

    def drain(dep: Dependence) -> _Path:
        return _step(stages[dep.after], dep.last / stages[dep.after].chunks, writing[dep.after])

    starts = [_Path()] * len(stages)
    for dep in direct:  # ascending by ``after``
        path = starts[dep.before].joined(fill(dep))
        if path.root >= starts[dep.after].root:
            starts[dep.after] = path
    ends = [_Path()] * len(stages)
    for dep in sorted(direct, key=lambda d: -d.before):
        path = drain(dep).joined(ends[dep.after])
        if path.root >= ends[dep.before].root:
            ends[dep.before] = path
    paths = [before.joined(own).joined(after) for before, own, after in zip(starts, whole, ends, strict=True)]
    vector = sum(stage.vector_cycles for stage in stages)
    if vector:
        drains = [drain(dep).longer(-float(share) * stages[dep.after].vector_cycles) for dep, share in ideal.ends] or [
            _Path()
        ]
        done = [
            sum(float(s) * stage.vector_cycles for s, stage in zip(shares, stages, strict=False))
            for shares in ideal.before
        ]
        paths += [s.longer(vector - d).joined(q) for s, d in zip(starts, done, strict=True) for q in drains]
    one_copy = (
        sum(s.copy_write_cycles * s.copies[0] for i, s in enumerate(stages) if i in rewritten) / problem.write_drivers
    )
    spare = problem.compute_arrays - sum(stage.arrays for stage in stages)
    least_reload = max(float(problem.reload_cycles), one_copy)
    best = 0.0
    for path in paths:
        left = spare + path.arrays
        best = max(best, path.fixed + (path.root**2 / left if left > 0 else 0.0) + least_reload)
        for theta, traded in zip(THETAS, path.traded, strict=True):
            best = max(best, path.fixed + traded + theta * one_copy + (1 - theta) * problem.reload_cycles)
    return SAFETY * best


def _step(stage: StageData, share: float, writing: float) -> _Path:
    """A path over ``share`` of the work of one stage, after which its chunk passes the vector unit."""
    alpha = share * stage.rows * stage.row_cycles
    fewest, most = max(1, stage.copies[0]), max(1, stage.copies[-1])
    traded = []
    for theta in THETAS:
        cost = theta * writing
        d = min(max(fewest, sqrt(alpha / cost)), most) if cost else most
        traded.append(alpha / d + cost * (d - fewest))
    return _Path(stage.vector_cycles / stage.chunks, sqrt(alpha * stage.arrays), stage.arrays, tuple(traded))
