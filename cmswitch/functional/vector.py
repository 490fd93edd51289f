"""The vector unit and the host: ONNX nodes executed by onnxruntime, or by ONNX's own reference where that has no kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from cmswitch.functional.description import Call
from cmswitch.functional.errors import ExecutionError, UnsupportedNode
from cmswitch.functional.formats import Array

LARGEST_INLINE = 1024
"""Elements of the largest constant that is part of a node's model: some kernels want their settings there."""


class Evaluator:
    """Runs nodes one by one and keeps what it has prepared for each.

    ``constants`` are values that never change. ``types`` are those of values by name: the parts of an integer product are
    floats, and what follows it in the file expects integers.
    """

    def __init__(self, constants: Mapping[str, Array], types: Mapping[str, np.dtype[Any]] | None = None) -> None:
        self._constants, self._types = constants, types or {}
        self._prepared: dict[tuple[Any, ...], Any] = {}

    def __call__(self, call: Call, values: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs of a node by name. Raises UnsupportedNode, or ExecutionError if ``values`` lack one that it reads."""
        missing = next((name for name in call.inputs if name and name not in values), None)
        if missing is not None:
            raise ExecutionError(f"node {call.id!r} needs {missing!r}, which was not loaded")
        given = {name: np.asarray(values[name]) for name in call.inputs if name}
        internal = _INTERNAL.get(call.operator) if call.domain == "cmswitch" else None
        if call.domain == "cmswitch" and internal is None:
            raise UnsupportedNode(f"{call.id}: {call.operator} has no ONNX operator that could run it")
        found = self.plain(call, given) if internal is None else internal(self, call, given)
        return {name: array.astype(self._types.get(name, array.dtype), copy=False) for name, array in found.items()}

    def plain(self, call: Call, given: Mapping[str, Array]) -> dict[str, Array]:
        """A node of a public operator set."""
        made = [name for name in call.outputs if name]
        key = (call.id, call.operator, *((array.shape, array.dtype.str) for array in given.values()))
        # by identity: a node's parts have names of their own, which a constant may have too
        constants = {name: array for name, array in given.items() if array is self._constants.get(name)}
        inline = {name for name, array in constants.items() if array.size <= LARGEST_INLINE}
        if key not in self._prepared:
            self._prepared[key] = _prepare(call, given, inline)
        run = self._prepared[key]
        try:
            found = run(made, {name: array for name, array in given.items() if name not in inline})
        except Exception as error:  # onnxruntime's own errors have no common class
            raise UnsupportedNode(f"{call.id}: {call.operator} fails ({_first_line(error)})") from error
        return dict(zip(made, (np.asarray(each) for each in found), strict=True))


def _prepare(call: Call, given: Mapping[str, Array], inline: set[str]) -> Any:
    import onnxruntime

    model = _model(call, given, inline)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return lambda made, feeds: session.run(made, feeds)
    except Exception as error:
        try:
            reference = ReferenceEvaluator(model)
        except Exception:
            raise UnsupportedNode(f"{call.id}: {call.operator} cannot be run ({_first_line(error)})") from error
        return lambda made, feeds: reference.run(made, feeds)


def _model(call: Call, given: Mapping[str, Array], inline: set[str]) -> onnx.ModelProto:
    attributes = {name: value for name, value in call.attributes.items() if not _empty(value)}
    node = helper.make_node(call.operator, list(call.inputs), list(call.outputs), domain=call.domain, **attributes)
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
        if name not in inline
    ]
    stored = [numpy_helper.from_array(given[name], name) for name in sorted(inline)]
    outputs = [helper.make_empty_tensor_value_info(name) for name in call.outputs if name]
    graph = helper.make_graph([node], "node", inputs, outputs, stored)
    opsets = [helper.make_opsetid(call.domain, call.version)]
    if call.domain:
        opsets.append(helper.make_opsetid("", 21))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _empty(value: object) -> bool:
    return isinstance(value, list | tuple) and not value


def _first(call: Call, name: str, default: int) -> int:
    return int(call.attributes.get(name, default))


# --- internal operators, by the public ones that do the same -----------------------------------------------------------


def _position_product(run: Evaluator, call: Call, given: Mapping[str, Array]) -> dict[str, Array]:
    """A convolution of one position."""
    data, weight = (given[name] for name in call.inputs[:2])
    groups = _first(call, "group", 1)
    columns = int(np.prod(weight.shape[1:]))
    kernel = weight.reshape(groups, -1, columns).transpose(0, 2, 1).reshape(groups * columns, -1)
    ones = (1,) * (data.ndim - 2)
    feeds = {"data": data, "kernel": kernel.reshape(*kernel.shape, *ones)}
    return run.plain(Call(call.id, "Conv", "", 21, {"group": groups}, tuple(feeds), call.outputs), feeds)


def _overlap_add(run: Evaluator, call: Call, given: Mapping[str, Array]) -> dict[str, Array]:
    """A transposed convolution in which every kernel position has its own input channel and a weight of one."""
    data = given[call.inputs[0]]
    kernel = tuple(int(size) for size in call.attributes["kernel_shape"])
    taps = int(np.prod(kernel))
    channels = data.shape[1] // taps
    weight = np.zeros((channels, taps, taps), data.dtype)
    weight[:, np.arange(taps), np.arange(taps)] = 1
    rank, pads = len(kernel), [int(pad) for pad in call.attributes["pads"]]
    feeds = {"data": data, "weight": weight.reshape(data.shape[1], 1, *kernel)}
    attributes = {
        "group": channels,
        "kernel_shape": list(kernel),
        "strides": list(call.attributes["strides"]),
        "dilations": list(call.attributes["dilations"]),
        "pads": [max(0, pad) for pad in pads],
        "output_padding": [max(0, -pad) for pad in pads[rank:]],
    }
    return run.plain(Call(call.id, "ConvTranspose", "", 21, attributes, tuple(feeds), call.outputs), feeds)


def _layer(run: Evaluator, call: Call, given: Mapping[str, Array]) -> dict[str, Array]:
    """A whole recurrent layer of one direction, whose input weights are the identity; its states and final cell state."""
    gates, weights = given[call.inputs[0]], given[call.inputs[1]]
    width, hidden = weights.shape
    names = ("gates", "identity", "weights", *("bias", "lengths", "state", "cell", "peepholes")[: len(call.inputs) - 2])
    names = tuple(name if own else "" for name, own in zip(names, ("gates", "identity", *call.inputs[1:]), strict=True))
    feeds = {"gates": gates, "identity": np.eye(width, dtype=gates.dtype)[None], "weights": weights[None]}
    for name, own in zip(names[3:], call.inputs[2:], strict=True):
        if own:
            feeds[name] = given[own] if name == "lengths" else given[own][None]
    direction = "reverse" if _first(call, "backwards", 0) else "forward"
    attributes = {"hidden_size": hidden, "direction": direction, **layer_settings(call)}
    operator = call.attributes["cell"].decode()
    made = ("states", "", "last cell") if len(call.outputs) > 1 else ("states",)
    found = run.plain(Call(call.id, operator, "", 14, attributes, names, made), feeds)
    outputs = (found["states"][:, 0], *([found["last cell"]] if len(call.outputs) > 1 else []))
    return dict(zip(call.outputs, outputs, strict=True))


def layer_settings(call: Call) -> dict[str, Any]:
    """The attributes of a recurrent layer that its steps share."""
    inner = ("backwards", "additions", "operations", "cell")
    return {name: value for name, value in call.attributes.items() if name not in inner}


def _range(run: Evaluator, call: Call, given: Mapping[str, Array]) -> dict[str, Array]:
    """Scale and zero point of DynamicQuantizeLinear."""
    names = ("integers", *call.outputs)
    found = run.plain(Call(call.id, "DynamicQuantizeLinear", "", 21, {}, call.inputs, names), given)
    return {call.outputs[0]: found[names[1]], call.outputs[1]: found[names[2]].astype(np.float32)}


def _channels_last(run: Evaluator, call: Call, given: Mapping[str, Array]) -> dict[str, Array]:
    """The same operator between moves of the channels."""
    first = call.inputs[0]
    moved = {**given, first: np.ascontiguousarray(np.moveaxis(given[first], -1, 1))}
    operator = call.operator.removeprefix("ChannelsLast")
    found = run.plain(Call(call.id, operator, "", 21, call.attributes, call.inputs, call.outputs), moved)
    return {name: np.moveaxis(array, 1, -1) for name, array in found.items()}


_INTERNAL: dict[str, Callable[[Evaluator, Call, Mapping[str, Array]], dict[str, Array]]] = {
    "TransposedProduct": _position_product,
    "OverlapAdd": _overlap_add,
    "QuantizationRange": _range,
    "Recurrence": _layer,
    "ChannelsLastConv": _channels_last,
    "ChannelsLastAveragePool": _channels_last,
    "ChannelsLastGlobalAveragePool": _channels_last,
}

FINAL_CELL = "FinalCell"
"""The internal operator whose output a Recurrence makes."""
INTERNAL_OPERATORS = frozenset({*_INTERNAL, FINAL_CELL})
"""Operators of the internal domain that can be executed."""
