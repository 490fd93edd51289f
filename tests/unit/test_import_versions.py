"""Attributes that became inputs: a node means the same before and after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

from cmswitch.graph.assemble import assemble
from cmswitch.graph.infer import infer
from cmswitch.graph.network import Network


@dataclass(frozen=True)
class Form:
    """One way to write a node that reads ``c`` and makes ``y``: the version of the operator set, the node, its constants."""

    version: int
    node: str
    constants: str = ""


def network(form: Form, reader: str, declared: str = "", domain: str = "") -> Network:
    """A convolution, the node, and a reader of what it makes, with the names by which the file calls ONNX's own domain."""
    text = f"""<ir_version: 8, opset_import: ["{declared}" : {form.version}]>
        sketch (float[1,4,8,8] x) => (float z) <{form.constants}> {{
            c = Conv <kernel_shape = [1, 1]> (x, w)
            {form.node}
            {reader}
        }}"""
    model = onnx.parser.parse_model(text)
    for node, name in zip(model.graph.node, ("producer", "node", "reader"), strict=True):
        node.name, node.domain = name, domain
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((4, 4, 1, 1), np.float32), "w"))
    model.graph.output[0].type.CopyFrom(onnx.helper.make_empty_tensor_value_info("z").type)
    return assemble(infer(model, "sketch"))


FORMS = {
    "Slice": (
        Form(9, "y = Slice <axes = [2], starts = [1], ends = [7]> (c)"),
        Form(10, "y = Slice(c, s, e, a)", "int64[1] s = {1}, int64[1] e = {7}, int64[1] a = {2}"),
        Form(24, "y = Slice(c, s, e, a)", "int64[1] s = {1}, int64[1] e = {7}, int64[1] a = {2}"),
    ),
    "Pad": (
        Form(7, "y = Pad <pads = [0, 0, 1, 0, 0, 0, 2, 0]> (c)"),
        Form(11, "y = Pad(c, p)", "int64[8] p = {0, 0, 1, 0, 0, 0, 2, 0}"),
        Form(18, "y = Pad(c, p, , a)", "int64[2] p = {1, 2}, int64[1] a = {2}"),
        Form(24, "y = Pad(c, p, v, a)", "int64[2] p = {1, 2}, float v = {0.5}, int64[1] a = {-2}"),
    ),
    "Clip": (
        Form(7, "y = Clip <min = 0.0, max = 6.0> (c)"),
        Form(11, "y = Clip(c, l, h)", "float l = {0.0}, float h = {6.0}"),
        Form(24, "y = Clip(c, l, h)", "float l = {0.0}, float h = {6.0}"),
    ),
    "Squeeze": (
        Form(7, "y = Squeeze <axes = [0]> (c)"),
        Form(11, "y = Squeeze <axes = [-4]> (c)"),
        Form(13, "y = Squeeze(c, a)", "int64[1] a = {0}"),
        Form(24, "y = Squeeze(c)"),
    ),
    "Unsqueeze": (
        Form(7, "y = Unsqueeze <axes = [0]> (c)"),
        Form(13, "y = Unsqueeze(c, a)", "int64[1] a = {0}"),
        Form(24, "y = Unsqueeze(c, a)", "int64[1] a = {0}"),
    ),
    "ReduceSum": (
        Form(7, "y = ReduceSum <axes = [3]> (c)"),
        Form(13, "y = ReduceSum(c, a)", "int64[1] a = {3}"),
        Form(24, "y = ReduceSum(c, a)", "int64[1] a = {-1}"),
    ),
    "ReduceMax": (
        Form(7, "y = ReduceMax <axes = [1, 3], keepdims = 0> (c)"),
        Form(17, "y = ReduceMax <axes = [1, 3], keepdims = 0> (c)"),
        Form(18, "y = ReduceMax <keepdims = 0> (c, a)", "int64[2] a = {1, 3}"),
        Form(24, "y = ReduceMax <keepdims = 0> (c, a)", "int64[2] a = {1, -1}"),
    ),
    "Split": (
        Form(7, "y, r = Split <axis = 2, split = [4, 4]> (c)"),
        Form(11, "y, r = Split <axis = 2> (c)"),
        Form(13, "y, r = Split <axis = 2> (c, s)", "int64[2] s = {4, 4}"),
        Form(18, "y, r = Split <axis = 2, num_outputs = 2> (c)"),
        Form(24, "y, r = Split <axis = -2, num_outputs = 2> (c)"),
    ),
    "Dropout": (
        Form(7, "y = Dropout <ratio = 0.5> (c)"),
        Form(10, "y, mask = Dropout <ratio = 0.5> (c)"),
        Form(12, "y = Dropout(c, r, t)", "float r = {0.5}, bool t = {0}"),
        Form(24, "y, mask = Dropout(c, r)", "float r = {0.5}"),
    ),
    "TopK": (
        Form(7, "y, i = TopK <k = 3, axis = 3> (c)"),
        Form(10, "y, i = TopK <axis = 3> (c, k)", "int64[1] k = {3}"),
        Form(24, "y, i = TopK <axis = -1> (c, k)", "int64[1] k = {3}"),
    ),
    "Upsample": (
        Form(7, "y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (c)"),
        Form(9, "y = Upsample(c, s)", "float[4] s = {1, 1, 2, 2}"),
        Form(10, "y = Resize(c, s)", "float[4] s = {1, 1, 2, 2}"),
    ),
    "Resize": (
        Form(11, "y = Resize(c, r, s)", "float[8] r = {0, 0, 0, 0, 1, 1, 1, 1}, float[4] s = {1, 1, 2, 2}"),
        Form(13, "y = Resize(c, , s)", "float[4] s = {1, 1, 2, 2}"),
        Form(13, "y = Resize(c, , , n)", "int64[4] n = {1, 4, 16, 16}"),
        Form(18, "y = Resize <axes = [2, 3]> (c, , s)", "float[2] s = {2, 2}"),
        Form(24, "y = Resize <axes = [-2, -1]> (c, , , n)", "int64[2] n = {16, 16}"),
    ),
    "Softmax of everything but the batch": (
        Form(7, "y = Softmax(c)"),
        Form(11, "y = Softmax <axis = 1> (c)"),
    ),
}


WITHOUT_AN_IMAGE = ("Squeeze", "Unsqueeze", "ReduceMax")
"""What these make has no four axes, so that no convolution can read it."""


@pytest.mark.parametrize("operator", FORMS)
def test_forms_mean_the_same(operator: str) -> None:
    reader = "z = Neg(y)" if operator in WITHOUT_AN_IMAGE else "z = Conv <kernel_shape = [1, 1]> (y, w)"
    first, *others = (network(form, reader) for form in FORMS[operator])
    assert "node" in first.operators[0].nodes
    for other in others:
        assert other.operators == first.operators
        assert other.tensors == first.tensors


@pytest.mark.parametrize("operator", ("Softmax of everything but the batch", "ReduceSum", "Squeeze"))
@pytest.mark.parametrize(("declared", "domain"), [("ai.onnx", ""), ("", "ai.onnx"), ("ai.onnx", "ai.onnx")])
def test_either_name_of_the_standard_domain(operator: str, declared: str, domain: str) -> None:
    form = FORMS[operator][-1]
    assert network(form, "z = Neg(y)", declared, domain) == network(form, "z = Neg(y)")
