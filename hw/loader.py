"""From a preset name or a YAML file to a chip. Every problem of a file is reported at once, with its line."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from hw.chip import Chip
from hw.errors import ChipError
from hw.figures import parse_number
from hw.problems import Location, describe, nearest, shown

_PRESETS = Path(__file__).parent / "presets"
_LARGEST_FILE = 1 << 18
_DEEPEST = 8
_MOST_BRACKETS = 1000
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


def preset_names() -> tuple[str, ...]:
    """Names of the shipped chips, ascending."""
    return tuple(sorted(path.stem for path in _PRESETS.glob("*.yaml")))


def load_chip(name_or_path: str | Path) -> Chip:
    """The chip of a preset name or of a YAML file (``./name`` for a file that is named like a preset).

    Raises ChipError with one line for each problem of the file: ``path:line: key.path: expected ..., got ...``.
    """
    name = str(name_or_path)
    if name in preset_names():
        return _load(_PRESETS / f"{name}.yaml", f"{name}.yaml")
    path = Path(name)
    if not name or (not path.suffix and path.name == name and not path.exists()):
        close = nearest(name, preset_names())
        hint = f"; nearest preset: {close}" if close else ""
        raise ChipError(
            [f"{name or shown(name)}: no preset and no file of this name{hint}; presets: {', '.join(preset_names())}"]
        )
    return _load(path, name)


def _load(path: Path, label: str) -> Chip:
    try:
        if path.is_dir():
            raise ChipError([f"{label}: expected a YAML file, got a directory; presets: {', '.join(preset_names())}"])
        with path.open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ChipError([f"{label}: no such file; presets: {', '.join(preset_names())}"]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ChipError([f"{label}: cannot be read: {reason}"]) from None
    if len(content) > _LARGEST_FILE:
        raise ChipError([f"{label}: expected a file of at most {_LARGEST_FILE:,} bytes"])
    return parse_chip(content, label)


def parse_chip(content: bytes, label: str) -> Chip:
    """The chip that YAML text describes; ``label`` names it in errors. Raises ChipError as ``load_chip`` does."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ChipError([f"{label}:{line}: expected UTF-8 text, got byte 0x{content[error.start]:02x}"]) from None
    root = _compose(text, label)
    if not isinstance(root, MappingNode):
        got = "an empty file" if root is None else "a list" if isinstance(root, SequenceNode) else "a single value"
        raise ChipError([f"{label}:1: expected lines of the form `key: value` (name: ..., array: ...), got {got}"])
    reader = _Reader()
    data = reader.value(root, ())
    problems = reader.problems
    try:
        chip = Chip.model_validate(data)
        if not problems:
            return chip
    except ValidationError as error:
        found = [(reader.line(location), location, text) for location, text in describe(error, Chip)]
        problems += [(line, text) for line, location, text in found if not reader.is_refused(location)]
    raise ChipError([f"{label}:{line}: {text}" for line, text in sorted(problems)])


def _compose(text: str, label: str) -> Node | None:
    if text.count("[") + text.count("{") > _MOST_BRACKETS:  # ruamel's scanner takes quadratic time on nested brackets
        raise ChipError([f"{label}:1: expected at most {_DEEPEST} levels of nesting"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)  # every alias is refused anyway
            node: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ChipError([f"{label}:{mark.line + 1 if mark else 1}: not valid YAML: {error.problem}"]) from None
    except YAMLError as error:
        raise ChipError([f"{label}:1: not valid YAML: {' '.join(str(error).split())}"]) from None
    except RecursionError:
        raise ChipError([f"{label}:1: expected at most {_DEEPEST} levels of nesting"]) from None
    return node


class _Reader:
    """Turns YAML nodes into plain values, keeping the line of each key and all problems."""

    def __init__(self) -> None:
        self.problems: list[tuple[int, str]] = []
        self._refused: set[Location] = set()
        self._lines: dict[Location, int] = {}
        self._seen: set[int] = set()

    def line(self, location: Location) -> int:
        """The line (from 1) of a key, or of the nearest section around it."""
        while location not in self._lines:
            location = location[:-1]
        return self._lines[location]

    def is_refused(self, location: Location) -> bool:
        """Whether the value at ``location`` was not read, so that further problems of it mean nothing."""
        return any(location[:length] in self._refused for length in range(1, len(location) + 1))

    def value(self, node: Node, location: Location) -> object:
        """The value of a node."""
        if id(node) in self._seen:  # the marks of the node are those of its anchor
            self._lines.setdefault(location, self.line(location))
            self._refuse(location, "expected the value itself, got an alias (*name)")
            return None
        self._seen.add(id(node))
        self._lines.setdefault(location, node.start_mark.line + 1)
        if len(location) > _DEEPEST:
            self._refuse(location, f"expected at most {_DEEPEST} levels of nesting")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, location)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*location, str(index))) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return _scalar(node)

    def _mapping(self, node: MappingNode, location: Location) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            line: int = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self.problems.append((line, f"{_path(location)}: expected text as a key, got a collection"))
                continue
            key = str(key_node.value)
            below = (*location, key)
            if key in found:
                first = self._lines[below]
                self.problems.append(
                    (line, f"{_path(below)}: expected each key once, got it again (first on line {first})")
                )
                continue
            self._lines[below] = line
            found[key] = self.value(value_node, below)
        return found

    def _refuse(self, location: Location, text: str) -> None:
        self._refused.add(location)
        self.problems.append((self._lines[location], f"{_path(location)}: {text}"))


def _path(location: Location) -> str:
    return ".".join(location) or "the whole file"


def _scalar(node: ScalarNode) -> object:
    """A plain scalar as YAML 1.2 reads it, with exact numbers; quoted scalars are text."""
    text = str(node.value)
    if node.style is not None:
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    number = parse_number(text)
    return text if number is None else number
