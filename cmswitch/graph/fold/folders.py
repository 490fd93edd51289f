"""Evaluation of nodes of small constants: the chains of Shape, Gather, Concat, ... that compute shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import ceil, prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from cmswitch.graph.fold.stored import LARGEST, Array, constant_data
from cmswitch.graph.ir import Value
from cmswitch.graph.table import Table

Attributes = Mapping[str, Any]
Numbers = Callable[[Sequence[Array], Attributes], Array | None]
Folder = Callable[[Sequence[Value], Attributes], Array | None]
"""The output of a node, from what is known of its inputs; None if that is too little, or the output too large to matter."""

FOLDERS: Table[Folder] = Table()
"""By (domain, operator). What is not here stays a constant of unknown contents."""

RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
"""Operators whose result is no constant even if their inputs are."""

VALUES_READ = {"CastLike": 1, "EyeLike": 0}
"""How many leading inputs an operator reads the values of, where of the others it only reads type or shape."""


def folded(domain: str, operator: str, inputs: Sequence[Value], attributes: Attributes) -> Array | None:
    """The output of a node; None if it is not known, or has more than ``LARGEST`` elements.

    Raises an ArithmeticError or ValueError where the operator has no result. Floats may overflow to infinity.
    """
    folder = FOLDERS.get((domain, operator))
    if folder is None:
        return None
    with np.errstate(all="ignore"):
        made = folder(inputs, attributes)
    return None if made is None or np.size(made) > LARGEST else np.asarray(made)


@FOLDERS.of("Constant")
def _constant(inputs: Sequence[Value], attributes: Attributes) -> Array | None:
    return constant_data(attributes)


@FOLDERS.of("Shape")
def _shape(inputs: Sequence[Value], attributes: Attributes) -> Array | None:
    shape = inputs[0].shape
    if shape is None:
        return None
    return np.array(shape[attributes.get("start", 0) : attributes.get("end", len(shape))], np.int64)


@FOLDERS.of("Size")
def _size(inputs: Sequence[Value], attributes: Attributes) -> Array | None:
    return None if inputs[0].shape is None else np.array(prod(inputs[0].shape), np.int64)


@FOLDERS.of("CastLike")
def _cast_like(inputs: Sequence[Value], attributes: Attributes) -> Array | None:
    data, kind = inputs[0].data, inputs[1].dtype
    return None if data is None or not kind else data.astype(onnx.helper.tensor_dtype_to_np_dtype(kind))


def _of_numbers(function: Numbers) -> Folder:
    """The folder of an operator that needs the contents of all of its inputs."""

    def folder(inputs: Sequence[Value], attributes: Attributes) -> Array | None:
        known = [value.data for value in inputs if value.data is not None]
        return function(known, attributes) if known and len(known) == len(inputs) else None

    return folder


def _axes(inputs: Sequence[Array], attributes: Attributes) -> tuple[int, ...] | None:
    if "axes" in attributes:
        return tuple(attributes["axes"])
    return tuple(int(a) for a in inputs[1].reshape(-1)) if len(inputs) > 1 else None


@FOLDERS.of("Identity")
@_of_numbers
def _identity(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return inputs[0]


@FOLDERS.of("Unsqueeze")
@_of_numbers
def _unsqueeze(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return np.expand_dims(inputs[0], _axes(inputs, attributes) or ())


@FOLDERS.of("Squeeze")
@_of_numbers
def _squeeze(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return np.squeeze(inputs[0], _axes(inputs, attributes))


@FOLDERS.of("Slice")
@_of_numbers
def _slice(inputs: Sequence[Array], attributes: Attributes) -> Array:
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


@FOLDERS.of("Gather")
@_of_numbers
def _gather(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return np.take(inputs[0], inputs[1], attributes.get("axis", 0))


@FOLDERS.of("Concat")
@_of_numbers
def _concat(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return np.concatenate(inputs, attributes["axis"])


@FOLDERS.of("Transpose")
@_of_numbers
def _transpose(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return np.transpose(inputs[0], attributes.get("perm"))


@FOLDERS.of("Reshape")
@_of_numbers
def _reshape(inputs: Sequence[Array], attributes: Attributes) -> Array:
    kept = not attributes.get("allowzero")
    shape = [inputs[0].shape[i] if size == 0 and kept else int(size) for i, size in enumerate(inputs[1])]
    return inputs[0].reshape(shape)


@FOLDERS.of("Expand")
@_of_numbers
def _expand(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    shape = tuple(int(size) for size in inputs[1])
    return None if prod(shape) > LARGEST else inputs[0] * np.ones(shape, inputs[0].dtype)


@FOLDERS.of("Range")
@_of_numbers
def _range(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    start, end, step = (limit.item() for limit in inputs)
    return None if ceil((end - start) / step) > LARGEST else np.array(np.arange(start, end, step), inputs[0].dtype)


@FOLDERS.of("ConstantOfShape")
@_of_numbers
def _constant_of_shape(inputs: Sequence[Array], attributes: Attributes) -> Array | None:
    shape = tuple(int(size) for size in inputs[0])
    value = numpy_helper.to_array(attributes["value"]) if "value" in attributes else np.zeros(1, np.float32)
    return None if prod(shape) > LARGEST else np.full(shape, value.reshape(-1)[0], value.dtype)


@FOLDERS.of("Cast")
@_of_numbers
def _cast(inputs: Sequence[Array], attributes: Attributes) -> Array:
    return inputs[0].astype(onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]))


def _by_zero(divisor: Array) -> bool:
    """Whether a division by ``divisor`` has no result; a float's is infinite."""
    return bool(np.issubdtype(divisor.dtype, np.integer) and not divisor.all())


