"""Read an ONNX file without its weights, refusing what is not a model or reaches outside its folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableSequence
from math import prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from cmswitch.errors import InputError
from cmswitch.graph.fold import LARGEST
from cmswitch.graph.scopes import subgraphs
from cmswitch.graph.zoo import meant
from cmswitch.naming import quantity


def read_model(path: Path, with_data: bool = False) -> onnx.ModelProto:
    """The model at ``path``, with the data of large constants dropped unless ``with_data``. Raises InputError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        within = sorted(path.glob("*.onnx")) if isinstance(error, IsADirectoryError) else []
        example = f", as {within[0]}," if within else ""
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); give the path of an ONNX file{example} or `zoo:NAME`{meant(path.stem)}"
        ) from error
    if not content:
        raise InputError(f"{path}: the file is empty; export or copy the model again")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError as error:
        raise InputError(
            f"{path}: not an ONNX model, or cut off ({quantity(len(content), 'byte')}); export or copy it again"
        ) from error
    if not model.ir_version or not model.opset_import or not model.graph.node:
        raise InputError(
            f"{path}: not an ONNX model (no version, operator set or nodes); give a file that ONNX exported"
        )
    _decode_text(model)
    _read_external(model, path)
    if not with_data:
        drop_data(_tensors(model))
        return model
    try:
        onnx.external_data_helper.load_external_data_for_model(model, str(path.resolve().parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InputError(
            f"{path}: the data of its weights cannot be read ({error}); copy them next to the model"
        ) from error
    return model


def _decode_text(message: Message) -> None:
    """Turn text that is no UTF-8, which protobuf hands out as bytes, into text that is, throughout ``message``."""
    for field in message.DESCRIPTOR.fields:
        if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
            continue
        value = getattr(message, field.name)
        if isinstance(value, bytes):
            setattr(message, field.name, _text(value))
        elif isinstance(value, MutableSequence):
            for index, item in enumerate(value):
                if isinstance(item, bytes):
                    value[index] = _text(item)
                elif isinstance(item, Message):
                    _decode_text(item)
        elif isinstance(value, Message) and message.HasField(field.name):
            _decode_text(value)


def _text(content: bytes) -> str:
    return content.decode(errors="backslashreplace")


def _read_external(model: onnx.ModelProto, path: Path) -> None:
    """Take over small data from other files, where those are there: a shape may be among it. Refuse places outside the folder."""
    folder = path.resolve().parent
    problems = []
    for tensor in _tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        given = {entry.key: entry.value for entry in tensor.external_data}
        location = given.get("location", "")
        if not location or "\0" in location:
            problems.append(
                f"the data of {tensor.name!r} is in another file, but the model does not say in which; export it again"
            )
        elif not (folder / location).resolve().is_relative_to(folder) or Path(location).is_absolute():
            problems.append(
                f"the data of {tensor.name!r} is at {location!r}, outside the model's folder; move it next to the model"
            )
        else:
            _take_over(tensor, folder / location, given)
    if problems:
        raise InputError.listing(str(path), problems)


def _take_over(tensor: onnx.TensorProto, path: Path, given: Mapping[str, str]) -> None:
    """Put the data of ``tensor`` into it if it is small and the file at ``path`` holds all of it."""
    try:
        count = prod(tensor.dims)
        size = count * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        offset = int(given.get("offset") or 0)
        if not 0 < count <= LARGEST or not path.is_file():
            return
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(size)
    except (KeyError, OSError, OverflowError, ValueError):
        return
    if len(data) == size:
        tensor.raw_data = data
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def drop_data(tensors: Iterable[onnx.TensorProto]) -> None:
    """Forget the contents of the large ones: only their shapes matter."""
    for tensor in tensors:
        if prod(tensor.dims) > LARGEST:
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


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every stored tensor of a model: of its graph, the subgraphs and the functions."""
    yield from model.graph.initializer
    yield from (part for sparse in model.graph.sparse_initializer for part in (sparse.values, sparse.indices))
    for node in (*model.graph.node, *(node for function in model.functions for node in function.node)):
        yield from _node_tensors(node)


def _node_tensors(node: onnx.NodeProto) -> Iterator[onnx.TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("sparse_tensor"):
            yield attribute.sparse_tensor.values
            yield attribute.sparse_tensor.indices
        yield from attribute.tensors
    for inner in subgraphs(node):
        yield from inner.initializer
        yield from (part for sparse in inner.sparse_initializer for part in (sparse.values, sparse.indices))
        for within in inner.node:
            yield from _node_tensors(within)
