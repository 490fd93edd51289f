"""The command line's options as typed values: what is accepted, what belongs to a later version, what is wrong."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, get_args

from cmswitch.naming import nearest
from cmswitch.segmentation.plan import CostModelName
from solvers import solver_names

COST_MODELS = get_args(CostModelName)
FORMULATIONS = ("auto",)
SOLVERS = ("auto", "combinatorial", *solver_names())
SCHEDULES = ("dual-mode", "all-compute", "static")
LATER_SCHEDULES = ("puma", "occ", "cim-mlc")
Calibration = Literal["minmax", "percentile"]
CALIBRATIONS: tuple[Calibration, ...] = ("minmax", "percentile")
Adc = Literal["off", "clip", "round"]
ADCS: tuple[Adc, ...] = ("off", "clip", "round")
Weights = Literal["cold", "resident"]
WEIGHTS: tuple[Weights, ...] = ("cold", "resident")
OBJECTIVES = ("latency",)
LATER_OBJECTIVES = ("energy", "edp")
PHASES = ("prefill",)
LATER_PHASES = ("decode",)

Number = TypeVar("Number", int, int | float)

LARGEST_DIMENSION = 2**31 - 1
LARGEST_SEED = 2**31 - 1
MOST_THREADS = 1024
MOST_LAYERS = 2**31 - 1


@dataclass(frozen=True)
class ModelOptions:
    """A network, the sizes of its symbolic dimensions, and inputs that are constant. ``model`` is a path or ``zoo:NAME``."""

    model: str
    dims: dict[str, int] = field(default_factory=dict)
    batch: int | None = None
    sequence: int | None = None
    values: dict[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class SolveOptions:
    """All of ``cmswitch solve``.

    ``time_limit`` is in seconds, ``gap`` relative (0.001 = 0.1 %); ``weights`` None: what suits the chip.
    """

    network: ModelOptions
    chip: str
    cost_model: str
    formulation: str
    solver: str
    schedule: str
    objective: str
    weights: Weights | None
    phase: str
    time_limit: float | None
    gap: float
    threads: int
    seed: int
    out: Path | None
    json: bool
    quiet: bool
    verbose: bool


@dataclass(frozen=True)
class VerifyOptions:
    """All of ``cmswitch verify``. ``layers``: products that are executed, ``sample``: rows of each (None: all)."""

    network: ModelOptions
    chip: str
    schedule: str
    gap: float
    time_limit: float | None
    inputs: Path | None
    seed: int
    calibration: Calibration
    adc: Adc
    layers: int | None
    sample: int | None
    json: bool
    quiet: bool
    verbose: bool


def choice(available: tuple[str, ...], later: tuple[str, ...] = ()) -> Callable[[str], str]:
    """A type for argparse: one of ``available``; ``later`` are values that exist, but not in this version."""

    def read(value: str) -> str:
        if value in available:
            return value
        if value in later:
            raise argparse.ArgumentTypeError(f"'{value}' is not in this version, which has: {', '.join(available)}")
        raise argparse.ArgumentTypeError(f"unknown value '{value}'{nearest(value, available)}")

    return read


def not_yet(what: str) -> Callable[[str], str]:
    """A type for argparse that refuses every value of an option that is not in this version."""

    def read(value: str) -> str:
        raise argparse.ArgumentTypeError(f"not in this version: {what}; leave the option out")

    return read


def whole_number(smallest: int, largest: int) -> Callable[[str], int]:
    """A type for argparse: an integer in decimal digits from ``smallest`` to ``largest``."""

    def read(value: str) -> int:
        number = int(value) if re.fullmatch(r"[+-]?[0-9]{1,18}", value) else None
        if number is None or not smallest <= number <= largest:
            raise argparse.ArgumentTypeError(f"expected a whole number from {smallest} to {largest}, got '{value}'")
        return number

    return read


def seconds(value: str) -> float:
    """A type for argparse: a finite number of seconds above zero."""
    number = _decimal(value)
    if number is None or number <= 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got '{value}'")
    return number


def relative_gap(value: str) -> float:
    """A type for argparse: a relative gap, at least 0 (prove the optimum exactly) and below 1."""
    number = _decimal(value)
    if number is None or not 0 <= number < 1:
        raise argparse.ArgumentTypeError(f"expected a fraction from 0 to below 1 (0.001 is 0.1 %), got '{value}'")
    return number


def folder(value: str) -> Path:
    """The path of a folder for output."""
    if not value:
        raise argparse.ArgumentTypeError("expected a folder, got nothing")
    return Path(value)


def dimension(value: str) -> tuple[str, int]:
    """A type for argparse: ``NAME=VALUE`` with a whole number; of a dimension that is 0 a tensor has no elements."""
    name, separator, size = value.rpartition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, for example batch=1, got '{value}'")
    try:
        return name, whole_number(0, LARGEST_DIMENSION)(size)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"dimension '{name}': {error}") from None


def constant(value: str) -> tuple[str, int | float]:
    """A type for argparse: ``NAME=VALUE`` with a number."""
    name, _, text = value.rpartition("=")
    number = _decimal(text)
    if not name or number is None:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE with a number, for example sr=16000, got '{value}'")
    return name, int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text) else number


def together(option: str, pairs: Iterable[tuple[str, Number]]) -> dict[str, Number]:
    """All uses of a repeatable ``option`` together. Raises ArgumentTypeError if one name is given two numbers."""
    found: dict[str, Number] = {}
    for name, number in pairs:
        if found.setdefault(name, number) != number:
            raise argparse.ArgumentTypeError(f"argument {option}: '{name}' is given as {found[name]} and as {number}")
    return found


def _decimal(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
