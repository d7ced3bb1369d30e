"""How much memory this process holds now, and how much it held at most."""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc/self")


def now() -> float:
    """Return the mebibytes held now; where that isn't told, the most that ever were."""
    gc.collect()
    try:
        pages = int((_PROC / "statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return _most_ever()
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def forget_peak() -> None:
    """Let the peak begin anew from what is held now, where the system can do that."""
    with suppress(OSError):
        (_PROC / "clear_refs").write_text("5", encoding="ascii")


def peak() -> float:
    """Return the most mebibytes that were held, since the peak was forgotten.

    Linux tells it of this program alone; `ru_maxrss` also counts the one that started it.
    """
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", (_PROC / "status").read_text(encoding="utf-8"))
        if found:
            return int(found[1]) / 2**10
    return _most_ever()


def _most_ever() -> float:
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 2**20 if sys.platform == "darwin" else most / 2**10
