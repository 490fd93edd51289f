"""How numbers are held: unsigned codes of a few bits with a scale and a zero point, packed into bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Calibration = Literal["minmax", "percentile"]

PERCENTILE = 99.99
"""Percent of the elements of a tensor that calibration by percentile keeps within the range on either side."""


SINGLE = np.dtype(np.float32)


@dataclass(frozen=True)
class Format:
    """Codes 0 to 2**bits - 1 that stand for ``(code - zero) * scale``; scale and zero broadcast against the values.

    ``dtype`` is the type in which nodes take the values.
    """

    bits: int
    scale: Array
    zero: Array
    dtype: np.dtype[Any] = SINGLE

    def codes(self, values: Array) -> Array:
        """The nearest codes, int64."""
        wide = np.rint(np.asarray(values, np.float64) / self.scale) + self.zero
        return np.asarray(np.clip(np.nan_to_num(wide), 0, 2**self.bits - 1), np.int64)

    def values(self, codes: Array) -> Array:
        """What codes stand for, float64."""
        return (codes - self.zero) * self.scale

    def pack(self, codes: Array) -> Array:
        """The bytes that hold ``codes``, uint8, most significant bit first."""
        flat = codes.reshape(-1)
        if self.bits == 8:
            return flat.astype(np.uint8)
        shifts = np.arange(self.bits - 1, -1, -1)
        return np.packbits(((flat[:, None] >> shifts) & 1).astype(np.uint8).reshape(-1))

    def unpack(self, data: Array, count: int) -> Array:
        """The first ``count`` codes in ``data``, int64."""
        if self.bits == 8:
            return data[:count].astype(np.int64)
        bits = np.unpackbits(data, count=count * self.bits).reshape(count, self.bits)
        return bits.astype(np.int64) @ (1 << np.arange(self.bits - 1, -1, -1))


@dataclass(frozen=True)
class Raw:
    """Values kept as they are: integers that no calibration touches, and partial sums."""

    dtype: np.dtype[Any]

    def codes(self, values: Array) -> Array:
        """``values``, of this type."""
        return np.asarray(values, self.dtype)

    def values(self, codes: Array) -> Array:
        """``codes``."""
        return codes

    def pack(self, codes: Array) -> Array:
        """The bytes of ``codes``."""
        return np.frombuffer(np.ascontiguousarray(codes).tobytes(), np.uint8)

    def unpack(self, data: Array, count: int) -> Array:
        """The first ``count`` values in ``data``."""
        return np.frombuffer(data.tobytes(), self.dtype, count)


def symmetric(bits: int, low: float, high: float) -> Format:
    """The symmetric format of a range: signed, or unsigned where nothing is negative."""
    signed = low < 0
    zero = 2 ** (bits - 1) if signed else 0
    most = max(1, 2 ** (bits - 1) - 1) if signed else 2**bits - 1
    reach = max(abs(low), abs(high))
    scale = reach / most if reach > 0 and np.isfinite(reach) else 1.0
    return Format(bits, np.array(scale), np.array(zero))


def per_channel(weight: Array, bits: int, channels: Iterable[int]) -> Format:
    """The symmetric signed format of a weight, with a scale for each position along the axes ``channels``."""
    kept = {axis % weight.ndim for axis in channels} if weight.ndim else set()
    others = tuple(axis for axis in range(weight.ndim) if axis not in kept)
    reach = np.abs(weight.astype(np.float64)).max(axis=others, keepdims=True)
    most = max(1, 2 ** (bits - 1) - 1)
    return Format(bits, np.where(reach > 0, reach / most, 1.0), np.array(2 ** (bits - 1)))


def value_range(values: Array, calibration: Calibration) -> tuple[float, float]:
    """Smallest and largest of the finite ``values``, or the percentiles near them."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 0.0
    if calibration == "percentile":
        low, high = np.percentile(finite, (100 - PERCENTILE, PERCENTILE))
        return (0.0 if finite.min() >= 0 else float(low)), float(high)
    return float(finite.min()), float(finite.max())
