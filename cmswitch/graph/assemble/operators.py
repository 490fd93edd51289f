"""From mapped nodes to the network: products with the vector work fused into them, and the tensors between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from cmswitch.graph.ir import Graph, Node, Shape
from cmswitch.graph.network import HOST, MatrixProduct, Need, Network, Operator, Read, Role, Tensor, VectorWork, Write
from cmswitch.graph.rules import Mapped, Product, Vector, View
from cmswitch.graph.rules.rule import grouped
from cmswitch.graph.streams import Link, Stream, join, merge, need, reshape, rows, through, units


@dataclass(eq=False)
class _Draft:
    """An operator under construction. ``order`` is its place; the vector-only operator on the inputs comes first."""

    order: int
    name: str
    chunks: int
    product: MatrixProduct | None = None
    nodes: list[str] = field(default_factory=list)
    vector: list[VectorWork] = field(default_factory=list)
    reads: dict[tuple[str, Role], Read] = field(default_factory=dict)


@dataclass(frozen=True)
class _Home:
    """Where a value is made: its operator (None: the host, a network input), the tensor that holds it, and how it streams."""

    owner: _Draft | None
    tensor: str
    stream: Stream | None


class Builder:
    """The network of the nodes of ``graph``, which are ``mapped``; products do those ``absorbed`` already."""

    def __init__(self, graph: Graph, mapped: Sequence[Mapped], absorbed: frozenset[str]) -> None:
        self._graph, self._mapped, self._absorbed = graph, mapped, absorbed
        self._homes: dict[str, _Home] = {}
        self._waiting: dict[str, tuple[VectorWork, ...]] = {}
        self._placed: set[str] = set()
        self._drafts: list[_Draft] = []
        self._first: _Draft | None = None
        self._values: list[str] = []
        self._first_chunks = 1

    def network(self) -> Network:
        """Place every node, then number operators and tensors."""
        self._place_inputs()
        for node, mapped in zip(self._graph.nodes, self._mapped, strict=True):
            if isinstance(mapped, Product):
                self._product(node, mapped)
            elif node.id in self._absorbed:
                home = self._homes[node.inputs[0]]
                assert home.owner is not None
                home.owner.nodes.append(node.id)
                self._put(node.outputs[0], home.owner, home.stream)
            elif isinstance(mapped, View):
                self._view(node)
            else:
                self._vector(node, mapped)
        return self._assemble()

    def _place_inputs(self) -> None:
        """Network inputs stream too: what is computed from them alone is cut along their rows (images) or tokens."""
        used = {value for node in self._graph.nodes for value in node.inputs}
        shapes = {name: self._shape(name) for name in self._graph.inputs if name in used}
        axes = {name: (0, 2) if len(shape) > 3 else (0, 1)[: len(shape)] for name, shape in shapes.items()}
        self._first_chunks = grouped(max((units(axes[name], shape) for name, shape in shapes.items()), default=1) or 1)
        for name, shape in shapes.items():
            self._homes[name] = _Home(None, name, rows(axes[name], shape, self._first_chunks))

    def _put(self, value: str, owner: _Draft, stream: Stream | None) -> None:
        self._homes[value] = _Home(owner, value, stream)
        self._values.append(value)

    def _shape(self, value: str) -> Shape:
        shape = self._graph.values[value].shape
        assert shape is not None
        return shape

    def _read(
        self,
        draft: _Draft,
        value: str,
        role: Role,
        schedule: Stream | None,
        link: Link | None,
        outputs: Shape,
        expanded: int | None = None,
    ) -> None:
        home = self._homes[value]
        for work in self._waiting.get(value, ()):
            self._work(draft, work)
        total = home.owner.chunks if home.owner else 1
        wanted = Need.whole(total)
        if role != "operand":
            wanted = need(schedule, draft.chunks, link, outputs, home.stream, self._shape(value), total)
        elements = prod(self._shape(home.tensor))
        known = draft.reads.get((home.tensor, role))
        if known is not None:
            wanted = merge(known.need, wanted, total)
        draft.reads[home.tensor, role] = Read(-1, role, elements, elements if expanded is None else expanded, wanted)

    def _work(self, draft: _Draft, work: VectorWork) -> None:
        if work.node not in self._placed:
            self._placed.add(work.node)
            draft.nodes.append(work.node)
            draft.vector.append(work)

    def _product(self, node: Node, rule: Product) -> None:
        held = node.value(rule.operand)
        product = MatrixProduct(
            rule.rows, rule.inner, rule.columns, rule.groups, held.weight, rule.recurrent, held.bits
        )
        draft = _Draft(len(self._drafts), node.id, rule.chunks, product, [node.id])
        self._drafts.append(draft)
        outputs = node.output_shape()
        stream = rows(rule.axes, outputs, rule.chunks)
        self._read(draft, node.inputs[rule.matrix], "matrix", stream, rule.link, outputs, rule.expanded)
        if not held.constant:
            self._read(draft, node.inputs[rule.operand], "operand", None, None, outputs)
        for index in rule.sides:
            self._read(draft, node.inputs[index], "side", None, None, outputs)
            draft.vector.append(VectorWork(node.id, "add", node.output_elements()))
        for index in rule.initial:
            self._read(draft, node.inputs[index], "side", None, None, outputs)
        draft.vector.extend(VectorWork(node.id, kind, elements, not rule.recurrent) for kind, elements in rule.extra)
        self._put(node.outputs[0], draft, stream)

    def _view(self, node: Node) -> None:
        source, value = node.inputs[0], node.outputs[0]
        home = self._homes[source]
        stream = reshape(home.stream, self._shape(source), self._shape(value))
        self._homes[value] = _Home(home.owner, home.tensor, stream)
        work = VectorWork(node.id, "view", node.output_elements())
        if home.owner is None:
            self._waiting[value] = (*self._waiting.get(source, ()), work)
        else:
            self._work(home.owner, work)

    def _vector(self, node: Node, rule: Vector) -> None:
        given = [(i, v) for i, v in enumerate(node.inputs) if v and not self._graph.values[v].constant]
        owners = [home.owner for _, v in given if (home := self._homes[v]).owner is not None]
        draft = max((o for o in owners if o is not None), key=lambda o: o.order, default=None) or self._prelude(node)
        schedule: Stream | None = None
        for position, value in enumerate(node.outputs[: len(rule.links)]):
            if not node.makes(position) or self._graph.values[value].constant:
                continue
            links, shape = rule.links[position], self._shape(value)
            parts = [
                (home.owner, through(home.stream, links[i], self._shape(v), shape))
                for i, v in given
                if (home := self._homes[v]).owner is draft or draft is self._first
            ]
            # a network input that the output does not follow is there from the start
            stream = join((part for owner, part in parts if owner is not None or part is not None), shape)
            schedule = stream if position == 0 else None
            self._put(value, draft, stream)
            for i, v in given:
                if self._homes[v].owner is not draft:
                    self._read(draft, v, "side", schedule, links[i], shape)
        self._work(draft, VectorWork(node.id, rule.kind, rule.elements, rule.columnwise))

    def _prelude(self, node: Node) -> _Draft:
        """The vector-only operator for what depends on network inputs alone."""
        if self._first is None:
            self._first = _Draft(-1, node.id, self._first_chunks)
        return self._first

    def _assemble(self) -> Network:
        drafts = ([self._first] if self._first else []) + self._drafts
        index = {id(draft): position for position, draft in enumerate(drafts)}
        outputs = {self._homes[v].tensor for v in self._graph.outputs if v in self._homes and self._homes[v].owner}
        used = {tensor for draft in drafts for tensor, _ in draft.reads} | outputs
        names = [name for name in self._graph.inputs if name in used]
        made: dict[int, list[str]] = {}
        for name in self._values:
            if name in used:
                owner = self._homes[name].owner
                made.setdefault(index[id(owner)], []).append(name)
        names += [name for position in sorted(made) for name in made[position]]
        number = {name: position for position, name in enumerate(names)}
        tensors = tuple(self._tensor(name, index, name in outputs) for name in names)
        operators = tuple(
            self._operator(draft, number, made.get(position, [])) for position, draft in enumerate(drafts)
        )
        products = {draft.name for draft in self._drafts}
        on_host = dict.fromkeys(work.node for draft in drafts for work in draft.vector if work.kind == HOST)
        host_nodes = tuple(node for node in on_host if node not in products)
        return Network(self._graph.name, operators, tensors, self._graph.node_count, host_nodes)

    def _tensor(self, name: str, index: Mapping[int, int], is_output: bool) -> Tensor:
        owner = self._homes[name].owner
        return Tensor(name, prod(self._shape(name)), None if owner is None else index[id(owner)], is_output)

    def _operator(self, draft: _Draft, number: Mapping[str, int], made: Sequence[str]) -> Operator:
        reads = tuple(
            Read(number[tensor], read.role, read.elements, read.expanded_elements, read.need)
            for (tensor, _), read in draft.reads.items()
        )
        writes = tuple(Write(number[name]) for name in made)
        return Operator(draft.name, tuple(draft.nodes), draft.product, draft.chunks, reads, tuple(draft.vector), writes)
