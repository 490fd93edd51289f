"""The independent plan checker: recomputes every constraint and cost of a plan from the machine model.

It shares no code with the formulations, the search or their cost functions (but the cut along N, which renames operators),
so that a slip in one of them is a disagreement and not a common belief.
"""

from cmswitch.checker.check import CheckReport, check_plan
from cmswitch.checker.loading import load_plan
from cmswitch.checker.rules import Violation

__all__ = ["CheckReport", "Violation", "check_plan", "load_plan"]
