"""Attention, written out and as one node, with symbolic lengths and with a key-value cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from cmswitch.graph import Network
from tests.compiled import compiled, on_arrays
from tests.sketch import Sketch

INT32 = int(TensorProto.INT32)


def outputs(network: Network) -> dict[str, int]:
    """Elements of every output of the network."""
    return {t.name: t.elements for t in network.tensors if t.is_output}


@pytest.mark.parametrize(("queries", "keys"), [(9, 9), (1, 33)])
def test_products_of_activations_with_symbolic_lengths(tmp_path: Path, queries: int, keys: int) -> None:
    batch, heads, width = 2, 3, 16
    s = Sketch(tmp_path)
    s.input("q", "batch", heads, "queries", width)
    s.input("k", "batch", heads, "keys", width)
    s.input("v", "batch", heads, "keys", width)
    s.add("Transpose", "turned", "k", perm=[0, 1, 3, 2])
    s.add("MatMul", "scores", "q", "turned")
    s.add("Softmax", "weights", "scores", axis=-1)
    s.add("MatMul", "mixed", "weights", "v")
    network = s.load("mixed", batch=batch, dims={"queries": queries, "keys": keys})
    products = [o.product for o in network.operators if o.product]
    assert [(p.rows, p.inner, p.columns, p.groups, p.dynamic) for p in products] == [
        (queries, width, keys, batch * heads, True),
        (queries, keys, width, batch * heads, True),
    ]
    assert network.macs == 2 * batch * heads * queries * keys * width
    assert on_arrays(network) == {"scores", "mixed"}
    assert (set(network.vector_nodes), network.host_nodes) == ({"turned", "weights"}, ())
    assert outputs(network) == {"mixed": batch * heads * queries * width}
    compiled(network)


@pytest.mark.parametrize(("new", "past"), [(1, 15), (4, 12)])
def test_attention_of_opset_23_with_a_cache(tmp_path: Path, new: int, past: int) -> None:
    batch, heads, groups, width = 2, 4, 2, 16
    s = Sketch(tmp_path, opset=23, ir_version=11)
    s.input("q", batch, heads, new, width)
    s.input("k", batch, groups, new, width), s.input("v", batch, groups, new, width)
    s.input("past_k", batch, groups, past, width), s.input("past_v", batch, groups, past, width)
    made = ("y", "present_k", "present_v")
    s.add("Attention", "attend", "q", "k", "v", "", "past_k", "past_v", outputs=made, is_causal=1)
    network = s.load(*made)
    total = past + new
    assert network.macs == 2 * batch * heads * new * total * width
    assert all(o.product.dynamic for o in network.operators if o.product)
    assert on_arrays(network) == {"attend"}
    assert network.host_nodes == ()
    cache = batch * groups * total * width
    assert outputs(network) == {"y": batch * heads * new * width, "present_k": cache, "present_v": cache}
    compiled(network)


def grouped_query_attention(folder: Path, new: int, past: int, rotary: int) -> Network:
    batch, heads, groups, width = 2, 4, 2, 16
    s = Sketch(folder, opset=17, opsets={"com.microsoft": 1})
    s.input("q", batch, new, heads * width)
    s.input("k", batch, new, groups * width), s.input("v", batch, new, groups * width)
    s.input("past_k", batch, groups, past, width), s.input("past_v", batch, groups, past, width)
    s.input("last", batch, dtype=INT32), s.input("total", dtype=INT32)
    tables = [s.weight("cosine", 64, width // 2), s.weight("sine", 64, width // 2)] if rotary else []
    made = ("y", "present_k", "present_v")
    s.add(
        "GroupQueryAttention",
        "attend",
        *("q", "k", "v", "past_k", "past_v", "last", "total"),
        *tables,
        outputs=made,
        domain="com.microsoft",
        num_heads=heads,
        kv_num_heads=groups,
        do_rotary=rotary,
    )
    return s.load(*made)


@pytest.mark.parametrize(("new", "past"), [(1, 15), (4, 12)])
def test_grouped_query_attention_with_rotary_embedding(tmp_path: Path, new: int, past: int) -> None:
    batch, heads, groups, width = 2, 4, 2, 16
    network = grouped_query_attention(tmp_path, new, past, rotary=1)
    total = past + new
    assert network.macs == 2 * batch * heads * new * total * width
    assert all(o.product.dynamic for o in network.operators if o.product)
    assert on_arrays(network) == {"attend"}
    assert network.host_nodes == ()
    cache = batch * groups * total * width
    assert outputs(network) == {"y": batch * new * heads * width, "present_k": cache, "present_v": cache}
    compiled(network)


def test_rotation_is_not_free(tmp_path: Path) -> None:
    def vector_elements(network: Network) -> int:
        return sum(v.elements for o in network.operators for v in o.vector)

    turned, plain = (grouped_query_attention(tmp_path, 4, 12, rotary) for rotary in (1, 0))
    assert turned.macs == plain.macs
    assert vector_elements(turned) >= vector_elements(plain) + 2 * 4 * (4 + 2) * 16
