"""Attention operators become two products of activations and vector work: the same numbers, hand-computed sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from cmswitch.errors import InputError
from cmswitch.graph import load_network
from cmswitch.graph.network import MatrixProduct, Need, Network, Operator
from tests.expanded import Array, BackendCase, backend_cases, check_numbers, numbered, run
from tests.sketch import Sketch
from tests.unit.test_import import product, reads, work

MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(7)
UNDEFINED = (
    "fullymasked",
    "nan_robustness",
    "negative_offset",
    "neg_offset",
    "mode3_softmax_precision",
    "local_window_gqa_rank4_mask",
)
"""Cases with a query that sees nothing, whose softmax is 0/0 and is given a value of its own."""


def floats(*shape: int) -> Array:
    return RANDOM.normal(size=shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int32)


def scalar(value: int) -> Array:
    return np.array(value, np.int32)


def moved(operator: Operator) -> list[tuple[str, int]]:
    """Vector work that is more than a view."""
    return [(kind, elements) for _, kind, elements in work(operator) if kind != "view"]


def outputs(network: Network) -> list[int]:
    """Elements of the network outputs, ascending."""
    return sorted(t.elements for t in network.tensors if t.is_output)


def grouped(folder: Path, *further: str, made: tuple[str, ...] = ("y",), **attributes: Any) -> Network:
    """Two images, four query heads of 8 on two key heads, 5 queries, 7 keys, values of 6; projections of 24 before it."""
    s = Sketch(folder, opset=23)
    s.input("x", 2, 5, 24), s.input("z", 2, 7, 24)
    s.add("MatMul", "q", "x", s.weight("wq", 24, 4 * 8))
    s.add("MatMul", "k", "z", s.weight("wk", 24, 2 * 8))
    s.add("MatMul", "v", "z", s.weight("wv", 24, 2 * 6))
    inputs = {"mask": (5, 7), "past_k": (2, 2, 3, 8), "past_v": (2, 2, 3, 6)}
    for name in filter(None, further):
        s.input(name, *inputs[name])
    s.add("Attention", "a", "q", "k", "v", *further, outputs=made, q_num_heads=4, kv_num_heads=2, **attributes)
    return s.load(*made)


def test_heads_that_share_keys_are_rows_of_one_product(tmp_path: Path) -> None:
    network = grouped(tmp_path)
    scores, mixed = network.operators[3:]
    assert scores.product == MatrixProduct(rows=5 * 2, inner=8, columns=7, groups=2 * 2)
    assert mixed.product == MatrixProduct(rows=5 * 2, inner=7, columns=6, groups=2 * 2)
    assert network.macs == 2 * 5 * 24 * 32 + 2 * 7 * 24 * 16 + 2 * 7 * 24 * 12 + 2 * 4 * 5 * 7 * (8 + 6)
    assert scores.product.weights == 2 * 7 * 16  # each key once, whatever the number of query heads
    query, key, value = network.operators[:3]
    assert moved(query) == [("elementwise", 2 * 5 * 32), ("copy", 2 * 5 * 32)]
    assert moved(key) == [("copy", 2 * 7 * 16)]
    assert moved(value) == [("copy", 2 * 7 * 12)]
    assert moved(scores) == [("softmax", 2 * 4 * 5 * 7)]
    assert moved(mixed) == [("copy", 2 * 5 * 4 * 6)]


def test_queries_stream_and_keys_are_waited_for(tmp_path: Path) -> None:
    network = grouped(tmp_path)
    _, _, value, scores, mixed = network.operators
    assert (scores.chunks, mixed.chunks) == (10, 10)  # five queries of two heads
    found = {role: read.need for (_, role), read in reads(network, scores).items()}
    assert found["operand"] == Need.whole(14)
    found = {role: read.need for (_, role), read in reads(network, mixed).items()}
    assert found["matrix"] == Need(1, 1, 1, 1)
    assert found["operand"] == Need.whole(value.chunks)


def test_masks_and_softcap_are_vector_work_on_the_scores(tmp_path: Path) -> None:
    cells = 2 * 4 * 5 * 7
    network = grouped(tmp_path, "mask", is_causal=1, softcap=3.0, scale=0.5)
    (scores,) = [o for o in network.operators if o.product and o.product.columns == 7]
    step = ("elementwise", cells)
    assert moved(scores) == [step, step, step, step, ("add", cells), ("softmax", cells)]


def test_cache_is_extended_and_returned(tmp_path: Path) -> None:
    network = grouped(tmp_path, "", "past_k", "past_v", made=("y", "pk", "pv"))
    assert outputs(network) == [2 * 5 * 24, 2 * 2 * 10 * 6, 2 * 2 * 10 * 8]
    scores, mixed = network.operators[3:]
    assert scores.product == MatrixProduct(rows=10, inner=8, columns=10, groups=4)
    assert mixed.product == MatrixProduct(rows=10, inner=10, columns=6, groups=4)


def test_heads_in_front_need_no_copy(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=23)
    s.input("q", 2, 6, 5, 8), s.input("k", 2, 3, 7, 8), s.input("v", 2, 3, 7, 4)
    s.add("Attention", "y", "q", "k", "v")
    network = s.load("y")
    prelude, scores, mixed = network.operators
    assert moved(prelude) == [("elementwise", 2 * 6 * 5 * 8), ("copy", 2 * 3 * 7 * 8)]  # scale, keys transposed
    assert scores.product == MatrixProduct(rows=10, inner=8, columns=7, groups=6)
    assert mixed.product == MatrixProduct(rows=10, inner=7, columns=4, groups=6)
    assert moved(mixed) == []


def test_packed_projections_are_three_products_of_shares_of_the_weight(tmp_path: Path) -> None:
    s = Sketch(tmp_path)
    s.add(
        "Attention",
        "y",
        s.input("x", 2, 5, 12),
        s.weight("w", 12, 48),
        s.weight("b", 48),
        domain=MICROSOFT,
        num_heads=2,
    )
    network = s.load("y")
    assert [product(network, i) for i in (3, 4)] == [MatrixProduct(5, 8, 5, 4), MatrixProduct(5, 5, 8, 4)]
    projections = [product(network, i) for i in range(3)]
    assert {(p.rows, p.inner, p.columns, p.dynamic) for p in projections} == {(10, 12, 16, False)}
    assert network.weight_elements == 12 * 48
    assert network.macs == 10 * 12 * 48 + 2 * 2 * 5 * 5 * (8 + 8)


def grouped_query(folder: Path, new: int, size: int, total: int | None) -> Network:
    """``new`` tokens after a cache of ``size`` positions, ``total`` (None: not known) with those of the cache that are filled."""
    s = Sketch(folder)
    s.input("q", 1, new, 64), s.input("k", 1, new, 32), s.input("v", 1, new, 32)
    s.input("past_k", 1, 2, size, 16), s.input("past_v", 1, 2, size, 16)
    s.input("last", 1, dtype=TensorProto.INT32)
    length = s.input("total", 1, dtype=TensorProto.INT32) if total is None else s.ints("total", total)
    tables = s.weight("cos", 32, 8), s.weight("sin", 32, 8)
    given = ("q", "k", "v", "past_k", "past_v", "last", length, *tables)
    attributes = {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}
    s.add("GroupQueryAttention", "y", *given, outputs=["y", "pk", "pv"], domain=MICROSOFT, **attributes)
    return s.load("y", "pk", "pv")


def test_grouped_query_attention_with_rotary_embedding(tmp_path: Path) -> None:
    network = grouped_query(tmp_path, 1, 9, total=10)
    products = [o.product for o in network.operators if o.product]
    assert products == [MatrixProduct(2, 16, 10, 2), MatrixProduct(2, 10, 16, 2)]
    prelude = moved(network.operators[0])
    assert prelude.count(("gather", 8)) == 4  # cosines and sines, for the query and for the key
    assert prelude.count(("elementwise", 4 * 8)) == 4 and prelude.count(("elementwise", 2 * 8)) == 4
    assert outputs(network) == [64, 2 * 10 * 16, 2 * 10 * 16]


@pytest.mark.parametrize(
    ("new", "total", "keys"), [(1, 10, 10), (1, 100, 100), (4, 4, 4), (1, 101, 101), (1, None, 101)]
)
def test_a_cache_that_is_a_longer_buffer(tmp_path: Path, new: int, total: int | None, keys: int) -> None:
    """Of its 100 positions those count that are filled; all if nothing says how many that are."""
    network = grouped_query(tmp_path, new, 100, total)
    products = [o.product for o in network.operators if o.product]
    assert products == [MatrixProduct(2 * new, 16, keys, 2), MatrixProduct(2 * new, keys, 16, 2)]
    assert outputs(network) == sorted((new * 64, 2 * keys * 16, 2 * keys * 16))


def test_every_attention_case_of_onnx_has_the_products_of_its_shapes(tmp_path: Path) -> None:
    cases = backend_cases("Attention")
    assert len(cases) >= 50
    for case in cases:
        attributes = {a.name: helper.get_attribute_value(a) for a in case.node.attribute}
        q, k, v = (case.shape(i) for i in range(3))
        batch, length = q[0], q[-2]
        heads = attributes["q_num_heads"] if len(q) == 3 else q[1]
        groups = attributes["kv_num_heads"] if len(k) == 3 else k[1]
        width, out = (q[2] // heads, v[2] // groups) if len(q) == 3 else (q[3], v[3])
        keys = k[-2] + (case.given["past_key"].shape[2] if "past_key" in case.given else 0)
        rows = length * heads // groups
        assert [o.product for o in load_network(case.save(tmp_path)).operators if o.product] == [
            MatrixProduct(rows, width, keys, batch * groups),
            MatrixProduct(rows, keys, out, batch * groups),
        ], case.name


NUMBERS = [case for operator in ("Attention", "RotaryEmbedding") for case in backend_cases(operator)]
DEFINED = [case for case in NUMBERS if "16" not in case.name and not any(word in case.name for word in UNDEFINED)]


@pytest.mark.parametrize("case", DEFINED, ids=lambda case: str(case.name))
def test_the_parts_make_what_onnx_expects(case: BackendCase) -> None:
    check_numbers(case.node, case.given, wanted=case.wanted)


def test_rotary_embedding_is_vector_work(tmp_path: Path) -> None:
    cases = backend_cases("RotaryEmbedding")
    assert len(cases) >= 5
    for case in cases:
        elements = case.given["input"].size
        turned = elements * 2 * case.given["cos_cache"].shape[-1] // 8  # heads of 8
        (operator,) = load_network(case.save(tmp_path)).operators
        assert operator.product is None
        computed = [n for kind, n in moved(operator) if kind in ("elementwise", "add")]
        assert sum(computed) == 3 * turned, case.name  # four products and two sums for each pair
        copied = [n for kind, n in moved(operator) if kind == "copy"]
        apart = (
            turned < elements and "interleaved" in case.name
        )  # pairs and what is not turned are split one after another
        assert sum(copied) == 2 * elements + 2 * turned * apart, case.name


CASES: dict[str, tuple[str, tuple[Array | None, ...], tuple[str, ...], dict[str, Any]]] = {
    "packed": ("Attention", (floats(2, 4, 12), floats(12, 48), floats(48)), ("y",), {"num_heads": 2}),
    "packed lengths": (
        "Attention",
        (floats(2, 4, 12), floats(12, 48), floats(48), ints(3, 4)),
        ("y",),
        {"num_heads": 2},
    ),
    "packed causal mask": (
        "Attention",
        (floats(2, 4, 12), floats(12, 48), floats(48), np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)),
        ("y",),
        {"num_heads": 2, "unidirectional": 1},
    ),
    "packed cache": (
        "Attention",
        (floats(2, 4, 12), floats(12, 48), floats(48), None, floats(2, 2, 2, 3, 8)),
        ("y", "p"),
        {"num_heads": 2},
    ),
    "separate": (
        "MultiHeadAttention",
        (floats(2, 4, 16), floats(2, 6, 16), floats(2, 6, 24), floats(56), ints(3, 6)),
        ("y",),
        {"num_heads": 2},
    ),
    "separate biased scores": (
        "MultiHeadAttention",
        (floats(2, 4, 16), floats(2, 6, 16), floats(2, 6, 24), None, None, floats(2, 2, 4, 6)),
        ("y",),
        {"num_heads": 2},
    ),
    "separate heads in front": (
        "MultiHeadAttention",
        (floats(2, 4, 16), floats(2, 2, 6, 8), floats(2, 2, 6, 8)),
        ("y",),
        {"num_heads": 2},
    ),
    "separate cache": (
        "MultiHeadAttention",
        (*(floats(2, 4, 16) for _ in range(3)), None, None, None, floats(2, 2, 3, 8), floats(2, 2, 3, 8)),
        ("y", "pk", "pv"),
        {"num_heads": 2},
    ),
    "grouped prompt": (
        "GroupQueryAttention",
        (floats(2, 4, 32), floats(2, 4, 16), floats(2, 4, 16), None, None, ints(3, 3), scalar(4)),
        ("y", "pk", "pv"),
        {"num_heads": 4, "kv_num_heads": 2},
    ),
    "grouped window": (
        "GroupQueryAttention",
        (floats(2, 6, 32), floats(2, 6, 16), floats(2, 6, 16), None, None, ints(5, 5), scalar(6)),
        ("y", "pk", "pv"),
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3, "softcap": 2.0},
    ),
    "grouped packed rotary": (
        "GroupQueryAttention",
        (floats(2, 4, 128), None, None, None, None, ints(3, 3), scalar(4), floats(16, 8), floats(16, 8)),
        ("y", "pk", "pv"),
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
    ),
    "grouped decode": (
        "GroupQueryAttention",
        (
            *(floats(2, 1, 64), floats(2, 1, 32), floats(2, 1, 32), floats(2, 2, 5, 16), floats(2, 2, 5, 16)),
            *(ints(5, 5), scalar(6), floats(16, 8), floats(16, 8)),
        ),
        ("y", "pk", "pv"),
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1},
    ),
    "rotary": (
        "RotaryEmbedding",
        (floats(2, 4, 32), np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), floats(8, 4), floats(8, 4)),
        ("y",),
        {},
    ),
    "rotary offset": (
        "RotaryEmbedding",
        (floats(2, 4, 3, 8), np.array([2]), floats(8, 4), floats(8, 4)),
        ("y",),
        {"interleaved": 1},
    ),
    "skip": ("SkipLayerNormalization", (*(floats(2, 4, 8),) * 2, *(floats(8),) * 3), ("y", "", "", "s"), {}),
    "skip simplified": ("SkipSimplifiedLayerNormalization", (*(floats(2, 4, 8),) * 2, floats(8)), ("y",), {}),
    "embedding": (
        "EmbedLayerNormalization",
        (
            *(np.array([[1, 2, 3], [0, 1, 2]], np.int32), np.array([[0, 0, 1], [0, 1, 1]], np.int32)),
            *(floats(5, 8), floats(4, 8), floats(2, 8), floats(8), floats(8)),
            np.array([[1, 1, 1], [1, 1, 0]], np.int32),
        ),
        ("y", "m"),
        {},
    ),
    "bias": ("BiasGelu", (floats(2, 8), floats(8)), ("y",), {}),
    "fast": ("FastGelu", (floats(2, 8), floats(8)), ("y",), {}),
    "quick": ("QuickGelu", (floats(2, 8),), ("y",), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_parts_make_what_onnxruntime_makes(case: str) -> None:
    operator, arrays, made, attributes = CASES[case]
    names, given = numbered(*arrays)
    check_numbers(helper.make_node(operator, names, made, "n", domain=MICROSOFT, **attributes), given)


@pytest.mark.parametrize("case", CASES)
def test_every_form_is_imported(case: str, tmp_path: Path) -> None:
    operator, arrays, made, attributes = CASES[case]
    names, given = numbered(*arrays)
    s = Sketch(tmp_path)
    for name, array in given.items():
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        s.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    s.add(operator, "n", *names, outputs=made, domain=MICROSOFT, **attributes)
    names = [name for name in made if name]
    wanted = run([s.graph.node[0]], given, names, 23)
    assert outputs(s.load(*names)) == sorted(array.size for array in wanted)


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_normalizations_from_before_the_standard_had_them(operator: str, tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=16)
    s.add(operator, "n", s.input("x", 2, 4, 8), s.weight("scale", 8))
    (found,) = s.load("n").operators
    assert moved(found) == [("normalization", 64)]


def test_heads_that_do_not_match_are_refused(tmp_path: Path) -> None:
    s = Sketch(tmp_path, opset=23)
    s.input("q", 2, 5, 24), s.input("k", 2, 7, 24), s.input("v", 2, 7, 24)
    s.add("Attention", "y", "q", "k", "v", q_num_heads=3, kv_num_heads=2)
    with pytest.raises(InputError, match="3 query heads of 8 do not match 2 key heads of 12 and 2 value heads"):
        s.load("y")
