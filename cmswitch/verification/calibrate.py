"""Formats of every tensor: a run of the network on floats, and the ranges that its values have in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cmswitch.functional.description import Call, Product, Task
from cmswitch.functional.errors import UnsupportedNode
from cmswitch.functional.formats import Array, Calibration, Format, Raw, per_channel, symmetric, value_range
from cmswitch.functional.steps import Numbers, Weight
from cmswitch.functional.vector import Evaluator
from cmswitch.graph.ir import Graph
from cmswitch.verification.constants import MOVING, Constants
from cmswitch.verification.describe import Description
from cmswitch.verification.inputs import Sample
from hw import Chip

BYTE_TYPES = {"uint8": 0, "int8": 128, "bool": 0}
"""Element types whose values are codes of 8 bits as they are, and the code of 0."""


@dataclass(frozen=True)
class FloatRun:
    """What the network computes on floats, of the values asked for, and nodes that could not be run with the reason."""

    values: Mapping[str, Array]
    failed: Mapping[str, str]


def float_run(
    calls: Sequence[Call], constants: Mapping[str, Array], run: Evaluator, sample: Sample, wanted: Collection[str]
) -> FloatRun:
    """Every node in order; a value is forgotten after its last use unless it is ``wanted``."""
    last = {name: position for position, call in enumerate(calls) for name in call.inputs if name}
    values: dict[str, Array] = dict(sample)
    failed: dict[str, str] = {}
    for position, call in enumerate(calls):
        given = [name for name in call.inputs if name]
        if all(name in values or name in constants for name in given):
            try:
                values.update(run(call, {**{n: constants[n] for n in given if n in constants}, **values}))
            except UnsupportedNode as error:
                failed[call.id] = str(error)
        for name in given:
            if last[name] == position and name not in wanted and name not in sample:
                values.pop(name, None)
    return FloatRun(values, failed)


class Formats:
    """Chooses the formats of a network's values from the ranges of calibration runs."""

    def __init__(
        self,
        graph: Graph,
        description: Description,
        chip: Chip,
        constants: Constants,
        ranges: Mapping[str, tuple[float, float]],
    ) -> None:
        self._graph, self._description, self._chip = graph, description, chip
        self._constants, self._ranges = constants, ranges

    def numbers(self, known: Mapping[str, Array]) -> tuple[Numbers, tuple[Task, ...]]:
        """All formats and weights, and the tasks, of which those without numbers are refused. ``known`` are the constants."""
        tensors: dict[str, Format | Raw] = {}
        for name in self._graph.inputs:
            if name in self._ranges:
                tensors[name] = self._tensor(name)
        matrices: dict[str, Format] = {}
        operands: dict[str, Format] = {}
        weights: dict[str, Weight] = {}
        tasks = []
        for task in self._description.tasks:
            for name in task.writes:
                if name in self._ranges:
                    tensors[name] = self._tensor(name)
            product = task.product
            if product is not None:
                for carried in filter(None, (product.carried_out,)):
                    tensors[carried] = Raw(np.dtype(np.int32))
                try:
                    bits = self._chip.precision.input_bits
                    if product.recurrence is not None:
                        matrices[product.matrix] = self._state(product, bits)
                    else:
                        matrices[product.matrix] = self._activation(product.matrix, tensors, bits)
                    if product.constant:
                        weights[task.name] = self._weight(product)
                    else:
                        bits = self._chip.precision.weight_bits
                        operands[product.operand] = self._activation(product.operand, tensors, bits)
                except (UnsupportedNode, KeyError) as error:
                    task = replace(task, product=None, before=(), fill=(), refusal=f"{product.operand!r}: {error}")
            tasks.append(task)
        return Numbers(tensors, matrices, operands, weights, known), tuple(tasks)

    def _tensor(self, name: str) -> Format | Raw:
        """The format in which a tensor is kept."""
        dtype = np.dtype(_dtype(self._graph, name))
        bits = self._chip.precision.input_bits
        if dtype.name in BYTE_TYPES and bits == 8:
            return Format(8, np.array(1.0), np.array(BYTE_TYPES[dtype.name]), dtype)
        if dtype.kind != "f":
            return Raw(dtype)
        return replace(self._as_stored(name, bits) or symmetric(bits, *self._ranges[name]), dtype=dtype)

    def _activation(self, name: str, tensors: Mapping[str, Format | Raw], bits: int) -> Format:
        """The format in which a product takes an activation: that of the tensor which it is another form of."""
        found = self._as_stored(name, bits)
        if found is not None:
            return found
        if name in tensors:
            form = tensors[name]
            return form if isinstance(form, Format) and form.bits == bits else symmetric(bits, *self._ranges[name])
        call = self._description.makers.get(name)
        if call is not None and call.operator in MOVING and call.inputs[0] in (*self._ranges, *tensors):
            return self._activation(call.inputs[0], tensors, bits)
        return symmetric(bits, *self._ranges[name])

    def _state(self, product: Product, bits: int) -> Format:
        """The format of a recurrent layer's state: that before the first step, and those after, which lie between -1 and 1
        unless the file chooses the functions that make them."""
        loop = product.recurrence
        assert loop is not None
        low, high = self._ranges[product.matrix] if "activations" in loop.cell.attributes else (-1.0, 1.0)
        first = loop.first[0]
        if first:
            given = self._constants[first] if self._graph.values[first].constant else np.array(self._ranges[first])
            low, high = min(low, float(given.min())), max(high, float(given.max()))
        return symmetric(bits, min(low, 0.0), high)

    def _as_stored(self, name: str, bits: int) -> Format | None:
        """The format that the file itself gives an activation with DequantizeLinear, if it has one for the whole tensor."""
        call = self._description.makers.get(name)
        while call is not None and call.operator in MOVING:
            call = self._description.makers.get(call.inputs[0])
        if call is None or call.operator != "DequantizeLinear" or bits != 8:
            return None
        dtype = _dtype(self._graph, call.inputs[0])
        settings = [value for value in call.inputs[1:] if value]
        if dtype not in ("uint8", "int8") or not all(self._graph.values[value].constant for value in settings):
            return None
        scale = self._constants[settings[0]]
        zero = self._constants[settings[1]] if len(settings) > 1 else np.zeros((), np.int64)
        if scale.size > 1:
            return None
        shift = BYTE_TYPES[dtype]
        return Format(8, scale.reshape(()).astype(np.float64), zero.reshape(()).astype(np.int64) + shift)

    def _weight(self, product: Product) -> Weight:
        """As the file stores it, or quantised symmetrically by output channel."""
        bits = product.bits or self._chip.precision.weight_bits
        stored = self._constants.stored_weight(product.operand, bits) if product.bits else None
        if stored is not None and _by_channel(product, stored[1]):
            return Weight(_narrow(stored[0], bits), stored[1])
        weight = self._constants[product.operand].astype(np.float32)
        form = per_channel(weight, bits, product.channels)
        return Weight(_narrow(form.codes(weight), bits), form)


