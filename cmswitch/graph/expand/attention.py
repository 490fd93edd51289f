"""Attention of the standard operator set, and of com.microsoft with packed, separate and grouped projections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from cmswitch.graph.expand.attend import Heads, Mask, Scores, Visible, appended, attend, heads, heads_of, in_front
from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.expand.rotary import Angles, counted, rotated
from cmswitch.graph.ir import Node, Shape, Unsupported
from cmswitch.graph.table import MICROSOFT


def _value(node: Node, index: int) -> str:
    return node.inputs[index] if node.has(index) else ""


def _scale(node: Node) -> float | None:
    return float(node.attributes["scale"]) if node.attributes.get("scale") else None


def _per_batch(parts: Parts, value: str) -> str:
    """A vector of one number per batch item, to compare with [batch, heads, queries, keys]; in 64 bits."""
    return parts.reshape(parts.add("Cast", value, to=TensorProto.INT64), (-1, 1, 1, 1))


@EXPANSIONS.of("Attention")
def attention(node: Node) -> Sequence[Part]:
    """Attention (ai.onnx 23 on): 3-D or 4-D inputs, grouped heads, masks, cache; the scores as an optional output."""
    parts = Parts(node)
    query = heads(node, 0, node.integer("q_num_heads", 0))
    key, value = (heads(node, i, node.integer("kv_num_heads", 0)) for i in (1, 2))
    past = node.shape(4)[2] if node.has(4) else 0
    key = appended(parts, _value(node, 4), past, key, parts.output(1))
    value = appended(parts, _value(node, 5), past, value, parts.output(2))
    valid = _per_batch(parts, node.inputs[6]) if node.has(6) else None
    limits = [node.integer("left_window_size", -1), node.integer("right_window_size", -1)]
    if node.integer("is_causal", 0):
        limits[1] = 0
    first: int | str = past
    if valid is not None:
        first = parts.add("Sub", valid, parts.constant(query.length))
    before, after = (limit if limit >= 0 else None for limit in limits)
    visible = Visible(query.batch, query.length, key.length, first, before, after, valid)
    masks = visible.masks(parts)
    if node.has(3):
        masks.append(_given_mask(parts, node, key.length))
    kept = node.integer("qk_matmul_output_mode", 0)
    softcap = float(node.attributes.get("softcap", 0))
    attend(parts, query, key, value, Scores(_scale(node), softcap, masks, parts.output(3), kept), node.outputs[0])
    return parts.list


def _given_mask(parts: Parts, node: Node, keys: int) -> Mask:
    """Input 3 with its last axis extended to ``keys``: what it leaves out is hidden."""
    mask, shape = node.inputs[3], node.shape(3)
    boolean = node.value(3).dtype == TensorProto.BOOL
    missing = keys - shape[-1]
    if missing and shape[-1] != 1:
        fill = parts.number(np.full((*shape[:-1], missing), 0 if boolean else -np.inf), mask)
        mask = parts.add("Concat", mask, fill, axis=-1)
        shape = (*shape[:-1], keys)
    return Mask(mask, shape, boolean)


@EXPANSIONS.of("Attention", domain=MICROSOFT)
def packed_attention(node: Node) -> Sequence[Part]:
    """com.microsoft Attention: query, key and value are projections of one input by one packed weight."""
    parts = Parts(node)
    data, weight, count = node.shape(0), node.shape(1), node.integer("num_heads", 0)
    if node.integer("do_rotary", 0):
        raise Unsupported("rotary embedding within it", "export the rotary embedding as a node of its own")
    widths = node.integers("qkv_hidden_sizes") or (weight[1] // 3,) * 3
    found = []
    start = 0
    for width in widths:
        piece = [parts.constant((start,)), parts.constant((start + width,))]
        projected = parts.add(
            "MatMul", node.inputs[0], parts.add("Slice", node.inputs[1], *piece, parts.constant((1,)))
        )
        if node.has(2):
            projected = parts.add("Add", projected, parts.add("Slice", node.inputs[2], *piece, parts.constant((0,))))
        found.append(heads_of(projected, (data[0], data[1], width), count))
        start += width
    query, key, value = found
    past = node.shape(4)[3] if node.has(4) else 0
    caches = [parts.add("Gather", node.inputs[4], parts.constant(i)) if past else "" for i in range(2)]
    key, value = (appended(parts, cache, past, new, None) for cache, new in zip(caches, (key, value), strict=True))
    present = parts.output(1)
    if present is not None:
        key, value = in_front(parts, key), in_front(parts, value)
        both = [parts.reshape(new.value, (1, *new.axes)) for new in (key, value)]
        parts.add("Concat", *both, axis=0, output=present)
    after = 0 if node.integer("unidirectional", 0) else None
    masks = Visible(query.batch, query.length, key.length, past, None, after).masks(parts)
    masks += _index_mask(parts, node, 3, key) + _bias(node, 5)
    attend(parts, query, key, value, Scores(_scale(node), 0, masks), node.outputs[0])
    return parts.list


def _bias(node: Node, index: int) -> list[Mask]:
    """An optional input that is added to the scores."""
    return [Mask(node.inputs[index], node.shape(index), False)] if node.has(index) else []


def _index_mask(parts: Parts, node: Node, index: int, key: Heads) -> list[Mask]:
    """An optional integer mask: one length per batch item (further bounds after the first ``batch`` numbers are taken to
    hide nothing more), or 0 where a key is hidden, as [batch, keys], [batch, queries, keys] or [batch, 1, keys, keys]."""
    if not node.has(index):
        return []
    value, shape = node.inputs[index], node.shape(index)
    if len(shape) == 1:
        if shape[0] != key.batch:
            value = parts.add("Slice", value, parts.constant((0,)), parts.constant((key.batch,)))
        return Visible(key.batch, 1, key.length, valid=_per_batch(parts, value)).masks(parts)
    if len(shape) < 4:
        shape = (shape[0], 1, shape[1] if len(shape) == 3 else 1, shape[-1])
        value = parts.reshape(value, shape)
    return [Mask(parts.add("Cast", value, to=TensorProto.BOOL), shape, True)]


@EXPANSIONS.of("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node) -> Sequence[Part]:
    """com.microsoft MultiHeadAttention: projections made before it, packed or not, with an optional bias and cache."""
    parts = Parts(node)
    count = node.integer("num_heads", 0)
    if node.has(9):
        raise Unsupported("a cache indirection (beam search)", "export the model without beam search")
    packed = _unpacked(parts, node)
    bias = node.inputs[3] if node.has(3) else ""
    found = []
    start = 0
    for value, shape in packed:
        given = heads_of(value, shape, count)
        if bias and given.by_token:
            width = given.count * given.size
            ends = parts.constant((start,)), parts.constant((start + width,))
            given = heads_of(parts.add("Add", value, parts.add("Slice", bias, *ends)), shape, count)
            start += width
        found.append(given)
    query, key, value_heads = found
    past = node.shape(6)[2] if node.has(6) else 0
    key = appended(parts, _value(node, 6), past, key, parts.output(1))
    value_heads = appended(parts, _value(node, 7), past, value_heads, parts.output(2))
    after = 0 if node.integer("unidirectional", 0) else None
    masks = Visible(query.batch, query.length, key.length, past, None, after).masks(parts)
    masks += _index_mask(parts, node, 4, key) + _bias(node, 5)
    attend(parts, query, key, value_heads, Scores(_scale(node), 0, masks, parts.output(3)), node.outputs[0])
    return parts.list


def _unpacked(parts: Parts, node: Node) -> list[tuple[str, Shape]]:
    """Query, key and value with their shapes; packed ones are [batch, length, heads, 2 or 3, size]."""
    found: list[tuple[str, Shape]] = []
    for index in range(3):
        if not node.has(index):
            continue
        value, shape = node.inputs[index], node.shape(index)
        if len(shape) < 5:
            found.append((value, shape))
            continue
        for piece in range(shape[3]):
            one = parts.add("Gather", value, parts.constant(piece), axis=3)
            whole: Shape = (shape[0], shape[1], shape[2] * shape[4])
            found.append((parts.reshape(one, whole), whole))
    if len(found) != 3:
        raise Unsupported(f"{len(found)} of query, key and value are given", "give all three, packed or not")
    return found


@EXPANSIONS.of("GroupQueryAttention", domain=MICROSOFT)
def grouped_query_attention(node: Node) -> Sequence[Part]:
    """com.microsoft GroupQueryAttention: causal, with a cache and rotary embedding inside.

    The keys are those of the cache, then the new positions. Of a cache that is a longer buffer only the front is read, if the
    total length (input 6) is known; else all of it.
    """
    parts = Parts(node)
    count, key_count = node.integer("num_heads", 0), node.integer("kv_num_heads", 0)
    query, key, value = _grouped_inputs(parts, node, count, key_count)
    last = parts.add("Cast", node.inputs[5], to=TensorProto.INT64)  # position of the last query of each batch item
    first = parts.add("Sub", last, parts.constant(query.length - 1))
    if node.integer("do_rotary", 0):
        places = node.inputs[9] if node.has(9) else counted(parts, first, query.length)
        interleaved = bool(node.integer("rotary_interleaved", 0))
        angles = Angles(node.inputs[7], node.inputs[8], node.shape(7), places, interleaved)
        turned = min(2 * node.shape(7)[-1], query.size)
        query, key = (rotated(parts, given, angles, turned) for given in (query, key))
    size = node.shape(3)[2] if node.has(3) else 0
    total = node.value(6).data
    past = size if total is None else min(size, max(0, int(total.item()) - query.length))
    caches = [_front(parts, _value(node, index), past, size) for index in (3, 4)]
    key = appended(parts, caches[0], past, key, parts.output(1))
    value = appended(parts, caches[1], past, value, parts.output(2))
    window = node.integer("local_window_size", -1)
    before = window - 1 if window > 0 else None
    start = _per_batch(parts, first)
    masks = Visible(query.batch, query.length, key.length, start, before, 0).masks(parts) + _bias(node, 10)
    softcap = float(node.attributes.get("softcap", 0))
    attend(parts, query, key, value, Scores(_scale(node), softcap, masks), node.outputs[0])
    return parts.list


def _front(parts: Parts, cache: str, length: int, size: int) -> str:
    """The first ``length`` of the ``size`` positions of ``cache`` ("": none)."""
    if length in (0, size):
        return cache if length else ""
    return parts.add("Slice", cache, *(parts.constant([number]) for number in (0, length, 2)))


def _grouped_inputs(parts: Parts, node: Node, count: int, key_count: int) -> tuple[Heads, Heads, Heads]:
    if node.has(1):
        return heads(node, 0, count), heads(node, 1, key_count), heads(node, 2, key_count)
    batch, length, width = node.shape(0)
    size = width // (count + 2 * key_count)
    counts = (count, key_count, key_count)
    pieces = parts.split(node.inputs[0], 2, [number * size for number in counts])
    query, key, value = (
        heads_of(piece, (batch, length, number * size), number) for piece, number in zip(pieces, counts, strict=True)
    )
    return query, key, value
