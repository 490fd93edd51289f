"""Constant folding of small integer tensors: the chains of Shape, Gather, Concat, ... that compute shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import ceil, prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, Any]
Folder = Callable[[Sequence[Array], Mapping[str, Any]], Array]

LARGEST = 1024
"""Elements of the largest constant whose contents are known: enough for every shape, index list and scalar."""

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
"""Operators whose result is no constant even if their inputs are."""


def _axes(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> tuple[int, ...] | None:
    if "axes" in attributes:
        return tuple(attributes["axes"])
    return tuple(int(a) for a in inputs[1].reshape(-1)) if len(inputs) > 1 else None


def _unsqueeze(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    return np.expand_dims(inputs[0], _axes(inputs, attributes) or ())


def _squeeze(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    return np.squeeze(inputs[0], _axes(inputs, attributes))


def _slice(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    if "starts" in attributes:
        starts, ends = attributes["starts"], attributes["ends"]
        axes, steps = attributes.get("axes", range(len(starts))), [1] * len(starts)
    else:
        starts, ends = inputs[1].tolist(), inputs[2].tolist()
        axes = inputs[3].tolist() if len(inputs) > 3 and inputs[3].size else range(len(starts))
        steps = inputs[4].tolist() if len(inputs) > 4 else [1] * len(starts)
    index = [slice(None)] * inputs[0].ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = inputs[0].shape[axis]
        index[axis] = slice(start, None if step < 0 and end < -size else end, step)
    return inputs[0][tuple(index)]


def _reshape(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    kept = not attributes.get("allowzero")
    shape = [inputs[0].shape[i] if size == 0 and kept else int(size) for i, size in enumerate(inputs[1])]
    return inputs[0].reshape(shape)


def _range(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    return np.array(np.arange(*(limit.item() for limit in inputs)), inputs[0].dtype)


def _by_zero(divisor: Array) -> bool:
    """Whether a division by ``divisor`` has no result; a float's is infinite."""
    return bool(np.issubdtype(divisor.dtype, np.integer) and not divisor.all())


def _modulo(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    if _by_zero(inputs[1]):
        raise ZeroDivisionError("division by zero")
    return np.asarray((np.fmod if attributes.get("fmod") else np.mod)(inputs[0], inputs[1]))


def _divide(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    left, right = inputs
    if _by_zero(right):
        raise ZeroDivisionError("division by zero")
    if np.issubdtype(left.dtype, np.integer):  # truncated, not floored
        return np.array(np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right)), left.dtype)
    return np.asarray(left / right)


def _cast(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    return inputs[0].astype(onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]))


