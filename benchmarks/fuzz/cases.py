"""Cases by number: the same seed and number give the same files and the same command, whatever else is run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

import hw
from benchmarks.fuzz import bases
from benchmarks.fuzz.broken_bytes import damage
from benchmarks.fuzz.broken_chips import break_chip
from benchmarks.fuzz.broken_networks import break_network

Kind = Literal["network", "chip"]
BYTES_SHARE = 0.2
"""Share of the cases in which the bytes of the file are damaged, not what they stand for."""
WRONG_SIZES_SHARE = 0.1
"""Share of the networks whose symbolic dimensions are not bound, or bound though there are none."""


@dataclass(frozen=True)
class Case:
    """What is run: the arguments of ``cmswitch``, the folder given to ``--out``, and how the input came about."""

    arguments: list[str]
    out: Path
    base: str
    changes: list[str]


def kind_of(number: int) -> Kind:
    """Even cases break a network, odd ones a chip."""
    return "chip" if number % 2 else "network"


def write_case(seed: int, number: int, folder: Path, time_limit: float) -> Case:
    """Write the files of case ``number`` into ``folder``. Raises MissingNetworkError if its network is not installed."""
    chance = random.Random(f"{seed}/{number}")
    network, chip = folder / "network.onnx", folder / "chip.yaml"
    preset = chance.choice(hw.preset_names())
    if kind_of(number) == "network":
        base = bases.choose(chance)
        content, changes = _broken_network(base, chance)
        network.write_bytes(content)
        given = preset
        sizes = bases.SIZES.get(base, [])
        if chance.random() < WRONG_SIZES_SHARE:
            sizes = chance.choice(([], ["--batch", "2"], ["--seq", "3"], ["--dim", "batch=3"]))
    else:
        base = chance.choice(tuple(bases.SMALL))
        network.write_bytes(bases.load(base).SerializeToString())
        content, changes = _broken_chip(preset, chance)
        chip.write_bytes(content)
        given = str(chip)
        sizes = bases.SIZES.get(base, [])
        base = f"{preset} with {base}"
    options = ["--out", str(folder / "out"), "--time-limit", f"{time_limit:g}", "--quiet"]
    options += chance.choice(
        ([], [], [], ["--schedule", "static"], ["--schedule", "all-compute"], ["--weights", "resident"])
    )
    options += chance.choice(([], [], [], ["--solver", "highs"], ["--solver", "combinatorial"]))
    return Case(["solve", str(network), "--hw", given, *sizes, *options], folder / "out", base, changes)


def _broken_network(base: str, chance: random.Random) -> tuple[bytes, list[str]]:
    model = bases.load(base)
    if chance.random() < BYTES_SHARE:
        return damage(model.SerializeToString(), chance)
    changes = break_network(model, chance)
    return model.SerializeToString(), changes


def _broken_chip(preset: str, chance: random.Random) -> tuple[bytes, list[str]]:
    text = (resources.files("hw") / "presets" / f"{preset}.yaml").read_text(encoding="utf-8")
    if chance.random() < BYTES_SHARE:
        return damage(text.encode(), chance)
    broken, changes = break_chip(text, chance)
    return broken.encode("utf-8", errors="surrogatepass"), changes
