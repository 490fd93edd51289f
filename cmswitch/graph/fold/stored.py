"""Constants that a file stores, as numbers where they are few."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

Array = np.ndarray[Any, Any]

LARGEST = 1024
"""Elements of the largest constant whose contents are known: enough for every shape, index list and scalar."""


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
