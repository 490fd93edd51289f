"""The JSON Schema of a chip file, for editors."""

from __future__ import annotations

from typing import Any

from hw.chip import Chip


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a chip file, generated from the models."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Chip.model_json_schema()}
