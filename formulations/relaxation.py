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
    on whichever port: fetch, write, operand and busy cycles. ``most``: per stage, the most that it streams over main memory
    and over the buffer.
    """

    arrays: int
    buffer_bytes: int
    main: int
    buffer: int
    longest: int
    users: tuple[tuple[int, tuple[int, ...]], ...]
    most: tuple[tuple[int, int, int], ...]


@dataclass
class Times:
    """Least times over a box (scaled but for cycles of MVMs and of ports), forwards: what shrinking reasons with.

    ``other``: busy but for MVMs. ``rest[j]``: what a saturated resource needs at least from the start of stage j to the end;
    ``drains``: for each of the stages that end the pipeline, what a saturated resource needs besides the stage's last chunks.
    """

    makespan: int
    moved: list[int]
    other: list[int]
    main: list[int]
    buffer: list[int]
    main_total: int
    buffer_total: int
    mvm: list[int]
    latency: list[int]
    start: list[int]
    finish: list[int]
    rest: list[int]
    drains: list[int]

    def pace(self, i: int, weight: int, chunk: int) -> int:
        """(8) Time of the chunks of stage i that make up ``weight + chunk`` of ``scale``, ``chunk`` being one of them."""
        return max(self.latency[i] + weight * self.other[i], self.moved[i] + (weight + chunk) * self.mvm[i])


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
        self.recurrent = [stage.recurrent for stage in stages]
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
        ideal = saturation(problem)
        self.before = [[int(self.scale * share) for share in shares] for shares in ideal.before]
        self.done = [sum(s * v for s, v in zip(shares, self.vector, strict=False)) for shares in self.before]
        self.ends = [(d.after, (d.last - 1) * chunk[d.after], int(self.scale * share)) for d, share in ideal.ends]

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
        mvm, latency, start, finish = [0] * self.count, [0] * self.count, [0] * self.count, [0] * self.count
        makespan = drivers_free = first_vector = 0
        chunks = self.share_of_chunk
        for j in span:
            fm, wm, om, fb, wb, ob = loads[j]
            f, w, o, b = floors[j]
            main[j] = fm + wm
            buffer[j] = fb + wb
            vector = self.vector[j]
            fetched = max(fm, fb, f)
            written = max(wm, wb, w)
            top = box.high[j]
            moved_j = moved[j] = (fetched + vector + written) * chunks[j]
            other_j = max(fm + wm, fb + wb, b, vector)
            latency_j = latency[j] = moved_j + self.first[j][top]
            if self.recurrent[j]:
                other_j = max(other_j, latency_j // chunks[j])
            other[j] = other_j
            mvm_j = mvm[j] = self.mvm[j][top]
            begin = 0
            for k, weight, between in self.starts[j]:
                t_k = start[k] + max(latency[k] + weight * other[k], moved[k] + (weight + chunks[k]) * mvm[k])
                for m in between:
                    t_k += latency[m]
                if t_k > begin:
                    begin = t_k
            if self.operands[j]:
                writing = max(self.writing[j][box.low[j]], self.scale * max(om, ob, o))
                after = max(finish[k] for k in self.operands[j])
                drivers_free = max(drivers_free + self.writing[j][box.low[j]], after + writing)
                begin = max(begin, drivers_free)
            end = begin + max(latency_j + other_j * (self.scale - chunks[j]), moved_j + self.scale * mvm_j)
            for k, weight, between in self.finishes[j]:
                t_k = finish[k] + max(latency_j + weight * other_j, moved_j + (weight + chunks[j]) * mvm_j)
                for m in between:
                    t_k += latency[m]
                if t_k > end:
                    end = t_k
            start[j] = begin
            finish[j] = end
            if j == 0:
                first_vector = fetched * chunks[0] + self.first[0][top]
            if end > makespan:
                makespan = end
        makespan = max(makespan, self.scale * longest)
        rest, drains = [0] * self.count, [0] * len(self.ends)
        times = Times(
            makespan, moved, other, main, buffer, main_total, buffer_total, mvm, latency, start, finish, rest, drains
        )
        self._saturate(box, times, loads, first_vector)
        return times

    def _saturate(self, box: Box, times: Times, loads: list[list[int]], first_vector: int) -> None:
        """(9) Raise the makespan to what the vector unit, main memory and the buffer need with the idle time at the ends.

        The traffic in ``loads`` is the least, so that a row is summed from what it leaves after the start of a stage; only the
        rest of a stage that ends the pipeline is subtracted, and therefore taken at its most.
        """
        paces = [times.pace(j, weight, self.share_of_chunk[j]) for j, weight, _ in self.ends]
        work = self.scale * self.vector_total
        if work:
            left = [rest * self.vector[j] for j, _, rest in self.ends]
            self._idle(times, work + first_vector, [work - done for done in self.done], paces, left)
        most: list[tuple[int, int]] | None = None
        latest = max(times.start) + max(paces, default=0)
        for port, total in enumerate((times.main_total, times.buffer_total)):
            if not total or self.scale * total + latest <= times.makespan:
                continue
            if most is None:
                most = self._most(box)
            streamed = [own[3 * port] + own[3 * port + 1] for own in loads]
            after, unread = [], self.scale * total
            for own, shares in zip(loads, self.before, strict=True):
                unread -= self.scale * own[3 * port + 2]
                after.append(unread - sum(s * w for s, w in zip(shares, streamed, strict=False)))
            left = [rest * most[j][port] for j, _, rest in self.ends]
            self._idle(times, self.scale * total, after, paces, left)

    def _idle(self, times: Times, least: int, after: list[int], paces: list[int], left_at_end: list[int]) -> None:
        """One resource: ``least`` without waiting for any start, what is left ``after`` each start, and ``left_at_end`` while the
        last chunks of the stages that end the pipeline take their ``paces``."""
        filled = least
        for begin, left in zip(times.start[1:], after[1:], strict=True):
            if begin + left > filled:
                filled = begin + left
        tail = max(0, 0, *(pace - left for pace, left in zip(paces, left_at_end, strict=True)))
        if filled + tail > times.makespan:
            times.makespan = filled + tail
        for j, left in enumerate(after):
            if left + tail > times.rest[j]:
                times.rest[j] = left + tail
        for number, left in enumerate(left_at_end):
            if filled - left > times.drains[number]:
                times.drains[number] = filled - left

    def _most(self, box: Box) -> list[tuple[int, int]]:
        """The most that each stage streams over main memory and over the buffer (cycles)."""
        most = [[own[0] + own[1], own[3] + own[4]] for own in self.fixed]
        for e, mask in enumerate(box.places):
            for i, main, buffer in self.share(e, mask).most:
                most[i][0] += main
                most[i][1] += buffer
        return [(main, buffer) for main, buffer in most]

    def tails(self, box: Box, times: Times) -> tuple[list[int], list[int]]:
        """Least time from the start, and from the finish, of each stage to the end of the execution."""
        after_start = [max(0, rest) for rest in times.rest]
        after_finish = [0] * self.count
        chunks, latency = self.share_of_chunk, times.latency
        after_written = 0  # from the end of writing an operand, the drivers still having the later ones to write
        for j in reversed(range(self.count)):
            own = times.pace(j, self.scale - chunks[j], chunks[j]) + after_finish[j]
            if own > after_start[j]:
                after_start[j] = own
            for k, weight, between in self.starts[j]:
                t_k = times.pace(k, weight, chunks[k]) + sum(latency[m] for m in between) + after_start[j]
                if t_k > after_start[k]:
                    after_start[k] = t_k
            for k, weight, between in self.finishes[j]:
                t_k = sum(latency[m] for m in between) + times.pace(j, weight, chunks[j]) + after_finish[j]
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
    most = tuple((i, row[0] + row[1], row[3] + row[4]) for i, row in sorted(users.items()))
    return Share(place.arrays, place.buffer_bytes, main, buffer, longest, tuple(rows), most)


def _least(chosen: list[Share]) -> Share:
    """Elementwise least traffic of several placements."""
    stages = set.intersection(*({i for i, _ in share.users} for share in chosen))
    rows = [dict(share.users) for share in chosen]
    most: dict[int, list[int]] = {}
    for share in chosen:
        for i, main, buffer in share.most:
            known = most.setdefault(i, [0, 0])
            known[:] = max(known[0], main), max(known[1], buffer)
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
        most=tuple((i, main, buffer) for i, (main, buffer) in sorted(most.items())),
    )
