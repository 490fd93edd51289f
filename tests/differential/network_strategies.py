"""Hypothesis strategies for networks of 2 to 4 operators and chips of 2 to 8 arrays."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import assume
from hypothesis import strategies as st

import hw
from cmswitch.costs.footprint import footprint
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, VectorWork, Write

SHAPES = ("chain", "residual", "skip", "fan-out", "dynamic", "attention", "outputs", "vector-head")


@dataclass(frozen=True)
class Case:
    """A network, a chip, and the arrays that a segment may use in each mode."""

    network: Network
    chip: hw.Chip
    compute: int
    memory: int
    resident: bool


@st.composite
def chips(draw: st.DrawFn, largest: int = 8) -> hw.Chip:
    """A chip of 2 to ``largest`` arrays of 2 to 12 rows and 1 to 4 weights per row, now and then in two slices each."""
    rows = draw(st.sampled_from([2, 4, 6, 8, 12]))
    sliced = draw(st.integers(0, 5)) == 0
    spare = draw(st.integers(0, 3)) == 0  # many arrays, and no better place for tensors
    return hw.load_chip("dynaplasia").with_changes(
        **{
            "arrays_per_core": largest
            if spare
            else draw(st.sampled_from([a for a in (2, 3, 4, 6, 7, 8) if a <= largest])),
            "precision.weight_bits": 4,
            "precision.accumulator_bits": 16,
            "array.rows": rows,
            "array.columns": draw(st.sampled_from([2, 3] if sliced else [4, 8, 12, 16])),
            "array.bits_per_cell": 2 if sliced else 1,
            "array.binding": "arrays" if sliced else "columns",
            "array.max_active_rows": draw(st.sampled_from([rows, (rows + 1) // 2])),
            "array.adder_inputs": draw(st.sampled_from([1, 2, 16])),
            "array.cycles_per_pass": draw(st.sampled_from(["0.125", "0.5", "2.5"])),
            "array.write_cycles_per_row": draw(st.integers(1, 4)),
            "array.arrays_written_at_once": draw(st.integers(1, 3)),
            "buffer.capacity_bytes": 0 if spare else draw(st.sampled_from([0, 6, 12, 20, 40])),
            "buffer.bandwidth": draw(st.sampled_from(["0.5", "2", "4"])),
            "main_memory.bandwidth": "0.125" if spare else draw(st.sampled_from(["0.125", "0.25", "0.5", "2.5"])),
            "modes.bandwidth": draw(st.sampled_from(["0.25", "0.5", "1.5", "4"])),
            "modes.to_compute_cycles": draw(st.sampled_from([0, 1, 7, 50])),
            "modes.to_memory_cycles": draw(st.sampled_from([0, 1, 9, 50])),
            "modes.switched_at_once": draw(st.integers(1, 3)),
            "vector.lanes": draw(st.sampled_from([1, 4, 16])),
            "input_reuse": draw(st.sampled_from(["line_buffer", "expanded"])),
        }
    )


class _Sketch:
    """A network under construction."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.operators: list[Operator] = []
        self.tensors: list[Tensor] = [Tensor("input", draw(st.integers(2, 12)), None)]

    def chunks_of(self, tensor: int) -> int:
        """Chunks of a tensor's producer; 1 for the network's input."""
        producer = self.tensors[tensor].producer
        return 1 if producer is None else self.operators[producer].chunks

    def need(self, tensor: int, chunks: int) -> Need:
        """How the consumer waits: for everything, chunk by chunk, or for a sliding window with a lead."""
        total = self.chunks_of(tensor)
        if self.draw(st.integers(0, 3)) == 0:
            return Need.whole(total)
        span = self.draw(st.integers(1, 3))
        return Need(total, chunks, total + self.draw(st.integers(-1, 2)) * chunks, span)

    def read(self, tensor: int, role: str, chunks: int) -> Read:
        """A whole read of a tensor, more of it where inputs are fetched expanded."""
        elements = self.tensors[tensor].elements
        need = Need.whole(self.chunks_of(tensor)) if role == "operand" else self.need(tensor, chunks)
        expanded = elements * self.draw(st.integers(1, 2)) if role == "matrix" else elements
        return Read(tensor, role, elements, expanded, need)  # type: ignore[arg-type]

    def add(self, product: MatrixProduct | None, reads: list[tuple[int, str]], elements: int, outputs: int = 1) -> int:
        """Append an operator; the first tensor that it writes."""
        draw, index = self.draw, len(self.operators)
        most = product.rows if product else elements
        chunks = min(most, draw(st.sampled_from([1, 2, 4, 6, 8])))
        kinds = draw(st.lists(st.sampled_from(["add", "softmax", "view"]), max_size=2, unique=True))
        if product is None:
            kinds = kinds or ["pool"]
        vector = tuple(VectorWork(f"v{index}.{k}", k, elements, k != "softmax") for k in kinds)
        sources = tuple(self.read(tensor, role, chunks) for tensor, role in reads)
        first = len(self.tensors)
        for number in range(outputs):
            self.tensors.append(Tensor(f"t{index}.{number}", elements, index))
        writes = tuple(Write(first + number) for number in range(outputs))
        self.operators.append(Operator(f"o{index}", (f"n{index}",), product, chunks, sources, vector, writes))
        return first

    def product(self, weight: str | None, large: bool = False) -> MatrixProduct:
        """A small product, or one that may be larger than a chip."""
        draw = self.draw
        inner, columns = draw(st.integers(1, 4)), draw(st.integers(1, 3))
        if large:
            inner, columns = draw(
                st.sampled_from([(inner, 5 * columns), (4 * inner, columns), (2 * inner, 2 * columns)])
            )
        groups = draw(st.sampled_from([1, 1, 1, 2, 3])) if not large and weight is not None else 1
        recurrent = not large and weight is not None and draw(st.integers(0, 5)) == 0
        bits = None if weight is None or weight == "tied" else draw(st.sampled_from([None, None, 2, 3]))
        return MatrixProduct(draw(st.sampled_from([1, 4, 7, 8])), inner, columns, groups, weight, recurrent, bits)

    def matmul(self, source: int, side: int | None = None, weight: str | None = None, outputs: int = 1) -> int:
        """A product with a constant operand and perhaps a side input."""
        product = self.product(weight or f"w{len(self.operators)}", large=self.draw(st.integers(0, 3)) == 0)
        reads = [(source, "matrix")] + ([] if side is None else [(side, "side")])
        return self.add(product, reads, product.rows * product.columns * product.groups, outputs)

    def vector(self, *sources: int) -> int:
        """A vector-only operator."""
        return self.add(None, [(s, "side") for s in sources], self.draw(st.integers(1, 12)))

    def network(self) -> Network:
        """The network; what nobody reads is an output, and now and then what somebody does."""
        read = {r.tensor for o in self.operators for r in o.reads}
        tensors = [
            Tensor(
                t.name,
                t.elements,
                t.producer,
                t.producer is not None and (number not in read or self.draw(st.integers(0, 7)) == 0),
            )
            for number, t in enumerate(self.tensors)
        ]
        return Network("tiny", tuple(self.operators), tuple(tensors), len(self.operators))


