"""The cost models by name."""

from __future__ import annotations

from cmswitch.allocation.eq10_pricing import Eq10Pricer
from cmswitch.allocation.machine_pricing import MachinePricer
from cmswitch.allocation.pricing import Pricer

COST_MODELS: dict[str, type[Pricer]] = {model.cost_model: model for model in (MachinePricer, Eq10Pricer)}
