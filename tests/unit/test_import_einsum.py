"""Einsum becomes products, sums and permutations: the same numbers, and the products one would write by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from cmswitch.graph.network import MatrixProduct
from tests.expanded import backend_cases, check_numbers, numbered
from tests.sketch import Sketch
from tests.unit.test_import import product, reads, work

EQUATIONS: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("bhid,bhjd->bhij", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("...id,...jd->...ij", ((2, 3, 4, 5), (2, 3, 6, 5))),
    ("ij,jk", ((3, 4), (4, 5))),
    ("ba,cb", ((3, 4), (5, 3))),
    ("i,i", ((4,), (4,))),
    ("bij,bjk->kbi", ((2, 3, 4), (2, 4, 5))),
    ("ij,k->ijk", ((2, 3), (4,))),
    ("ij,ij->ji", ((2, 3), (2, 3))),
    ("ijk->ki", ((2, 3, 4),)),
    ("ij->", ((2, 3),)),
    ("ijz,jk->ik", ((2, 3, 4), (3, 5))),
    ("...ij,jk->...ik", ((2, 1, 3, 4), (4, 5))),
    ("b...i,b...j->b...ij", ((2, 3, 4), (2, 3, 5))),
    ("ab,bc,cd->ad", ((2, 3), (3, 4), (4, 5))),
    ("abcd,dcea->be", ((2, 3, 4, 5), (5, 4, 6, 2))),
    ("...i,...i->...", ((1, 3, 4), (2, 3, 4))),
    ("ij,jk->ik", ((3, 1), (1, 4))),
    ("a,b,ab->", ((2,), (3,), (2, 3))),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_the_parts_compute_the_equation(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    random = np.random.default_rng(3)
    names, given = numbered(*(random.normal(size=shape).astype(np.float32) for shape in shapes))
    check_numbers(helper.make_node("Einsum", names, ["y"], "n", equation=equation), given)


def sketch(folder: Path, equation: str, *operands: tuple[int, ...], weights: tuple[int, ...] = ()) -> Sketch:
    s = Sketch(folder)
    names = []
    for index, shape in enumerate(operands):
        name = f"v{index}"
        names.append(s.weight(name, *shape) if index in weights else s.input(name, *shape))
    s.add("Einsum", "e", *names, outputs=["y"], equation=equation)
    return s


def kinds(s: Sketch) -> list[str]:
    """Kinds of vector work that move or compute something."""
    return [kind for o in s.load("y").operators for _, kind, _ in work(o) if kind != "view"]


def test_scores_of_attention(tmp_path: Path) -> None:
    network = sketch(tmp_path, "bhid,bhjd->bhij", (2, 3, 10, 4), (2, 3, 7, 4)).load("y")
    prelude, scores = network.operators
    assert work(prelude) == [("e#Transpose_0", "copy", 2 * 3 * 7 * 4)]
    assert scores.product == MatrixProduct(rows=10, inner=4, columns=7, groups=6)
    assert scores.product.dynamic
    assert {role for _, role in reads(network, scores)} == {"matrix", "operand"}
    assert [kind for _, kind, _ in work(scores)] == ["view"] * len(scores.vector)


def test_axes_in_place_move_nothing(tmp_path: Path) -> None:
    assert kinds(sketch(tmp_path, "bij,bjk->bik", (2, 3, 4), (2, 4, 5))) == []
    assert kinds(sketch(tmp_path, "bsnd,ndo->bso", (2, 3, 4, 5), (4, 5, 6), weights=(1,))) == []
    assert kinds(sketch(tmp_path, "bjk,bij->bik", (2, 4, 5), (2, 3, 4))) == []  # the first operand is held


def test_a_constant_is_stored_as_it_is_needed(tmp_path: Path) -> None:
    for equation, shapes, constant in (
        ("bsi,oi->bso", ((2, 10, 4), (5, 4)), 1),
        ("oi,bsi->bso", ((5, 4), (2, 10, 4)), 0),
    ):
        network = sketch(tmp_path, equation, *shapes, weights=(constant,)).load("y")
        (operator,) = network.operators
        assert operator.product == MatrixProduct(rows=20, inner=4, columns=5, weight=f"v{constant}")
        assert all(kind == "view" for _, kind, _ in work(operator))


def test_letters_of_one_operand_are_summed_first(tmp_path: Path) -> None:
    network = sketch(tmp_path, "ijz,jk->ik", (6, 3, 7), (3, 5), weights=(1,)).load("y")
    assert network.macs == 6 * 3 * 5
    assert ("e#ReduceSum_1", "reduce", 6 * 3 * 7) in work(network.operators[0])


def test_no_sum_is_vector_work(tmp_path: Path) -> None:
    network = sketch(tmp_path, "bi,bj->bij", (2, 3), (2, 5)).load("y")
    assert network.macs == 0
    assert [(kind, n) for _, kind, n in work(network.operators[0]) if kind != "view"] == [("elementwise", 30)]


def test_three_operands_are_joined_from_the_left(tmp_path: Path) -> None:
    network = sketch(tmp_path, "ab,bc,cd->ad", (2, 3), (3, 4), (4, 5), weights=(1, 2)).load("y")
    assert [product(network, i) for i in range(2)] == [MatrixProduct(2, 3, 4, 1, "v1"), MatrixProduct(2, 4, 5, 1, "v2")]


def test_a_diagonal_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        sketch(tmp_path, "ii->i", (3, 3)).load("y")
    assert str(raised.value).endswith(
        "e: Einsum (ai.onnx 17) [3x3] -> [3]: 'ii' takes a diagonal; take the diagonal with Gather or a mask before export"
    )


def test_every_case_of_onnx(tmp_path: Path) -> None:
    cases = backend_cases("Einsum")
    assert len(cases) >= 5
    for case in cases:
        try:
            load_network(case.save(tmp_path))
        except InputError as error:
            assert "diagonal" in str(error) or "nothing to map" in str(error), case.name
