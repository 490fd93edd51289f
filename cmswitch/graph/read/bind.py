"""Give every symbolic dimension of the network inputs a number, by name, or refuse with the list of names.

Inputs can be given a value too: they become constants, and what follows from them folds.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cmswitch.errors import InputError
from cmswitch.graph.fold import LARGEST
from cmswitch.graph.read import expressions
from cmswitch.graph.scopes import subgraphs
from cmswitch.naming import nearest, quantity

NAMELESS = frozenset({"", "?", "-1", "None"})
"""What exporters write for a dimension that has no name; two of them need not be equal."""

BATCH_NAMES = frozenset({"n", "b", "batch", "batch_size", "batchsize", "bs"})
SEQUENCE_NAMES = frozenset({"s", "seq", "sequence", "seq_len", "seq_length", "seqlen", "sequence_length", "length"})


def network_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Inputs that are not initializers (which files of IR version 3 list as inputs too)."""
    stored = {tensor.name for tensor in graph.initializer}
    stored.update(tensor.values.name for tensor in graph.sparse_initializer)
    return [value for value in graph.input if value.name not in stored]


def bind(
    model: onnx.ModelProto,
    dims: Mapping[str, int],
    batch: int | None,
    seq: int | None,
    where: str,
    defaults: Mapping[str, int],
) -> None:
    """Bind in place and forget the shapes the file states for other values, which may be symbolic or stale.

    ``dims`` binds by name, to 0 too; ``batch`` the symbolic first dimensions and those named like one; ``seq`` the symbolic
    second dimensions and those named like one; ``defaults`` what is left. A dimension without a name is called
    ``INPUT.AXIS``; one whose name is an expression, as ``past + sequence``, follows from the names in it.
    """
    sizes = dict(dims)
    for name, size in (("batch", batch), ("seq", seq)):
        if size is not None:
            sizes.setdefault(name, size)
    wrong = [f"{name}={size}" for name, size in sizes.items() if size < (name not in dims)]
    if wrong:
        raise InputError(f"{where}: --batch and --seq must be at least 1, --dim at least 0, not {', '.join(wrong)}")
    shapeless = [
        f"input {value.name!r} is no tensor with a known number of axes; export it with a shape"
        for value in network_inputs(model.graph)
        if not value.type.tensor_type.HasField("shape")
    ]
    if shapeless:
        raise InputError.listing(where, shapeless)
    symbols = {name: axis for name, axis, _ in _symbols(model.graph)}
    parts = {name: expressions.terms(name) for name in symbols}
    bindable = {*symbols, *(part for found in parts.values() for part in found)}
    unknown = [name for name in dims if name not in bindable]
    if unknown:
        raise InputError.listing(where, [_no_dimension(name, list(symbols)) for name in unknown])
    options = {"batch": batch, "seq": seq}
    placed = {n: size for n, axis in symbols.items() if (size := options.get(_kind(n, axis))) is not None}
    values = {**defaults, **{n: size for n, size in placed.items() if not parts[n]}, **dims}
    for name in symbols:  # an expression follows from the names that it is made of, else from its place
        size = values.get(name, expressions.value(name, values))
        if size is None and parts[name].isdisjoint(symbols):
            size = placed.get(name)
        if size is not None:
            values[name] = size
    _refuse_unused(model, batch, 0, "batch", symbols, values, where)
    _refuse_unused(model, seq, 1, "seq", symbols, values, where)
    left = [f"{name} = {values[name]}" for name in symbols if not 0 <= values.get(name, 1) < 2**63]
    if left:
        raise InputError(
            f"{where}: the bound dimensions leave {', '.join(left)}; every dimension must be from 0 to 2^63 - 1"
        )
    unbound = [name for name in symbols if name not in values]
    unbound = [name for name in unbound if parts[name].isdisjoint(unbound)]  # the others follow from these
    if unbound:
        remedy = " ".join(map(_dim_option, unbound))
        stated = {name: dim.dim_value for name, _, dim in _symbols(model.graph) if dim.HasField("dim_value")}
        shown = ", ".join(f"{name} ({stated[name]} in the file)" if name in stated else name for name in unbound)
        raise InputError(f"{where}: {quantity(len(unbound), 'dimension')} without a size: {shown}; give `{remedy}`")
    for name, _, dim in list(_symbols(model.graph)):
        dim.dim_value = values[name]
    _forget_shapes(model.graph)
    _store_empty_inputs(model.graph)


