"""What a rule says about one node. A rule reads shapes and attributes only; it never looks at other nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cmswitch.graph.ir import Node, Shape, Unsupported
from cmswitch.graph.streams import SAME, Link
from cmswitch.graph.table import Table


@dataclass(frozen=True)
class Product:
    """A matrix product: starts an operator.

    ``matrix`` and ``operand`` are the numbers of the inputs that are streamed and held in the arrays; ``sides`` of further
    activations that are added to the result. The output is made in ``chunks`` equal chunks along its ``axes``, following
    the matrix by ``link``. ``expanded``: elements of the im2col matrix (None: those of the input). ``recurrent``: each
    chunk needs the output of the chunk before; ``initial`` activations are read whole before the first. ``extra`` vector
    work follows the product in the same operator.
    """

    rows: int
    inner: int
    columns: int
    groups: int
    matrix: int
    operand: int
    axes: tuple[int, ...]
    chunks: int
    link: Link
    expanded: int | None = None
    sides: tuple[int, ...] = ()
    recurrent: bool = False
    initial: tuple[int, ...] = ()
    extra: tuple[tuple[str, int], ...] = ()  # kind, elements


@dataclass(frozen=True)
class Vector:
    """Vector work of ``kind`` on ``elements``; ``links[output][input]`` says how each output follows each input."""

    kind: str
    elements: int
    links: tuple[tuple[Link, ...], ...]
    columnwise: bool = True


@dataclass(frozen=True)
class View:
    """The first output is the first input with another shape or type: no data moves."""


Mapped = Product | Vector | View
"""What a rule says a node is."""

Rule = Callable[[Node], Mapped]

RULES: Table[Rule] = Table()
"""What a node is, by (domain, operator); nodes without a rule are refused."""

LONGEST = 256
"""Chunks that an operator without a natural row has at most."""


def grouped(count: int) -> int:
    """Number of chunks for ``count`` rows or positions: one each, or equal groups so that there are at most ``LONGEST``."""
    return -(-count // -(-count // LONGEST))


def broadcast(inputs: Shape, outputs: Shape, without: frozenset[int] = frozenset()) -> Link:
    """Link of an elementwise input: axes aligned at the right; not those that are repeated, nor output axes ``without``."""
    shift = len(outputs) - len(inputs)
    return {
        axis + shift: (axis, SAME)
        for axis, size in enumerate(inputs)
        if axis + shift >= 0 and size == outputs[axis + shift] and axis + shift not in without
    }


def along(axes: Iterable[int]) -> Link:
    """Link of an input whose position along each of ``axes`` is that of the output."""
    return {axis: (axis, SAME) for axis in axes}


def refusal(reason: str, remedy: str) -> Rule:
    """The rule of an operator that has no meaning here."""

    def refuse(node: Node) -> View:
        raise Unsupported(reason, remedy)

    return refuse


def axis_of(axis: int, rank: int) -> int:
    """``axis`` counted from the front."""
    return axis + rank if axis < 0 else axis
