"""What a chunk needs, against a brute-force trace of rows through random chains of convolutions, also transposed, and pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from cmswitch.graph.assemble import assemble
from cmswitch.graph.infer import infer
from cmswitch.graph.network import Need, Network


@dataclass(frozen=True)
class Layer:
    """One window layer of a chain: ``kind`` conv, deconv (a transposed convolution), pool or relu."""

    kind: str
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def extent(self) -> int:
        return self.dilation * (self.kernel - 1) + 1

    @property
    def product(self) -> bool:
        return self.kind in ("conv", "deconv")

    def height(self, rows: int) -> int:
        if self.kind == "deconv":
            return (rows - 1) * self.stride + self.extent - self.before - self.after
        return (rows + self.before + self.after - self.extent) // self.stride + 1

    def rows_read(self, row: int, rows: int) -> list[int]:
        """Input rows that output row ``row`` reads, from the definition of a window."""
        if self.kind == "deconv":
            places = {row + self.before - k * self.dilation for k in range(self.kernel)}
            return [r for r in range(rows) if r * self.stride in places]
        start = row * self.stride - self.before
        return [r for k in range(self.kernel) if 0 <= (r := start + k * self.dilation) < rows]


@st.composite
def windows(draw: st.DrawFn, kind: str) -> Layer:
    kernel = draw(st.integers(1, 4))
    dilation = draw(st.integers(1, 2)) if kind != "pool" else 1
    extent = dilation * (kernel - 1) + 1
    before = draw(st.integers(0, min(extent // 2, kernel - 1)))
    after = draw(st.integers(0, min(extent // 2, kernel - 1)))
    return Layer(kind, kernel, draw(st.integers(1, 3)), dilation, before, after)


@st.composite
def chains(draw: st.DrawFn) -> list[Layer]:
    """Convolutions, each followed by at most one pool and any pointwise layer; every layer keeps at least two rows."""
    layers: list[Layer] = []
    for _ in range(draw(st.integers(2, 3))):
        layers.append(draw(windows(draw(st.sampled_from(("conv", "conv", "deconv"))))))
        for kind in draw(st.sampled_from(([], ["pool"], ["relu"], ["relu", "pool"], ["pool", "relu"]))):
            layers.append(draw(windows("pool")) if kind == "pool" else Layer(kind))
    return layers


def chain_network(layers: list[Layer], rows: int, batch: int) -> Network:
    """The chain as an ONNX model with two channels, five columns and windows one column wide."""
    nodes, weights, data = [], [], "data"
    for index, layer in enumerate(layers):
        out = f"v{index}"
        window: dict[str, Any] = {
            "kernel_shape": [layer.kernel, 1],
            "strides": [layer.stride, 1],
            "pads": [layer.before, 0, layer.after, 0],
        }
        if layer.product:
            operator = "Conv" if layer.kind == "conv" else "ConvTranspose"
            weights.append(TensorProto(name=f"w{index}", data_type=TensorProto.FLOAT, dims=(2, 2, layer.kernel, 1)))
            nodes.append(
                helper.make_node(operator, [data, f"w{index}"], [out], **window, dilations=[layer.dilation, 1])
            )
        elif layer.kind == "pool":
            nodes.append(helper.make_node("MaxPool", [data], [out], **window))
        else:
            nodes.append(helper.make_node("Relu", [data], [out]))
        data = out
    inputs = [helper.make_tensor_value_info("data", TensorProto.FLOAT, [batch, 2, rows, 5])]
    outputs = [helper.make_tensor_value_info(data, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, weights)
    return assemble(infer(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "chain"))


def trace(layers: list[Layer], rows: int) -> list[tuple[list[set[int]], list[int]]]:
    """For each convolution of the chain: the rows of its input that each chunk reads, and for each row of the tensor that it
    writes the number of its chunks after which that row exists. A chunk is an output row, or an input row if transposed."""
    traced: list[tuple[list[set[int]], list[int]]] = []
    for layer in layers:
        height = layer.height(rows)
        if layer.kind == "conv":
            traced.append(([set(layer.rows_read(r, rows)) for r in range(height)], [r + 1 for r in range(height)]))
        else:
            if layer.kind == "deconv":
                traced.append(([{r} for r in range(rows)], [r + 1 for r in range(rows)]))
            reads, ready = traced[-1]
            traced[-1] = (reads, [max((ready[i] for i in layer.rows_read(r, rows)), default=0) for r in range(height)])
        rows = height
    return traced


def heights(layers: list[Layer], rows: int) -> list[int]:
    found = []
    for layer in layers:
        rows = layer.height(rows)
        found.append(rows)
    return found


@given(chains(), st.integers(9, 60))
def test_need_and_span_cover_every_row_that_is_read(layers: list[Layer], rows: int) -> None:
    if min(heights(layers, rows)) < 2:
        return
    network = chain_network(layers, rows, batch=1)
    traced = trace(layers, rows)
    assert [o.chunks for o in network.operators] == [len(reads) for reads, _ in traced]
    for index in range(1, len(traced)):
        (read,) = network.operators[index].reads
        ready, total = traced[index - 1][1], network.operators[index - 1].chunks
        layer = [layer for layer in layers if layer.product][index]
        gaps = 0 in ready  # rows that no input reaches are made of nothing, and yet come in their turn
        for chunk, wanted in enumerate(traced[index][0]):
            if wanted:
                check_covered(read.need, chunk, total, ready, wanted)
                last = chunk if layer.kind == "deconv" else chunk * layer.stride - layer.before + layer.extent - 1
                if last < len(ready) and not gaps:  # else the whole input is right too
                    assert read.need.chunks(chunk, total) <= max(ready[row] for row in wanted) + 1


def check_covered(need: Need, chunk: int, total: int, ready: list[int], wanted: set[int]) -> None:
    """The chunks ``[need - span, need)`` hold the wanted rows, whether a row takes its even share of the chunks or its own."""
    needed = need.chunks(chunk, total)
    assert max(ready[row] for row in wanted) <= needed
    for row in wanted:
        assert needed - need.span <= row * total // len(ready)


@given(chains(), st.integers(9, 40), st.integers(2, 4))
def test_batches_wait_for_enough(layers: list[Layer], rows: int, batch: int) -> None:
    sizes = heights(layers, rows)
    if min(sizes) < 2:
        return
    network = chain_network(layers, rows, batch)
    traced = trace(layers, rows)
    for index in range(1, len(traced)):
        (read,) = network.operators[index].reads
        reads, (_, ready) = traced[index][0], traced[index - 1]
        made, chunks = len(traced[index - 1][0]), network.operators[index].chunks
        total = network.operators[index - 1].chunks
        assert (chunks, total) == (batch * len(reads), batch * made)
        all_ready = [image * made + r for image in range(batch) for r in ready]
        for chunk in range(chunks):
            image, row = divmod(chunk, len(reads))
            needed = read.need.chunks(chunk, total)
            for wanted in reads[row]:
                unit = image * len(ready) + wanted
                assert all_ready[unit] <= needed
                assert needed - read.need.span <= unit * total // len(all_ready)


def test_three_by_three_needs_three_rows() -> None:
    network = chain_network([Layer("conv", 3, 1, 1, 1, 1), Layer("conv", 3, 1, 1, 1, 1)], 8, 1)
    need = network.operators[1].reads[0].need
    assert [need.chunks(c, 8) for c in range(8)] == [2, 3, 4, 5, 6, 7, 8, 8]
    assert need.span == 3


def test_strided_pool_between_convolutions() -> None:
    layers = [Layer("conv", 3, 1, 1, 1, 1), Layer("pool", 2, 2), Layer("conv", 3, 1, 1, 1, 1)]
    need = chain_network(layers, 8, 1).operators[1].reads[0].need
    assert [need.chunks(c, 8) for c in range(4)] == [4, 6, 8, 8]
    assert need.span == 6


@given(windows("pool"), st.integers(4, 30))
def test_side_input_after_a_pool(pool: Layer, rows: int) -> None:
    """A pooled row is added to a row of another operator in the chunk that completes it, not before."""
    made = pool.height(rows)
    if made < 2:
        return
    window = {"kernel_shape": [pool.kernel, 1], "strides": [pool.stride, 1], "pads": [pool.before, 0, pool.after, 0]}
    nodes = [
        helper.make_node("Conv", ["side", "w"], ["other"]),
        helper.make_node("Conv", ["data", "w"], ["main"]),
        helper.make_node("MaxPool", ["main"], ["pooled"], **window),  # type: ignore[arg-type]
        helper.make_node("Add", ["pooled", "other"], ["sum"]),
    ]
    inputs = [
        helper.make_tensor_value_info("side", TensorProto.FLOAT, [1, 2, made, 5]),
        helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 2, rows, 5]),
    ]
    weights = [TensorProto(name="w", data_type=TensorProto.FLOAT, dims=(2, 2, 1, 1))]
    outputs = [helper.make_tensor_value_info("sum", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "join", inputs, outputs, weights)
    network = assemble(infer(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), "join"))
    (need,) = [read.need for read in network.operators[1].reads if read.role == "side"]
    for row in range(made):
        done = max(pool.rows_read(row, rows)) + 1
        needed = need.chunks(done - 1, made)
        assert row < needed
        assert needed - need.span <= row
        assert done == rows or needed <= row + 2 + pool.after