@FOLDERS.of("Mod")
@_of_numbers
def _modulo(inputs: Sequence[Array], attributes: Attributes) -> Array:
    if _by_zero(inputs[1]):
        raise ZeroDivisionError("division by zero")
    return np.asarray((np.fmod if attributes.get("fmod") else np.mod)(inputs[0], inputs[1]))


@FOLDERS.of("Div")
@_of_numbers
def _divide(inputs: Sequence[Array], attributes: Attributes) -> Array:
    left, right = inputs
    if _by_zero(right):
        raise ZeroDivisionError("division by zero")
    if np.issubdtype(left.dtype, np.integer):  # truncated, not floored
        return np.array(np.sign(left) * np.sign(right) * (np.abs(left) // np.abs(right)), left.dtype)
    return np.asarray(left / right)


@FOLDERS.of("Pow")
@_of_numbers
def _power(inputs: Sequence[Array], attributes: Attributes) -> Array:
    base, exponent = inputs
    if np.issubdtype(exponent.dtype, np.integer) and (exponent < 0).any():
        exponent = exponent.astype(np.float64)
    return np.asarray(np.power(base, exponent)).astype(base.dtype)


def _elementwise(function: Callable[..., Array]) -> Folder:
    return _of_numbers(lambda inputs, attributes: function(*inputs))


_ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "Ceil": np.ceil,
    "Equal": np.equal,
    "Floor": np.floor,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": lambda *inputs: reduce(np.maximum, inputs),
    "Min": lambda *inputs: reduce(np.minimum, inputs),
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sign": np.sign,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Where": np.where,
    "Xor": np.logical_xor,
}
for _operator, _function in _ELEMENTWISE.items():
    FOLDERS.of(_operator)(_elementwise(_function))


def _reduction(function: Callable[..., Array]) -> Folder:
    def reduction(inputs: Sequence[Array], attributes: Attributes) -> Array:
        axes = _axes(inputs, attributes)
        if attributes.get("noop_with_empty_axes") and not axes:
            return inputs[0]
        kept = bool(attributes.get("keepdims", 1))
        return np.asarray(function(inputs[0], axis=axes or None, keepdims=kept), inputs[0].dtype)

    return _of_numbers(reduction)


_REDUCTIONS: dict[str, Callable[..., Array]] = {
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
}
for _operator, _function in _REDUCTIONS.items():
    FOLDERS.of(_operator)(_reduction(_function))
