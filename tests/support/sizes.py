"""How large the slow tests are: small enough for `make test`, in full for `make slow`.

`CALLSHEET_FULL=1` gives the full sizes. `CALLSHEET_EXAMPLES=…` says how many examples every property is
tried with, and is never made fewer.
"""

from __future__ import annotations

import os
from typing import TypeVar

from hypothesis import settings

FULL = os.environ.get("CALLSHEET_FULL", "") not in ("", "0")
EXAMPLES = int(os.environ.get("CALLSHEET_EXAMPLES", "150"))

Size = TypeVar("Size", int, float)


def sized(full: Size, small: Size) -> Size:
    """Return the size of a test: in full if that is asked for, else small."""
    return full if FULL else small


def fewer(part: int = 1, *, small: int = 3) -> settings:
    """Return the settings of a slow property: one in `part` of all examples, in `make test` fewer still."""
    is_small = not FULL and "CALLSHEET_EXAMPLES" not in os.environ
    return settings(max_examples=max(1, EXAMPLES // (part * (small if is_small else 1))))
