"""What can be wrong with executing a program on numbers."""

from __future__ import annotations

from cmswitch.errors import CmswitchError


class ExecutionError(CmswitchError):
    """A program that cannot be executed on numbers: it reads what nobody wrote, or names what does not exist."""


class UnsupportedNode(CmswitchError):
    """A node that neither evaluator can run: ``str(error)`` says which."""
