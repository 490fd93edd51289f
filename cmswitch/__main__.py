"""``python -m cmswitch``: the command line."""

from __future__ import annotations

import sys

from cmswitch.start import start

if __name__ == "__main__":
    sys.exit(start())
