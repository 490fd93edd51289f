"""What surrounds a product: inputs made and quantised before it, and the vector unit's work on its sums after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cmswitch.functional import layout
from cmswitch.functional.description import Call, Convolution, PositionProduct, Product, Task
from cmswitch.functional.errors import ExecutionError
from cmswitch.functional.formats import Array, Format, Raw
from cmswitch.functional.recurrence import Layer, Run


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
        return self._numbers.matrices[name].codes(self._made(task.before, values, [name])[name])

    def operand(self, task: Task, values: Mapping[str, Array]) -> Array:
        """Codes of the held input, if it is an activation."""
        assert task.product is not None
        name = task.product.operand
        return self._numbers.operands[name].codes(self._made(task.fill, values, [name])[name])

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
        """(sums of all passes of all steps, codes of all states that were multiplied, outputs) of a recurrent product.

        ``multiply`` makes the sums [batch, columns] of step number n from the codes of the state [batch, hidden]. Sums and codes
        come in the order of the steps.
        """
        product = task.product
        assert product is not None and product.recurrence is not None
        loop, form, step = product.recurrence, self.matrix_format(product), one_step(product)
        known = self._made(task.before, values, [loop.gates, *filter(None, loop.first)])
        sums: list[Array] = []
        taken: list[Array] = []

        def multiplied(number: int, state: Array) -> Array:
            taken.append(form.codes(state))
            sums.append(multiply(number, taken[-1]))
            return self._scaled(task, step, sums[-1], known)

        found = Layer(loop, known, self._run, multiplied).unrolled(known[loop.gates])
        made = {product.output: found.states, **({loop.final: found.cell[None]} if loop.final else {})}
        outputs = self._finished(task, {**known, **made})
        return np.concatenate(sums), np.concatenate(taken), outputs

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

    def _made(self, calls: tuple[Call, ...], values: Mapping[str, Array], names: Iterable[str]) -> dict[str, Array]:
        """Constants, ``values`` and what ``calls`` make of them, with all ``names`` among it."""
        known = {**self._numbers.constants, **values}
        for call in calls:
            known.update(self._run(call, known))
        missing = next((name for name in names if name not in known), None)
        if missing is not None:
            raise ExecutionError(f"a product needs {missing!r}, which was not loaded")
        return known

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
