"""The checker's segment cost on hand-computed segments."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from cmswitch.checker.cost import Home, SegmentCost, segment_cost
from cmswitch.checker.demand import Demand, Tile, Transfer
from cmswitch.checker.leads import Lead
from tests.unit.test_checker import CHIP


def demand(
    operator: int, reads: tuple[Transfer, ...] = (), writes: tuple[Transfer, ...] = (), tiles: tuple[Tile, ...] = ()
) -> Demand:
    """A whole operator of 4 chunks, with 4 rows of 1 cycle if it has tiles."""
    rows = 4 if tiles else 0
    return Demand(operator, True, 4, rows, 1 if tiles else 0, 0, tiles, reads, writes)


def moved(tensor: int, role: str = "side") -> Transfer:
    return Transfer(tensor, role, 16)  # type: ignore[arg-type]


def test_arrays_of_a_tensor_are_as_slow_for_one_user_as_for_both() -> None:
    """Write and read move 8 each on the port of one array: both operators are busy 16.

    The first ends at 8/4 + 3/4 16 = 14. A chunk of the second takes (8 + 4)/4 = 3: its last ends at 14 + 3.
    """
    demands = [demand(0, writes=(moved(1),)), demand(1, reads=(moved(1),), writes=(moved(2),))]
    homes = {1: Home("arrays", 1, False), 2: Home("buffer", 0, False)}
    cost = segment_cost(CHIP, demands, [0, 0], homes, {(0, 1): Lead((1, 2, 3, 4), (), False)}, False)
    assert cost == SegmentCost(Fraction(17), Fraction(0))


def test_operand_that_arises_in_the_segment_is_read_before_it_is_used() -> None:
    """The operand is written to main memory by 16, read back in 16 (its writing takes 4), then 1 + 3 cycles of MVMs."""
    demands = [demand(0, writes=(moved(1),)), demand(1, reads=(moved(1, "operand"),), tiles=(Tile(4, 16),))]
    cost = segment_cost(CHIP, demands, [0, 1], {}, {(0, 1): Lead((4, 4, 4, 4), (), True)}, False)
    assert cost == SegmentCost(Fraction(36), Fraction(0))


def test_saturated_vector_unit_idles_while_the_pipeline_fills_and_drains() -> None:
    """Two operators with vector work of 40, chunk latency (4 + 40 + 4)/4 = 12. The second starts at 12, when 10 of the first's
    work are done: 2 idle. When the first ends, a last chunk of the second (12, of which 10 work) is left: 2 more.
    """
    first = replace(demand(0, reads=(moved(0),), writes=(moved(1),)), vector_cycles=40)
    second = replace(demand(1, reads=(moved(1),), writes=(moved(2),)), vector_cycles=40)
    homes = {tensor: Home("buffer", 0, False) for tensor in range(3)}
    cost = segment_cost(CHIP, [first, second], [0, 0], homes, {(0, 1): Lead((1, 2, 3, 4), (), False)}, False)
    assert cost.execute == 2 + 80 + 2


@pytest.mark.parametrize(
    ("home", "reload"), [(None, 16), (Home("arrays", 1, False), 8), (Home("buffer", 0, False), 4)], ids=str
)
def test_operand_that_exists_is_reloaded_from_where_it_lives(home: Home | None, reload: int) -> None:
    homes = {} if home is None else {1: home}
    only = demand(0, reads=(moved(1, "operand"),), tiles=(Tile(4, 16),))
    assert segment_cost(CHIP, [only], [1], homes, {}, False).reload == reload


@pytest.mark.parametrize(
    ("tiles", "reload"),
    [
        # 4 rows are written in 4 cycles; a byte is read in 1.
        ([(4, 2), (4, 1)], 5),  # tails 2, 3: the second is read 0-1, the first 1-3 and written until 1 + 4
        ([(1, 1), (4, 3)], 4),  # tails 0, 1: the second is read 0-3 and written until 4, the first 3-4
        ([(3, 1), (4, 2)], 5),  # tails 2, 2: the second is read 0-2, the first 2-3 and written until 2 + 3
        ([(4, 1), (1, 8), (3, 1)], 10),  # tails 3, -7, 2: read 0-1, 1-2, 2-10; written until 4, 1 + 3, 10
    ],
)
def test_tiles_are_read_longest_tail_first(tiles: list[tuple[int, int]], reload: int) -> None:
    """One copy each, with as many drivers as tiles so that writing all does not matter."""
    chip = CHIP.with_changes(**{"array.arrays_written_at_once": 4})
    only = demand(0, tiles=tuple(Tile(rows, size) for rows, size in tiles))
    assert segment_cost(chip, [only], [1], {}, {}, False).reload == reload


def test_operand_on_chip_is_read_fast_at_the_place_of_a_slow_one() -> None:
    """Tiles of an operand in 4 arrays (8 bytes a cycle): (4 rows, 16 bytes) twice, 2 cycles each, and a weight of 3 bytes.

    By main memory's reads (16 and 3 for writes of 4) the weight has a tail of 1 and the operand none: 0-3, 3-5, 5-7, written
    until 5 + 4.
    """
    chip = CHIP.with_changes(**{"array.arrays_written_at_once": 4})
    operand = demand(0, reads=(moved(1, "operand"),), tiles=(Tile(4, 16), Tile(4, 16)))
    weight = demand(1, tiles=(Tile(4, 3),))
    homes = {1: Home("arrays", 4, False)}
    assert segment_cost(chip, [operand, weight], [1, 1], homes, {}, False).reload == 9


def test_resident_weights_are_not_reloaded_but_an_operand_is() -> None:
    operand = demand(0, reads=(moved(1, "operand"),), tiles=(Tile(4, 16),))
    assert segment_cost(CHIP, [operand], [1], {}, {}, True).reload == 16
    assert segment_cost(CHIP, [demand(0, tiles=(Tile(4, 16),))], [1], {}, {}, True).reload == 0


def test_copies_share_a_read_and_not_the_write_drivers() -> None:
    """One tile for six copies: 16 to read, six writes of 4 on one port take 24."""
    assert segment_cost(CHIP, [demand(0, tiles=(Tile(4, 16),))], [6], {}, {}, False).reload == 24
