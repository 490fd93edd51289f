"""How far numbers are from what they should be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cmswitch.functional.formats import Array


@dataclass(frozen=True)
class Difference:
    """Largest and mean absolute difference, and the ratio of signal to difference in dB (None: there is no difference)."""

    largest: float
    mean: float
    sqnr_db: float | None


def difference(found: Array, wanted: Array) -> Difference:
    """Of two arrays of one shape; where ``wanted`` is not finite nothing is compared."""
    wanted, found = wanted.astype(np.float64), found.astype(np.float64)
    finite = np.isfinite(wanted)
    error = np.abs(found - wanted)[finite]
    if not error.size:
        return Difference(0.0, 0.0, None)
    noise, signal = float((error**2).sum()), float((wanted[finite] ** 2).sum())
    ratio = 10 * math.log10(signal / noise) if noise > 0 and signal > 0 else None if noise == 0 else -math.inf
    return Difference(float(error.max()), float(error.mean()), ratio)


def cosine(found: Array, wanted: Array) -> float:
    """Cosine of the angle between two arrays taken as vectors."""
    one, other = found.astype(np.float64).reshape(-1), wanted.astype(np.float64).reshape(-1)
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths > 0 else float(np.array_equal(one, other))


def agreement(found: Array, wanted: Array, first: int) -> float | None:
    """Share of vectors along the last axis whose largest wanted element is among the ``first`` largest found."""
    if wanted.ndim == 0 or wanted.shape[-1] <= first:
        return None
    best = wanted.argmax(axis=-1)[..., None]
    order = np.argsort(-found, axis=-1, kind="stable")[..., :first]
    return float((order == best).any(axis=-1).mean())
