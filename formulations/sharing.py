r"""A lower bound of the makespan from the arrays that the stages of one path share.

Along a path of the pipeline the times of several stages add up, and each falls only as its copies take arrays from the
others. With ``ceil(M/d) tau >= M tau / d`` a path's length is at least ``K + sum_k alpha_k / d_k``; as
``sum_k a_k d_k <= A``, the Cauchy-Schwarz inequality gives

    sum_k alpha_k / d_k  >=  (sum_k sqrt(alpha_k a_k))^2 / A

where A leaves one copy to every stage off the path. Paths of row (8): from the start through any stage to the end; of row (9):
the idle time of the vector unit while the pipeline fills and drains.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from formulations.pipeline import saturation
from formulations.segment import Dependence, SegmentProblem

SAFETY = 1 - 1e-9


@dataclass(frozen=True)
class _Path:
    """Cycles that no copies change, the sum of ``sqrt(alpha a)`` and the arrays of one copy of the path's stages."""

    fixed: float = 0.0
    root: float = 0.0
    arrays: int = 0

    def extended(self, fixed: float, alpha: float, arrays: int) -> _Path:
        return _Path(self.fixed + fixed, self.root + sqrt(alpha * arrays), self.arrays + arrays)

    def joined(self, other: _Path) -> _Path:
        return _Path(self.fixed + other.fixed, self.root + other.root, self.arrays + other.arrays)

    def length(self, arrays: int, one_copy_each: int) -> float:
        """Least cycles of the path when ``arrays`` are there and all stages together take ``one_copy_each`` for one copy."""
        left = arrays - one_copy_each + self.arrays
        return self.fixed + (self.root**2 / left if left else 0.0)


def shared_arrays_bound(problem: SegmentProblem) -> float:
    """Cycles that the execute phase of no allocation of ``problem`` undercuts (0 if this argument yields nothing)."""
    stages = problem.stages
    direct = [d for d in problem.dependences if not d.between and not d.operand]
    work = [stage.rows * stage.row_cycles for stage in stages]
    starts = [_Path()] * len(stages)
    for dep in direct:  # ascending by ``after``
        k = dep.before
        share = dep.first / stages[k].chunks
        path = starts[k].extended(stages[k].vector_cycles / stages[k].chunks, share * work[k], stages[k].arrays)
        if path.root >= starts[dep.after].root:
            starts[dep.after] = path
    ends = [_Path()] * len(stages)
    for dep in sorted(direct, key=lambda d: -d.before):
        path = ends[dep.after].joined(_drain(problem, dep, work))
        if path.root >= ends[dep.before].root:
            ends[dep.before] = path
    total = sum(stage.arrays for stage in stages)
    paths = [
        before.extended(stage.vector_cycles / stage.chunks, alpha, stage.arrays).joined(after)
        for stage, before, alpha, after in zip(stages, starts, work, ends, strict=True)
    ]
    vector = sum(stage.vector_cycles for stage in stages)
    if vector:
        ideal = saturation(problem)
        drains = [(_drain(problem, dep, work), float(rest)) for dep, rest in ideal.ends] or [(_Path(), 0.0)]
        for start, done in zip(starts, ideal.done, strict=True):
            for drain, rest in drains:
                paths.append(start.joined(drain).extended(vector - float(done) - rest, 0.0, 0))
    return SAFETY * max(path.length(problem.compute_arrays, total) for path in paths)


def _drain(problem: SegmentProblem, dep: Dependence, work: list[int]) -> _Path:
    """From the end of ``dep.before`` to the end of ``dep.after``."""
    stage = problem.stages[dep.after]
    share = dep.last / stage.chunks
    return _Path().extended(stage.vector_cycles / stage.chunks, share * work[dep.after], stage.arrays)
