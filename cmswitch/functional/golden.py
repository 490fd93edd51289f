"""The network on whole numbers without a program: what every operator of the machine is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cmswitch.functional.description import Task
from cmswitch.functional.errors import UnsupportedNode
from cmswitch.functional.formats import Array
from cmswitch.functional.reference import reference_product, sampled_product
from cmswitch.functional.steps import Steps, one_step


@dataclass(frozen=True)
class Golden:
    """By task: the sums of its product; by tensor its codes; ``refused`` tasks with the reason."""

    sums: Mapping[str, Array]
    tensors: Mapping[str, Array]
    refused: Mapping[str, str]


def golden_run(tasks: Sequence[Task], steps: Steps, given: Mapping[str, Array], done: Callable[[str], None]) -> Golden:
    """Run every task in order on the codes of the network inputs; ``done`` is called with the name of each."""
    tensors = dict(given)
    sums: dict[str, Array] = {}
    refused: dict[str, str] = {}
    for task in tasks:
        if task.product is None or task.product.carried_out is None:
            try:
                made, found = _run(task, steps, tensors)
                tensors.update(found)
                if made is not None:
                    sums[task.name] = made
            except UnsupportedNode as error:
                refused[task.name] = str(error)
            if task.refusal is not None:
                refused[task.name] = task.refusal
        done(task.name)
    return Golden(sums, tensors, refused)


def sampled_run(
    tasks: Sequence[Task],
    steps: Steps,
    tensors: Mapping[str, Array],
    rows: Mapping[str, Array],
    done: Callable[[str], None],
) -> Golden:
    """The sums of every product at ``rows`` (by task; all if it is not named) of inputs that are given: no operator takes
    what another made. ``tensors`` are the codes of all of them."""
    sums: dict[str, Array] = {}
    refused: dict[str, str] = {}
    for task in tasks:
        product = task.product
        if task.refusal is not None:
            refused[task.name] = task.refusal
        elif product is not None and product.carried_out is None:
            try:
                sums[task.name] = _sums(task, steps, tensors, rows.get(task.name))
            except (UnsupportedNode, KeyError) as error:
                refused[task.name] = str(error)
        done(task.name)
    return Golden(sums, tensors, refused)


def _sums(task: Task, steps: Steps, tensors: Mapping[str, Array], rows: Array | None) -> Array:
    assert task.product is not None
    if rows is None:
        made, _ = _run(task, steps, tensors)
        assert made is not None
        return made
    values = steps.values({name: tensors[name] for name in task.reads})
    matrix = steps.matrix(task, values)
    operand = steps.weight(task).codes if task.product.constant else steps.operand(task, values)
    return reference_sums(task, steps, matrix, operand, rows)


def _run(task: Task, steps: Steps, tensors: Mapping[str, Array]) -> tuple[Array | None, dict[str, Array]]:
    if task.refusal is not None:
        return None, steps.outputs(task, None, steps.values(tensors))
    missing = [name for name in task.reads if name not in tensors]
    if missing:
        raise UnsupportedNode(f"it reads {missing[0]!r}, which an operator makes that is not executed")
    values = steps.values({name: tensors[name] for name in task.reads})
    sums = None
    if task.product is not None and task.product.recurrence is not None:
        weight = steps.weight(task)
        zero, step = steps.matrix_format(task.product).zero, one_step(task.product)
        held = np.asarray(weight.codes - weight.form.zero)
        sums, _, found = steps.recurrence(task, values, lambda _, codes: reference_product(step, codes - zero, held))
        return sums, found
    if task.product is not None:
        matrix = steps.matrix(task, values)
        operand = steps.weight(task).codes if task.product.constant else steps.operand(task, values)
        sums = reference_sums(task, steps, matrix, operand)
    return sums, steps.outputs(task, sums, values)


def reference_sums(task: Task, steps: Steps, matrix: Array, operand: Array, rows: Array | None = None) -> Array:
    """The reference's sums of a product whose inputs have the given codes, in the shape of the node's output; only at
    ``rows`` of its matrix, and 0 elsewhere, unless they are None."""
    assert task.product is not None
    streamed, held = steps.matrix_format(task.product), steps.operand_format(task)
    signed = matrix - streamed.zero, np.asarray(operand - held.zero)
    return reference_product(task.product, *signed) if rows is None else sampled_product(task.product, *signed, rows)
