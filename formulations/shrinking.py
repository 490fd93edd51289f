"""Removing from a box the options that miss a target or do not fit."""

from __future__ import annotations

from fractions import Fraction

from formulations.relaxation import Box, Relaxation, Times, bits


def shrink(relaxation: Relaxation, box: Box, target: int) -> int | None:
    """Shrink ``box`` (in place) to what may still reach ``target`` (scaled); a lower bound of it, or None if nothing is left.

    No allocation of the box that fits and costs at most ``target`` is lost.
    """
    while True:
        before = (sum(box.high) - sum(box.low), sum(box.places))
        if not _fit(relaxation, box):
            return None
        times = relaxation.times(box)
        reload = relaxation.reload_of(box.low)
        if times.makespan + reload > target:
            return None
        _cap_reload(relaxation, box, target - times.makespan)
        if not _reach(relaxation, box, times, target - reload):
            return None
        if (sum(box.high) - sum(box.low), sum(box.places)) == before:
            return times.makespan + reload


def _fit(relaxation: Relaxation, box: Box) -> bool:
    """(3), (4): what is left after the least of everything else bounds each choice."""
    problem, arrays = relaxation.problem, relaxation.arrays
    compute = sum(arrays[i][low] for i, low in enumerate(box.low))
    shares = [relaxation.share(e, mask) for e, mask in enumerate(box.places)]
    memory, buffer = sum(share.arrays for share in shares), sum(share.buffer_bytes for share in shares)
    spare = min(problem.compute_arrays - compute, problem.total_arrays - compute - memory)
    spare_memory = min(problem.memory_arrays - memory, problem.total_arrays - compute - memory)
    spare_buffer = problem.buffer_bytes - buffer
    if spare < 0 or spare_memory < 0 or spare_buffer < 0:
        return False
    for i, own in enumerate(arrays):
        most = own[box.low[i]] + spare
        high = box.high[i]
        while own[high] > most:
            high -= 1
        box.high[i] = high
    for e, mask in enumerate(box.places):
        if mask & (mask - 1):
            share = shares[e]
            for o in bits(mask):
                place = relaxation.single[e][o]
                if place.arrays > share.arrays + spare_memory or place.buffer_bytes > share.buffer_bytes + spare_buffer:
                    mask &= ~(1 << o)
            if not mask:
                return False
            box.places[e] = mask
    return True


def _cap_reload(relaxation: Relaxation, box: Box, most: int) -> None:
    """(10): copies that the reload phase could not write within ``most`` (scaled) leave the box."""
    if not relaxation.reloads:
        return
    stages = relaxation.problem.stages
    spare = most - sum(relaxation.rewrite[i] * stages[i].copies[box.low[i]] for i in relaxation.reloads)
    for i in relaxation.reloads:
        copies, low, high = stages[i].copies, box.low[i], box.high[i]
        while high > low and relaxation.rewrite[i] * (copies[high] - copies[low]) > spare:
            high -= 1
        box.high[i] = high


def _reach(relaxation: Relaxation, box: Box, times: Times, most: int) -> bool:
    """(5) to (9): options with which even the least makespan exceeds ``most`` (scaled) leave the box."""
    scale, finish, latency = relaxation.scale, times.finish, times.latency
    after_start, after_finish = relaxation.tails(box, times)
    ways = paths(relaxation, times, after_start, after_finish)
    busiest = []
    for i, own in enumerate(ways):
        low, high = box.low[i], box.high[i]
        if low < high:
            mvm, first, other, moved = relaxation.mvm[i], relaxation.first[i], times.other[i], times.moved[i]

            def late(
                k: int,
                own: list[tuple[int, int]] = own,
                mvm: list[int] = mvm,
                first: list[int] = first,
                other: int = other,
                room: int = most - moved,
                chunk: int = relaxation.share_of_chunk[i],
            ) -> bool:
                return any(
                    fixed + max(first[k] + weight * other, (weight + chunk) * mvm[k]) > room for fixed, weight in own
                )

            if late(low):
                while low + 1 < high:
                    middle = (low + high) // 2
                    if late(middle):
                        low = middle
                    else:
                        high = middle
                low = high
                box.low[i] = low
        if relaxation.operands[i]:
            written = max(finish[k] for k in relaxation.operands[i]) + after_start[i]
            high = box.high[i]
            while high >= low and written + relaxation.writing[i][high] > most:
                high -= 1
            if high < low:
                return False
            box.high[i] = high
        busiest.append(min(((most - fixed - latency[i]) // weight for fixed, weight in own if weight), default=most))
    return _reach_places(relaxation, box, times, most // scale, busiest)


def paths(
    relaxation: Relaxation, times: Times, after_start: list[int], after_finish: list[int]
) -> list[list[tuple[int, int]]]:
    """(8): for each stage i the (fixed, weight) with which ``fixed + t_i`` is a length of time in the makespan, t_i being that
    of the chunks that make up ``weight`` and one more, everything else at its least (scaled)."""
    scale, chunk = relaxation.scale, relaxation.share_of_chunk
    start, finish, latency = times.start, times.finish, times.latency
    ways = [[(start[i] + after_finish[i], scale - chunk[i])] for i in range(relaxation.count)]
    for j in range(relaxation.count):
        for k, weight, between in relaxation.starts[j]:
            ways[k].append((start[k] + sum(latency[m] for m in between) + after_start[j], weight))
        for k, weight, between in relaxation.finishes[j]:
            ways[j].append((finish[k] + sum(latency[m] for m in between) + after_finish[j], weight))
    for (j, weight, _), needed in zip(relaxation.ends, times.drains, strict=True):
        ways[j].append((needed, weight))
    return ways


def _reach_places(relaxation: Relaxation, box: Box, times: Times, most: int, busiest: list[int]) -> bool:
    """(6), (7), (9): placements that overload a port within ``most`` cycles, or keep a stage i busy for over ``busiest[i]``."""
    for e, mask in enumerate(box.places):
        if not mask & (mask - 1):
            continue
        share = relaxation.share(e, mask)
        least = dict(share.users)
        zero = (0,) * 10
        for o in bits(mask):
            place = relaxation.single[e][o]
            over = (
                place.longest > most
                or times.main_total + place.main - share.main > most
                or times.buffer_total + place.buffer - share.buffer > most
            )
            for i, t in place.users:
                if over:
                    break
                now = least.get(i, zero)
                main = times.main[i] + t[0] + t[1] - now[0] - now[1]
                buffer = times.buffer[i] + t[3] + t[4] - now[3] - now[4]
                over = main > busiest[i] or buffer > busiest[i] or t[9] > busiest[i]
            if over:
                mask &= ~(1 << o)
        if not mask:
            return False
        box.places[e] = mask
    return True


def least_target(relaxation: Relaxation, box: Box, most: int, precision: Fraction) -> tuple[int | None, list[Box]]:
    """Bisect for the least target that shrinking ``box`` does not refute.

    The bound (None if even ``most`` is refuted), the boxes that the targets not refuted left, and the smallest of them.
    """
    widest = box.copy()
    refuted = shrink(relaxation, widest, most)
    if refuted is None:
        return None, []
    bound, boxes = refuted, []
    step = max(1, int(bound * precision))
    reached: int | None = None
    while reached is None or reached - bound > max(0, int(bound * precision)):
        target = min(most, bound + step) if reached is None else (bound + reached) // 2
        trial = widest.copy()
        if shrink(relaxation, trial, target) is None:
            bound = target + 1
            step *= 3
        else:
            boxes.append(trial)
            if target == bound:
                return bound, boxes
            reached = target
    return bound, boxes
