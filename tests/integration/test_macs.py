"""Multiply-accumulates of the zoo against arithmetic. For networks of others see ``test_models.py``."""

from __future__ import annotations

import pytest

from cmswitch.graph import load_network


def _conv(side: int, inputs: int, outputs: int, kernel: int, groups: int = 1) -> int:
    return side * side * outputs * inputs // groups * kernel * kernel


def test_resnet18() -> None:
    stage1 = 4 * _conv(56, 64, 64, 3)
    stage2 = _conv(28, 64, 128, 3) + 3 * _conv(28, 128, 128, 3) + _conv(28, 64, 128, 1)
    stage3 = _conv(14, 128, 256, 3) + 3 * _conv(14, 256, 256, 3) + _conv(14, 128, 256, 1)
    stage4 = _conv(7, 256, 512, 3) + 3 * _conv(7, 512, 512, 3) + _conv(7, 256, 512, 1)
    expected = _conv(112, 3, 64, 7) + stage1 + stage2 + stage3 + stage4 + 512 * 1000
    network = load_network("zoo:resnet18")
    assert network.macs == expected == 1_814_073_344
    assert len(network.operators) == 21
    assert network.weight_elements == 11_678_912


def test_resnet50() -> None:
    expected = _conv(112, 3, 64, 7) + 2048 * 1000
    side, inputs = 56, 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            expected += _conv(side, inputs, width, 1)
            if block == 0:
                side = {64: 56, 128: 28, 256: 14, 512: 7}[width]
                expected += _conv(side, inputs, 4 * width, 1)
            expected += _conv(side, width, width, 3) + _conv(side, width, 4 * width, 1)
            inputs = 4 * width
    assert load_network("zoo:resnet50").macs == expected == 4_089_184_256


def test_vgg16() -> None:
    layers = [
        (224, 3, 64),
        (224, 64, 64),
        (112, 64, 128),
        (112, 128, 128),
        (56, 128, 256),
        (56, 256, 256),
        (56, 256, 256),
    ]
    layers += [(28, 256, 512), (28, 512, 512), (28, 512, 512)] + [(14, 512, 512)] * 3
    dense = 512 * 7 * 7 * 4096 + 4096 * 4096 + 4096 * 1000
    assert load_network("zoo:vgg16").macs == sum(_conv(s, i, o, 3) for s, i, o in layers) + dense == 15_470_264_320


def test_mobilenet_v2() -> None:
    expected, side, inputs = _conv(112, 3, 32, 3), 112, 32
    for factor, width, blocks, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for block in range(blocks):
            hidden = inputs * factor
            expected += _conv(side, inputs, hidden, 1) if factor > 1 else 0
            side //= stride if block == 0 else 1
            expected += _conv(side, hidden, hidden, 3, hidden) + _conv(side, hidden, width, 1)
            inputs = width
    expected += _conv(7, 320, 1280, 1) + 1280 * 1000
    network = load_network("zoo:mobilenet_v2")
    assert network.macs == expected == 300_774_272
    depthwise = [o.product for o in network.operators if o.product and o.product.groups > 1]
    assert len(depthwise) == 17
    assert all(p.inner == 9 and p.columns == 1 for p in depthwise)


@pytest.mark.parametrize(("batch", "seq"), [(1, 64), (1, 128), (4, 32)])
def test_bert_large(batch: int, seq: int) -> None:
    tokens = batch * seq
    layer = 4 * tokens * 1024 * 1024 + 2 * tokens * 1024 * 4096 + 2 * batch * 16 * seq * seq * 64
    network = load_network("zoo:bert-large", batch=batch, seq=seq)
    assert network.macs == 24 * layer
    assert network.weight_elements == 24 * (4 * 1024 * 1024 + 2 * 1024 * 4096)


def test_bert_large_defaults_to_one_sequence_of_64() -> None:
    assert load_network("zoo:bert-large").macs == load_network("zoo:bert-large", batch=1, seq=64).macs


@pytest.mark.parametrize("batch", [1, 3])
def test_vit_base(batch: int) -> None:
    layer = 4 * 197 * 768 * 768 + 2 * 197 * 768 * 3072 + 2 * 12 * 197 * 197 * 64
    expected = batch * (196 * 768 * 768 + 12 * layer + 768 * 1000)
    assert load_network("zoo:vit-base", batch=batch).macs == expected


def test_batch_multiplies_rows_only() -> None:
    one, four = load_network("zoo:resnet18"), load_network("zoo:resnet18", batch=4)
    assert four.macs == 4 * one.macs
    assert four.weight_elements == one.weight_elements
