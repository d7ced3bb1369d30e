"""What stands in a secret's place: `[redacted:RULE]`, and `[redacted:RULE#2]` for a second one.

Nothing in a mark is derived from the secret, so nothing can be guessed from it. To give the same
secret the same mark again, only its hash is kept, and Python's hashes are keyed anew in
each process. `MARKS` is shared by all redactors of a process, so that one secret has one mark in every
field and session, whichever rule finds it.
"""

from __future__ import annotations

import re
from collections import Counter
from threading import Lock

LIMIT = 10_000
"""So many secrets are told apart. Those that come later share their rule's last mark."""

IDENTITY = 4096
"""So many bytes tell a secret from others; a stream needn't keep more of it."""

MARK = re.compile(rb"\[redacted:[A-Za-z0-9][A-Za-z0-9_.-]{0,63}(?:#(?:\d{1,9}|more))?\]")

OPENING = b"[redacted:"

MARK_BEGUN = re.compile(
    b"(?:" + b"|".join(re.escape(OPENING[:size]) for size in range(1, len(OPENING))) + b"|"
    + re.escape(OPENING) + rb"[A-Za-z0-9_.-]{0,64}(?:#\w{0,9})?)"
)  # fmt: skip
"""A mark that is not finished."""


class Marks:
    """Gives out marks, and remembers which secret has which."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._known: dict[int, bytes] = {}
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def mark(self, rule: str, secret: bytes) -> bytes:
        """Return the mark of a secret: the one it has, or a new one with this rule's name."""
        key = hash(secret[:IDENTITY])
        found = self._known.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._known:
                if len(self._known) >= self._limit:
                    return f"[redacted:{rule}#more]".encode()
                self._counts[rule] += 1
                count = self._counts[rule]
                number = f"#{count}" if count > 1 else ""
                self._known[key] = f"[redacted:{rule}{number}]".encode()
            return self._known[key]


MARKS = Marks()


def has_marks(data: bytes) -> bool:
    """Whether marks may stand in this text."""
    return OPENING in data


def mark_around(data: bytes, place: int) -> int:
    """Return where the mark around this place begins, or the place itself, so that no mark is cut."""
    start = data.rfind(OPENING, max(0, place - 84), place + len(OPENING))
    mark = MARK.match(data, start) if start >= 0 else None
    return start if mark and mark.end() > place > start else place


def alike(data: bytes) -> bytes:
    """Return the data with all marks alike, so that no judgement depends on the number in one."""
    return MARK.sub(b"[redacted:x]", data) if OPENING in data else data


def only_marks(secret: bytes) -> bool:
    """Whether nothing secret is left: there are marks, and around them at most what joins words."""
    return OPENING in secret and not MARK.sub(b"", secret).strip(b" \t,;:=&/.\"'")
