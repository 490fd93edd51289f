"""Plans from JSON text, with errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from cmswitch.errors import InputError
from cmswitch.naming import nearest
from cmswitch.segmentation.plan import PLAN_VERSION, Plan

_NAMES = {bool: "true or false", int: "a whole number", str: "text", NoneType: "null"}


def load_plan(text: str) -> Plan:
    """The plan that ``text`` (``plan.json``) holds.

    Raises:
        InputError: the text is no JSON, or a field is missing, unknown or of the wrong kind; the message names the field.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InputError(f"the plan is not JSON: {error}") from error
    except RecursionError as error:
        raise InputError("the plan is nested too deeply") from error
    if isinstance(content, dict) and content.get("version", PLAN_VERSION) != PLAN_VERSION:
        raise InputError(f"version: this is a plan of version {content['version']!r}, not {PLAN_VERSION}")
    return cast(Plan, _read(content, Plan, ""))


def _read(value: object, kind: Any, where: str) -> object:
    """``value`` as the dataclass field type ``kind``."""
    if is_dataclass(kind):
        return _read_record(value, cast(type, kind), where)
    origin, choices = get_origin(kind), get_args(kind)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        return tuple(_read(item, choices[0], f"{where}[{i}]") for i, item in enumerate(value))
    if origin is Literal:
        if not isinstance(value, str):
            raise _wrong(where, f"one of {', '.join(choices)}", value)
        if value not in choices:
            raise InputError(f"{where}: unknown value '{value}'{nearest(value, choices)}")
        return value
    record = next((c for c in choices if is_dataclass(c)), None) if origin is UnionType else None
    if record is not None and value is not None:
        return _read_record(value, cast(type, record), where)
    allowed = choices if origin is UnionType else (kind,)
    if type(value) not in allowed:
        raise _wrong(where, " or ".join(_NAMES[a] for a in allowed), value)
    return value


def _read_record(value: object, kind: type, where: str) -> object:
    if not isinstance(value, Mapping):
        raise _wrong(where or "the plan", "a JSON object", value)
    prefix = f"{where}." if where else ""
    types = get_type_hints(kind)
    unknown = [key for key in value if key not in types]
    if unknown:
        raise InputError(f"{prefix}{unknown[0]}: unknown field{nearest(unknown[0], list(types))}")
    given = {}
    for field in fields(kind):
        if field.name in value:
            given[field.name] = _read(value[field.name], types[field.name], prefix + field.name)
        elif field.default is MISSING:
            raise InputError(f"{prefix}{field.name}: missing")
    return kind(**given)


def _wrong(where: str, expected: str, value: object) -> InputError:
    shown = json.dumps(value)
    return InputError(f"{where}: must be {expected}, not {shown if len(shown) <= 40 else shown[:40] + '...'}")
