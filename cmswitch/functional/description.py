"""What the operators of a program compute, as plain data: which ONNX nodes, and how a product is laid out as a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One ONNX node: ``inputs`` and ``outputs`` are value names ("" = left out), ``attributes`` as ONNX gives them."""

    id: str
    operator: str
    domain: str
    version: int
    attributes: Mapping[str, Any] = field(hash=False)
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Convolution:
    """Convolution of [batch, channels, *space] with [outputs, channels / groups, *kernel]; ``pads`` before each axis.

    ``last``: the channels of input and output are their last axis.
    """

    groups: int
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    last: bool = False


@dataclass(frozen=True)
class PositionProduct:
    """Every position of [batch, channels, *space] times [channels, outputs / groups, *kernel]: the product of a transposed
    convolution, before overlapping windows are added."""

    groups: int


@dataclass(frozen=True)
class Multiplication:
    """Matrix product of two inputs in the order of the node, each transposed (last two axes) or not.

    ``swapped``: the arrays hold the left one. Batch axes along which the held one differs are groups.
    """

    swapped: bool = False
    transpose_left: bool = False
    transpose_right: bool = False


@dataclass(frozen=True)
class Recurrence:
    """Steps that each multiply the state which the one before left: ``cell`` is the ONNX layer that makes the next one.

    Its inputs are named in ``recurrence``; ``first`` names the initial hidden and cell state ("": zeros), ``bias`` the bias of
    the file ("": none). ``gates`` is the value that holds the pre-activations of all steps, ``final`` the one that takes the
    cell state of the last ("": none). Where a gate resets the state before it is multiplied, ``reset`` is the ONNX layer of that
    gate alone, and every step multiplies twice; where it resets the product (``resets_product``), that is no part of the
    pre-activations.
    """

    cell: Call
    steps: int
    batch: int
    hidden: int
    backwards: bool
    gates: str
    first: tuple[str, str]
    bias: str = ""
    final: str = ""
    reset: Call | None = None
    resets_product: bool = False

    @property
    def passes(self) -> int:
        """Products of one step."""
        return 1 if self.reset is None else 2


Geometry = Convolution | PositionProduct | Multiplication


@dataclass(frozen=True)
class Product:
    """A matrix product of ``groups`` times [rows x inner] . [inner x columns].

    ``matrix`` is the value that is streamed, ``operand`` the one in the arrays (``constant`` or an activation), ``output`` the
    result, of ``shape``. ``channels`` are the axes of the operand along which its scale may differ, ``bits`` those of a weight
    as the file stores it (None: the chip's). ``kernel`` is that of a convolution; of a batched product ``batch`` are the sizes
    of the result's batch axes, of which those in ``separate`` are groups. ``factor`` scales the result before ``bias``, times
    ``bias_factor``, is added. A product that is cut along its inner dimension starts at row ``first`` of the operand, which has
    ``total``: it adds to the sums in tensor ``carried_in`` and leaves its own in ``carried_out`` (None: it is the first, the
    last). With a ``recurrence`` the rows are those of all steps, and ``matrix`` is the state; ``shape`` holds the sums of all
    passes of all steps.
    """

    geometry: Geometry
    rows: int
    inner: int
    columns: int
    groups: int
    matrix: str
    operand: str
    constant: bool
    output: str
    shape: tuple[int, ...]
    channels: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    separate: tuple[int, ...] = ()
    bits: int | None = None
    bias: str = ""
    factor: float = 1.0
    bias_factor: float = 1.0
    first: int = 0
    total: int = 0
    carried_in: str | None = None
    carried_out: str | None = None
    recurrence: Recurrence | None = None


@dataclass(frozen=True)
class Task:
    """What one operator computes from the tensors in ``reads``.

    ``before`` makes the streamed input of its product, ``fill`` the one in the arrays if it is an activation, and ``after`` from
    the result the tensors in ``writes``. ``refusal``: why it cannot be executed; then ``after`` may use any earlier tensor.
    """

    name: str
    product: Product | None
    before: tuple[Call, ...]
    fill: tuple[Call, ...]
    after: tuple[Call, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    refusal: str | None = None