@st.composite
def networks(draw: st.DrawFn, largest: int = 4) -> Network:
    """A network of 2 to ``largest`` operators of one of ``SHAPES``."""
    sketch = _Sketch(draw)
    shape = draw(st.sampled_from(SHAPES if largest > 3 else SHAPES[:1] + SHAPES[4:5] + SHAPES[6:]))
    if shape == "chain":
        tied = "tied" if draw(st.booleans()) else None
        current = 0
        for _ in range(draw(st.integers(2, min(3, largest)))):
            current = sketch.matmul(current, weight=tied)
    elif shape == "residual":
        first = sketch.matmul(0)
        second = sketch.matmul(first)
        third = sketch.matmul(second, side=first)
        if draw(st.booleans()):
            sketch.vector(third)
    elif shape == "skip":
        first = sketch.matmul(0)
        second = sketch.matmul(first)
        third = sketch.matmul(second)
        sketch.vector(first, *([second] if draw(st.booleans()) else []), third)
    elif shape == "fan-out":
        first = sketch.matmul(0)
        left, right = sketch.matmul(first), sketch.matmul(first)
        sketch.vector(left, right)
    elif shape == "dynamic":
        first = sketch.matmul(0)
        source = draw(st.sampled_from(["vector", "product", "input"]))
        operand = 0 if source == "input" else sketch.vector(0) if source == "vector" else sketch.matmul(0)
        product = sketch.product(None)
        sketch.add(product, [(first, "matrix"), (operand, "operand")], product.rows * product.columns * product.groups)
    elif shape == "attention":
        first = sketch.vector(0)
        query, key, product = sketch.matmul(first), sketch.matmul(first), sketch.product(None)
        sketch.add(product, [(query, "matrix"), (key, "operand")], product.rows * product.columns)
    elif shape == "outputs":
        first = sketch.matmul(0, outputs=2)
        sketch.matmul(first + draw(st.integers(0, 1)))
    else:
        sketch.vector(sketch.matmul(0))
    return sketch.network()


@st.composite
def cases(draw: st.DrawFn, operators: int = 4, arrays: int = 8) -> Case:
    """A network on a chip under the limits of one of the schedules."""
    chip = draw(chips(arrays))
    schedule = draw(st.sampled_from(["dual-mode", "all-compute", "static"]))
    compute, memory = chip.arrays, chip.arrays if schedule == "dual-mode" else 0
    if schedule == "static":
        compute = draw(st.integers(chip.weight_format().arrays, chip.arrays))
        memory = chip.arrays - compute
    network = draw(networks(operators))
    for operator in network.operators:
        if operator.product is not None and operator.product.recurrent:  # cannot be cut: must fit
            assume(footprint(operator.product, chip).arrays <= compute)
    return Case(network, chip, compute, memory, draw(st.integers(0, 4)) == 0)
