"""Transformer encoders: BERT-large (embeddings and encoder) and ViT-Base/16 (with its classifier)."""

from __future__ import annotations

import onnx

from cmswitch.graph.zoo.maker import Maker


def _dense(maker: Maker, name: str, data: str, inputs: int, outputs: int) -> str:
    product = maker.node("MatMul", name, data, maker.weight(f"{name}.weight", inputs, outputs))
    return maker.node("Add", f"{name}.add", product, maker.weight(f"{name}.bias", outputs))


def _norm(maker: Maker, name: str, data: str, width: int) -> str:
    scale, shift = maker.weight(f"{name}.scale", width), maker.weight(f"{name}.shift", width)
    return maker.node("LayerNormalization", name, data, scale, shift, axis=-1)


def _attention(maker: Maker, name: str, data: str, width: int, heads: int, mask: str | None) -> str:
    """Multi-head self-attention and its output projection."""
    maker.integers(f"{name}.split", 0, 0, heads, width // heads)
    maker.integers(f"{name}.merge", 0, 0, width)

    def part(which: str, order: list[int]) -> str:
        projected = _dense(maker, f"{name}.{which}", data, width, width)
        headed = maker.node("Reshape", f"{name}.{which}.heads", projected, f"{name}.split")
        return maker.node("Transpose", f"{name}.{which}.transpose", headed, perm=order)

    query, key, value = part("query", [0, 2, 1, 3]), part("key", [0, 2, 3, 1]), part("value", [0, 2, 1, 3])
    scores = maker.node("MatMul", f"{name}.scores", query, key)
    scores = maker.node("Div", f"{name}.scale", scores, maker.weight(f"{name}.root"))
    if mask is not None:
        scores = maker.node("Add", f"{name}.mask", scores, mask)
    mixed = maker.node("MatMul", f"{name}.mix", maker.node("Softmax", f"{name}.softmax", scores, axis=-1), value)
    mixed = maker.node("Transpose", f"{name}.transpose", mixed, perm=[0, 2, 1, 3])
    return _dense(
        maker, f"{name}.output", maker.node("Reshape", f"{name}.joined", mixed, f"{name}.merge"), width, width
    )


def _feed_forward(maker: Maker, name: str, data: str, width: int, hidden: int) -> str:
    inner = maker.node("Gelu", f"{name}.gelu", _dense(maker, f"{name}.up", data, width, hidden))
    return _dense(maker, f"{name}.down", inner, hidden, width)


def bert_large() -> onnx.ModelProto:
    """BERT-large: 24 layers of width 1024 with 16 heads, normalisation after each sum; embeddings, no pooler."""
    return bert("bert-large", 24)


def bert(name: str, layers: int) -> onnx.ModelProto:
    """An encoder called ``name`` that has ``layers`` of BERT-large's layers, after its embeddings."""
    maker, width, hidden = Maker(name), 1024, 4096
    tokens = maker.input("input_ids", ["batch", "seq"], integer=True)
    types = maker.input("token_type_ids", ["batch", "seq"], integer=True)
    attended = maker.input("attention_mask", ["batch", "seq"])
    maker.integers("mask.axes", 1, 2)
    mask = maker.node("Unsqueeze", "mask.unsqueeze", attended, "mask.axes")
    mask = maker.node("Sub", "mask.invert", maker.weight("mask.one"), mask)
    mask = maker.node("Mul", "mask.scale", mask, maker.weight("mask.lowest"))
    words = maker.node("Gather", "embeddings.word", maker.weight("embeddings.word.weight", 30522, width), tokens)
    kinds = maker.node("Gather", "embeddings.type", maker.weight("embeddings.type.weight", 2, width), types)
    maker.integers("embeddings.start", 0)
    maker.integers("embeddings.axis", 0)
    length = maker.node("Shape", "embeddings.length", tokens, start=1, end=2)
    table = maker.weight("embeddings.position.weight", 512, width)
    places = maker.node("Slice", "embeddings.position", table, "embeddings.start", length, "embeddings.axis")
    data = maker.node("Add", "embeddings.add1", words, kinds)
    data = _norm(maker, "embeddings.norm", maker.node("Add", "embeddings.add2", data, places), width)
    for number in range(layers):
        layer = f"layer{number}"
        attention = _attention(maker, f"{layer}.attention", data, width, 16, mask)
        data = _norm(maker, f"{layer}.norm1", maker.node("Add", f"{layer}.add1", attention, data), width)
        forward = _feed_forward(maker, f"{layer}.feedforward", data, width, hidden)
        data = _norm(maker, f"{layer}.norm2", maker.node("Add", f"{layer}.add2", forward, data), width)
    return maker.model(data)


def vit_base() -> onnx.ModelProto:
    """ViT-Base/16 at 224 x 224: 196 patches and a class token, 12 layers of width 768 with 12 heads, 1000 classes."""
    maker, width, hidden = Maker("vit-base"), 768, 3072
    image = maker.input("image", ["batch", 3, 224, 224])
    weight, bias = maker.weight("patches.weight", width, 3, 16, 16), maker.weight("patches.bias", width)
    data = maker.node("Conv", "patches", image, weight, bias, kernel_shape=[16, 16], strides=[16, 16])
    maker.integers("patches.shape", 0, width, 196)
    data = maker.node("Reshape", "patches.flatten", data, "patches.shape")
    data = maker.node("Transpose", "patches.transpose", data, perm=[0, 2, 1])
    maker.integers("class.rest", 1, width)
    count = maker.node("Shape", "class.batch", image, start=0, end=1)
    shape = maker.node("Concat", "class.shape", count, "class.rest", axis=0)
    token = maker.node("Expand", "class.expand", maker.weight("class.token", 1, 1, width), shape)
    data = maker.node("Concat", "class.concat", token, data, axis=1)
    data = maker.node("Add", "positions.add", data, maker.weight("positions", 1, 197, width))
    for layer in range(12):
        name = f"layer{layer}"
        normed = _norm(maker, f"{name}.norm1", data, width)
        data = maker.node("Add", f"{name}.add1", _attention(maker, f"{name}.attention", normed, width, 12, None), data)
        normed = _norm(maker, f"{name}.norm2", data, width)
        data = maker.node(
            "Add", f"{name}.add2", _feed_forward(maker, f"{name}.feedforward", normed, width, hidden), data
        )
    data = _norm(maker, "norm", data, width)
    maker.scalar("first", 0)
    token = maker.node("Gather", "class.select", data, "first", axis=1)
    return maker.model(_dense(maker, "classifier", token, width, 1000))
