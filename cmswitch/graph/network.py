"""The network as the mapper sees it: matrix products with fused vector work, and the tensors between them.

Everything here is chip-independent: sizes are in elements, dependences in chunks (``docs/machine-model.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

Role = Literal["matrix", "operand", "side"]

Place = Literal["arrays", "vector unit", "data movement", "metadata", "host"]
"""Where a node runs; metadata is another shape or name, which is no work."""

HOST = "host"
"""The kind of vector work that no lane can do."""

_PLACES: dict[str, Place] = {"view": "metadata", "copy": "data movement", "gather": "data movement", HOST: "host"}


@dataclass(frozen=True)
class Need:
    """How far a producer must be before a consumer's chunk may be fetched.

    ``chunks(c, total) = min(total, max(0, ceil((numerator * c + offset) / denominator)))`` chunks of the producer, which
    has ``total``. ``span`` is how many of the producer's chunks one consumer chunk looks back on (its receptive field).
    ``Need.whole(total)`` waits for everything.
    """

    numerator: int
    denominator: int
    offset: int
    span: int

    def chunks(self, chunk: int, total: int) -> int:
        """Producer chunks that chunk number ``chunk`` (from 0) of the consumer waits for."""
        return min(total, max(0, -((self.numerator * chunk + self.offset) // -self.denominator)))

    @staticmethod
    def whole(total: int) -> Need:
        """Wait for all ``total`` chunks of the producer."""
        return Need(0, 1, total, total)


@dataclass(frozen=True)
class MatrixProduct:
    """``groups`` independent products X[rows x inner] . W[inner x columns] (rows, inner and columns of one group).

    ``weight`` names the constant that the arrays hold (equal names are one tied weight, stored once); None means that
    the operand is an activation, written into the arrays at run time (*dynamic*). *Recurrent*: a chunk cannot be fetched
    before the operator's own output of the chunk before is available. ``weight_bits`` of one weight as the file stores it; None
    for a float weight or a dynamic operand, of which the arrays hold the chip's ``precision.weight_bits``.
    """

    rows: int
    inner: int
    columns: int
    groups: int = 1
    weight: str | None = None
    recurrent: bool = False
    weight_bits: int | None = None

    @property
    def dynamic(self) -> bool:
        """Whether the operand in the arrays is an activation."""
        return self.weight is None

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        return self.rows * self.inner * self.columns * self.groups

    @property
    def weights(self) -> int:
        """Elements that one copy holds in the arrays."""
        return self.inner * self.columns * self.groups


@dataclass(frozen=True)
class VectorWork:
    """One vector or data-movement operator fused into an operator.

    ``kind`` selects the passes per element from the chip file, ``elements`` is the work (output elements, times window
    size for pooling). ``columnwise`` work can run on a share of the output columns alone; other work needs whole rows.
    """

    node: str
    kind: str
    elements: int
    columnwise: bool = True

    @property
    def place(self) -> Place:
        """Where work of this kind runs."""
        return _PLACES.get(self.kind, "vector unit")


@dataclass(frozen=True)
class Read:
    """One use of a tensor by an operator: the streamed matrix, the operand held in arrays, or a side input.

    ``elements`` are moved by one use of the operator with ``input_reuse: line_buffer``, ``expanded_elements`` with
    ``expanded``. ``need`` counts chunks of the tensor's producer; for a network input it is ignored.
    """

    tensor: int
    role: Role
    elements: int
    expanded_elements: int
    need: Need


@dataclass(frozen=True)
class Write:
    """One tensor that an operator produces, an equal share with every chunk."""

    tensor: int


@dataclass(frozen=True)
class Operator:
    """A matrix product (None: vector-only) with the vector work fused into it, running in ``chunks`` equal chunks.

    ``nodes`` are the unique ids of the ONNX nodes that it covers, the product's own first.
    """

    name: str
    nodes: tuple[str, ...]
    product: MatrixProduct | None
    chunks: int
    reads: tuple[Read, ...]
    vector: tuple[VectorWork, ...]
    writes: tuple[Write, ...]


@dataclass(frozen=True)
class Tensor:
    """An activation between operators. ``producer`` is an operator's index, None for a network input."""

    name: str
    elements: int
    producer: int | None
    is_output: bool = False


@dataclass(frozen=True)
class Network:
    """Operators in topological order and the tensors between them.

    ``node_count`` counts the ONNX nodes of the file and its subgraphs; ``host_nodes`` name those that the host has a part in.
    """

    name: str
    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]
    node_count: int
    host_nodes: tuple[str, ...] = ()

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each tensor, the indices of the operators that read it, ascending and without repetition."""
        readers: list[list[int]] = [[] for _ in self.tensors]
        for index, operator in enumerate(self.operators):
            for read in operator.reads:
                if not readers[read.tensor] or readers[read.tensor][-1] != index:
                    readers[read.tensor].append(index)
        return tuple(tuple(r) for r in readers)

    @cached_property
    def places(self) -> dict[Place, frozenset[str]]:
        """The nodes of the operators by where they run; one that stands for several simpler ones may be in several places."""
        found: dict[Place, set[str]] = {place: set() for place in get_args(Place)}
        for operator in self.operators:
            if operator.product:
                found["arrays"].add(operator.nodes[0])
            for work in operator.vector:
                found[work.place].add(work.node)
        return {place: frozenset(nodes) for place, nodes in found.items()}

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all matrix products."""
        return sum(o.product.macs for o in self.operators if o.product)

    @property
    def weight_elements(self) -> int:
        """Constant weight elements, tied weights once."""
        return sum(product.weights for product in self._stored.values())

    def weight_bytes(self, default_bits: int) -> int:
        """Bytes of the constant weights in main memory, tied weights once; ``default_bits`` each where the file says none."""
        bits = sum(product.weights * (product.weight_bits or default_bits) for product in self._stored.values())
        return -(-bits // 8)

    @property
    def _stored(self) -> dict[str, MatrixProduct]:
        """For each constant weight a product that uses it."""
        products = (operator.product for operator in self.operators)
        return {p.weight: p for p in products if p is not None and p.weight is not None}
