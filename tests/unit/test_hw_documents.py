"""What is generated from the schema and the presets is up to date, and every shipped figure has a source."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import hw
from hw.__main__ import schema_text
from hw.documents import fields_table, figures, sourced_path, sources_page

PACKAGE = Path(hw.__file__).parent
CHIPS_PAGE = PACKAGE.parent / "docs" / "chips.md"


@pytest.mark.parametrize("name", hw.preset_names())
def test_every_figure_has_a_source(name: str) -> None:
    chip = hw.load_chip(name)
    assert [path for path in figures(chip) if sourced_path(chip, path) is None] == []
    sections = {path for path in chip.sources if path not in figures(chip)}
    assert sections <= {"precision", "vector.passes"}


@pytest.mark.parametrize("name", hw.preset_names())
def test_preset_is_named_like_its_file(name: str) -> None:
    assert hw.load_chip(name).name == name


def test_figures_are_the_numbers_of_a_chip() -> None:
    found = figures(hw.load_chip("dynaplasia"))
    assert found["main_memory.bandwidth"] == "102.4"
    assert found["vector.passes.view"] == 0
    assert not {"schema_version", "name", "modes.switchable", "modes.method"} & set(found)


def test_schema_is_up_to_date() -> None:
    assert (PACKAGE / "chip.schema.json").read_text(encoding="utf-8") == schema_text(), "run: python -m hw schema"


def test_sources_are_up_to_date() -> None:
    assert (PACKAGE / "SOURCES.md").read_text(encoding="utf-8") == sources_page(), "run: python -m hw sources"


def test_fields_in_the_documentation_are_up_to_date() -> None:
    assert fields_table() in CHIPS_PAGE.read_text(encoding="utf-8"), "run: python -m hw fields"


def test_schema_of_a_number_and_of_modes() -> None:
    schema = hw.json_schema()
    bandwidth = schema["$defs"]["MainMemory"]["properties"]["bandwidth"]["anyOf"]
    assert bandwidth[0] == {"type": "number", "maximum": 10**15, "exclusiveMinimum": 0}
    assert re.fullmatch(bandwidth[1]["pattern"], "102.4")
    assert schema["$defs"]["Modes"]["required"] == ["switchable"]
    assert "capacity_fraction" in schema["$defs"]["Modes"]["then"]["required"]
    assert schema["additionalProperties"] is False
    json.dumps(schema)
