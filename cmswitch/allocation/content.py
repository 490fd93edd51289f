"""What makes two segments the same problem: keys by numeric content, not by name."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from cmswitch.allocation.segment import Home, home_of
from cmswitch.costs.workload import Workload

SegmentKey = tuple[Hashable, ...]


class SegmentKeys:
    """Keys such that segments of one workload with equal keys have equal allocation problems.

    A cell's signature holds all that its operator contributes, with other operators named by their distance, so that
    equal layers at different depths have equal signatures.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        network = workload.network
        self._place_of = {w.tensor: (i, n) for i, o in enumerate(network.operators) for n, w in enumerate(o.writes)}
        identities: dict[Hashable, int] = {}
        operators = [identities.setdefault(self._operator(i), len(identities)) for i in range(len(network.operators))]
        cells: dict[Hashable, int] = {}
        self._signatures = tuple(
            cells.setdefault((operators[c.operator], c.first_block, c.last_block), len(cells)) for c in workload.cells
        )

    def _operator(self, index: int) -> Hashable:
        network, workload = self._workload.network, self._workload
        operator = network.operators[index]
        product = operator.product
        shape = product and replace(product, weight=None if product.dynamic else "")
        reads = []
        for read in operator.reads:
            producer, slot = self._place_of.get(read.tensor, (None, 0))
            distance = None if producer is None else index - producer
            size = network.tensors[read.tensor].elements
            reads.append((read.role, read.elements, read.expanded_elements, read.need, distance, slot, size))
        writes = []
        for write in operator.writes:
            tensor = network.tensors[write.tensor]
            reach = max(0, workload.last_use[write.tensor] - workload.first_cell[index])
            writes.append((tensor.elements, tensor.is_output, reach))
        work = tuple((v.kind, v.elements, v.columnwise) for v in operator.vector)
        return (shape, operator.chunks, tuple(reads), work, tuple(writes))

    def key(self, first: int, last: int, kept: Mapping[int, Home]) -> SegmentKey:
        """The key of the segment of cells ``first`` to ``last`` (exclusive) with ``kept`` tensors."""
        return (self._signatures[first:last], self._kept(first, last, kept) if kept else ())

    def _kept(self, first: int, last: int, kept: Mapping[int, Home]) -> Hashable:
        """Kept tensors by distance; of those that the segment does not touch only the room they take matters."""
        workload = self._workload
        start, end = workload.cells[first].operator, workload.cells[last - 1].operator
        touched, arrays, size = [], 0, 0
        for tensor, home in kept.items():
            producer, slot = self._place_of[tensor]
            readers = workload.network.consumers[tensor]
            if start <= producer <= end or any(start <= r <= end for r in readers):
                touched.append((start - producer, slot, home))
            else:
                place = home_of(workload, tensor, home)
                arrays += place.arrays
                size += place.bytes if home == "buffer" else 0
        return (tuple(sorted(touched)), arrays, size)
