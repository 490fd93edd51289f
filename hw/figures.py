"""Exact numbers of a chip file: whole numbers stay integers, decimal text becomes a fraction, nothing is a float."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

LARGEST = 10**15
"""No figure of a chip is larger: a larger one is a slip."""

_MOST_DIGITS = 20
_LARGEST_DENOMINATOR = 10**_MOST_DIGITS  # holds every decimal of a float of ordinary size; exact arithmetic stays fast

DECIMAL = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,2})?"
RATIO = r"[0-9]+/[0-9]+"
_LONGEST_TEXT = 40
_NUMBER = re.compile(f"{DECIMAL}|{RATIO}")


def parse_number(text: str) -> int | Fraction | None:
    """The exact value of a decimal (``102.4``, ``1e3``) or a ratio (``1/3``); None if it is neither, very long or too fine.

    Text without point, exponent or slash gives an ``int``.
    """
    if len(text) > _LONGEST_TEXT or not _NUMBER.fullmatch(text):
        return None
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    try:
        number = Fraction(text)
    except ZeroDivisionError:
        return None
    return number if number.denominator <= _LARGEST_DENOMINATOR else None


def size(value: object) -> Decimal | None:
    """How large a number is, however it is written (infinite ones too); None if ``value`` is no number."""
    text = str(value).lower()
    try:
        if re.fullmatch(f"-?{RATIO}", text):
            numerator, denominator = text.split("/")
            return Decimal(numerator) / Decimal(denominator)
        if re.fullmatch(r"0[box][0-9a-f]{1,40}", text):
            return Decimal(int(text, 0))
        return Decimal(re.sub(r"^([-+]?)\.(?=inf|nan)", r"\1", text))
    except (ArithmeticError, ValueError):  # a division by zero, digits that there are none of
        return None


def unmet(value: object, whole: bool) -> str:
    """What keeps ``value`` from being a figure, if that is not the limits of its key; follows "a number above 0".

    Empty if it is the limits, or if ``value`` is no number at all.
    """
    text, number = str(value), size(value)
    if number is not None and not number.is_finite():
        return "that is finite"
    if number is None or not 0 < number <= LARGEST:
        return ""
    if whole:
        return "in plain digits without quotes" if number == number.to_integral_value() else ""
    if number * _LARGEST_DENOMINATOR < 1:
        return f"(the smallest above 0 is 1e-{_MOST_DIGITS})"
    if len(text) > _LONGEST_TEXT:
        return f"of at most {_LONGEST_TEXT} characters"
    if parse_number(text) is not None:
        return ""
    if _NUMBER.fullmatch(text):
        return f"with at most {_MOST_DIGITS} decimals, or as a ratio with a denominator of at most 1e{_MOST_DIGITS}"
    return "written as 102.4, 1e3 or 1/3"


def _exact(value: object) -> Fraction:
    """Accept an int, a float (by its shortest decimal), a Fraction or decimal text."""
    given = parse_number(str(value)) if isinstance(value, float | str) else value
    if isinstance(given, bool) or not isinstance(given, int | Fraction):
        raise ValueError("not a number")
    number = Fraction(given)
    if abs(number) > LARGEST or number.denominator > _LARGEST_DENOMINATOR:  # a Fraction of Python may be finer
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
