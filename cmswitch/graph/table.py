"""Tables of what is known of operators, by (domain, operator)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

MICROSOFT, ML, TRAINING = "com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"
"""Domains of operators besides ONNX's own, whose name is empty."""

INTERNAL = "cmswitch"
"""Domain of operators that exist only between an expansion and the rule that maps them."""

Entry = TypeVar("Entry")


class Table(dict[tuple[str, str], Entry]):
    """Entries by (domain, operator), each written next to the operators that it is for."""

    def of(self, *operators: str, domain: str = "") -> Callable[[Entry], Entry]:
        """A decorator: the entry of ``operators`` of ``domain``. Raises ValueError for one that has an entry already."""

        def add(entry: Entry) -> Entry:
            for operator in operators:
                if self.setdefault((domain, operator), entry) is not entry:
                    raise ValueError(f"{operator} of domain {domain!r} is in the table twice")
            return entry

        return add
