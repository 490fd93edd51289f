"""Interval relaxation of the segment problem in exact integers: the engine of the bound and of the search.

A *box* is an interval of copy options per stage and a set of placements per tensor. Over a box, the rows (5) to (10) of
:mod:`formulations.allocation` with every stage at its fastest option, every tensor at its least traffic and the reload of
the fewest copies bound the objective from below: each row is monotone. Given a target for the objective, options that
would miss it, or that no longer fit, leave the box (:meth:`Relaxation.shrink`).

Times are integers in units of ``1 / scale`` cycle, so bounds are exact; ``scale`` is a common multiple of all chunk counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from formulations.pipeline import pipeline, saturation
from formulations.segment import Placement, SegmentProblem
from formulations.stagetime import (
    check_problem,
    first_chunk_cycles,
    mvm_cycles,
    operand_write_cycles,
    reloaded,
)


@dataclass
class Box:
    """``low[i]`` .. ``high[i]``: option numbers of stage i; ``places[e]``: bit mask of the placements left for tensor e."""

    low: list[int]
    high: list[int]
    places: list[int]

    def copy(self) -> Box:
        """An independent copy."""
        return Box(self.low[:], self.high[:], self.places[:])


@dataclass(frozen=True)
class Share:
    """Least traffic of a tensor over some of its placements, in cycles.

    ``users``: per stage (fetch, write, operand) on main memory, the same on the buffer, then what any of the placements needs
    on whichever port: fetch, write, operand and busy cycles.
    """

    arrays: int
    buffer_bytes: int
    main: int
    buffer: int
    longest: int
    users: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass
class Times:
    """Least times over a box (scaled but for ``busy``), forwards and backwards: what :meth:`Relaxation.shrink` reasons with."""

    makespan: int
    moved: list[int]
    other: list[int]
    main: list[int]
    buffer: list[int]
    main_total: int
    buffer_total: int
    busy: list[int]
    latency: list[int]
    start: list[int]
    finish: list[int]
    head: int
    tail: int


ACTIONS = ("fetch", "write", "operand")


def bits(mask: int) -> list[int]:
    """The numbers of the bits set in ``mask``, ascending."""
    return [o for o in range(mask.bit_length()) if mask >> o & 1]


class Relaxation:
    """The numbers of ``problem``, prepared. ValueError if the problem is not well formed."""

    def __init__(self, problem: SegmentProblem) -> None:
        check_problem(problem)
        self.problem = problem
        stages = problem.stages
        self.count = len(stages)
        self.scale = math.lcm(problem.write_drivers, *(stage.chunks for stage in stages))
        self.share_of_chunk = [self.scale // stage.chunks for stage in stages]
        self.arrays = [[stage.arrays * d for d in stage.copies] for stage in stages]
        self.mvm = [[mvm_cycles(stage, d) for d in stage.copies] for stage in stages]
        self.first = [[self.scale * first_chunk_cycles(stage, d) for d in stage.copies] for stage in stages]
        ports = problem.write_drivers
        self.writing = [[self.scale * operand_write_cycles(stage, d, ports) for d in stage.copies] for stage in stages]
        self.vector = [stage.vector_cycles for stage in stages]
        self.vector_total = sum(self.vector)
        self._edges(problem)
        self._reload(problem)
        self.fixed = [[0] * 6 for _ in stages]
        for use in problem.fixed:
            self.fixed[use.stage][3 * (use.port == "buffer") + ACTIONS.index(use.action)] += use.cycles
        self.fixed_main = sum(sum(own[:3]) for own in self.fixed)
        self.fixed_buffer = sum(sum(own[3:]) for own in self.fixed)
        self.shares: list[dict[int, Share]] = [{} for _ in problem.tensors]
        self.single = [[_share(place) for place in places] for places in problem.tensors]

    def _edges(self, problem: SegmentProblem) -> None:
        edges = pipeline(problem)
        chunk = self.share_of_chunk
        self.starts: list[list[tuple[int, int, tuple[int, ...]]]] = [[] for _ in problem.stages]
        self.finishes: list[list[tuple[int, int, tuple[int, ...]]]] = [[] for _ in problem.stages]
        self.operands: list[list[int]] = [[] for _ in problem.stages]
        for dep in edges.starts:
            self.starts[dep.after].append((dep.before, (dep.first - 1) * chunk[dep.before], dep.between))
        for dep in edges.finishes:
            self.finishes[dep.after].append((dep.before, (dep.last - 1) * chunk[dep.after], dep.between))
        for dep in edges.operands:
            self.operands[dep.after].append(dep.before)
        self.ideal = ideal = saturation(problem)
        self.done = [int(self.scale * done) for done in ideal.done]
        self.ends = [(d.after, (d.last - 1) * chunk[d.after], int(self.scale * rest)) for d, rest in ideal.ends]

    def _reload(self, problem: SegmentProblem) -> None:
        indices = reloaded(problem)
        self.reloads = indices
        self.reload_least = self.scale * problem.reload_cycles
        per_port = self.scale // problem.write_drivers
        self.rewrite = [0] * self.count  # scaled reload cycles of one more copy
        for i in indices:
            self.rewrite[i] = problem.stages[i].copy_write_cycles * per_port

    def box(self) -> Box:
        """Everything."""
        stages, tensors = self.problem.stages, self.problem.tensors
        return Box(
            [0] * self.count, [len(s.copies) - 1 for s in stages], [(1 << len(places)) - 1 for places in tensors]
        )

    def ceiling(self) -> int:
        """More than the objective of any allocation."""
        cycles = [max(m) + max(c) + max(w) for m, c, w in zip(self.mvm, self.first, self.writing, strict=True)]
        uses = [use.cycles for places in self.problem.tensors for place in places for use in place.uses]
        everything = sum(cycles) + self.vector_total + sum(uses) + sum(map(sum, self.fixed)) + 1
        return 8 * self.scale * (self.count + 1) ** 2 * everything + self.reload_of([len(m) - 1 for m in self.mvm])

    def share(self, e: int, mask: int) -> Share:
        """Least traffic of tensor ``e`` over the placements in ``mask``."""
        known = self.shares[e].get(mask)
        if known is None:
            chosen = [self.single[e][o] for o in bits(mask)]
            known = self.shares[e][mask] = chosen[0] if len(chosen) == 1 else _least(chosen)
        return known

    def reload_of(self, options: list[int]) -> int:
        """Scaled reload time for these option numbers."""
        return self.reload_of_copies([s.copies[k] for s, k in zip(self.problem.stages, options, strict=True)])

    def reload_of_copies(self, copies: list[int]) -> int:
        """Scaled reload time for these copies."""
        return max(self.reload_least, sum(self.rewrite[i] * copies[i] for i in self.reloads))

    def times(self, box: Box) -> Times:
        """Least times over ``box``, forwards."""
        span = range(self.count)
        loads = [own[:] for own in self.fixed]
        floors = [[0, 0, 0, 0] for _ in span]
        longest, main_total, buffer_total = 0, self.fixed_main, self.fixed_buffer
        for e, mask in enumerate(box.places):
            share = self.share(e, mask)
            longest = max(longest, share.longest)
            main_total += share.main
            buffer_total += share.buffer
            for i, t in share.users:
                own, floor = loads[i], floors[i]
                for a in range(6):
                    own[a] += t[a]
                for a in range(4):
                    if t[6 + a] > floor[a]:
                        floor[a] = t[6 + a]
        moved, other, main, buffer = [0] * self.count, [0] * self.count, [0] * self.count, [0] * self.count
        busy, latency, start, finish = [0] * self.count, [0] * self.count, [0] * self.count, [0] * self.count
        makespan = head = tail = drivers_free = 0
        for j in span:
            fm, wm, om, fb, wb, ob = loads[j]
            f, w, o, b = floors[j]
            main[j] = fm + wm
            buffer[j] = fb + wb
            vector = self.vector[j]
            fetched = max(fm, fb, f)
            moved[j] = (fetched + vector + max(wm, wb, w)) * self.share_of_chunk[j]
            other[j] = max(fm + wm, fb + wb, b, vector)
            top = box.high[j]
            busy_j = max(self.mvm[j][top], other[j])
            latency_j = moved[j] + self.first[j][top]
            begin = 0
            for k, weight, between in self.starts[j]:
                t_k = start[k] + latency[k] + weight * busy[k]
                for m in between:
                    t_k += latency[m]
                if t_k > begin:
                    begin = t_k
            if self.operands[j]:
                writing = max(self.writing[j][box.low[j]], self.scale * max(om, ob, o))
                after = max(finish[k] for k in self.operands[j])
                drivers_free = max(drivers_free + self.writing[j][box.low[j]], after + writing)
                begin = max(begin, drivers_free)
            end = begin + latency_j + busy_j * (self.scale - self.share_of_chunk[j])
            for k, weight, between in self.finishes[j]:
                t_k = finish[k] + latency_j + weight * busy_j
                for m in between:
                    t_k += latency[m]
                if t_k > end:
                    end = t_k
            busy[j] = busy_j
            latency[j] = latency_j
            start[j] = begin
            finish[j] = end
            if j == 0:
                head = fetched * self.share_of_chunk[0] + self.first[0][top]
            elif begin - self.done[j] > head:
                head = begin - self.done[j]
            if end > makespan:
                makespan = end
        for j, weight, rest in self.ends:
            tail = max(tail, latency[j] + weight * busy[j] - rest)
        makespan = max(makespan, self.scale * max(main_total, buffer_total, longest))
        if self.vector_total:
            makespan = max(makespan, self.scale * self.vector_total + head + tail)
        return Times(
            makespan, moved, other, main, buffer, main_total, buffer_total, busy, latency, start, finish, head, tail
        )

    def tails(self, box: Box, times: Times) -> tuple[list[int], list[int]]:
        """Least time from the start, and from the finish, of each stage to the end of the execution."""
        vector = self.scale * self.vector_total
        after_start = [max(0, vector + times.tail - done) if vector else 0 for done in self.done]
        after_finish = [0] * self.count
        busy, latency = times.busy, times.latency
        after_written = 0  # from the end of writing an operand, the drivers still having the later ones to write
        for j in reversed(range(self.count)):
            own = latency[j] + busy[j] * (self.scale - self.share_of_chunk[j]) + after_finish[j]
            if own > after_start[j]:
                after_start[j] = own
            for k, weight, between in self.starts[j]:
                t_k = latency[k] + weight * busy[k] + sum(latency[m] for m in between) + after_start[j]
                if t_k > after_start[k]:
                    after_start[k] = t_k
            for k, weight, between in self.finishes[j]:
                t_k = sum(latency[m] for m in between) + latency[j] + weight * busy[j] + after_finish[j]
                if t_k > after_finish[k]:
                    after_finish[k] = t_k
            if self.operands[j]:
                writing = self.writing[j][box.low[j]]
                after_written = writing + max(after_start[j], after_written)
                for k in self.operands[j]:
                    after_finish[k] = max(after_finish[k], after_written)
        return after_start, after_finish

    def exact(self, options: list[int], placements: list[int]) -> int | None:
        """Scaled objective of one allocation, or None if it does not fit."""
        problem = self.problem
        compute = sum(self.arrays[i][k] for i, k in enumerate(options))
        shares = [self.single[e][o] for e, o in enumerate(placements)]
        memory, buffer = sum(s.arrays for s in shares), sum(s.buffer_bytes for s in shares)
        if compute > problem.compute_arrays or memory > problem.memory_arrays or buffer > problem.buffer_bytes:
            return None
        if compute + memory > problem.total_arrays:
            return None
        return self.times(Box(options, options, [1 << o for o in placements])).makespan + self.reload_of(options)


def _share(place: Placement) -> Share:
    """Traffic of one placement."""
    users: dict[int, list[int]] = {}
    own_port: dict[int, list[int]] = {}
    streaming: set[int] = set()
    for use in place.uses:
        row = users.setdefault(use.stage, [0] * 6)
        action = ACTIONS.index(use.action)
        if use.port == "arrays":
            own_port.setdefault(use.stage, [0] * 3)[action] += use.cycles
            if use.action != "operand":
                streaming.add(use.stage)
        else:
            row[3 * (use.port == "buffer") + action] += use.cycles
    shared = sum(fetch + write for fetch, write, _ in own_port.values())
    rows = []
    for i, row in sorted(users.items()):
        own = own_port.get(i, [0] * 3)
        busy = max(row[0] + row[1], row[3] + row[4], shared if i in streaming else 0)
        rows.append((i, (*row, *(max(row[a], row[3 + a], own[a]) for a in range(3)), busy)))
    main, buffer = (sum(sum(row[p : p + 3]) for row in users.values()) for p in (0, 3))
    longest = max(main, buffer, sum(map(sum, own_port.values())))
    return Share(place.arrays, place.buffer_bytes, main, buffer, longest, tuple(rows))


def _least(chosen: list[Share]) -> Share:
    """Elementwise least traffic of several placements."""
    stages = set.intersection(*({i for i, _ in share.users} for share in chosen))
    rows = [dict(share.users) for share in chosen]
    users = tuple(
        (i, tuple(min(column) for column in zip(*(row[i] for row in rows), strict=True))) for i in sorted(stages)
    )
    return Share(
        arrays=min(share.arrays for share in chosen),
        buffer_bytes=min(share.buffer_bytes for share in chosen),
        main=min(share.main for share in chosen),
        buffer=min(share.buffer for share in chosen),
        longest=min(share.longest for share in chosen),
        users=users,
    )
