"""The simpler nodes that a composite node stands for, and a way to write them down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from cmswitch.graph.ir import Node, Shape
from cmswitch.graph.table import Table

PARTS_VERSION = 21
"""Version of the standard operator set in which parts are written."""

MOST_VALUES = 20_000
"""Values that the iterations of one Loop or Scan, with everything nested in them, make at most, and pieces of one sequence."""


@dataclass(frozen=True)
class Part:
    """One node of an expansion. Its name is unique among the parts; the composite's id is put before it.

    ``version``: of the operator set of its domain (None: the file's). ``shapes`` of its outputs, where ONNX cannot infer
    them; their element type is then that of its first input. ``items``: the values that its output holds, a sequence.
    """

    proto: onnx.NodeProto
    version: int | None = PARTS_VERSION
    shapes: tuple[Shape, ...] | None = None
    items: tuple[str, ...] | None = None


Expansion = Callable[[Node], Iterable[Part] | None]
"""The parts of a node (None: it is no composite in this form). Raises :class:`Unsupported` where it has no meaning here.

A generator is resumed once what is known of the parts so far is in the node's ``values``.
"""

EXPANSIONS: Table[Expansion] = Table()
"""The parts of composite operators, by (domain, operator)."""


class Parts:
    """Writes the parts of ``node``. Every method returns the name of the value that it makes."""

    def __init__(self, node: Node) -> None:
        self.list: list[Part] = []
        self._node = node
        self._taken = 0

    def add(
        self,
        operator: str,
        *inputs: str,
        output: str | None = None,
        domain: str = "",
        version: int | None = None,
        shape: Shape | None = None,
        **attributes: Any,
    ) -> str:
        """A node with one output, called ``output`` or after its place; ``shape`` of it where ONNX cannot infer it.

        ``version``: of the operator set, if another than :data:`PARTS_VERSION`.
        """
        name = f"{operator}_{len(self.list)}"
        made = output or f"{self._node.id}#{name}"
        proto = helper.make_node(operator, list(inputs), [made], name=name, domain=domain, **attributes)
        version = version or (PARTS_VERSION if not domain else 1)
        self.list.append(Part(proto, version, None if shape is None else (shape,)))
        return made

    def number(self, values: Any, like: str) -> str:
        """A constant of the element type of the value ``like``."""
        return self.add("CastLike", self.constant(values, np.float32), like)

    def reshape(self, value: str, shape: Sequence[int], output: str | None = None) -> str:
        """``value`` in another shape."""
        return self.add("Reshape", value, self.constant(shape), output=output)

    def split(self, value: str, axis: int, sizes: Sequence[int]) -> list[str]:
        """``value`` cut along ``axis`` into pieces of ``sizes``."""
        name = f"Split_{len(self.list) + 1}"
        made = [f"{self._node.id}#{name}_{i}" for i in range(len(sizes))]
        inputs = [value, self.constant(sizes)]
        self.list.append(Part(helper.make_node("Split", inputs, made, name=name, axis=axis)))
        return made

    def output(self, index: int) -> str | None:
        """Name of the composite's output number ``index``; None if it is left out."""
        return (self._node.outputs[index] or None) if index < len(self._node.outputs) else None

    def constant(self, values: Any, kind: type = np.int64) -> str:
        """A constant tensor."""
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(values, kind)))

    def count(self, length: int, shape: Sequence[int]) -> str:
        """The numbers from 0 to ``length - 1``, in ``shape``."""
        limits = [self.constant(limit) for limit in (0, length, 1)]
        return self.reshape(self.add("Range", *limits), shape)

    def fresh(self) -> list[Part]:
        """The parts since the last call, for an expansion that writes them as it goes."""
        found = self.list[self._taken :]
        self._taken = len(self.list)
        return found
