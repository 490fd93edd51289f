"""``python -m cmswitch.solve MODEL --hw CHIP``: the same as ``cmswitch solve MODEL --hw CHIP``."""

from __future__ import annotations

import sys

from cmswitch.start import start

if __name__ == "__main__":
    sys.exit(start("solve"))
