"""How an operator fills arrays, and how one that is larger than the chip is cut (``docs/machine-model.md``)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import hw
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator, Read, Tensor, Write
from tests.differential.oracle_rows import ceil_div


@dataclass(frozen=True)
class Tile:
    """What one array holds: rows and output columns in use, and the bytes read to fill it."""

    rows: int
    columns: int
    bytes: int


Block = tuple[Tile, ...]
"""The tiles of one column block (or of one set of groups that share an array)."""


def weights_of(product: MatrixProduct, chip: hw.Chip) -> hw.WeightFormat:
    """What its weights take: their own bits, or the chip's."""
    return chip.weight_format(product.weight_bits or chip.precision.weight_bits)


def blocks_of(product: MatrixProduct, chip: hw.Chip) -> tuple[Block, ...]:
    """One copy of a product, column block by column block."""
    height, width = chip.array.rows, weights_of(product, chip).per_row
    together = min(height // product.inner, width // product.columns, product.groups) if product.groups > 1 else 0
    found = []
    if together:
        for group in range(0, product.groups, together):
            count = min(together, product.groups - group)
            found.append(_slices(count, product.inner, product.columns, weights_of(product, chip)))
    else:
        for _ in range(product.groups):
            for column in range(0, product.columns, width):
                columns = min(width, product.columns - column)
                block: Block = ()
                for row in range(0, product.inner, height):
                    block += _slices(1, min(height, product.inner - row), columns, weights_of(product, chip))
                found.append(block)
    return tuple(found)


def _slices(groups: int, inner: int, columns: int, weights: hw.WeightFormat) -> Block:
    """The tiles (one per array that holds a part of each weight) of ``groups`` groups of ``inner`` x ``columns`` weights."""
    total, arrays = weights.bytes(groups * inner * columns), weights.arrays
    ends = [total * part // arrays for part in range(arrays + 1)]
    return tuple(Tile(groups * inner, groups * columns, max(1, ends[part + 1] - ends[part])) for part in range(arrays))


def row_blocks_of(product: MatrixProduct, chip: hw.Chip) -> int:
    """Tiles of one column block whose partial sums must be added."""
    return ceil_div(product.inner, chip.array.rows)


def cut_along_inner(network: Network, chip: hw.Chip, compute: int) -> Network:
    """Replace each operator of which one column block takes more than ``compute`` arrays by a chain of operators."""
    tensors, operators = list(network.tensors), list[Operator]()
    for operator in network.operators:
        product = operator.product
        if product is None or len(blocks_of(product, chip)[0]) <= compute:
            operators.append(operator)
        else:
            sums = ceil_div(
                8 * chip.accumulator_bytes(product.rows * product.columns * product.groups), chip.precision.input_bits
            )
            most = compute // weights_of(product, chip).arrays
            row_blocks = row_blocks_of(product, chip)
            height = ceil_div(row_blocks, ceil_div(row_blocks, most)) * chip.array.rows
            for start in range(0, product.inner, height):
                inner = min(height, product.inner - start)
                final = start + inner == product.inner
                reads = [_part(r, inner, product.inner) for r in operator.reads if final or r.role != "side"]
                if start:
                    reads.append(Read(len(tensors) - 1, "side", sums, sums, Need(1, 1, 1, 1)))
                if not final:
                    tensors.append(Tensor(f"{operator.name}.sums", sums, len(operators)))
                weight = None if product.dynamic else f"{product.weight}[{start}]"
                operators.append(
                    replace(
                        operator,
                        product=replace(product, inner=inner, weight=weight),
                        reads=tuple(reads),
                        vector=operator.vector if final else (),
                        writes=operator.writes if final else (Write(len(tensors) - 1),),
                    )
                )
        for write in operator.writes:
            tensors[write.tensor] = replace(tensors[write.tensor], producer=len(operators) - 1)
    return replace(network, operators=tuple(operators), tensors=tuple(tensors))


def _part(read: Read, inner: int, total: int) -> Read:
    if read.role == "side":
        return read
    return replace(
        read,
        elements=ceil_div(read.elements * inner, total),
        expanded_elements=ceil_div(read.expanded_elements * inner, total),
    )
