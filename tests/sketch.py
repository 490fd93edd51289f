"""A small ONNX file under construction, for tests of what becomes of its nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import DTypeLike
from onnx import TensorProto, helper, numpy_helper

from cmswitch.graph import Network, load_network

FLOAT = int(TensorProto.FLOAT)


class Sketch:
    """Nodes, inputs and zero weights; ``opsets`` holds the versions of further domains where they are not 1."""

    def __init__(
        self, folder: Path, opset: int = 17, opsets: Mapping[str, int] | None = None, ir_version: int = 8
    ) -> None:
        self.path = folder / "sketch.onnx"
        self.graph = onnx.GraphProto(name="sketch")
        self.opsets = {"": opset, **(opsets or {})}
        self.ir_version = ir_version

    def input(self, name: str, *shape: int | str | None, dtype: int = FLOAT) -> str:
        self.graph.input.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def weight(self, name: str, *shape: int, dtype: DTypeLike = np.float32) -> str:
        self.graph.initializer.append(numpy_helper.from_array(np.zeros(shape, dtype), name))
        return name

    def external_weight(self, name: str, *shape: int, location: str) -> str:
        """A float weight whose data is said to be in another file, which is not made."""
        tensor = TensorProto(name=name, data_type=FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=location)
        self.graph.initializer.append(tensor)
        return name

    def ints(self, name: str, *values: int) -> str:
        self.graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, operator: str, name: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        made = list(outputs) or [name]
        self.graph.node.append(helper.make_node(operator, list(inputs), made, name, **attributes))
        return made[0]

    def save(self, *outputs: str, dtype: int = FLOAT) -> Path:
        for name in outputs:
            self.graph.output.append(helper.make_tensor_value_info(name, dtype, None))
        versions = {**{node.domain: 1 for node in self.graph.node}, **self.opsets}
        opsets = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
        onnx.save(helper.make_model(self.graph, opset_imports=opsets, ir_version=self.ir_version), self.path)
        return self.path

    def load(self, *outputs: str, **options: Any) -> Network:
        return load_network(self.save(*outputs), **options)
