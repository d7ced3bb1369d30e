"""Numbers and names as people read them, and text that does nothing to a terminal."""

from __future__ import annotations

import os
import re

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""What moves the cursor, changes colours, or makes text look other than it is."""


def visible(text: str) -> str:
    """Return text in one line, with a mark for each character that does more than stand there."""
    return _UNSEEN.sub("�", text.replace("\t", " ").replace("\n", "⏎"))


def harmless(text: str) -> str:
    """Return one line of output: tabs as spaces, and marks as in `visible`."""
    return _UNSEEN.sub("�", text.expandtabs(8))


def duration_text(milliseconds: float) -> str:
    """Return a duration: `320 ms`, `4.2 s`, `3 min 05 s`."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def bytes_text(count: float) -> str:
    """Return a size: `812 B`, `1.4 MB`."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 999.5 or unit == "GB":
            break
    return f"{count:.0f} {unit}" if count >= 9.95 else f"{count:.1f} {unit}"


def lines_text(count: int) -> str:
    """Return a number of lines."""
    return f"{count:,} line{'' if count == 1 else 's'}"


def path_text(path: str, cwd: str, home: str = "") -> str:
    """Return a path as it is read most easily: from the directory, from home, or whole."""
    for root, begin in ((cwd, ""), (home, "~/")):
        if root and path == root:
            return begin.rstrip("/") or "."
        if root and path.startswith(root.rstrip(os.sep) + os.sep):
            return begin + path[len(root.rstrip(os.sep)) + 1 :]
    return path
