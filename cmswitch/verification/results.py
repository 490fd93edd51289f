"""What a verification finds: operator by operator, and of the network's outputs."""

from __future__ import annotations

from dataclasses import dataclass

from cmswitch.functional.compare import Difference


@dataclass(frozen=True)
class Checked:
    """One operator: ``integers`` against the reference's chain (None: no difference, or no product), ``own`` against the
    reference on the codes that it took itself, ``floats`` of its tensors against the network on floats.

    ``status``: ``exact``, ``deviates`` or ``not executed``, then with the ``reason``.
    """

    name: str
    product: bool
    status: str
    integers: Difference | None = None
    own: Difference | None = None
    floats: Difference | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Output:
    """A network output against onnxruntime on floats; ``top1`` and ``top5`` None where it has too few classes."""

    name: str
    cosine: float
    largest: float
    top1: float | None
    top5: float | None


@dataclass(frozen=True)
class Verification:
    """All operators in order, and the outputs. ``error``: why the program stopped early. ``float_error``: the largest
    difference between the network's nodes one by one and onnxruntime on the whole file, relative to the largest number."""

    operators: tuple[Checked, ...]
    outputs: tuple[Output, ...]
    error: str | None
    whole: bool
    float_error: float | None

    @property
    def exact(self) -> bool:
        """Whether every operator that was executed is exact, and the program ran to its end."""
        return self.error is None and all(o.status != "deviates" for o in self.operators)

    @property
    def first_deviation(self) -> str | None:
        """The first operator that is not exact."""
        return next((o.name for o in self.operators if o.status == "deviates"), None)

    @property
    def worst(self) -> str | None:
        """The operator whose own sums are worst, by their signal-to-noise ratio."""
        found = [(o.own.sqnr_db, o.name) for o in self.operators if o.own is not None and o.own.sqnr_db is not None]
        return min(found)[1] if found else None
