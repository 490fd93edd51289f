"""Convolutional networks for 224 x 224 images with 1000 classes, batch normalisation folded into the convolutions."""

from __future__ import annotations

import onnx

from cmswitch.graph.zoo.maker import Maker

CLASSES = 1000


def _image(maker: Maker) -> str:
    return maker.input("image", ["batch", 3, 224, 224])


def _convolution(
    maker: Maker, name: str, data: str, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> str:
    weight = maker.weight(f"{name}.weight", outputs, inputs // groups, kernel, kernel)
    bias = maker.weight(f"{name}.bias", outputs)
    pad = (kernel - 1) // 2
    return maker.node(
        "Conv", name, data, weight, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, group=groups
    )


def _dense(maker: Maker, name: str, data: str, inputs: int, outputs: int) -> str:
    weight, bias = maker.weight(f"{name}.weight", outputs, inputs), maker.weight(f"{name}.bias", outputs)
    return maker.node("Gemm", name, data, weight, bias, transB=1)


def _head(maker: Maker, data: str, channels: int) -> onnx.ModelProto:
    pooled = maker.node("GlobalAveragePool", "pool", data)
    flat = maker.node("Flatten", "flatten", pooled)
    return maker.model(_dense(maker, "classifier", flat, channels, CLASSES))


def _stem(maker: Maker) -> str:
    data = _convolution(maker, "stem", _image(maker), 3, 64, 7, 2)
    data = maker.node("Relu", "stem.relu", data)
    return maker.node("MaxPool", "stem.pool", data, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def resnet18() -> onnx.ModelProto:
    """ResNet-18: four stages of two basic blocks."""
    maker = Maker("resnet18")
    data, inputs = _stem(maker), 64
    for stage, width in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            name, stride = f"stage{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            inner = maker.node(
                "Relu", f"{name}.relu1", _convolution(maker, f"{name}.conv1", data, inputs, width, 3, stride)
            )
            inner = _convolution(maker, f"{name}.conv2", inner, width, width, 3)
            if inputs != width:
                data = _convolution(maker, f"{name}.shortcut", data, inputs, width, 1, stride)
            data = maker.node("Relu", f"{name}.relu2", maker.node("Add", f"{name}.add", inner, data))
            inputs = width
    return _head(maker, data, inputs)


def resnet50() -> onnx.ModelProto:
    """ResNet-50: four stages of bottleneck blocks, the stride in the 3 x 3 convolution."""
    maker = Maker("resnet50")
    data, inputs = _stem(maker), 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)), 1):
        for block in range(blocks):
            name, stride = f"stage{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            inner = maker.node("Relu", f"{name}.relu1", _convolution(maker, f"{name}.conv1", data, inputs, width, 1))
            inner = maker.node(
                "Relu", f"{name}.relu2", _convolution(maker, f"{name}.conv2", inner, width, width, 3, stride)
            )
            inner = _convolution(maker, f"{name}.conv3", inner, width, 4 * width, 1)
            if block == 0:
                data = _convolution(maker, f"{name}.shortcut", data, inputs, 4 * width, 1, stride)
            data = maker.node("Relu", f"{name}.relu3", maker.node("Add", f"{name}.add", inner, data))
            inputs = 4 * width
    return _head(maker, data, inputs)


def vgg16() -> onnx.ModelProto:
    """VGG-16: thirteen convolutions and three dense layers."""
    maker = Maker("vgg16")
    data, inputs = _image(maker), 3
    for stage, (width, count) in enumerate(((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)), 1):
        for layer in range(1, count + 1):
            data = _convolution(maker, f"conv{stage}.{layer}", data, inputs, width, 3)
            data, inputs = maker.node("Relu", f"relu{stage}.{layer}", data), width
        data = maker.node("MaxPool", f"pool{stage}", data, kernel_shape=[2, 2], strides=[2, 2])
    data = maker.node("Flatten", "flatten", data)
    for layer, (rows, columns) in enumerate(((512 * 7 * 7, 4096), (4096, 4096)), 6):
        data = maker.node("Relu", f"relu{layer}", _dense(maker, f"dense{layer}", data, rows, columns))
    return maker.model(_dense(maker, "dense8", data, 4096, CLASSES))


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2, width 1: inverted residuals with depthwise convolutions."""
    maker = Maker("mobilenet_v2")

    def clipped(name: str, data: str) -> str:
        return maker.node("Clip", f"{name}.relu6", data, "zero", "six")

    maker.weight("zero"), maker.weight("six")
    data, inputs = clipped("stem", _convolution(maker, "stem", _image(maker), 3, 32, 3, 2)), 32
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (factor, width, blocks, first) in enumerate(stages, 1):
        for block in range(blocks):
            name, stride, inner, hidden = f"stage{stage}.{block}", first if block == 0 else 1, data, inputs * factor
            if factor > 1:
                inner = clipped(f"{name}.expand", _convolution(maker, f"{name}.expand", inner, inputs, hidden, 1))
            inner = _convolution(maker, f"{name}.depthwise", inner, hidden, hidden, 3, stride, groups=hidden)
            inner = _convolution(maker, f"{name}.project", clipped(f"{name}.depthwise", inner), hidden, width, 1)
            data = maker.node("Add", f"{name}.add", inner, data) if stride == 1 and inputs == width else inner
            inputs = width
    return _head(maker, clipped("last", _convolution(maker, "last", data, inputs, 1280, 1)), 1280)
