"""From the graph and the network to what each operator of the program computes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import onnx

from cmswitch.functional.description import (
    Call,
    Convolution,
    Geometry,
    Multiplication,
    PositionProduct,
    Product,
    Recurrence,
    Task,
)
from cmswitch.functional.recurrence import BIAS, CELL, GATES, IDENTITY, NEXT_CELL, NEXT_STATE, NOTHING, STATE
from cmswitch.functional.vector import FINAL_CELL, INTERNAL_OPERATORS, layer_settings
from cmswitch.graph.assemble import apply_rules
from cmswitch.graph.ir import Graph, Node, Shape
from cmswitch.graph.network import Network, Operator
from cmswitch.graph.rules import Product as Rule
from cmswitch.graph.rules.channels_last import channels_first
from cmswitch.graph.rules.windows import windows
from cmswitch.graph.table import INTERNAL
from cmswitch.verification.constants import call_of

_PART = re.compile(r"(.*)\.n(\d+)$")


@dataclass(frozen=True)
class Description:
    """All tasks in the order of the network, every node in an order that works, and ``tail``: from tensors to outputs."""

    tasks: tuple[Task, ...]
    calls: tuple[Call, ...]
    tail: tuple[Call, ...]
    outputs: tuple[str, ...]
    makers: dict[str, Call]


class _Unreachable(Exception):
    """A value that does not follow from what an operator reads; ``str(error)`` says which."""


class _Describer:
    def __init__(self, graph: Graph, network: Network) -> None:
        self._graph, self._network = graph, network
        self._nodes = {node.id: node for node in graph.nodes}
        self._rules = dict(zip(self._nodes, apply_rules(graph), strict=True))
        internal = [node for node in graph.nodes if node.domain == INTERNAL]
        self._final_cells = {node.inputs[0]: node.outputs[0] for node in internal if node.operator == FINAL_CELL}
        self._calls, self._opaque = self._runnable()
        self._order = {call.id: position for position, call in enumerate(self._calls)}
        self._makers = {name: call for call in self._calls for name in call.outputs if name}

    def description(self) -> Description:
        """Every operator in turn."""
        tasks: list[Task] = []
        made = set(self._graph.inputs)
        carried: tuple[str, int] | None = None  # accumulators of the part before, and where its rows end
        for operator in self._network.operators:
            task, carried = self._task(operator, made, carried)
            tasks.append(task)
            made.update(task.writes)
        outputs = tuple(name for name in self._graph.outputs if not self._constant(name))
        tail = self._trace(outputs, made)
        return Description(tuple(tasks), self._calls, tail, outputs, self._makers)

    def _runnable(self) -> tuple[tuple[Call, ...], dict[str, str]]:
        """Nodes that run, in order, with a composite in place of its parts where one of them cannot be run by itself; those
        parts, each with the operator of its composite."""
        nodes = [node for node in self._graph.nodes if not all(map(self._constant, filter(None, node.outputs)))]
        parts = {n.id for n in nodes if n.domain == INTERNAL and n.operator not in INTERNAL_OPERATORS}
        opaque: dict[str, Node] = {}
        for part in parts:
            around = [c for c in self._graph.composites if part.startswith(f"{c}#")]
            composite = self._graph.composites[min((c for c in around if not self._controls(c)), key=len)]
            opaque[composite.id] = composite
        calls: list[Call] = []
        placed: set[str] = set()
        inside: dict[str, str] = {}
        for node in nodes:
            around = [c for c in opaque if node.id.startswith(f"{c}#")]
            if node.id in parts:
                inside[node.id] = opaque[around[0]].operator
            if around and around[0] not in placed:
                placed.add(around[0])
                calls.append(call_of(opaque[around[0]]))
            makes = set(opaque[around[0]].outputs) if around else set()
            by_another = node.domain == INTERNAL and node.operator == FINAL_CELL
            if node.id not in parts and makes.isdisjoint(node.outputs) and not by_another:
                call = call_of(node)
                final = [self._final_cells[name] for name in call.outputs if name in self._final_cells]
                calls.append(replace(call, outputs=(*call.outputs, *final)))
        return tuple(calls), inside

    def _controls(self, composite: str) -> bool:
        """Whether a composite carries graphs, which say when nodes run."""
        return any(
            isinstance(value, onnx.GraphProto) for value in self._graph.composites[composite].attributes.values()
        )

    def _constant(self, name: str) -> bool:
        return self._graph.values[name].constant

    def _trace(self, targets: Iterable[str], known: Collection[str]) -> tuple[Call, ...]:
        """The nodes that make ``targets`` from ``known`` values, in order. Raises _Unreachable."""
        needed: dict[str, Call] = {}
        waiting = [name for name in targets if name not in known and not self._constant(name)]
        while waiting:
            name = waiting.pop()
            if name not in self._makers:
                raise _Unreachable(f"{name!r} does not follow from the tensors that it reads")
            call = self._makers[name]
            if call.id not in needed:
                needed[call.id] = call
                waiting += [v for v in call.inputs if v and v not in known and not self._constant(v)]
        return tuple(sorted(needed.values(), key=lambda call: self._order[call.id]))

    def _task(
        self, operator: Operator, made: Collection[str], carried: tuple[str, int] | None
    ) -> tuple[Task, tuple[str, int] | None]:
        names = [tensor.name for tensor in self._network.tensors]
        reads = tuple(dict.fromkeys(names[read.tensor] for read in operator.reads))
        writes = tuple(names[write.tensor] for write in operator.writes)
        part = None if operator.name in self._nodes else _PART.match(operator.name)
        node = self._nodes[part[1] if part else operator.name]
        leaves = writes[0] if part and writes[0].startswith(f"{part[1]}.accumulators") else None
        takes, first = carried if part and carried else (None, 0)
        reads = tuple(name for name in reads if name != takes)
        inner = operator.product.inner if operator.product else 0
        after_this = (leaves, first + inner) if leaves else None
        opaque = next((n for n in operator.nodes if n in self._opaque), None)
        if opaque is not None:
            whole = self._opaque[opaque]
            why = f"{opaque}: a part of {whole} has no ONNX operator of its own; the whole {whole} runs in onnxruntime"
            return self._refused(operator.name, reads, writes, made, why), after_this
        try:
            rule = self._rules[node.id]
            if not isinstance(rule, Rule):
                return Task(operator.name, None, (), (), self._trace(writes, reads), reads, writes), after_this
            product = self._product(node, rule, operator, first, takes, leaves)
            if product.bias and not self._constant(product.bias) and product.bias not in reads:
                raise _Unreachable(f"its bias {product.bias!r} is another form of what it reads")
            loop = product.recurrence
            before = self._trace([product.matrix] if loop is None else [loop.gates, *filter(None, loop.first)], reads)
            fill = () if product.constant else self._trace([product.operand], reads)
            made_by_product = (product.output, *([loop.final] if loop is not None else []))
            after = () if leaves else self._trace(writes, (*reads, *made_by_product))
            return Task(operator.name, product, before, fill, after, reads, writes), after_this
        except _Unreachable as error:
            return self._refused(operator.name, reads, writes, made, str(error)), after_this

    def _refused(
        self, name: str, reads: tuple[str, ...], writes: tuple[str, ...], made: Collection[str], why: str
    ) -> Task:
        """A task that is not executed; what it writes comes from earlier tensors where it can."""
        kept, calls = [], {}
        for value in writes:
            try:
                calls.update({call.id: call for call in self._trace([value], made)})
                kept.append(value)
            except _Unreachable:
                continue
        after = tuple(sorted(calls.values(), key=lambda call: self._order[call.id]))
        return Task(name, None, (), (), after, reads, tuple(kept), why)

    # --- products -----------------------------------------------------------------------------------------------------

    def _product(
        self, node: Node, rule: Rule, operator: Operator, first: int, takes: str | None, leaves: str | None
    ) -> Product:
        assert operator.product is not None
        if node.operator == "Recurrence":
            return self._recurrence(node, rule)
        geometry, kernel, batch, separate, channels = self._geometry(node, rule)
        bias = node.inputs[2] if node.operator in ("Conv", "ChannelsLastConv", "Gemm") and node.has(2) else ""
        alpha, beta = (float(node.attributes.get(n, 1)) if node.operator == "Gemm" else 1.0 for n in ("alpha", "beta"))
        return Product(
            geometry=geometry,
            rows=rule.rows,
            inner=operator.product.inner,
            columns=rule.columns,
            groups=rule.groups,
            matrix=node.inputs[rule.matrix],
            operand=node.inputs[rule.operand],
            constant=node.value(rule.operand).constant,
            output=node.outputs[0],
            shape=node.output_shape(),
            channels=channels,
            kernel=kernel,
            batch=batch,
            separate=separate,
            bits=operator.product.weight_bits,
            bias=bias,
            factor=alpha,
            bias_factor=beta,
            first=first,
            total=rule.inner,
            carried_in=takes,
            carried_out=leaves,
        )

    def _recurrence(self, node: Node, rule: Rule) -> Product:
        """The product of the states with the recurrent weights."""
        steps, batch, hidden = node.output_shape()
        kind = node.attributes["cell"].decode()
        lengths = node.value(3).data if node.has(3) else None
        if node.has(3) and (lengths is None or set(lengths.reshape(-1).tolist()) != {steps}):
            raise _Unreachable(f"{node.id}: a {kind} over sequences of different lengths is only executed as a whole")
        bias, peepholes = (node.inputs[i] if node.has(i) else "" for i in (2, 6))
        if any(name and not self._constant(name) for name in (bias, peepholes, node.inputs[1])):
            raise _Unreachable(f"{node.id}: weights of {kind} that are computed at run time are not executed")
        settings = layer_settings(call_of(node))
        resets_product = kind == "GRU" and bool(node.integer("linear_before_reset", 0))
        given: tuple[str, ...] = (GATES, IDENTITY, NOTHING, BIAS if bias or resets_product else "", "", STATE)
        made: tuple[str, ...] = ("", NEXT_STATE)
        if kind == "LSTM":
            given, made = (*given, CELL, peepholes), (*made, NEXT_CELL)
        cell = Call(f"{node.id}#step", kind, "", 14, {"hidden_size": hidden, **settings}, given, made)
        reset = None
        if kind == "GRU" and not resets_product:
            kept = {name: value for name, value in settings.items() if name != "linear_before_reset"}
            kept["activations"] = kept.get("activations", ["Sigmoid"])[:1]
            reset = replace(cell, id=f"{node.id}#reset", operator="RNN", attributes={"hidden_size": hidden, **kept})
        first_state, first_cell = (node.inputs[i] if node.has(i) else "" for i in (4, 5))
        loop = Recurrence(
            cell=cell,
            steps=steps,
            batch=batch,
            hidden=hidden,
            backwards=bool(node.integer("backwards", 0)),
            gates=node.inputs[0],
            first=(first_state, first_cell),
            bias=bias,
            final=self._final_cells.get(node.outputs[0], ""),
            reset=reset,
            resets_product=resets_product,
        )
        return Product(
            geometry=Multiplication(transpose_right=True),
            rows=rule.rows,
            inner=rule.inner,
            columns=rule.columns,
            groups=1,
            matrix=node.outputs[0],
            operand=node.inputs[1],
            constant=True,
            output=node.outputs[0],
            shape=(rule.rows * loop.passes, rule.columns),
            channels=(0,),
            bits=node.value(1).bits,
            total=rule.inner,
            recurrence=loop,
        )

    def _geometry(self, node: Node, rule: Rule) -> tuple[Geometry, Shape, Shape, tuple[int, ...], tuple[int, ...]]:
        """(geometry, kernel, batch axes, those that are groups, axes of the operand with scales of their own)."""
        held = node.shape(rule.operand)
        if node.operator == "TransposedProduct":
            return PositionProduct(rule.groups), (), (), (), (1,)
        if node.operator in ("Conv", "ChannelsLastConv"):
            last = node.operator != "Conv"
            data, out = node.shape(0), node.output_shape()
            if last:
                data, out = channels_first(data), channels_first(out)
            kernel = held[2:]
            rank = len(kernel)
            pads = tuple(window.pad for window in windows(node, kernel, data[2:], out[2:]))
            strides, dilations = (node.integers(name) or (1,) * rank for name in ("strides", "dilations"))
            return Convolution(rule.groups, strides, dilations, tuple(int(p) for p in pads), last), kernel, (), (), (0,)
        swapped = rule.operand == 0
        if node.operator == "Gemm":
            across, down = bool(node.integer("transA", 0)), bool(node.integer("transB", 0))
            axis = int(across) if swapped else int(not down)
            return Multiplication(swapped, across, down), (), (), (), (axis,)
        if node.operator != "MatMul":
            raise _Unreachable(f"{node.id}: the numbers of {node.operator} are not known")
        rank = max(len(node.shape(0)), len(node.shape(1)), 2) - 2
        batch = node.output_shape()[:rank]
        padded = (1,) * (rank + 2 - len(held)) + held if len(held) > 1 else (1,) * rank + held
        separate = tuple(axis for axis in range(rank) if padded[axis] > 1)
        inner = len(held) - 1 if swapped or len(held) == 1 else len(held) - 2
        return Multiplication(swapped), (), batch, separate, tuple(a for a in range(len(held)) if a != inner)


def describe(graph: Graph, network: Network) -> Description:
    """What every operator of ``network`` (after cutting along N) computes."""
    return _Describer(graph, network).description()
