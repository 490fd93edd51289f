"""What surrounds a product: inputs made and quantised before it, and the vector unit's work on its sums after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cmswitch.functional import layout
from cmswitch.functional.description import Call, Convolution, PositionProduct, Product, Task
from cmswitch.functional.errors import ExecutionError
from cmswitch.functional.formats import Array, Format, Raw

Run = Callable[[Call, Mapping[str, Array]], Mapping[str, Array]]
"""The vector unit: the outputs of one node, by name, given the values that it reads."""


@dataclass(frozen=True)
class Weight:
    """A constant operand: codes in the node's own layout, and their format."""

    codes: Array
    form: Format


@dataclass(frozen=True)
class Numbers:
    """Everything about a network's numbers: formats of tensors, of products' inputs by value, weights by task, constants."""

    tensors: Mapping[str, Format | Raw]
    matrices: Mapping[str, Format]
    operands: Mapping[str, Format]
    weights: Mapping[str, Weight]
    constants: Mapping[str, Array]


class Steps:
    """The steps of tasks that are no MVM, on the values that codes stand for."""

    def __init__(self, numbers: Numbers, run: Run) -> None:
        self._numbers, self._run = numbers, run
        self._known: dict[str, tuple[Array | None, Mapping[str, Array], dict[str, Array]]] = {}

    def values(self, tensors: Mapping[str, Array]) -> dict[str, Array]:
        """What the codes of tensors stand for, in the types of the network."""
        forms = self._numbers.tensors
        return {
            name: codes if isinstance(forms[name], Raw) else forms[name].values(codes).astype(forms[name].dtype)
            for name, codes in tensors.items()
        }

    def matrix(self, task: Task, values: Mapping[str, Array]) -> Array:
        """Codes of the streamed input."""
        assert task.product is not None
        name = task.product.matrix
        return self._numbers.matrices[name].codes(self._made(task.before, values, name))

    def operand(self, task: Task, values: Mapping[str, Array]) -> Array:
        """Codes of the held input, if it is an activation."""
        assert task.product is not None
        name = task.product.operand
        return self._numbers.operands[name].codes(self._made(task.fill, values, name))

    def weight(self, task: Task) -> Weight:
        """The constant operand."""
        return self._numbers.weights[task.name]

    def matrix_format(self, product: Product) -> Format:
        """The format of the streamed input."""
        return self._numbers.matrices[product.matrix]

    def operand_format(self, task: Task) -> Format:
        """The format of the held input."""
        assert task.product is not None
        return self.weight(task).form if task.product.constant else self._numbers.operands[task.product.operand]

    def outputs(self, task: Task, sums: Array | None, values: Mapping[str, Array]) -> dict[str, Array]:
        """Codes of every tensor that the task writes. ``sums`` are its product's, in the shape of the node's output.

        The last result of each task is kept, as the machine and its reference ask for the same unless something is wrong.
        """
        if task.name in self._known:
            old_sums, old_values, found = self._known[task.name]
            if _same(sums, old_sums) and all(_same(values.get(name), old_values.get(name)) for name in task.reads):
                return found
        found = self._outputs(task, sums, values)
        self._known[task.name] = sums, values, found
        return found

    def recurrence(
        self, task: Task, values: Mapping[str, Array], multiply: Callable[[int, Array], Array]
    ) -> tuple[Array, Array, dict[str, Array]]:
        """(sums of all steps, codes of all states that were multiplied, outputs) of a recurrent product.

        ``multiply`` makes the sums [batch, columns] of step number n from the codes of the state [batch, hidden].
        """
        product = task.product
        assert product is not None and product.recurrence is not None
        loop = product.recurrence
        gates = self._made(task.before, values, loop.gates)
        form, step = self.matrix_format(product), one_step(product)
        known = {**self._numbers.constants, **values}
        zeros = np.zeros((loop.batch, loop.hidden), np.float32)
        state, cell = (known[name] if name else zeros for name in loop.first)
        sums = np.zeros((loop.steps, loop.batch, product.columns), np.int64)
        taken = np.zeros((loop.steps, loop.batch, loop.hidden), np.int64)
        states = np.zeros((loop.steps, loop.batch, loop.hidden), np.float32)
        width = product.columns
        fixed = {
            "identity": np.eye(width, dtype=np.float32)[None],
            "nothing": np.zeros((1, width, loop.hidden), np.float32),
            **{name: known[name][None] for name in loop.cell.inputs if name in known},
        }
        for number, time in enumerate(range(loop.steps)[:: -1 if loop.backwards else 1]):
            taken[time] = form.codes(state)
            sums[time] = multiply(number, taken[time])
            gate = gates[time] + self._scaled(task, step, sums[time], known)
            found = self._run(loop.cell, {**fixed, "gates": gate[None], "state": state[None], "cell": cell[None]})
            state, cell = found["state'"][0], found["cell'"][0]
            states[time] = state
        outputs = self._finished(task, {**known, product.output: states})
        return sums.reshape(product.shape), taken.reshape(product.rows, loop.hidden), outputs

    def _outputs(self, task: Task, sums: Array | None, values: Mapping[str, Array]) -> dict[str, Array]:
        known = {**self._numbers.constants, **values}
        if task.product is not None and sums is not None:
            known[task.product.output] = self._scaled(task, task.product, sums, known)
        return self._finished(task, known)

    def _finished(self, task: Task, known: dict[str, Array]) -> dict[str, Array]:
        """Codes of what the task writes, from the result of its product and what it reads."""
        for call in task.after:
            if task.refusal is not None and any(name and name not in known for name in call.inputs):
                continue  # it follows from what another refused task makes
            known.update(self._run(call, known))
        return {name: self._numbers.tensors[name].codes(known[name]) for name in task.writes if name in known}

    def _made(self, calls: tuple[Call, ...], values: Mapping[str, Array], name: str) -> Array:
        known = {**self._numbers.constants, **values}
        for call in calls:
            known.update(self._run(call, known))
        if name not in known:
            raise ExecutionError(f"a product needs {name!r}, which was not loaded")
        return known[name]

    def _scaled(self, task: Task, product: Product, sums: Array, known: Mapping[str, Array]) -> Array:
        """The numbers that sums stand for, with the bias."""
        held = self.operand_format(task)
        scale: Array = np.asarray(held.scale)
        if scale.size > 1:
            shape = self.weight(task).codes.shape
            by_column = layout.operand(product, np.broadcast_to(scale, shape))[:, :1, :]
            scale = layout.result(product, np.broadcast_to(by_column, (product.groups, product.rows, product.columns)))
        found = sums * (scale * self.matrix_format(product).scale * product.factor)
        if product.bias:
            bias = known[product.bias]
            if isinstance(product.geometry, Convolution) and not product.geometry.last:
                bias = bias.reshape(-1, *(1,) * (found.ndim - 2))
            assert not isinstance(product.geometry, PositionProduct)
            found = found + bias * product.bias_factor
        return np.asarray(found, np.float32)


def one_step(product: Product) -> Product:
    """The product of a single step of a recurrent one."""
    assert product.recurrence is not None
    batch = product.recurrence.batch
    return replace(product, rows=batch, shape=(batch, product.columns))


def _same(one: Array | None, other: Array | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
