"""The plan space of cost model ``eq10`` on a tiny network, enumerated: every allocation of every segment is priced.

Written from ``docs/plan-space.md`` and the docstring of :mod:`formulations.eq10`; it shares no code with either.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from tests.differential.network_strategies import Case
from tests.differential.oracle import Kept, PlanSpace, Run
from tests.differential.oracle_rows import ceil_div


class Eq10Space(PlanSpace):
    """All plans of a case by the published equations; cells are those of the whole chip, whatever the limits."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.network, case.chip, case.chip.arrays, case.memory, case.resident)
        self.can_hold_each_cell = self._largest_cell() <= case.compute
        self.compute = case.compute

    def _largest_cell(self) -> int:
        return max(sum(len(b) for b in self.blocks[i][first:last]) for i, first, last in self.cells)

    def _new_kept(self, cut: int, last: int) -> list[Kept]:
        ways = super()._new_kept(cut, last)
        return [way for way in ways if all(home == "arrays" for _, home in way)]

    def _price(self, cut: int, last: int, kept: Kept) -> dict[tuple[int, int], Fraction]:
        """The least cycles by (arrays that compute, arrays in memory mode)."""
        chip, runs = self.chip, self._runs(cut, last)
        held = {tensor: self.home(tensor, "arrays").arrays for tensor, _ in kept}
        room = min(self.memory, chip.arrays) - sum(held.values())
        products = [run for run in runs if run.arrays]
        if room < 0 or sum(run.arrays for run in products) > self.compute:
            return {}
        shared = self._shared(runs, held)
        unkept = [w.bytes for r in runs for w in r.writes if self.last_reader(w.tensor) > last and w.tensor not in held]
        write_back = sum(unkept) / chip.main_memory.bandwidth
        resident = self.resident and last - cut == len(self.cells)
        best: dict[tuple[int, int], Fraction] = {}
        arrays = chip.arrays - sum(held.values())
        for compute in _ways([(run.arrays, self.compute) for run in products], min(self.compute, arrays)):
            left = min(room, arrays - sum(compute))
            for memory in _ways([(0, cap) for cap in shared.values()] + [(0, left)] * len(products), left):
                counts = dict(zip(shared, memory[: len(shared)], strict=True)) | held
                times = [Fraction(0)]
                for run, own, private in zip(products, compute, memory[len(shared) :], strict=True):
                    times += self._times(run, own, private, counts)
                cycles = max(times) + self._writing(products, compute, resident) + write_back
                key = sum(compute), sum(memory) + sum(held.values())
                best[key] = min(cycles, best.get(key, cycles))
        return best

    def _shared(self, runs: list[Run], held: dict[int, int]) -> dict[int, int]:
        """Tensors that the segment makes and another of its operators reads, and the arrays that hold what it writes."""
        found = {}
        for run in runs:
            for written in run.writes:
                readers = [r for r in runs if r is not run and any(t.tensor == written.tensor for t in r.reads)]
                if readers and written.tensor not in held and self.memory:
                    found[written.tensor] = ceil_div(written.bytes, self.chip.array_bytes)
        return found

    def _times(self, run: Run, compute: int, private: int, counts: dict[int, int]) -> Iterator[Fraction]:
        product, chip = run.operator.product, self.chip
        assert product is not None
        memory = private + sum(counts.get(t, 0) for t in {t.tensor for t in (*run.reads, *run.writes)})
        rate = memory * chip.modes.bandwidth + chip.buffer.bandwidth
        size = Fraction(product.rows * product.inner * product.groups * chip.precision.input_bits, 8)
        yield Fraction(product.rows * run.row_cycles * run.arrays, compute)
        yield size / rate

    def _writing(self, products: list[Run], compute: tuple[int, ...], resident: bool) -> int:
        arrays: dict[str, int] = {}
        for run, own in zip(products, compute, strict=True):
            assert run.operator.product is not None
            if run.operator.product.weight is None or not resident:
                origin = run.operator.nodes[0]
                arrays[origin] = arrays.get(origin, 0) + own
        return max(arrays.values(), default=0) * self.chip.array.rows * self.chip.array.write_cycles_per_row


def _ways(ranges: list[tuple[int, int]], total: int) -> Iterator[tuple[int, ...]]:
    """All tuples of numbers within ``ranges`` that add up to at most ``total``."""
    if not ranges:
        yield ()
        return
    (least, most), rest = ranges[0], ranges[1:]
    for number in range(least, min(most, total) + 1):
        for others in _ways(rest, total - number):
            yield (number, *others)
