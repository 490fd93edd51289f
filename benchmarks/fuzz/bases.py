"""The networks that are broken: small ones written here, and real ones where they are installed."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
from onnx import numpy_helper

from benchmarks import networks

WEIGHT = "w_"
"""Inputs of a text below with this prefix become stored tensors."""

SMALL = {
    "perceptron": """
<ir_version: 10, opset_import: ["" : 20]>
perceptron (float[batch, 48] x, float[64, 48] w_up, float[64] w_bias, float[64, 10] w_down) => (float[batch, 10] y) {
  hidden = Gemm <transB: int = 1> (x, w_up, w_bias)
  active = Relu (hidden)
  logits = MatMul (active, w_down)
  y = Softmax <axis: int = -1> (logits)
}""",
    "convolutional": """
<ir_version: 8, opset_import: ["" : 13]>
convolutional (float[1, 3, 16, 16] image, float[8, 3, 3, 3] w_stem, float[8] w_scale, float[8] w_shift,
    float[8] w_mean, float[8] w_variance, float[8, 1, 3, 3] w_depth, float[8, 8, 1, 1] w_point, float[10, 8] w_head)
    => (float[1, 10] y) {
  stem = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (image, w_stem)
  normal = BatchNormalization (stem, w_scale, w_shift, w_mean, w_variance)
  active = Relu (normal)
  deep = Conv <group = 8, pads = [1, 1, 1, 1]> (active, w_depth)
  wide = Conv (deep, w_point)
  sum = Add (active, wide)
  small = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (sum)
  mean = GlobalAveragePool (small)
  flat = Flatten (mean)
  y = Gemm <transB = 1> (flat, w_head)
}""",
    "attention": """
<ir_version: 10, opset_import: ["" : 20]>
attention (float[batch, seq, 32] x, float[32, 32] w_query, float[32, 32] w_key, float[32, 32] w_value,
    float[32] w_scale, float[32] w_shift, float[32, 64] w_up, float[64, 32] w_down) => (float[batch, seq, 32] y) {
  shape = Shape (x)
  first = Constant <value_int = 0> ()
  second = Constant <value_int = 1> ()
  batches = Gather (shape, first)
  tokens = Gather (shape, second)
  axis = Constant <value_ints = [0]> ()
  one = Unsqueeze (batches, axis)
  two = Unsqueeze (tokens, axis)
  rest = Constant <value_ints = [2, 16]> ()
  whole = Constant <value_ints = [-1]> ()
  heads = Concat <axis = 0> (one, two, rest)
  merged = Concat <axis = 0> (one, two, whole)
  q0 = MatMul (x, w_query)
  q1 = Reshape (q0, heads)
  q = Transpose <perm = [0, 2, 1, 3]> (q1)
  k0 = MatMul (x, w_key)
  k1 = Reshape (k0, heads)
  k = Transpose <perm = [0, 2, 3, 1]> (k1)
  v0 = MatMul (x, w_value)
  v1 = Reshape (v0, heads)
  v = Transpose <perm = [0, 2, 1, 3]> (v1)
  scores = MatMul (q, k)
  root = Constant <value_float = 4.0> ()
  scaled = Div (scores, root)
  shares = Softmax <axis = -1> (scaled)
  mixed = MatMul (shares, v)
  back = Transpose <perm = [0, 2, 1, 3]> (mixed)
  joined = Reshape (back, merged)
  residual = Add (x, joined)
  normal = LayerNormalization <axis = -1> (residual, w_scale, w_shift)
  up = MatMul (normal, w_up)
  active = Gelu (up)
  down = MatMul (active, w_down)
  y = Add (normal, down)
}""",
    "branches": """
<ir_version: 8, opset_import: ["" : 12]>
branches (float[N, 4, 9, 9] image, float[4, 4, 1, 1] w_one, float[6, 4, 3, 3] w_three, float[4, 2, 2, 2] w_grow)
    => (float[N, 5] left, float[N, 5] right) {
  one = Conv (image, w_one)
  three = Conv <auto_pad = "SAME_UPPER"> (image, w_three)
  all = Concat <axis = 1> (one, three)
  a, b = Split <axis = 1> (all)
  low = Clip (a)
  pooled = AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (b)
  left = ReduceMean <axes = [2, 3], keepdims = 0> (low)
  right = ReduceMean <axes = [2, 3], keepdims = 0> (pooled)
}""",
    "lookup": """
<ir_version: 10, opset_import: ["" : 17]>
lookup (int64[batch, sequence] ids, bool[batch, sequence, 1] mask, float[100, 24] w_table, float[24, 24] w_mix)
    => (float[batch, 24] y) {
  found = Gather (w_table, ids)
  nothing = Constant <value_float = 0.0> ()
  kept = Where (mask, found, nothing)
  mixed = MatMul (kept, w_mix)
  squashed = Tanh (mixed)
  starts = Constant <value_ints = [0]> ()
  ends = Constant <value_ints = [1]> ()
  axes = Constant <value_ints = [1]> ()
  head = Slice (squashed, starts, ends, axes)
  y = Squeeze (head, axes)
}""",
    "quantized": """
<ir_version: 8, opset_import: ["" : 13]>
quantized (float[1, 16] x, int8[16, 12] w_held, float w_step, int8 w_zero) => (float[1, 12] y) {
  weights = DequantizeLinear (w_held, w_step, w_zero)
  product = MatMul (x, weights)
  y = Sigmoid (product)
}""",
}

SIZES = {
    "perceptron": ["--batch", "2"],
    "attention": ["--batch", "1", "--seq", "4"],
    "branches": ["--batch", "1"],
    "lookup": ["--batch", "2", "--seq", "3"],
    networks.MINILM: ["--dim", "batch_size=1", "--dim", "sequence_length=16"],
}
"""Options that bind the symbolic dimensions of a network."""

INSTALLED = tuple(name for name in networks.NAMES if name.startswith("light_"))
LARGE = networks.MINILM
SHARES = (*((name, 12) for name in SMALL), *((name, 1) for name in INSTALLED), (LARGE, 1))
"""How often each network is taken."""


class MissingNetworkError(Exception):
    """A network is not installed; ``str(error)`` says why."""


def choose(chance: random.Random) -> str:
    """The name of one network."""
    names, shares = zip(*SHARES, strict=True)
    return str(chance.choices(names, shares)[0])


def load(name: str) -> onnx.ModelProto:
    """A fresh copy of a network. Raises MissingNetworkError."""
    copy = onnx.ModelProto()
    copy.CopyFrom(_small(name) if name in SMALL else onnx.load(_installed(name), load_external_data=False))
    return copy


@cache
def _small(name: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(SMALL[name])
    values = np.random.default_rng(0)
    kept = []
    for value in model.graph.input:
        if not value.name.startswith(WEIGHT):
            kept.append(value)
            continue
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        data = np.asarray(values.integers(1, 9, shape), dtype)
        model.graph.initializer.append(numpy_helper.from_array(data, value.name))
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model


def _installed(name: str) -> Path:
    (case,) = networks.find_cases([name])
    if case.model is None:
        raise MissingNetworkError(f"{name}: {case.missing}")
    return Path(case.model)
