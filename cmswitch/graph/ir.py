"""The bound graph between the ONNX file and the network: nodes with concrete shapes, constants told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from onnx import TensorProto

if TYPE_CHECKING:
    import numpy as np

Shape = tuple[int, ...]

# fmt: off
SIZED_BY_DATA = frozenset({
    "BlackmanWindow", "ConstantOfShape", "HammingWindow", "HannWindow", "ImageDecoder", "MelWeightMatrix", "NonZero", "Range",
    "StringNormalizer", "StringSplit", "Unique",
})
# fmt: on
"""Operators the size of whose output the elements of their first input decide."""


class Unsupported(Exception):
    """A rule cannot map this node: ``reason`` says why and ``remedy`` what to do instead."""

    def __init__(self, reason: str, remedy: str) -> None:
        self.reason, self.remedy = reason, remedy
        super().__init__(reason)


class Unknown(Unsupported):
    """What the node needs to be told of its inputs is not known, maybe because an earlier node was refused."""


@dataclass(frozen=True)
class Value:
    """What is known of a value: its shape (None: unknown) and, for a constant, its small contents.

    ``weight`` is set for constants only: the name of the stored data, shared by values that are views of one constant.
    ``bits`` of one of its elements where the file stores it in a quantised type.
    ``sources`` are the network inputs that it depends on. ``items``: the values that a sequence holds.
    ``dtype`` is the element type by ONNX's number (0: unknown, or no tensor).
    """

    shape: Shape | None
    weight: str | None = None
    data: np.ndarray[Any, Any] | None = None
    sources: frozenset[str] = frozenset()
    items: tuple[str, ...] | None = None
    dtype: int = 0
    bits: int | None = None

    @property
    def constant(self) -> bool:
        """Whether the value does not depend on any network input."""
        return self.weight is not None

    @property
    def untold_sizes(self) -> bool:
        """Whether it is a constant list of integers, such as decide sizes, whose contents are not known."""
        integers = self.dtype in (TensorProto.INT32, TensorProto.INT64)
        return self.constant and self.data is None and integers and len(self.shape or ()) < 2


ABSENT = Value(())
"""Stands for an optional input or output that a node leaves out."""


@dataclass(frozen=True)
class Node:
    """One node. ``inputs`` and ``outputs`` are value names ("" = left out), ``values`` what is known of each of them.

    ``refusal``: why it cannot be mapped, if that is known before its rule is asked. ``unread``: outputs that nothing reads.
    """

    id: str
    operator: str
    domain: str
    version: int
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: Mapping[str, Value] = field(repr=False)
    refusal: Unsupported | None = None
    unread: frozenset[str] = frozenset()

    def has(self, index: int) -> bool:
        """Whether input number ``index`` is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def makes(self, index: int) -> bool:
        """Whether output number ``index`` is given and something reads it."""
        return index < len(self.outputs) and self.outputs[index] != "" and self.outputs[index] not in self.unread

    def value(self, index: int) -> Value:
        """Input number ``index``, ``ABSENT`` if it is left out."""
        return self.values[self.inputs[index]] if self.has(index) else ABSENT

    def shape(self, index: int) -> Shape:
        """Shape of input number ``index``; raises :class:`Unsupported` if it is unknown."""
        return self._known(self.value(index).shape, self.inputs[index] if self.has(index) else "")

    def output_shape(self, index: int = 0) -> Shape:
        """Shape of output number ``index``; raises :class:`Unsupported` if it is unknown."""
        if index >= len(self.outputs) or not self.outputs[index]:
            raise Unsupported(f"its output number {index} is left out", "give it a name")
        shape = self.values[self.outputs[index]].shape
        if shape is None and all(self.values[value].shape is not None for value in self.inputs if value):
            raise self._shapeless()
        return self._known(shape, self.outputs[index])

    def _shapeless(self) -> Unsupported:
        """Why there is no output shape although those of the inputs are known."""
        given = [value for value in self.inputs[1:] if value]
        untold = [value for value in given if self.values[value].untold_sizes]
        if self.operator in SIZED_BY_DATA or not all(self.values[value].constant for value in given):
            return Unsupported(
                "its output size depends on its data",
                "make what decides the size a constant of the file, or cut the model before this node",
            )
        if untold:
            return self._untold(untold[0])
        return Unsupported(
            "no output shape fits its inputs and attributes",
            "correct its sizes, or convert the model to operator set 7 or later",
        )

    @staticmethod
    def _untold(value: str) -> Unsupported:
        """The refusal of a node that needs the contents of a constant that are not known."""
        return Unsupported(
            f"the contents of its constant {value!r} are not known: they are large, or in a file that is missing",
            "put the file of external data next to the model, or store the constant in the model",
        )

    def output_elements(self, index: int = 0) -> int:
        """Elements of output number ``index``."""
        return prod(self.output_shape(index))

    def integers(self, name: str, index: int | None = None) -> tuple[int, ...] | None:
        """Integer list from the attribute ``name`` or, where an opset moved it, from constant input ``index``; None if absent."""
        found = self.attributes.get(name)
        if found is not None:
            return tuple(int(i) for i in found) if isinstance(found, (list, tuple)) else (int(found),)
        if index is None or not self.has(index):
            return None
        data = self.value(index).data
        if data is None and self.value(index).constant:
            raise self._untold(self.inputs[index])
        if data is None:
            raise Unsupported(
                f"its input {self.inputs[index]!r} ({name}) is computed at run time", "make it a constant of the file"
            )
        return tuple(int(i) for i in data.reshape(-1))

    def integer(self, name: str, default: int) -> int:
        """Integer attribute ``name``."""
        found = self.attributes.get(name)
        return default if found is None else int(found)

    @staticmethod
    def _known(shape: Shape | None, name: str) -> Shape:
        if shape is None:
            raise Unknown(
                f"the shape of {name!r} does not follow from the input shapes",
                "give every dimension a size with `--dim NAME=VALUE`",
            )
        return shape


@dataclass(frozen=True)
class Graph:
    """Live nodes (constants folded, dead nodes removed) in topological order.

    ``node_count`` counts the file's nodes, also those of subgraphs. ``makers`` are the nodes that make constants, by value, and
    ``composites`` the file's nodes that were replaced by simpler ones, by id.
    """

    name: str
    nodes: tuple[Node, ...]
    values: Mapping[str, Value] = field(repr=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    node_count: int
    makers: Mapping[str, Node] = field(default_factory=dict, repr=False)
    composites: Mapping[str, Node] = field(default_factory=dict, repr=False)
