"""What a chip is: schema, presets, loader and exact unit conversions. Names are imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hw.chip import Chip, WeightFormat
    from hw.errors import ChipError
    from hw.loader import load_chip, preset_names
    from hw.schema import json_schema

__all__ = ["Chip", "ChipError", "WeightFormat", "json_schema", "load_chip", "preset_names"]

_MODULES = {
    "Chip": "hw.chip",
    "ChipError": "hw.errors",
    "WeightFormat": "hw.chip",
    "json_schema": "hw.schema",
    "load_chip": "hw.loader",
    "preset_names": "hw.loader",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
