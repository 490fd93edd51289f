"""Networks built on the spot by name, with weights by shape only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

import onnx

from cmswitch.errors import InputError
from cmswitch.graph.zoo.convolutional import mobilenet_v2, resnet18, resnet50, vgg16
from cmswitch.graph.zoo.transformers import bert_large, vit_base

ZOO_PREFIX = "zoo:"


@dataclass(frozen=True)
class ZooEntry:
    """``make`` builds the model with symbolic dimensions ``batch`` (1 unless bound) and, if ``seq`` is given, ``seq``."""

    make: Callable[[], onnx.ModelProto]
    seq: int | None = None

    @property
    def defaults(self) -> dict[str, int]:
        """Sizes of the symbolic dimensions that the user does not bind."""
        return {"batch": 1} if self.seq is None else {"batch": 1, "seq": self.seq}


ZOO: dict[str, ZooEntry] = {
    "resnet18": ZooEntry(resnet18),
    "resnet50": ZooEntry(resnet50),
    "vgg16": ZooEntry(vgg16),
    "mobilenet_v2": ZooEntry(mobilenet_v2),
    "bert-large": ZooEntry(bert_large, seq=64),
    "vit-base": ZooEntry(vit_base),
}
"""Every network of the zoo by name."""


def zoo_entry(name: str) -> ZooEntry:
    """The entry called ``name``. Raises InputError that names the nearest one."""
    if name in ZOO:
        return ZOO[name]
    raise InputError(f"{ZOO_PREFIX}{name}: no such network{meant(name, 0.4)}; there are {', '.join(ZOO)}")


def meant(name: str, alike: float = 0.5) -> str:
    """`` (did you mean `zoo:x`?)`` if a network of the zoo is ``alike`` (from 0, whatever it is, to 1) in name; else empty."""
    near = get_close_matches(name.lower(), ZOO, 1, alike)
    return f" (did you mean `{ZOO_PREFIX}{near[0]}`?)" if near else ""
