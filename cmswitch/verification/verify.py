"""A compiled network, executed on numbers and compared: with an integer reference exactly, with onnxruntime in floats."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from cmswitch.errors import InputError
from cmswitch.functional.cells import Adc
from cmswitch.functional.compare import Difference, agreement, cosine, difference
from cmswitch.functional.description import Task
from cmswitch.functional.errors import ExecutionError, UnsupportedNode
from cmswitch.functional.formats import Array, Calibration
from cmswitch.functional.golden import Golden, golden_run, reference_sums, sampled_run
from cmswitch.functional.machine import Executed, Machine
from cmswitch.functional.steps import Numbers, Steps
from cmswitch.functional.vector import Evaluator
from cmswitch.graph.ir import Graph
from cmswitch.graph.network import Network
from cmswitch.program.program import Program
from cmswitch.verification.calibrate import FloatRun, Formats, collect_ranges, float_run
from cmswitch.verification.describe import Description, describe
from cmswitch.verification.inputs import Sample, generated, read_inputs
from cmswitch.verification.numeric import Numeric
from cmswitch.verification.results import Checked, Output, Verification
from hw import Chip

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Settings:
    """How a program is verified. ``layers``: products that are executed (None: all). ``sample``: rows of each product's
    matrix that are computed, on inputs from the network on floats (None: all, each on what the operator before made)."""

    seed: int = 0
    inputs: Path | None = None
    calibration: Calibration = "minmax"
    adc: Adc = "off"
    layers: int | None = None
    sample: int | None = None


@dataclass
class _Run:
    """What verification gathers while the machine runs."""

    golden: Golden
    steps: Steps
    floats: FloatRun
    numbers: Numbers
    layers: int | None
    sample: Mapping[str, Array] | None
    progress: Callable[[str], None]
    checked: dict[str, Checked] = field(default_factory=dict)
    products: int = 0

    def report(self, executed: Executed) -> None:
        """Compare an operator; ends the run after enough products."""
        task = executed.task
        wrong = [
            name
            for name, codes in executed.outputs.items()
            if name in self.golden.tensors and not np.array_equal(codes, self.golden.tensors[name])
        ]
        integers = own = None
        if executed.sums is not None and task.name in self.golden.sums:
            wanted = self.golden.sums[task.name]
            if not np.array_equal(executed.sums, wanted):
                integers = difference(executed.sums, wanted)
                assert executed.matrix is not None and executed.operand is not None
                rows = (self.sample or {}).get(task.name)
                again = reference_sums(task, self.steps, executed.matrix, executed.operand, rows)
                own = difference(executed.sums, again)
        status = "deviates" if integers is not None or wrong else "exact"
        self.checked[task.name] = Checked(
            task.name, task.product is not None, status, integers, own, self._floats(executed.outputs)
        )
        self.progress(task.name)
        self.products += task.product is not None
        if self.layers is not None and self.products >= self.layers:
            raise StopIteration

    def _floats(self, outputs: Mapping[str, Array]) -> Difference | None:
        """Of all tensors together."""
        names = [name for name in outputs if name in self.floats.values]
        if not names:
            return None
        values = self.steps.values({name: outputs[name] for name in names})
        return difference(
            np.concatenate([values[name].reshape(-1).astype(np.float64) for name in names]),
            np.concatenate([self.floats.values[name].reshape(-1).astype(np.float64) for name in names]),
        )


def verify(
    numeric: Numeric,
    program: Program,
    network: Network,
    chip: Chip,
    settings: Settings,
    progress: Progress = lambda name, done, total: None,
) -> Verification:
    """Execute ``program`` (of ``network``, after cutting along N) on numbers and compare every operator.

    Raises InputError for inputs that do not fit or a network that calibration cannot run at all.
    """
    graph = numeric.graph
    description = describe(graph, network)
    samples = read_inputs(settings.inputs, graph) if settings.inputs else generated(graph, settings.seed)
    if not samples:
        raise InputError("there is no sample to execute; the file of inputs holds none")
    known = _constants(numeric, description)
    run = Evaluator(known, _types(graph, description))
    names = _values_of_interest(description, graph)
    total = len(description.tasks) * 2 + len(samples)
    done = 0

    def step(name: str) -> None:
        nonlocal done
        done += 1
        progress(name, done, total)

    def floats(sample: Sample) -> FloatRun:
        step("calibration")
        return float_run(description.calls, known, run, sample, names)

    ranges, first = collect_ranges(samples, floats, names, settings.calibration)
    numbers, tasks = Formats(graph, description, chip, numeric.constants, ranges).numbers(known)
    steps = Steps(numbers, run)
    given = {name: numbers.tensors[name].codes(samples[0][name]) for name in graph.inputs if name in numbers.tensors}
    some = _first_products(tasks, settings.layers)
    sample = None if settings.sample is None else _sample(some, settings.sample, settings.seed)
    if sample is None:
        golden = golden_run(some, steps, given, step)
    else:
        formed = {name: form for name, form in numbers.tensors.items() if name in first.values}
        codes = {name: form.codes(first.values[name]) for name, form in formed.items()}
        golden = sampled_run(some, steps, codes, sample, step)
    tasks = tuple(_refused(task, golden.refused) for task in tasks)
    gathered = _Run(golden, steps, first, numbers, settings.layers, sample, step)
    shapes = _shapes(graph, network, tasks)
    by_name = {task.name: task for task in tasks}
    machine = Machine(program, chip, by_name, numbers, steps, shapes, gathered.report, settings.adc, sample)
    error = None
    found: dict[str, Array] = {}
    try:
        found = machine.run(given, golden.tensors)
    except ExecutionError as problem:
        error = str(problem)
    reference = numeric.float_outputs(samples[0])
    compared = found if sample is None else {}
    outputs = _outputs(description, steps, run, known, compared, reference or first.values) if compared else ()
    products = {operator.name for operator in network.operators if operator.product is not None}
    checked = tuple(
        gathered.checked.get(task.name) or _not_executed(task, task.name in products, golden)
        for task in tasks
        if task.name in gathered.checked or task.name in golden.refused
    )
    return Verification(
        checked,
        outputs,
        error,
        settings.layers is None and sample is None,
        _relative_error(description, first, reference),
    )


def _first_products(tasks: Sequence[Task], layers: int | None) -> Sequence[Task]:
    """The tasks up to the last of the first ``layers`` products."""
    if layers is None:
        return tasks
    positions = [i for i, task in enumerate(tasks) if task.product is not None and task.product.carried_out is None]
    return tasks[: positions[layers - 1] + 1] if len(positions) >= layers else tasks


def _sample(tasks: Sequence[Task], count: int, seed: int) -> dict[str, Array]:
    """``count`` rows of each product that has more, in order; the same for the same seed and name."""
    chosen: dict[str, Array] = {}
    for task in tasks:
        product = task.product
        if product is not None and product.recurrence is None and product.rows > count:
            name = re.sub(
                r"\.n\d+$", "", task.name
            )  # parts of a product that is cut along its inner dimension share rows
            random = np.random.default_rng([seed, zlib.crc32(name.encode())])
            chosen[task.name] = np.sort(random.choice(product.rows, count, replace=False))
    return chosen


def _refused(task: Task, refused: Mapping[str, str]) -> Task:
    return replace(task, refusal=refused[task.name]) if task.name in refused else task


def _not_executed(task: Task, product: bool, golden: Golden) -> Checked:
    return Checked(task.name, product, "not executed", reason=golden.refused[task.name])


def _constants(numeric: Numeric, description: Description) -> dict[str, Array]:
    """Every constant that a node reads, as far as it can be computed."""
    found: dict[str, Array] = {}
    for call in description.calls:
        for name in call.inputs:
            if name and numeric.graph.values[name].constant and name not in found:
                try:
                    found[name] = numeric.constants[name]
                except UnsupportedNode:
                    continue
    return found


def _types(graph: Graph, description: Description) -> dict[str, np.dtype[Any]]:
    """The element type of every value that a node makes, where it is known and a number."""
    kinds = {name: graph.values[name].dtype for name in description.makers}
    types = {name: onnx.helper.tensor_dtype_to_np_dtype(kind) for name, kind in kinds.items() if kind}
    return {name: dtype for name, dtype in types.items() if dtype.kind in "fiub"}


def _values_of_interest(description: Description, graph: Graph) -> frozenset[str]:
    products = [task.product for task in description.tasks if task.product is not None]
    taken = {name for product in products for name in (product.matrix, product.operand)}
    taken.update(p.recurrence.first[0] for p in products if p.recurrence is not None)
    tensors = {name for task in description.tasks for name in (*task.reads, *task.writes)}
    return frozenset({*taken, *tensors, *graph.inputs, *description.outputs})


def _shapes(graph: Graph, network: Network, tasks: Sequence[Task]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor; partial sums are [groups, rows, columns]."""
    shapes = {t.name: graph.values[t.name].shape or () for t in network.tensors if t.name in graph.values}
    for task in tasks:
        product = task.product
        if product is not None and product.carried_out is not None:
            shapes[product.carried_out] = product.groups, product.rows, product.columns
    return shapes


def _outputs(
    description: Description,
    steps: Steps,
    run: Evaluator,
    known: Mapping[str, Array],
    found: Mapping[str, Array],
    reference: Mapping[str, Array],
) -> tuple[Output, ...]:
    values: dict[str, Array] = {**known, **steps.values(found)}
    for call in description.tail:
        if all(name in values for name in call.inputs if name):
            values.update(run(call, values))
    compared = []
    for name in description.outputs:
        if name in values and name in reference and reference[name].dtype.kind in "fiu":
            one, other = values[name], reference[name].reshape(values[name].shape)
            largest = difference(one, other).largest
            compared.append(
                Output(name, cosine(one, other), largest, agreement(one, other, 1), agreement(one, other, 5))
            )
    return tuple(compared)


def _relative_error(description: Description, first: FloatRun, reference: Mapping[str, Array] | None) -> float | None:
    if reference is None:
        return None
    errors = [
        difference(first.values[name], reference[name].reshape(first.values[name].shape)).largest
        / max(float(np.abs(reference[name]).max(initial=0)), 1e-30)
        for name in description.outputs
        if name in first.values and name in reference and reference[name].dtype.kind == "f"
    ]
    return max(errors, default=None)
