"""Pass 1: read an ONNX file without its weights, refusing what is not a model or reaches outside its folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from cmswitch.errors import InputError

SMALL = 4096
"""Bytes up to which the data of a constant is kept: enough for every shape, index list and scalar."""


def read_model(path: Path) -> onnx.ModelProto:
    """The model at ``path`` with the data of large constants dropped. Raises InputError if there is none."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); give the path of an ONNX file or `zoo:NAME`"
        ) from error
    if not content:
        raise InputError(f"{path}: the file is empty; export or copy the model again")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise InputError(
            f"{path}: not an ONNX model, or cut off ({len(content)} bytes); export or copy it again"
        ) from error
    if not model.ir_version or not model.opset_import or not model.graph.node:
        raise InputError(
            f"{path}: not an ONNX model (no version, operator set or nodes); give a file that ONNX exported"
        )
    _check_external(model, path)
    drop_data(model)
    return model


def _check_external(model: onnx.ModelProto, path: Path) -> None:
    folder = path.resolve().parent
    for tensor in _tensors(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
        if not location or "\0" in location:
            raise InputError(
                f"{path}: the data of {tensor.name!r} is in another file, but the model does not say in which; export it again"
            )
        if not (folder / location).resolve().is_relative_to(folder) or Path(location).is_absolute():
            raise InputError(
                f"{path}: the data of {tensor.name!r} is at {location!r}, outside the model's folder; move it next to the model"
            )


def drop_data(model: onnx.ModelProto) -> None:
    """Forget the contents of large constants: only their shapes matter."""
    for tensor in _tensors(model.graph):
        if tensor.ByteSize() > SMALL:
            for field in (
                "raw_data",
                "float_data",
                "int32_data",
                "int64_data",
                "double_data",
                "uint64_data",
                "string_data",
            ):
                tensor.ClearField(field)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every stored tensor of a graph and of its subgraphs."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)
