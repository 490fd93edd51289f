"""The meta-operator program: what the chip is told to do. The contract between the compiler and the simulators.

Statements carry concrete addresses and the ONNX nodes they come from. Meaning and timing: ``docs/machine-model.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Buffer:
    """Parts of the on-chip buffer, each ``(offset, length)`` in bytes, that together hold a tensor or its window."""

    extents: tuple[tuple[int, int], ...]

    @property
    def bytes(self) -> int:
        """Bytes of all extents."""
        return sum(length for _, length in self.extents)


@dataclass(frozen=True)
class MemoryArrays:
    """Memory-mode arrays that one tensor owns; its bytes are interleaved over them."""

    arrays: tuple[int, ...]


@dataclass(frozen=True)
class TensorDeclaration:
    """A tensor and its size; ``kind`` says whether it starts (input) or must end (output) in main memory."""

    name: str
    bytes: int
    kind: Literal["input", "output", "intermediate"] = "intermediate"


@dataclass(frozen=True)
class Store:
    """Write a resident tensor back to main memory (phase *store*) and free its place."""

    tensor: str


@dataclass(frozen=True)
class Switch:
    """``CM.switch``: change the mode of arrays, TOC = to compute mode, TOM = to memory mode (phase *switch*)."""

    mode: Literal["TOC", "TOM"]
    arrays: tuple[int, ...]


@dataclass(frozen=True)
class Allocate:
    """Give a tensor its place on chip from this segment on; ``window`` chunks of its producer, or None for whole."""

    tensor: str
    location: Buffer | MemoryArrays
    window: int | None = None


@dataclass(frozen=True)
class Free:
    """Release a tensor's place at the end of the segment."""

    tensor: str


@dataclass(frozen=True)
class WriteTile:
    """``cim.writexb``: write one tile into one array of every copy.

    ``arrays`` lists for each copy the array that receives the tile. ``rows`` are used; ``bytes`` are read once per tile from
    ``source`` (None: main memory, a constant weight; else the name of the tensor that is the dynamic operand).
    ``row_block`` and ``column_block`` identify the tile; ``bit`` the bit slice under binding ``arrays``;
    ``group`` the first group it holds and ``groups`` how many are packed.
    """

    operator: str
    row_block: int
    column_block: int
    group: int
    groups: int
    bit: int
    rows: int
    columns: int
    bytes: int
    arrays: tuple[int, ...]
    source: str | None = None


@dataclass(frozen=True)
class After:
    """A dependence of a stage's chunks on a producer in the segment: ``need`` and release rule of the machine model."""

    operator: str
    numerator: int
    denominator: int
    offset: int
    span: int


@dataclass(frozen=True)
class Fetch:
    """Move ``bytes`` of a tensor per chunk from ``source`` to the operator; ``after`` if its producer is in the segment.

    ``source`` is where this reader finds it: main memory, or the place of its allocation (``resident``).
    """

    tensor: str
    source: Literal["main", "resident"]
    bytes: int
    after: After | None = None


@dataclass(frozen=True)
class Multiply:
    """``cim.readxb``: ``rows`` matrix rows over the segment, dealt to ``copies`` (the arrays of each copy), row by row.

    A copy lists its arrays by block (group, then column block), within a block by row block, then by bit slice.
    ``used_rows`` is the largest number of array rows that a tile uses; it sets the MVM time.
    """

    rows: int
    used_rows: int
    copies: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Vector:
    """A vector operator: ``work`` element passes per chunk (elements x passes of its kind)."""

    kind: str
    node: str
    work: int


@dataclass(frozen=True)
class Emit:
    """Move ``bytes`` of an output per chunk to ``targets``; the first target is what consumers wait for."""

    tensor: str
    targets: tuple[Literal["main", "resident"], ...]
    bytes: int


@dataclass(frozen=True)
class Stage:
    """One operator in a segment: its four-stage pipeline over ``chunks`` chunks.

    ``operand`` lists the tiles of a dynamic operand that is produced in the same segment by ``operand_after``.
    ``recurrent``: a chunk is fetched once the one before has been written.
    """

    operator: str
    nodes: tuple[str, ...]
    chunks: int
    fetches: tuple[Fetch, ...]
    multiply: Multiply | None
    vector: tuple[Vector, ...]
    emits: tuple[Emit, ...]
    operand: tuple[WriteTile, ...] = ()
    operand_after: str | None = None
    recurrent: bool = False


@dataclass(frozen=True)
class SegmentProgram:
    """store* switch* allocate* write* parallel { stage* } free*: the statements of one segment in order."""

    stores: tuple[Store, ...]
    switches: tuple[Switch, ...]
    allocations: tuple[Allocate, ...]
    writes: tuple[WriteTile, ...]
    stages: tuple[Stage, ...]
    frees: tuple[Free, ...]


@dataclass(frozen=True)
class Program:
    """A whole compiled network for one chip. ``resident_weights``: the first segment's reload is not paid (R5)."""

    network: str
    chip: str
    chip_sha256: str
    tensors: tuple[TensorDeclaration, ...]
    segments: tuple[SegmentProgram, ...]
    resident_weights: bool = False
