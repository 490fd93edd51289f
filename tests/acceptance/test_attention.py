"""Attention, written out and as one node, with symbolic lengths and with a key-value cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from cmswitch.graph import Network
from tests.compiled import compiled, off_arrays, on_arrays
from tests.sketch import Sketch

INT32 = int(TensorProto.INT32)
BATCH, HEADS, GROUPS, WIDTH = 2, 4, 2, 16
"""Sequences, query heads, heads of the cache that groups of them share, and elements of a head."""


def outputs(network: Network) -> list[int]:
    """Elements of the outputs of the network, ascending."""
    return sorted(t.elements for t in network.tensors if t.is_output)


@pytest.mark.parametrize(("queries", "keys"), [(9, 9), (1, 33)])
def test_products_of_activations_with_symbolic_lengths(tmp_path: Path, queries: int, keys: int) -> None:
    s = Sketch(tmp_path)
    s.input("q", "batch", HEADS, "queries", WIDTH)
    s.input("k", "batch", HEADS, "keys", WIDTH)
    s.input("v", "batch", HEADS, "keys", WIDTH)
    s.add("Transpose", "turned", "k", perm=[0, 1, 3, 2])
    s.add("MatMul", "scores", "q", "turned")
    s.add("Softmax", "weights", "scores", axis=-1)
    s.add("MatMul", "mixed", "weights", "v")
    network = s.load("mixed", batch=BATCH, dims={"queries": queries, "keys": keys})
    products = [o.product for o in network.operators if o.product]
    assert [(p.rows, p.inner, p.columns, p.groups, p.dynamic) for p in products] == [
        (queries, WIDTH, keys, BATCH * HEADS, True),
        (queries, keys, WIDTH, BATCH * HEADS, True),
    ]
    assert network.macs == 2 * BATCH * HEADS * queries * keys * WIDTH
    assert on_arrays(network) == {"scores", "mixed"}
    assert (off_arrays(network), network.host_nodes) == ({"turned", "weights"}, ())
    assert outputs(network) == [BATCH * HEADS * queries * WIDTH]
    compiled(network)


@pytest.mark.parametrize(("new", "past"), [(1, 15), (4, 12)])
def test_attention_of_opset_23_with_a_cache(tmp_path: Path, new: int, past: int) -> None:
    s = Sketch(tmp_path, opset=23, ir_version=11)
    s.input("q", BATCH, HEADS, new, WIDTH)
    s.input("k", BATCH, GROUPS, new, WIDTH), s.input("v", BATCH, GROUPS, new, WIDTH)
    s.input("past_k", BATCH, GROUPS, past, WIDTH), s.input("past_v", BATCH, GROUPS, past, WIDTH)
    made = ("y", "present_k", "present_v")
    s.add("Attention", "attend", "q", "k", "v", "", "past_k", "past_v", outputs=made, is_causal=1)
    network = s.load(*made)
    total = past + new
    assert network.macs == 2 * BATCH * HEADS * new * total * WIDTH
    assert all(o.product.dynamic for o in network.operators if o.product)
    assert on_arrays(network) == {"attend"}
    assert network.host_nodes == ()
    cache = BATCH * GROUPS * total * WIDTH
    assert outputs(network) == sorted((BATCH * HEADS * new * WIDTH, cache, cache))
    compiled(network)


def grouped_query_attention(folder: Path, new: int, past: int, rotary: int) -> Network:
    """One sequence of ``new`` tokens after ``past`` earlier ones."""
    s = Sketch(folder)
    s.input("q", 1, new, HEADS * WIDTH)
    s.input("k", 1, new, GROUPS * WIDTH), s.input("v", 1, new, GROUPS * WIDTH)
    s.input("past_k", 1, GROUPS, past, WIDTH), s.input("past_v", 1, GROUPS, past, WIDTH)
    s.input("last", 1, dtype=INT32), s.input("total", dtype=INT32)
    tables = [s.weight("cosine", 64, WIDTH // 2), s.weight("sine", 64, WIDTH // 2)] if rotary else []
    made = ("y", "present_k", "present_v")
    s.add(
        "GroupQueryAttention",
        "attend",
        *("q", "k", "v", "past_k", "past_v", "last", "total"),
        *tables,
        outputs=made,
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=GROUPS,
        do_rotary=rotary,
    )
    return s.load(*made)


@pytest.mark.parametrize(("new", "past"), [(1, 15), (4, 12)])
def test_grouped_query_attention_with_rotary_embedding(tmp_path: Path, new: int, past: int) -> None:
    network = grouped_query_attention(tmp_path, new, past, rotary=1)
    total = past + new
    assert network.macs == 2 * HEADS * new * total * WIDTH
    assert all(o.product.dynamic for o in network.operators if o.product)
    assert on_arrays(network) == {"attend"}
    assert network.host_nodes == ()
    cache = GROUPS * total * WIDTH
    assert outputs(network) == sorted((new * HEADS * WIDTH, cache, cache))
    compiled(network)


def test_rotation_is_not_free(tmp_path: Path) -> None:
    def vector_elements(network: Network) -> int:
        return sum(v.elements for o in network.operators for v in o.vector)

    turned, plain = (grouped_query_attention(tmp_path, 4, 12, rotary) for rotary in (1, 0))
    assert turned.macs == plain.macs
    assert vector_elements(turned) >= vector_elements(plain) + 4 * (HEADS + GROUPS) * WIDTH


def test_decoding_from_an_empty_cache(tmp_path: Path) -> None:
    """A first step has a cache of length 0, which is no input; the cache that it makes is an output as ever."""
    s = Sketch(tmp_path, opset=23)
    s.input("q", 1, GROUPS, 4, WIDTH), s.input("k", 1, GROUPS, 4, WIDTH)
    s.input("old", 1, GROUPS, "past", WIDTH), s.input("mask", 1, 1, 4, "past + 4")
    s.add("Concat", "cache", "old", "k", axis=2)
    s.add("Transpose", "turned", "cache", perm=[0, 1, 3, 2])
    s.add("MatMul", "scores", "q", "turned")
    s.add("Add", "masked", "scores", "mask")
    network = s.load("masked", "cache", dims={"past": 0})
    assert network.macs == GROUPS * 4 * WIDTH * 4
    assert outputs(network) == sorted((GROUPS * 4 * 4, GROUPS * 4 * WIDTH))
    assert [t.name for t in network.tensors if t.producer is None] == ["q", "k", "mask"]
    compiled(network)


def test_attention_with_an_empty_cache_is_attention_without_one(tmp_path: Path) -> None:
    def attend(*past: str | int) -> Network:
        s = Sketch(tmp_path, opset=23)
        (
            s.input("q", BATCH, HEADS, 4, WIDTH),
            s.input("k", BATCH, GROUPS, 4, WIDTH),
            s.input("v", BATCH, GROUPS, 4, WIDTH),
        )
        caches = [s.input(name, BATCH, GROUPS, *past, WIDTH) for name in ("past_k", "past_v") if past]
        s.add("Attention", "attend", "q", "k", "v", *([""] if caches else []), *caches, outputs=["y"], is_causal=1)
        return s.load("y", **({"dims": {"past": 0}} if past else {}))

    empty, without = attend("past"), attend()
    assert empty.macs == without.macs
    assert [t.name for t in empty.tensors if t.producer is None] == ["q", "k", "v"]
    compiled(empty)
