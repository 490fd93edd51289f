"""Matrix products: Gemm and MatMul with a constant on either side, batched, or of two activations."""

from __future__ import annotations

from math import prod

from cmswitch.graph.ir import Node, Shape
from cmswitch.graph.rules.rule import RULES, Product, grouped
from cmswitch.graph.streams import SAME, Window


@RULES.of("Gemm")
def gemm(node: Node) -> Product:
    """Gemm: Y = A' B' + C. A constant A is held in the arrays and B streamed: Y' = B A."""
    left, out = node.shape(0), node.output_shape()
    across, down = node.integer("transA", 0), node.integer("transB", 0)
    inner = left[0] if across else left[1]
    sides = (2,) if node.has(2) and not node.value(2).constant else ()
    swapped = node.value(0).constant
    source = (0 if down else 1) if swapped else (1 if across else 0)
    rows, columns = (out[1], out[0]) if swapped else (out[0], out[1])
    return Product(
        rows=rows,
        inner=inner,
        columns=columns,
        groups=1,
        matrix=int(swapped),
        operand=int(not swapped),
        axes=(int(swapped),),
        chunks=grouped(rows),
        link={int(swapped): (source, SAME)},
        sides=sides,
    )


@RULES.of("MatMul")
def matmul(node: Node) -> Product:
    """MatMul: batch axes along which the operand differs are groups, the others add rows."""
    left, right, out = node.shape(0), node.shape(1), node.output_shape()
    swapped = node.value(0).constant
    inner = left[-1]
    batch = max(len(left), len(right), 2) - 2
    row_axis = batch if not swapped else batch + (len(left) > 1)
    matrix, operand = (right, left) if swapped else (left, right)
    vector = len(matrix) == 1
    count = 1 if vector else (matrix[-1] if swapped else matrix[-2])
    columns = 1 if len(operand) == 1 else (operand[-2] if swapped else operand[-1])
    separate = [axis for axis in range(batch) if _batch(operand, axis, batch) > 1]
    shared = [axis for axis in range(batch) if axis not in separate]
    rows = prod(out[axis] for axis in shared) * count
    link: dict[int, tuple[int, Window]] = {
        axis: (axis - (batch - (len(matrix) - 2)), SAME)
        for axis in range(batch)
        if _batch(matrix, axis, batch) == out[axis] and axis >= batch - (len(matrix) - 2)
    }
    if not vector:
        link[row_axis] = (len(matrix) - (1 if swapped else 2), SAME)
    return Product(
        rows=rows,
        inner=inner,
        columns=columns,
        groups=prod(out[axis] for axis in separate),
        matrix=int(swapped),
        operand=int(not swapped),
        axes=(*shared, *(() if vector else (row_axis,))),
        chunks=grouped(rows),
        link=link,
    )


def _batch(shape: Shape, axis: int, batch: int) -> int:
    """Size of ``shape`` along batch axis ``axis`` of the output, 1 where it has none."""
    index = axis - (batch - (len(shape) - 2))
    return shape[index] if 0 <= index < len(shape) - 2 else 1
