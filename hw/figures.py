"""Exact numbers of a chip file: whole numbers stay integers, decimal text becomes a fraction, nothing is a float."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

LARGEST = 10**15
"""No figure of a chip is larger: a larger one is a slip."""

_LARGEST_DENOMINATOR = 10**20  # holds every decimal of a float of ordinary size, and keeps exact arithmetic fast

DECIMAL = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,2})?"
RATIO = r"[0-9]+/[0-9]+"
_LONGEST_TEXT = 40
_MOST_DIGITS = 20
_NUMBER = re.compile(f"{DECIMAL}|{RATIO}")


def parse_number(text: str) -> int | Fraction | None:
    """The exact value of a decimal (``102.4``, ``1e3``) or a ratio (``1/3``); None if ``text`` is neither or very long.

    Text without point, exponent or slash gives an ``int``.
    """
    if len(text) > _LONGEST_TEXT or not _NUMBER.fullmatch(text):
        return None
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    try:
        return Fraction(text)
    except ZeroDivisionError:
        return None


def _exact(value: object) -> Fraction:
    """Accept an int, a float (by its shortest decimal), a Fraction or decimal text."""
    given = parse_number(str(value)) if isinstance(value, float | str) else value
    if isinstance(given, bool) or not isinstance(given, int | Fraction):
        raise ValueError("not a number")
    number = Fraction(given)
    if abs(number) > LARGEST or number.denominator > _LARGEST_DENOMINATOR:
        raise ValueError("not a number in range")
    return number


def _positive(value: object) -> Fraction:
    number = _exact(value)
    if number <= 0:
        raise ValueError("not positive")
    return number


def _not_negative(value: object) -> Fraction:
    number = _exact(value)
    if number < 0:
        raise ValueError("negative")
    return number


def _share(value: object) -> Fraction:
    number = _not_negative(value)
    if number > 1:
        raise ValueError("above 1")
    return number


def plain(number: Fraction) -> int | str:
    """An int if whole, else the shortest exact text: a decimal where one exists, else a ratio."""
    if number.denominator == 1:
        return number.numerator
    rest, twos, fives = number.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    digits = max(twos, fives)
    if rest != 1 or digits > _MOST_DIGITS:
        return f"{number.numerator}/{number.denominator}"
    sign, scaled = "-" if number < 0 else "", abs(number) * 10**digits
    whole, part = divmod(scaled.numerator, 10**digits)
    return f"{sign}{whole}.{part:0{digits}d}"


def _schema(**limits: int) -> dict[str, Any]:
    pattern = f"^({DECIMAL}|{RATIO})$"
    number = {"type": "number", "maximum": LARGEST, **limits}
    return {"anyOf": [number, {"type": "string", "pattern": pattern}]}


Count = Annotated[int, Field(ge=1, le=LARGEST)]
"""A whole number of at least 1."""
Natural = Annotated[int, Field(ge=0, le=LARGEST)]
"""A whole number of at least 0."""
_serialize = PlainSerializer(plain, return_type=int | str)
Positive = Annotated[Fraction, BeforeValidator(_positive), _serialize, WithJsonSchema(_schema(exclusiveMinimum=0))]
"""An exact number above 0."""
NotNegative = Annotated[Fraction, BeforeValidator(_not_negative), _serialize, WithJsonSchema(_schema(minimum=0))]
"""An exact number of at least 0."""
Share = Annotated[Fraction, BeforeValidator(_share), _serialize, WithJsonSchema(_schema(minimum=0, maximum=1))]
"""An exact number from 0 to 1."""
