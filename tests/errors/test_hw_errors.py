"""The messages for chip files that cannot be used: all problems at once, each with line, key, expectation and finding."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import hw
from hw.errors import MOST_SHOWN
from hw.loader import parse_chip
from hw.problems import description, key_paths

PRESET = Path(hw.__file__).parent / "presets" / "dynaplasia.yaml"
LINES = PRESET.read_text(encoding="utf-8").splitlines()


def line_of(start: str, section: str = "") -> int:
    """The line (from 1) of the preset that starts with ``start``, after the line ``section:`` if one is given."""
    first = LINES.index(f"{section}:") if section else 0
    return next(number for number, line in enumerate(LINES, 1) if number > first and line.startswith(start))


def problems(*edits: tuple[str, str, str]) -> list[str]:
    """Problems of the preset with lines replaced: (section, start of the line, new line or lines)."""
    lines = list(LINES)
    for section, start, new in edits:
        lines[line_of(start, section) - 1] = new
    with pytest.raises(hw.ChipError) as caught:
        parse_chip("\n".join(lines).encode(), "my.yaml")
    assert str(caught.value).splitlines() == list(caught.value.problems)
    return list(caught.value.problems)


def refused(name: str | Path) -> str:
    """The text of the error for a name or path."""
    with pytest.raises(hw.ChipError) as caught:
        hw.load_chip(name)
    return str(caught.value)


ROWS = ("array", "  rows:")
LINE = line_of("  rows:", "array")

VALUES = {
    "320.5": "expected a whole number of at least 1, got 320.5",
    "many": "expected a whole number of at least 1, got 'many'",
    '"320"': "expected a whole number of at least 1 in plain digits without quotes, got '320'",
    "320.0": "expected a whole number of at least 1 in plain digits without quotes, got 320.0",
    "0x1F4": "expected a whole number of at least 1 in plain digits without quotes, got '0x1F4'",
    "1e-300": "expected a whole number of at least 1, got '1e-300'",
    "true": "expected a whole number of at least 1, got true",
    "-3": "expected a whole number of at least 1, got -3",
    "0": "expected a whole number of at least 1, got 0",
    "": "expected a whole number of at least 1, got no value",
    "[320]": "expected a whole number of at least 1, got a list",
    "{a: 1, b: 2}": "expected a whole number of at least 1, got a section with the keys a, b",
    "{}": "expected a whole number of at least 1, got an empty section",
    ".inf": "expected a whole number of at least 1 that is finite, got '.inf'",
    "1" + "0" * 20: "expected a whole number of at least 1 and at most 1000000000000000, got 100000000000000000000",
    "9" * 5000: "expected a whole number of at least 1 and at most 1000000000000000, got '" + "9" * 39 + "...",
}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:10] or "empty")
def test_wrong_value_of_a_whole_number(value: str) -> None:
    rows_alone = ("array", "  max_active_rows:", "  max_active_rows: 1")
    assert problems((*ROWS, f"  rows: {value}"), rows_alone) == [f"my.yaml:{LINE}: array.rows: {VALUES[value]}"]


EXACT = {
    "0": "above 0, got 0",
    "-1": "above 0, got -1",
    "-1e400": "above 0, got '-1e400'",
    "1/0": "above 0, got '1/0'",
    "fast": "above 0, got 'fast'",
    "null": "above 0, got no value",
    ".nan": "above 0 that is finite, got '.nan'",
    ".inf": "above 0 that is finite, got '.inf'",
    "1e400": "above 0 and at most 1000000000000000, got '1e400'",
    "1e16": "above 0 and at most 1000000000000000, got 10000000000000000.0",
    "1e-300": "above 0 (the smallest above 0 is 1e-20), got '1e-300'",
    "1e-21": "above 0 (the smallest above 0 is 1e-20), got '1e-21'",
    "0x1F4": "above 0 written as 102.4, 1e3 or 1/3, got '0x1F4'",
    "1_000": "above 0 written as 102.4, 1e3 or 1/3, got '1_000'",
    "0." + "1" * 50: "above 0 of at most 40 characters, got '0." + "1" * 37 + "...",
    "1.000000000000000000001": "above 0 with at most 20 decimals, or as a ratio with a denominator of at most 1e20, "
    "got '1.000000000000000000001'",
}


@pytest.mark.parametrize("value", EXACT, ids=lambda value: value[:10])
def test_wrong_value_of_an_exact_number(value: str) -> None:
    line = line_of("  bandwidth:", "main_memory")
    assert problems(("main_memory", "  bandwidth:", f"  bandwidth: {value}")) == [
        f"my.yaml:{line}: main_memory.bandwidth: expected a number {EXACT[value]}"
    ]


def test_a_number_above_its_limit_is_told_the_limit_alone() -> None:
    line = line_of("  capacity_fraction:")
    assert problems(("modes", "  capacity_fraction:", "  capacity_fraction: 9")) == [
        f"my.yaml:{line}: modes.capacity_fraction: expected a number of at least 0 and at most 1, got 9"
    ]


def test_the_smallest_number_is_allowed() -> None:
    chip = hw.load_chip("dynaplasia").with_changes(**{"main_memory.bandwidth": "1e-20"})
    assert chip.main_cycles(1) == 10**20


def test_unknown_key_names_the_nearest() -> None:
    assert problems((*ROWS, "  rows: 320\n  row: 320")) == [
        f"my.yaml:{LINE + 1}: array.row: expected a key of array, got 'row'; nearest key: rows"
    ]


def test_unknown_key_of_the_file() -> None:
    assert problems(("", "cut_inner:", "cut_inner: true\nclock: 3")) == [
        f"my.yaml:{line_of('cut_inner:') + 1}: clock: expected a key of a chip, got 'clock'; nearest key: clock_mhz"
    ]


def test_all_problems_at_once_in_the_order_of_the_lines() -> None:
    assert problems(
        ("modes", "  ports:", "  ports: 3"),
        ("array", "  columns:", "  colums: 320"),
        ("", "interface:", "interface: cell"),
    ) == [
        f"my.yaml:{line_of('interface:')}: interface: expected one of core, array, row, got 'cell'",
        f"my.yaml:{line_of('array:')}: array.columns: this key is missing; expected a whole number of at least 1: cell columns",
        f"my.yaml:{line_of('  columns:')}: array.colums: expected a key of array, got 'colums'; nearest key: columns",
        f"my.yaml:{line_of('  ports:')}: modes.ports: expected one of 1, 2, got 3",
    ]


def test_a_key_without_a_description_is_a_section() -> None:
    """What is missing is named by this."""
    paths = key_paths(hw.Chip)
    sections = {path for path in paths if any(other.startswith(f"{path}.") for other in paths)}
    assert sections == {path for path in paths if not description(path, hw.Chip)[1]}


def test_missing_section() -> None:
    with pytest.raises(hw.ChipError) as caught:
        parse_chip(b"name: x\ntechnology: y", "my.yaml")
    assert (
        "my.yaml:1: buffer: this section is missing; expected a section with the keys capacity_bytes, bandwidth"
        in caught.value.problems
    )
    assert len(caught.value.problems) == 12


def test_duplicate_key() -> None:
    assert problems((*ROWS, "  rows: 320\n  rows: 640")) == [
        f"my.yaml:{LINE + 1}: array.rows: expected each key once, got it again (first on line {LINE})"
    ]


def test_figures_that_contradict_each_other() -> None:
    assert problems(("array", "  max_active_rows:", "  max_active_rows: 321")) == [
        f"my.yaml:{line_of('  max_active_rows:')}: array.max_active_rows: "
        "expected a whole number of at most rows (320), got 321"
    ]
    assert problems(("modes", "  capacity_fraction:", "  capacity_fraction: 0.00001")) == [
        f"my.yaml:{line_of('modes:')}: modes: expected an array of at least 8 bits in memory mode, "
        "got 102400 cell bits x capacity_fraction 0.00001"
    ]


def test_switchable_chip_needs_a_memory_mode() -> None:
    assert problems(("modes", "  bandwidth:", "  bandwidth: 0")) == [
        f"my.yaml:{line_of('  bandwidth:', 'modes')}: modes.bandwidth: expected a number above 0 on a switchable chip, got 0"
    ]


def test_passes_need_a_default() -> None:
    assert problems(("vector", "    default:", "")) == [
        f"my.yaml:{line_of('  passes:')}: vector.passes: expected a section with the key 'default', "
        "for every kind that it does not list, got a section with the keys view, copy, elementwise, add, pool, redu..."
    ]


def test_source_of_an_unknown_figure() -> None:
    assert problems(("sources", "  array.rows:", '  array.rowz: "Table 2"')) == [
        f"my.yaml:{line_of('  array.rows:')}: sources.array.rowz: "
        "expected a key path of a chip, got 'array.rowz'; nearest key: array.rows"
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "my.yaml:1: expected lines of the form `key: value` (name: ..., array: ...), got an empty file"),
        (b"- a\n- b\n", "my.yaml:1: expected lines of the form `key: value` (name: ..., array: ...), got a list"),
        (
            b"just text",
            "my.yaml:1: expected lines of the form `key: value` (name: ..., array: ...), got a single value",
        ),
        (b"name: x\narray: [1\n", "my.yaml:3: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        (b"name: x\n--- \nname: y\n", "my.yaml:2: not valid YAML: but found another document"),
        (b"name: x\ntechnology: \xff\n", "my.yaml:2: expected UTF-8 text, got byte 0xff"),
        (b"[" * 10_000, "my.yaml:1: expected at most 8 levels of nesting"),
        (b" " * 300_000, "my.yaml: expected a file of at most 262,144 bytes"),
    ],
    ids=["empty", "list", "scalar", "syntax", "two documents", "not UTF-8", "deep", "large"],
)
def test_file_that_is_no_chip_file(
    content: bytes, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_bytes(content)
    assert refused("my.yaml") == problem


def test_control_characters_are_one_line() -> None:
    with pytest.raises(hw.ChipError) as caught:
        parse_chip(b"name: \x00", "my.yaml")
    assert str(caught.value).startswith("my.yaml:1: not valid YAML: ")
    assert len(str(caught.value).splitlines()) == 1


def test_aliases_are_refused_before_they_multiply() -> None:
    bomb = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))
    with pytest.raises(hw.ChipError) as caught:
        parse_chip(bomb.encode(), "my.yaml")
    assert "my.yaml:2: b.0: expected the value itself, got an alias (*name)" in caught.value.problems
    assert len(caught.value.problems) < 50


def test_alias_to_itself() -> None:
    assert problems((*ROWS, "  rows: &r [*r]")) == [
        f"my.yaml:{LINE}: array.rows.0: expected the value itself, got an alias (*name)",
        f"my.yaml:{LINE}: array.rows: expected a whole number of at least 1, got a list",
    ]


def test_keys_that_are_no_text() -> None:
    assert problems((*ROWS, "  rows: 320\n  ? [a]\n  : 1")) == [
        f"my.yaml:{LINE + 1}: array: expected text as a key, got a collection"
    ]


def test_unknown_preset() -> None:
    assert refused("dynaplasai") == (
        "dynaplasai: no preset and no file of this name; nearest preset: dynaplasia; presets: dynaplasia, prime"
    )


def test_missing_file() -> None:
    assert refused("nowhere/chip.yaml") == "nowhere/chip.yaml: no such file; presets: dynaplasia, prime"


def test_directory(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"{tmp_path}: expected a YAML file, got a directory; presets: dynaplasia, prime"


def test_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert refused(tmp_path / "file" / "chip.yaml").startswith(f"{tmp_path}/file/chip.yaml: cannot be read: ")


def test_name_with_a_nul_byte() -> None:
    assert "cannot be read" in refused("a\0.yaml")


def test_empty_name() -> None:
    assert refused("") == "'': no preset and no file of this name; presets: dynaplasia, prime"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"main_memory.bandwith": 1},
            "main_memory.bandwith: expected a key path of a chip, got 'main_memory.bandwith'; "
            "nearest key: main_memory.bandwidth",
        ),
        ({"array.rows": 0, "array.max_active_rows": 1}, "array.rows: expected a whole number of at least 1, got 0"),
        ({"buffer.bandwidth": float("nan")}, "buffer.bandwidth: expected a number above 0 that is finite, got nan"),
        ({"name.first": "x"}, "name.first: expected a key path of a chip, got 'name.first'; nearest key: name"),
        ({"buffer": 3}, "buffer: expected a section with the keys capacity_bytes, bandwidth, got 3"),
    ],
)
def test_changes_that_are_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(hw.ChipError) as caught:
        hw.load_chip("dynaplasia").with_changes(**changes)
    assert str(caught.value) == problem


def test_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(hw.ChipError(["a", "b"])))
    assert (error.problems, str(error)) == (("a", "b"), "a\nb")


def test_an_anchor_twice_gives_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(hw.ChipError):
        parse_chip(b"name: &a x\ntechnology: &a y\n", "my.yaml")
    assert not recwarn.list


def test_only_the_first_problems_are_shown() -> None:
    aliases = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 40))
    with pytest.raises(hw.ChipError) as caught:
        parse_chip(aliases.encode(), "bomb.yaml")
    lines = str(caught.value).splitlines()
    assert len(lines) == MOST_SHOWN + 1
    assert lines[:-1] == list(caught.value.problems[:MOST_SHOWN])
    more = len(caught.value.problems) - MOST_SHOWN
    assert more > 0
    assert lines[-1] == f"and {more} more like these; mend the first ones and try again"
