"""Numbers for the network inputs: from a file, or generated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import onnx

from cmswitch.errors import InputError
from cmswitch.functional.formats import Array
from cmswitch.graph.ir import Graph
from cmswitch.naming import nearest

Sample = Mapping[str, Array]

GENERATED = 2
"""Samples that are generated: the first is executed, all calibrate."""

FOLLOWED = frozenset({"Cast", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Flatten"})
"""Operators through which an index stays the same index."""


def generated(graph: Graph, seed: int) -> list[Sample]:
    """Normally distributed floats; integers that are indices lie within what they index, others are 1."""
    random = np.random.default_rng(seed)
    return [{name: _numbers(graph, name, random) for name in graph.inputs} for _ in range(GENERATED)]


def _numbers(graph: Graph, name: str, random: np.random.Generator) -> Array:
    value = graph.values[name]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.dtype)
    shape = value.shape or ()
    if dtype.kind == "f":
        return np.asarray(random.standard_normal(shape)).astype(dtype)
    if dtype.kind == "b":
        return np.ones(shape, np.bool_)
    bound = _indexed(graph, name)
    return np.asarray(random.integers(0, bound, shape) if bound else np.ones(shape)).astype(dtype)


def _indexed(graph: Graph, name: str) -> int | None:
    """Positions of the smallest table that a network input picks from; None if it is no index."""
    same = {name}
    sizes = []
    for node in graph.nodes:
        if node.operator in FOLLOWED and node.inputs[0] in same:
            same.update(node.outputs)
        table = node.value(0).shape
        if node.operator == "Gather" and node.inputs[1] in same and table and node.value(0).constant:
            sizes.append(table[node.integer("axis", 0)])
    return min(sizes, default=None)


def read_inputs(path: Path, graph: Graph) -> list[Sample]:
    """Samples from an .npz file with an array for each network input, with or without a leading axis of samples.

    Raises InputError for a file that cannot be read, a missing or unknown name, or a shape that does not fit.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            found = {name: stored[name] for name in stored.files}
    except (OSError, ValueError, BadZipFile, AttributeError) as error:
        raise InputError(f"{path}: cannot be read as .npz ({error}); write it with numpy.savez") from error
    for name in found:
        if name not in graph.inputs:
            raise InputError(f"{path}: the network has no input {name!r}{nearest(name, graph.inputs)}")
    columns = {name: _samples(path, graph, name, found) for name in graph.inputs}
    counts = {len(each) for each in columns.values()}
    if len(counts) > 1:
        raise InputError(
            f"{path}: its arrays have different numbers of samples ({', '.join(map(str, sorted(counts)))})"
        )
    return [{name: each[i] for name, each in columns.items()} for i in range(min(counts, default=0))]


def _samples(path: Path, graph: Graph, name: str, found: Mapping[str, Array]) -> list[Array]:
    shape, dtype = graph.values[name].shape or (), onnx.helper.tensor_dtype_to_np_dtype(graph.values[name].dtype)
    if name not in found:
        raise InputError(f"{path}: there is no array {name!r}; the network has the inputs {', '.join(graph.inputs)}")
    array = found[name]
    if array.shape == shape:
        return [array.astype(dtype)]
    if array.shape[1:] == shape and len(array):
        return [each.astype(dtype) for each in array]
    raise InputError(
        f"{path}: {name!r} has the shape {list(array.shape)}, not {list(shape)} (or that after an axis of samples)"
    )