def _narrow(codes: Array, bits: int) -> Array:
    """Codes in as few bytes as they need: large networks have many."""
    return codes.astype(np.min_scalar_type(2**bits - 1))


def _by_channel(product: Product, form: Format) -> bool:
    """Whether scale and zero point are the same along the inner dimension."""
    from cmswitch.functional import layout

    return all((found == found[:, :1]).all() for found in (layout.operand(product, a) for a in (form.scale, form.zero)))


def _dtype(graph: Graph, name: str) -> str:
    import onnx

    kind = graph.values[name].dtype
    return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind)).name) if kind else "float32"


def collect_ranges(
    samples: Sequence[Sample],
    run: Callable[[Sample], FloatRun],
    names: Collection[str],
    calibration: Calibration,
) -> tuple[dict[str, tuple[float, float]], FloatRun]:
    """The range of each value over all samples, and the run of the first."""
    ranges: dict[str, tuple[float, float]] = {}
    first: FloatRun | None = None
    for sample in samples:
        found = run(sample)
        first = first or found
        for name in names:
            if name in found.values and found.values[name].dtype.kind in "fiub":
                low, high = value_range(found.values[name].astype(np.float64), calibration)
                known = ranges.get(name, (low, high))
                ranges[name] = min(low, known[0]), max(high, known[1])
    assert first is not None
    return ranges, first
