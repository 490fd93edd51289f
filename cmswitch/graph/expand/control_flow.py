"""Control flow that follows from constants: If becomes one of its branches, Loop and Scan a copy of the body per iteration.

What a body computes from constants alone is written once for all iterations, so that each weight is stored once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
import onnx
from onnx import helper

from cmswitch.graph.expand.parts import EXPANSIONS, MOST_VALUES, Part, Parts
from cmswitch.graph.expand.sequences import items_of, sequence
from cmswitch.graph.fold import RANDOM
from cmswitch.graph.ir import Node, Unsupported
from cmswitch.graph.names import unique_ids
from cmswitch.graph.scopes import ordered, own_values, reads, renamed
from cmswitch.graph.table import INTERNAL
from cmswitch.naming import quantity

NO_LIMIT = 2**31 - 1
"""Trip counts from here on are what exporters write for a loop that only its condition ends."""

CONTROL_FLOW = frozenset(("", operator) for operator in ("If", "Loop", "Scan", "SequenceMap"))
"""Operators that carry graphs of their own."""

MOST_UNCOUNTED = 1000
"""Iterations of a loop that only its condition ends: one that never ends is noticed within seconds."""


class _Body:
    """A subgraph of ``node``, written as parts. The value ``v`` inside it becomes ``NODE:v``."""

    def __init__(self, node: Node, attribute: str) -> None:
        graph: onnx.GraphProto = node.attributes[attribute]
        self._node, self._graph = node, graph
        protos = ordered(graph, node.id, node.values)
        self._nodes = list(zip(unique_ids(protos), protos, strict=True))
        self._shared: dict[str, str] = {}
        self.inputs = [value.name for value in graph.input]
        self.outputs: list[str] = []

    def constants(self) -> Iterator[Part]:
        """What does not depend on an iteration: stored constants, and what follows from constants alone."""
        for tensor in self._graph.initializer:
            made = self._shared[tensor.name] = self._name(tensor.name)
            yield Part(helper.make_node("Constant", [], [made], tensor.name, value=tensor))
        for sparse in self._graph.sparse_initializer:
            made = self._shared[sparse.values.name] = self._name(sparse.values.name)
            yield Part(helper.make_node("Constant", [], [made], sparse.values.name, sparse_value=sparse))
        changing = own_values(self._graph) - set(self._shared)
        remaining = []
        for identity, proto in self._nodes:
            used = list(reads(proto))
            fixed = changing.isdisjoint(used) and proto.op_type not in RANDOM
            if fixed and all(self._node.values[self._shared.get(value, value)].constant for value in used):
                yield self._part(identity, proto, self._shared, "")
            else:
                remaining.append((identity, proto))
                changing.update(proto.output)
        self._nodes = remaining

    def copy(self, given: Mapping[str, str], mark: str = "") -> Iterator[Part]:
        """One run on the values ``given`` to its inputs, marked by ``mark``; leaves the names of its results in ``outputs``."""
        names = {**self._shared, **given}
        for identity, proto in self._nodes:
            yield self._part(identity, proto, names, mark)
        self.outputs = [names.get(value.name, value.name) for value in self._graph.output]

    def _part(self, identity: str, proto: onnx.NodeProto, names: dict[str, str], mark: str) -> Part:
        names.update((value, self._name(mark + value)) for value in proto.output if value)
        part = renamed(proto, names)
        part.name = mark + identity
        return Part(part, version=None)

    def _name(self, value: str) -> str:
        return f"{self._node.id}:{value}"


@EXPANSIONS.of("If")
def branch(node: Node) -> Iterator[Part]:
    """If: the branch that its condition takes."""
    taken = _decided(node, "condition", node.inputs[0])
    body = _Body(node, "then_branch" if taken else "else_branch")
    yield from body.constants()
    yield from body.copy({})
    parts = Parts(node)
    for made, output in zip(body.outputs, node.outputs, strict=True):
        parts.add("Identity", made, output=output)
    yield from parts.fresh()


@EXPANSIONS.of("Loop")
def loop(node: Node) -> Iterator[Part]:
    """Loop: iterations while its condition holds, as long as that follows from constants."""
    body, parts = _Body(node, "body"), Parts(node)
    count = _decided(node, "trip count", node.inputs[0]) if node.has(0) else None
    if count is not None and count >= NO_LIMIT:
        count = None
    going = bool(_decided(node, "condition", node.inputs[1])) if node.has(1) else True
    carried = list(node.inputs[2:])
    rows: list[list[str]] = [[] for _ in node.outputs[len(carried) :]]
    yield from body.constants()
    room, iteration = _Room(node), 0
    while going and (count is None or iteration < count):
        given = [parts.constant(iteration), parts.constant(True, np.bool_), *carried]
        yield from parts.fresh()
        yield from body.copy(dict(zip(body.inputs, given, strict=True)), f"{iteration}.")
        iteration += 1
        condition, *made = body.outputs
        going = bool(_decided(node, "condition", condition))
        carried = made[: len(carried)]
        for row, value in zip(rows, made[len(carried) :], strict=True):
            row.append(value)
        if count is None and going and iteration == MOST_UNCOUNTED:
            raise Unsupported(
                f"it has no trip count and goes on after {iteration} iterations",
                "give it a trip count, or a condition that ends it",
            )
        room.check(iteration, count)
    _results(node, parts, carried, rows, [0] * len(rows))
    yield from parts.fresh()


@EXPANSIONS.of("Scan")
def scan(node: Node) -> Iterator[Part]:
    """Scan: one iteration for each slice of its inputs."""
    if node.version < 9:
        raise Unsupported("Scan with a batch axis", "convert the model to operator set 9 or later")
    body, parts = _Body(node, "body"), Parts(node)
    scanned = node.integer("num_scan_inputs", 0)
    first = len(node.inputs) - scanned
    carried, streams = list(node.inputs[:first]), node.inputs[first:]
    shapes = [node.shape(first + i) for i in range(scanned)]
    given_axes = node.integers("scan_input_axes") or [0] * scanned
    axes = [axis % len(shape) for axis, shape in zip(given_axes, shapes, strict=True)]
    backwards = node.integers("scan_input_directions") or [0] * scanned
    (length,) = {shape[axis] for shape, axis in zip(shapes, axes, strict=True)}
    made_axes = node.integers("scan_output_axes") or [0] * (len(node.outputs) - first)
    made_backwards = node.integers("scan_output_directions") or [0] * len(made_axes)
    rows: list[list[str]] = [[] for _ in made_axes]
    yield from body.constants()
    room = _Room(node)
    for step in range(length):
        given = list(carried)
        for stream, axis, back in zip(streams, axes, backwards, strict=True):
            position = length - 1 - step if back else step
            bounds = [parts.constant([n]) for n in (position, position + 1, axis)]
            given.append(parts.add("Squeeze", parts.add("Slice", stream, *bounds), bounds[2]))
        yield from parts.fresh()
        yield from body.copy(dict(zip(body.inputs, given, strict=True)), f"{step}.")
        carried = body.outputs[:first]
        for row, value, back in zip(rows, body.outputs[first:], made_backwards, strict=True):
            row.insert(0 if back else step, value)
        room.check(step + 1, length)
    _results(node, parts, carried, rows, made_axes)
    yield from parts.fresh()


@EXPANSIONS.of("SequenceMap")
def sequence_map(node: Node) -> Iterator[Part]:
    """SequenceMap: one run of the body for each element of the first input, and of the others that are sequences."""
    body = _Body(node, "body")
    rows = [node.values[value].items for value in node.inputs]
    yield from body.constants()
    made: list[list[str]] = [[] for _ in node.outputs]
    for place in range(len(items_of(node, 0))):
        given = [name if row is None else row[place] for name, row in zip(node.inputs, rows, strict=True)]
        yield from body.copy(dict(zip(body.inputs, given, strict=True)), f"{place}.")
        for items, item in zip(made, body.outputs, strict=True):
            items.append(item)
    for items, output in zip(made, node.outputs, strict=True):
        yield sequence(items, output)


def _results(
    node: Node, parts: Parts, carried: Sequence[str], rows: Sequence[Sequence[str]], axes: Sequence[int]
) -> None:
    """The outputs of a loop: what it carried to the end, and what each iteration made, stacked along a new axis."""
    for value, output in zip(carried, node.outputs, strict=False):
        if output:
            parts.add("Identity", value, output=output)
    for row, axis, output in zip(rows, axes, node.outputs[len(carried) :], strict=True):
        if output and row:
            place = parts.constant([axis])
            parts.add("Concat", *(parts.add("Unsqueeze", value, place) for value in row), output=output, axis=axis)
        elif output:  # whoever reads it is refused
            parts.add("Nothing", output=output, domain=INTERNAL)


class _Room:
    """Refuses a loop that makes too many values."""

    def __init__(self, node: Node) -> None:
        self._node, self._before = node, len(node.values)

    def check(self, done: int, count: int | None) -> None:
        """Raise Unsupported after ``done`` of ``count`` iterations if there is no room for all of them."""
        made = (len(self._node.values) - self._before) * (count or done) // done
        if made > MOST_VALUES:
            raise Unsupported(
                f"in {quantity(count or done, 'iteration')} it makes {quantity(made, 'value')}, more than the "
                f"{MOST_VALUES:,} that are written out",
                "bind a shorter sequence, or split the loop before export",
            )


def _decided(node: Node, role: str, name: str) -> int:
    """The number that decides where control goes. Raises Unsupported, with the way to make it constant, if it has none."""
    value = node.values[name]
    if value.data is not None:
        return int(value.data.item())
    sources = sorted(value.sources)
    origin = f" from {', '.join(map(repr, sources))}" if sources else ""
    shapes = [node.values[source].shape for source in sources]
    one_number = len(sources) == 1 and shapes[0] is not None and prod(shapes[0]) == 1
    remedy = f"give `--value {sources[0]}=V`" if one_number else "make it a constant of the file"
    raise Unsupported(f"its {role} {name!r} is computed at run time{origin}", remedy)
