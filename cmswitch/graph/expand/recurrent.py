"""LSTM, GRU and RNN: a product of all steps with the input weights, then one step after another with the recurrent ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.ir import Node, Unsupported
from cmswitch.graph.table import INTERNAL
from cmswitch.naming import quantity


@dataclass(frozen=True)
class _Cell:
    """Vector work per element of the state and step, besides adding the pre-activations of its ``gates``.

    ``activations``: functions that are applied; ``products`` and ``sums`` of the equations; ``states`` carried on.
    """

    gates: int
    activations: int
    products: int
    sums: int
    states: int = 1


CELLS = {
    # i, o, f, c~ and h(C); C' = f C + i c~, H' = o h(C')
    "LSTM": _Cell(gates=4, activations=5, products=3, sums=1, states=2),
    # z, r, h~; r H (or r times its product), H' = (1 - z) h~ + z H
    "GRU": _Cell(gates=3, activations=3, products=3, sums=2),
    "RNN": _Cell(gates=1, activations=1, products=0, sums=0),
}
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""Which directions a node has, and whether each is reversed."""

PEEPHOLES = 3
"""Gates of an LSTM that may look at the cell state: a product and a sum each."""


@EXPANSIONS.of(*CELLS)
def recurrent(node: Node) -> Sequence[Part]:
    """LSTM, GRU, RNN in one or both directions.

    A GRU with ``linear_before_reset = 0`` multiplies its last gate's weights after its first two; here all weights are
    multiplied at once, as with 1. Constant biases are part of the products, as everywhere.
    """
    return _Writer(node).parts()


class _Writer:
    def __init__(self, node: Node) -> None:
        self._node, self._parts, self._cell = node, Parts(node), CELLS[node.operator]
        self._reversed = DIRECTIONS[node.attributes.get("direction", b"forward").decode()]
        self._batch_first = bool(node.integer("layout", 0))
        data, weights, feedback = (node.shape(i) for i in range(3))
        self._steps, self._batch = (data[1], data[0]) if self._batch_first else data[:2]
        self._hidden = feedback[2]
        rows = (len(self._reversed), self._cell.gates * self._hidden)
        stated = node.integer("hidden_size", self._hidden)
        if stated != self._hidden:
            raise Unsupported(
                f"its hidden_size is {stated}, but its weights are of {quantity(self._hidden, 'state')}",
                "correct the attribute `hidden_size` or the weights",
            )
        if weights[:2] != rows or feedback[:2] != rows:
            raise Unsupported(
                f"its weights are no {rows[0]} x {rows[1]} x N for "
                f"{quantity(rows[0], 'direction')} and {quantity(self._hidden, 'state')}",
                "correct the attribute `direction` or the weights",
            )

    def parts(self) -> list[Part]:
        """Both directions, and the outputs that are joined from theirs."""
        add, constant = self._parts.add, self._parts.constant
        data = self._node.inputs[0]
        if self._batch_first:
            data = add("Transpose", data, perm=(1, 0, 2))
        states = [self._direction(data, d) for d in range(len(self._reversed))]
        if self._makes(0):
            self._join(0, [add("Unsqueeze", state, constant([1])) for state in states], 1, (2, 0, 1, 3))
        if self._makes(1):
            ends = [0 if back else self._steps - 1 for back in self._reversed]
            last = [
                add("Slice", s, constant([e]), constant([e + 1]), constant([0]))
                for s, e in zip(states, ends, strict=True)
            ]
            self._join(1, last, 0, (1, 0, 2))
        if self._makes(2):
            shape = (1, self._batch, self._hidden)
            cells = [add("FinalCell", state, domain=INTERNAL, shape=shape) for state in states]
            self._join(2, cells, 0, (1, 0, 2))
        return self._parts.list

    def _makes(self, index: int) -> bool:
        return index < len(self._node.outputs) and self._node.outputs[index] != ""

    def _join(self, index: int, values: Sequence[str], axis: int, batch_first: tuple[int, ...]) -> None:
        """Output number ``index`` from what each direction makes of it."""
        output = self._node.outputs[index]
        joined = self._parts.add("Concat", *values, output=None if self._batch_first else output, axis=axis)
        if self._batch_first:
            self._parts.add("Transpose", joined, output=output, perm=batch_first)

    def _direction(self, data: str, direction: int) -> str:
        """The states [T, B, H] of one direction."""
        node, add = self._node, self._parts.add
        gates = add("MatMul", data, add("Transpose", self._of(1, direction), perm=(1, 0)))
        if node.has(3) and not node.value(3).constant:
            halves = add("Reshape", self._of(3, direction), self._parts.constant([2, -1]))
            gates = add("Add", gates, add("ReduceSum", halves, self._parts.constant([0]), keepdims=0))
        bias = self._of(3, direction) if node.has(3) and node.value(3).constant else ""
        initial = [self._of(i, direction) if node.has(i) else "" for i in (5, 6, 7)]
        further = [bias, node.inputs[4] if node.has(4) else "", *initial]
        while further and not further[-1]:
            further.pop()
        additions, operations = self._work()
        return add(
            "Recurrence",
            gates,
            self._of(2, direction),
            *further,
            domain=INTERNAL,
            shape=(self._steps, self._batch, self._hidden),
            backwards=int(self._reversed[direction]),
            additions=additions,
            operations=operations,
            cell=node.operator,
            **self._settings(direction),
        )

    def _settings(self, direction: int) -> dict[str, Any]:
        """The attributes that say what a step computes, of one direction."""
        found = {n: v for n, v in self._node.attributes.items() if n in ("clip", "input_forget", "linear_before_reset")}
        for name in ("activations", "activation_alpha", "activation_beta"):
            given = self._node.attributes.get(name)
            if given:
                share = len(given) // len(self._reversed)
                found[name] = given[share * direction : share * (direction + 1)]
        return found

    def _of(self, index: int, direction: int) -> str:
        """The share of input number ``index`` that belongs to one direction, without the axis of the directions."""
        constant = self._parts.constant
        axis = constant([1 if self._batch_first and index in (5, 6) else 0])
        value = self._node.inputs[index]
        if len(self._reversed) > 1:
            value = self._parts.add("Slice", value, constant([direction]), constant([direction + 1]), axis)
        return self._parts.add("Squeeze", value, axis)

    def _work(self) -> tuple[int, int]:
        """Additions and other operations per element of the state and step."""
        node, cell = self._node, self._cell
        coupled = node.integer("input_forget", 0)  # f = 1 - i instead of a function
        looking = PEEPHOLES if node.has(7) else 0
        activations = cell.activations - coupled
        clipped = activations if "clip" in node.attributes else 0
        lengths = node.value(4).data
        masked = node.has(4) and (lengths is None or bool((lengths != self._steps).any()))
        masks = cell.states + 1 if masked else 0  # of each state and of the output
        additions = cell.gates + cell.sums + coupled + looking
        return additions, activations + cell.products + looking + clipped + masks
