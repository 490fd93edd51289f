"""The parts of the documentation that are generated from the schema and the presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hw.chip import Chip
from hw.figures import parse_number
from hw.loader import load_chip, preset_names
from hw.problems import description, key_paths

_SOURCES_HEAD = """# Sources of the preset figures

Generated from `hw/presets/*.yaml` by `python -m hw sources`. `assumed` says that no publication gives the figure and why
this one was chosen; `derived` gives the arithmetic. Publications:

* ASPLOS'25: CMSwitch, arXiv 2502.17006. Read in its own text.
* JSSC 59(1): DynaPlasia, IEEE Journal of Solid-State Circuits 59(1), 2024. The abstract was read in its own text; what is marked
  "reading notes" in a public note on the paper.
* ISCA'16: PRIME, ISCA 2016. Read in a public transcription (dyigitpolat/mimarsinan,
  `docs/research/physics/prime_constants_research.md`), not in the paper itself.
"""


def fields_table() -> str:
    """A Markdown table of every key of a chip file with its value and meaning."""
    lines = ["| key | value | meaning |", "|---|---|---|"]
    for path in key_paths(Chip):
        value, meaning = description(path, Chip)
        if meaning:  # a section is explained by its keys
            lines.append(f"| `{path}` | {value} | {meaning} |")
    return "\n".join(lines) + "\n"


def figures(chip: Chip) -> dict[str, object]:
    """Every number that ``chip`` is described by: key path -> exact value. ``schema_version`` is none of them."""

    def below(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, object]]:
        for key, value in data.items():
            if isinstance(value, Mapping):
                yield from below(value, f"{prefix}{key}.")
            elif _is_number(value):
                yield f"{prefix}{key}", value

    data = chip.to_mapping()
    return dict(below({key: data[key] for key in data if key not in ("sources", "schema_version")}, ""))


def sourced_path(chip: Chip, path: str) -> str | None:
    """The key of ``sources`` that covers the figure at ``path``: its own, or that of the section around it; None if none."""
    while path and path not in chip.sources:
        path = path.rpartition(".")[0]
    return path or None


def sources_page() -> str:
    """The Markdown page that lists the source of every figure of every preset."""
    blocks = [_SOURCES_HEAD]
    for name in preset_names():
        chip = load_chip(name)
        values: dict[str, list[str]] = {}
        for path, value in figures(chip).items():
            covering = sourced_path(chip, path) or path
            key = path.removeprefix(covering).removeprefix(".")
            values.setdefault(covering, []).append(f"{key} {value}".strip())
        rows = [f"| `{path}` | {', '.join(values[path])} | {chip.sources.get(path, '')} |" for path in values]
        blocks.append(
            f"\n## {name}\n\n{chip.technology}\n\n| figure | value | source |\n|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    return "".join(blocks)


def _is_number(value: object) -> bool:
    exact = isinstance(value, str) and parse_number(value) is not None
    return exact or (isinstance(value, int) and not isinstance(value, bool))