def _store_empty_inputs(graph: onnx.GraphProto) -> None:
    """An input without elements, as a cache of length 0, is a constant: nothing depends on what is in it."""
    for value in network_inputs(graph):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if 0 in shape:
            graph.initializer.append(
                onnx.TensorProto(name=value.name, data_type=value.type.tensor_type.elem_type, dims=shape, raw_data=b"")
            )


def _forget_shapes(graph: onnx.GraphProto) -> None:
    del graph.value_info[:]
    for output in graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for inner in subgraphs(node):
            _forget_shapes(inner)


def bind_values(model: onnx.ModelProto, values: Mapping[str, float], where: str) -> None:
    """Turn the network inputs named in ``values`` into constants whose elements all have the value. Dimensions are bound."""
    inputs = {value.name: value.type.tensor_type for value in network_inputs(model.graph)}
    for name, number in values.items():
        if name not in inputs:
            raise InputError(f"{where}: there is no input {name!r} to give a value{nearest(name, inputs)}")
        kind = inputs[name].elem_type
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        if not _holds(dtype, number):
            raise InputError(f"{where}: input {name!r} is {dtype} and cannot be {number}; give a number of its type")
        shape = [dim.dim_value for dim in inputs[name].shape.dim]
        constant = onnx.TensorProto(name=name, data_type=kind, dims=shape)
        if prod(shape) <= LARGEST:
            constant = numpy_helper.from_array(np.full(shape, number, dtype), name)
        model.graph.initializer.append(constant)


def _holds(dtype: np.dtype[Any], number: float) -> bool:
    """Whether an element of type ``dtype`` can be ``number``, up to the precision of a floating-point type."""
    if dtype.kind == "O":
        return False
    if dtype.kind not in "iub":
        return True
    try:
        return bool(np.array(number).astype(dtype) == number)
    except OverflowError:
        return False


def _symbols(graph: onnx.GraphProto) -> Iterator[tuple[str, int, onnx.TensorShapeProto.Dimension]]:
    """(name, axis, dimension) of every dimension of the network inputs that has no size."""
    for value in network_inputs(graph):
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") or dim.dim_value < 1:
                named = dim.dim_param not in NAMELESS
                yield dim.dim_param if named else f"{value.name}.{axis}", axis, dim


def _kind(name: str, axis: int) -> str:
    """Which option binds a dimension: its name decides, else its place."""
    if name.lower() in BATCH_NAMES:
        return "batch"
    if name.lower() in SEQUENCE_NAMES:
        return "seq"
    return ("batch", "seq", "")[min(axis, 2)]


def _dim_option(name: str) -> str:
    """The option that gives a dimension its size, for a shell."""
    return f"--dim {shlex.quote(f'{name}=VALUE')}"


def _no_dimension(name: str, known: list[str]) -> str:
    if not known:
        return f"there is no dimension {name!r} to size: all dimensions of the inputs are fixed"
    near = get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no dimension {name!r} to size, only {', '.join(known)}{hint}"


def _refuse_unused(
    model: onnx.ModelProto,
    size: int | None,
    axis: int,
    option: str,
    symbols: Mapping[str, int],
    values: Mapping[str, int],
    where: str,
) -> None:
    """An option that binds nothing is an error unless the file has that size already (axis 1 of an image is no sequence)."""
    named = [name for name, place in symbols.items() if _kind(name, place) == option]
    if size is None or any(values.get(name) == size for name in named):
        return
    given = [f"{name}={values[name]}" for name in named if name in values]
    if given:
        raise InputError(
            f"{where}: --{option} {size} has no dimension to size: other options say {', '.join(given)}; leave one of them out"
        )
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in network_inputs(model.graph)]
    sizes = {shape[axis] for shape in shapes if len(shape) > axis and not (option == "seq" and len(shape) > 3)}
    if sizes != {size}:
        kind = {"batch": "a batch", "seq": "a sequence"}[option]
        why = (
            f"of those without a size ({', '.join(symbols)}) none is {kind}"
            if symbols
            else "the inputs have fixed ones"
        )
        options = " or ".join(f"`{_dim_option(name)}`" for name in symbols)
        remedy = f"size by name: {options}" if symbols else "export the model with a symbolic dimension"
        raise InputError(f"{where}: --{option} {size} has no dimension to size: {why}; leave it out, or {remedy}")
