"""Recurrent operators: their chunks follow one another, so that copies only help within a chunk, and they cannot be cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cmswitch.checker import check_plan
from cmswitch.errors import InfeasibleError
from cmswitch.graph.network import Network, Tensor
from cmswitch.pipeline import Options, compile_network
from tests.unit.test_checker import CHIP, operator, product, read


def layer(columns: int, rows: int) -> Network:
    """A recurrent layer of 4 steps, ``rows`` of the product in all."""
    matrix = replace(product("w", columns=columns), recurrent=True, rows=rows)
    tensors = (Tensor("x", 16, None), Tensor("y", 16, 0, True))
    return Network("recurrent", (operator("a", matrix, [read(0)], [1]),), tensors, 1)


@pytest.mark.parametrize(("rows", "execute"), [(4, 4 * (4 + 1 + 4)), (16, 4 * (4 + 1 + 4))])
def test_steps_follow_one_another(rows: int, execute: int) -> None:
    """A step moves 4 bytes in at 1 a cycle, multiplies for 1 cycle (4 rows: on 4 copies), and moves 4 bytes out."""
    chip = CHIP.with_changes(**{"buffer.capacity_bytes": 0, "array.write_cycles_per_row": 1})
    result = compile_network(layer(4, rows), chip, Options(schedule="all-compute"))
    assert [s.execute_cycles for s in result.timing.segments] == [execute]
    assert [s.execute for s in result.plan.segments] == [str(execute)]
    assert check_plan(result.plan, layer(4, rows), chip).violations == ()
    assert result.program.segments[0].stages[0].recurrent


def test_a_recurrent_operator_that_does_not_fit_is_refused() -> None:
    """9 column blocks on 8 arrays, which any other operator would be cut into."""
    with pytest.raises(InfeasibleError) as raised:
        compile_network(layer(36, 4), CHIP)
    assert str(raised.value) == (
        "operator 'a': no feasible plan: a whole recurrent layer needs 9 arrays, the chip has 8 (short by 1); "
        "use a chip with more or larger arrays, or a smaller hidden state"
    )
