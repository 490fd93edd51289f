"""Chip files that are wrong, or right and extreme: changes to the text of a preset, line by line."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

VALUES = (
    *(
        "",
        "null",
        "~",
        "true",
        "no",
        ".nan",
        ".inf",
        "-.inf",
        "NaN",
        "text",
        "' '",
        '""',
        "'",
        '"',
        '"\\ud800"',
        '"\\x00"',
    ),
    *(
        "0",
        "-1",
        "1",
        "-0",
        "+1",
        "1.0",
        "0.1",
        "1e-400",
        "1e400",
        "1e15",
        "1e16",
        "1000000000000000",
        "9" * 500,
        "1" + "0" * 30,
    ),
    *("1/0", "0/1", "1/3", "1/99999999999999999999", "0x10", "0o17", "1_000", "1,5", "12:30", "2024-01-01", "١٢"),
    *(
        "[]",
        "{}",
        "[1, 2]",
        "{a: b}",
        "[[[[[[[[[[1]]]]]]]]]]",
        "[1, 2",
        "{a: ",
        "- 1",
        "? x",
        "|",
        ">",
        "%",
        "@",
        "`",
        "# no",
    ),
    *(
        "*name",
        "&name 5",
        "&name [*name]",
        "!!int '5'",
        "!!float 5",
        "!!python/object/apply:os.system [true]",
        "!x 5",
        "<<: *a",
    ),
)
"""What takes the place of a value."""

FACTORS = (0, 1, 2, 3, 10, 1000, 10**6, 10**12)
"""What multiplies or divides a number."""

ALIASES = "bomb: &a0 [x, x]\n" + "".join(f"bomb{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
"""Aliases of aliases: nine to the eighth values once expanded."""

_ENTRY = re.compile(r"^(\s*)([\w.]+)(\s*:)(.*)$")
_NUMBER = re.compile(r"\d+(\.\d+)?")
Lines = list[str]


def _set_value(lines: Lines, chance: random.Random) -> None:
    index, indent, key, colon, _ = _entry(lines, chance)
    lines[index] = f"{indent}{key}{colon} {chance.choice(VALUES)}"


def _scale(lines: Lines, chance: random.Random) -> None:
    numbers = [i for i, line in enumerate(lines) if (entry := _ENTRY.match(line)) and _NUMBER.search(entry[4])]
    if not numbers:
        return
    index = chance.choice(numbers)
    entry = _ENTRY.match(lines[index])
    assert entry is not None
    factor, up = chance.choice(FACTORS), chance.random() < 0.6

    def scaled(found: re.Match[str]) -> str:
        value = float(found[0])
        return f"{value * factor if up else max(1, value // max(1, factor)):.0f}"

    lines[index] = entry[1] + entry[2] + entry[3] + _NUMBER.sub(scaled, entry[4], count=1)


def _misspell(lines: Lines, chance: random.Random) -> None:
    index, indent, key, colon, rest = _entry(lines, chance)
    place = chance.randrange(len(key) + 1)
    wrong = chance.choice(
        (key[:place] + key[place + 1 :], key[:place] + "x" + key[place:], key.upper(), "é", "", "a.b", "1")
    )
    lines[index] = indent + wrong + colon + rest


def _delete_line(lines: Lines, chance: random.Random) -> None:
    if lines:
        del lines[chance.randrange(len(lines))]


def _repeat_line(lines: Lines, chance: random.Random) -> None:
    index = chance.randrange(len(lines))
    lines.insert(chance.randrange(len(lines)), lines[index])


def _swap_lines(lines: Lines, chance: random.Random) -> None:
    first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]


def _indent(lines: Lines, chance: random.Random) -> None:
    index = chance.randrange(len(lines))
    lines[index] = chance.choice((" ", "  ", "\t", "")) + (
        lines[index].strip() if chance.random() < 0.3 else lines[index]
    )


def _delete_section(lines: Lines, chance: random.Random) -> None:
    index, indent, *_ = _entry(lines, chance)
    end = index + 1
    while end < len(lines) and lines[end].startswith(indent + " "):
        end += 1
    del lines[index:end]


def _add_aliases(lines: Lines, chance: random.Random) -> None:
    place = chance.choice((0, len(lines)))
    lines[place:place] = ALIASES.splitlines()


def _add_document(lines: Lines, chance: random.Random) -> None:
    lines.insert(
        chance.randrange(len(lines) + 1),
        chance.choice(("---", "...", "%YAML 1.1", "--- !x", "\ufeff", "\u2028", "\x00")),
    )


def _nest(lines: Lines, chance: random.Random) -> None:
    index, indent, key, colon, _ = _entry(lines, chance)
    depth = chance.choice((5, 50, 500, 5000))
    lines[index] = f"{indent}{key}{colon} " + chance.choice(
        ("[" * depth + "]" * depth, "{a: " * depth + "1" + "}" * depth, "- " * depth)
    )


def _entry(lines: Lines, chance: random.Random) -> tuple[int, str, str, str, str]:
    """A line that gives a key a value: its index, indent, key, colon, and the rest."""
    entries = [(i, entry) for i, line in enumerate(lines) if (entry := _ENTRY.match(line))]
    if not entries:
        lines.append("name: x")
        return len(lines) - 1, "", "name", ":", " x"
    index, entry = chance.choice(entries)
    return index, entry[1], entry[2], entry[3], entry[4]


CHANGES: tuple[tuple[Callable[[Lines, random.Random], None], int], ...] = (
    (_scale, 12),
    (_set_value, 10),
    (_misspell, 2),
    (_delete_line, 2),
    (_repeat_line, 1),
    (_swap_lines, 1),
    (_indent, 1),
    (_delete_section, 1),
    (_add_aliases, 1),
    (_add_document, 1),
    (_nest, 1),
)
"""The changes and how often each is made."""


def break_chip(text: str, chance: random.Random) -> tuple[str, list[str]]:
    """The text of a chip file with one to four changes, and their names."""
    lines = text.splitlines()
    changes, shares = zip(*CHANGES, strict=True)
    chosen = chance.choices(changes, shares, k=chance.choice((1, 1, 2, 4)))
    for change in chosen:
        change(lines, chance)
    return "\n".join(lines) + "\n", [change.__name__.strip("_") for change in chosen]
