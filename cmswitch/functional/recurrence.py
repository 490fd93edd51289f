"""Recurrent layers step by step: what the vector unit makes of the product of each state, in ONNX layers of one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from cmswitch.functional.description import Call, Recurrence
from cmswitch.functional.formats import Array

Run = Callable[[Call, Mapping[str, Array]], Mapping[str, Array]]
"""The vector unit: the outputs of one node, by name, given the values that it reads."""
Multiply = Callable[[int, Array], Array]
"""The product [batch, columns] of a state [batch, hidden] with the recurrent weights, in step number n."""

GATES, IDENTITY, NOTHING, BIAS, STATE, CELL = "gates", "identity", "nothing", "bias", "state", "cell"
"""Inputs of a layer of one step: input, input weights, recurrent weights, bias and states."""
NEXT_STATE, NEXT_CELL = "next state", "next cell"
"""Its outputs."""


@dataclass(frozen=True)
class Unrolled:
    """States of all steps [steps, batch, hidden], and the cell state [batch, hidden] that the last leaves."""

    states: Array
    cell: Array


class Layer:
    """A recurrent layer of one direction. ``known`` are the values of the network that its steps read."""

    def __init__(self, loop: Recurrence, known: Mapping[str, Array], run: Run, multiply: Multiply) -> None:
        self._loop, self._known, self._run, self._multiply = loop, known, run, multiply
        self._fixed = {name: known[name][None] for name in loop.cell.inputs if name in known}
        if loop.bias:
            self._fixed[BIAS] = known[loop.bias][None]
        elif loop.resets_product:
            self._fixed[BIAS] = np.zeros((1, 6 * loop.hidden), np.float32)

    def unrolled(self, gates: Array) -> Unrolled:
        """All steps, from the pre-activations [steps, batch, columns]."""
        loop = self._loop
        zeros = np.zeros((loop.batch, loop.hidden), np.float32)
        state, cell = (self._known[name] if name else zeros for name in loop.first)
        states = np.zeros((loop.steps, loop.batch, loop.hidden), np.float32)
        for number, time in enumerate(range(loop.steps)[:: -1 if loop.backwards else 1]):
            state, cell = self._step(number, gates[time], state, cell)
            states[time] = state
        return Unrolled(states, cell)

    def _step(self, number: int, gates: Array, state: Array, cell: Array) -> tuple[Array, Array]:
        """The states after a step with the pre-activations ``gates`` [batch, columns]."""
        hidden, product = self._loop.hidden, self._multiply(number, state)
        if self._loop.resets_product:
            return self._reset_inside(gates, product, state), cell
        if self._loop.reset is not None:
            share = slice(hidden, 2 * hidden)
            reset = self._one_step(self._loop.reset, (gates + product)[:, share], state, cell, share)[0]
            again = self._multiply(number, reset * state)
            product = np.concatenate([product[:, : 2 * hidden], again[:, 2 * hidden :]], axis=1)
        return self._one_step(self._loop.cell, gates + product, state, cell)

    def _reset_inside(self, gates: Array, product: Array, state: Array) -> Array:
        """The state of a layer that resets the last gate's product: it takes the place of that gate's recurrent bias, which
        differs from row to row of the batch."""
        hidden = self._loop.hidden
        given = gates + np.pad(product[:, : 2 * hidden], ((0, 0), (0, hidden)))
        made = []
        for row in range(self._loop.batch):
            bias = self._fixed[BIAS] + np.pad(product[row, 2 * hidden :], (5 * hidden, 0))
            one = slice(row, row + 1)
            made.append(self._one_step(self._loop.cell, given[one], state[one], state[one], bias=bias)[0])
        return np.concatenate(made)

    def _one_step(
        self, call: Call, gates: Array, state: Array, cell: Array, share: slice | None = None, bias: Array | None = None
    ) -> tuple[Array, Array]:
        """The states that a layer of one step, or the gate of it that has the columns ``share``, makes of its input."""
        width = gates.shape[1]
        given = {
            **self._fixed,
            GATES: gates[None].astype(np.float32),
            IDENTITY: np.eye(width, dtype=np.float32)[None],
            NOTHING: np.zeros((1, width, self._loop.hidden), np.float32),
            STATE: state[None],
            CELL: cell[None],
        }
        if bias is not None:
            given[BIAS] = bias.astype(np.float32)
        elif share is not None and BIAS in given:
            given[BIAS] = given[BIAS].reshape(1, 2, -1)[:, :, share].reshape(1, -1)
        found = self._run(call, given)
        return found[NEXT_STATE][0], found[NEXT_CELL][0] if NEXT_CELL in found else cell
