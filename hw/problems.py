"""From validation errors to lines that a user can act on: where, which key, what was expected, what was found."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from hw.errors import ChipError
from hw.figures import LARGEST, plain, size, unmet

Location = tuple[str, ...]
"""A key path as a tuple of keys."""

_LONGEST_SHOWN = 40


def refuse(expected: str, got: str = "") -> PydanticCustomError:
    """The error of a validator that says itself what it expected, and what it got if that is not the value as given."""
    return PydanticCustomError("expected", "{expected}", {"expected": expected, "got": got})


def unknown_key_path() -> PydanticCustomError:
    """The error of a key that had to be a key path of the description."""
    return PydanticCustomError("unknown_key_path", "unknown key path")


def shown(value: object) -> str:
    """A value as an error message shows it, short."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Fraction):
        return f"{value.numerator}.0" if value.denominator == 1 else str(plain(value))
    if isinstance(value, Mapping):
        return f"a section with the keys {_short(', '.join(map(str, value)))}" if value else "an empty section"
    if isinstance(value, list | tuple):
        return "a list"
    return _short(repr(value) if isinstance(value, str) else str(value))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."


def nearest(word: str, words: Iterable[str]) -> str:
    """The most similar of ``words``; empty if none is similar."""
    return next(iter(difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)), "")


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _node(model: type[BaseModel], location: Sequence[str]) -> dict[str, Any]:
    """The JSON Schema of the value at ``location``; empty if there is none."""
    root = _schema(model)
    node: dict[str, Any] = root
    for key in (*location, None):
        if "$ref" in node:
            node = root["$defs"][node["$ref"].rsplit("/", 1)[1]]
        if key is not None:
            node = node.get("properties", {}).get(key) or node.get("additionalProperties") or {}
            node = node if isinstance(node, dict) else {}
    return node


def _expected(node: Mapping[str, Any], got: object = None) -> str:
    """A JSON Schema in words; the bound that every figure has is named only if ``got`` exceeds it."""
    if "anyOf" in node:
        return _expected(next(choice for choice in node["anyOf"] if choice.get("type") != "null"), got)
    if "const" in node:
        return str(node["const"])
    if "enum" in node:
        return "one of " + ", ".join(str(choice) for choice in node["enum"])
    kind = str(node.get("type"))
    if kind in ("integer", "number"):
        limits = [
            f"{words} {node[limit]}"
            for limit, words in (("exclusiveMinimum", "above"), ("minimum", "of at least"), ("maximum", "at most"))
            if limit in node and (node[limit] != LARGEST or _exceeds(got, LARGEST))
        ]
        whole = kind == "integer"
        return " ".join(
            filter(None, ("a whole number" if whole else "a number", " and ".join(limits), unmet(got, whole)))
        )
    if kind == "object":
        return f"a section with the keys {', '.join(_keys(node))}" if _keys(node) else "a section"
    return {"boolean": "true or false", "string": "text that is not blank"}.get(kind, "a known value")


def _exceeds(value: object, limit: int) -> bool:
    number = size(value)
    return number is not None and number.is_finite() and number > limit


def _keys(node: Mapping[str, Any]) -> list[str]:
    return list(node.get("properties", {}))


def description(path: str, model: type[BaseModel]) -> tuple[str, str]:
    """What the value at a key path must be (a section: its keys), and what it means."""
    location = split_path(path)
    own = _node(model, location[:-1])["properties"][location[-1]]
    return _expected(_node(model, location)), str(own.get("description", ""))


def split_path(path: str) -> Location:
    """The keys of a key path; a key of ``sources`` is itself a key path and stays whole."""
    section, dot, rest = path.partition(".")
    return (section, rest) if dot and section == "sources" else tuple(path.split("."))


@cache
def key_paths(model: type[BaseModel]) -> tuple[str, ...]:
    """All key paths of a description, sections included, in the order of the schema."""

    def below(location: Location) -> list[str]:
        found = []
        for key in _keys(_node(model, location)):
            found += [".".join((*location, key)), *below((*location, key))]
        return found

    return tuple(below(()))


def is_key_path(path: str, model: type[BaseModel]) -> bool:
    """Whether ``path`` can be a key path of a description (the kinds of ``vector.passes`` are free)."""
    location = split_path(path)
    return path in key_paths(model) or bool(location[1:] and _node(model, location) and all(location))


def unknown_path_problem(path: str, model: type[BaseModel]) -> str:
    """The line that says that ``path`` is no key path."""
    return f"{path}: expected a key path of a chip, got {shown(path)}{_suggest(path, key_paths(model))}"


def _suggest(key: str, keys: Sequence[str]) -> str:
    close = nearest(key, keys)
    return f"; nearest key: {close}" if close else f"; keys: {', '.join(keys)}" if len(keys) < 20 else ""


def _line(error: Mapping[str, Any], model: type[BaseModel]) -> tuple[Location, str]:
    """Location and text of one validation error."""
    location = tuple(str(part) for part in error["loc"])
    if error["type"] == "unknown_key_path":
        location = location[:-1]  # the last part marks the key of a mapping
        problem = unknown_path_problem(location[-1], model)
        return location, f"{'.'.join(location[:-1])}.{problem}" if location[:-1] else problem
    path = ".".join(location) or "the whole file"
    if error["type"] == "extra_forbidden":
        owner = f"a key of {'.'.join(location[:-1])}" if location[:-1] else "a key of a chip"
        keys = _keys(_node(model, location[:-1]))
        return location, f"{path}: expected {owner}, got {shown(location[-1])}{_suggest(location[-1], keys)}"
    if error["type"] == "missing":
        expected, meaning = description(path, model)
        what = "key" if meaning else "section"
        return location, f"{path}: this {what} is missing; expected {expected}{meaning and ': '}{meaning}"
    got = error["input"]
    if error["type"] == "expected":
        return location, f"{path}: expected {error['ctx']['expected']}, got {error['ctx']['got'] or shown(got)}"
    return location, f"{path}: expected {_expected(_node(model, location), got)}, got {shown(got)}"


def describe(error: ValidationError, model: type[BaseModel]) -> list[tuple[Location, str]]:
    """All problems of ``error``: the location and the text of each."""
    return [_line(item, model) for item in error.errors(include_url=False)]


def chip_error(error: ValidationError, model: type[BaseModel]) -> ChipError:
    """The ChipError with all problems of ``error``, without line numbers."""
    return ChipError([text for _, text in describe(error, model)])