def _constant_of_shape(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    value = numpy_helper.to_array(attributes["value"]) if "value" in attributes else np.zeros(1, np.float32)
    return np.full(tuple(int(i) for i in inputs[0]), value.reshape(-1)[0], value.dtype)


def _reduction(function: Callable[..., Array]) -> Folder:
    def reduce(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
        axes = _axes(inputs, attributes)
        if attributes.get("noop_with_empty_axes") and not axes:
            return inputs[0]
        kept = bool(attributes.get("keepdims", 1))
        return np.asarray(function(inputs[0], axis=axes or None, keepdims=kept), inputs[0].dtype)

    return reduce


def _binary(function: Callable[[Array, Array], Array]) -> Folder:
    return lambda inputs, attributes: function(inputs[0], inputs[1])


def _power(inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    base, exponent = inputs
    if np.issubdtype(exponent.dtype, np.integer) and (exponent < 0).any():
        exponent = exponent.astype(np.float64)
    return np.asarray(np.power(base, exponent)).astype(base.dtype)


FOLDERS: dict[str, Folder] = {
    "Identity": lambda inputs, attributes: inputs[0],
    "Cast": _cast,
    "Gather": lambda inputs, attributes: np.take(inputs[0], inputs[1], attributes.get("axis", 0)),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Concat": lambda inputs, attributes: np.concatenate(inputs, attributes["axis"]),
    "Reshape": _reshape,
    "Transpose": lambda inputs, attributes: np.transpose(inputs[0], attributes.get("perm")),
    "Expand": lambda inputs, attributes: inputs[0] * np.ones(tuple(int(i) for i in inputs[1]), inputs[0].dtype),
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Where": lambda inputs, attributes: np.where(inputs[0], inputs[1], inputs[2]),
    "Add": _binary(np.add),
    "Sub": _binary(np.subtract),
    "Mul": _binary(np.multiply),
    "Div": _divide,
    "Mod": _modulo,
    "Equal": _binary(np.equal),
    "Greater": _binary(np.greater),
    "Less": _binary(np.less),
    "And": _binary(np.logical_and),
    "Or": _binary(np.logical_or),
    "Not": lambda inputs, attributes: np.logical_not(inputs[0]),
    "GreaterOrEqual": _binary(np.greater_equal),
    "LessOrEqual": _binary(np.less_equal),
    "Xor": _binary(np.logical_xor),
    "Abs": lambda inputs, attributes: np.abs(inputs[0]),
    "Sign": lambda inputs, attributes: np.sign(inputs[0]),
    "Neg": lambda inputs, attributes: np.negative(inputs[0]),
    "Floor": lambda inputs, attributes: np.floor(inputs[0]),
    "Ceil": lambda inputs, attributes: np.ceil(inputs[0]),
    "Sqrt": lambda inputs, attributes: np.sqrt(inputs[0]),
    "Pow": _power,
    "Max": lambda inputs, attributes: reduce(np.maximum, inputs),
    "Min": lambda inputs, attributes: reduce(np.minimum, inputs),
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
}
"""How small constants are evaluated, by operator. What is not here stays a constant of unknown value."""

_COUNTS: dict[str, Callable[[Sequence[Array]], int]] = {
    "ConstantOfShape": lambda inputs: prod(int(size) for size in inputs[0]),
    "Expand": lambda inputs: prod(int(size) for size in inputs[1]),
    "Range": lambda inputs: ceil((inputs[1].item() - inputs[0].item()) / inputs[2].item()),
}
"""Elements that operators make whose result may be of any size, whatever the size of their inputs."""


def folded(operator: str, inputs: Sequence[Array], attributes: Mapping[str, Any]) -> Array | None:
    """The value of a node of constants; None if it is too large to matter or there is no way to evaluate ``operator``.

    Raises an ArithmeticError or ValueError where the operator has no result. Floats may overflow to infinity.
    """
    folder = FOLDERS.get(operator)
    if folder is None or (operator in _COUNTS and _COUNTS[operator](inputs) > LARGEST):
        return None
    with np.errstate(all="ignore"):
        made = np.asarray(folder(inputs, attributes))
    return made if made.size <= LARGEST else None


def constant_data(attributes: Mapping[str, Any]) -> Array | None:
    """Contents of a Constant node; None if it holds none that matter (large, sparse or text)."""
    for name, dtype in (
        ("value_int", np.int64),
        ("value_ints", np.int64),
        ("value_float", np.float32),
        ("value_floats", np.float32),
    ):
        if name in attributes:
            return np.array(attributes[name], dtype)
    return tensor_data(attributes["value"]) if "value" in attributes else None


def tensor_data(tensor: onnx.TensorProto) -> Array | None:
    """Contents of a stored tensor if it is small and present, also before the data of large ones are dropped."""
    count = prod(tensor.dims)
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    if count > LARGEST or external or tensor.data_type == onnx.TensorProto.STRING:
        return None
    present = tensor.HasField("raw_data") or any(
        len(field)
        for field in (tensor.int64_data, tensor.int32_data, tensor.float_data, tensor.double_data, tensor.uint64_data)
    )
    return numpy_helper.to_array(tensor) if present or not count else None
