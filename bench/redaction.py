"""How fast secrets are found: real source code in pieces of 5 KB, and a made-up key in one of twenty.

Before anything is timed, every key must have been found, and nothing else.
"""

from __future__ import annotations

import argparse
import ast
import http.client
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from statistics import median
from typing import Any

from callsheet.redaction import assignments
from callsheet.redaction.patterns import simplified
from callsheet.redaction.redactor import Redactor, default_rules
from callsheet.redaction.rules import fill

from .table import Claim, Figures, Subject
from .timing import Batch, interleave, ratio, repeat

FAST_ROUNDS = 41
SLOW_ROUNDS = 5
SECONDS = 0.05
PIECE = 5000
PIECES = 20

OURS = "callsheet with re2"
BARE = "re2 alone, the same rules in a Set"
UNION = "re, all rules in one pattern"
PEER = "detect-secrets"


def measure() -> Subject:
    """Time all peers that are here: the fast ones among themselves, so that none waits for a slow one."""
    texts = _texts()
    redactor = Redactor()
    _check(redactor, texts)
    data = [text.encode() for text in texts]
    fast = {OURS: _over(redactor.text, texts), BARE: _over(_bare_re2(), data)}
    slow = {OURS: fast[OURS]}
    slow[UNION] = _over(_union(), data)
    notes = [
        f"{len(texts)} pieces of {PIECE:,} bytes, {len(default_rules())} rules and telling names",
        "the bare engines only say that something is there",
    ]
    if find_spec("detect_secrets"):
        slow[PEER] = _detect_secrets(texts)
    else:
        notes.append("detect-secrets is left out: it is not installed")
    took = interleave(fast, rounds=FAST_ROUNDS, seconds=SECONDS)
    took_slowly = interleave(slow, rounds=SLOW_ROUNDS, seconds=SECONDS)
    return _subject(took, took_slowly, sum(map(len, texts)), notes)


def _texts() -> list[str]:
    """Return pieces of real source code. Each twentieth has a key in it."""
    source = "".join(map(inspect.getsource, (argparse, ast, http.client, textwrap)))
    pieces = [source[n * PIECE : (n + 1) * PIECE] for n in range(PIECES)]
    key = f"\nexport GITHUB_TOKEN={fill('ghp_{alnum:36}')}\n"
    return [piece[: -len(key)] + key if n % 20 == 19 else piece for n, piece in enumerate(pieces)]


def _check(redactor: Redactor, texts: Sequence[str]) -> None:
    if [redactor.text(text)[1] for text in texts] != [int(n % 20 == 19) for n in range(len(texts))]:
        raise RuntimeError("the keys are not found, or more than the keys; nothing to compare")


def _over(work: Callable[[Any], object], texts: Sequence[Any]) -> Batch:
    return repeat(lambda: [work(text) for text in texts])


def _patterns() -> list[bytes]:
    rules = [simplified(rule.pattern.encode()) for rule in default_rules()]
    return [*rules, *assignments.pairs()[:2]]


def _bare_re2() -> Callable[[bytes], object]:
    import re2  # pyright: ignore[reportMissingTypeStubs]

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.max_mem = 64 << 20
    rules = re2.Set.SearchSet(options)
    for pattern in _patterns():
        rules.Add(pattern)
    rules.Compile()
    return rules.Match


def _union() -> Callable[[bytes], object]:
    union = re.compile(b"|".join(b"(?:" + pattern + b")" for pattern in _patterns()))
    return lambda data: [match.start() for match in union.finditer(data)]


def _detect_secrets(texts: Sequence[str]) -> Batch:
    from detect_secrets.core.scan import scan_line
    from detect_secrets.settings import default_settings

    def work() -> None:
        with default_settings():
            for text in texts:
                for line in text.splitlines():
                    list(scan_line(line))

    return repeat(work)


def _subject(
    fast: dict[str, list[float]], slow: dict[str, list[float]], size: int, notes: list[str]
) -> Subject:
    speeds = {name: [size / micros for micros in values] for name, values in (slow | fast).items()}
    middle = {name: median(values) for name, values in speeds.items()}
    claims = [
        Claim("redaction, callsheet with re2 / re2 alone", ratio(fast[OURS], fast[BARE]), 1.5)
    ]
    if PEER in slow:
        times = ratio(slow[PEER], slow[OURS])
        claims.append(Claim("redaction, detect-secrets / callsheet with re2", times, 100, True))
    rows = [
        (name, f"{middle[name]:,.2f}", f"{min(speeds[name]):,.2f}–{max(speeds[name]):,.2f}")
        for name in sorted(middle, key=lambda name: -middle[name])
    ]
    kept: Figures = {"megabytes_per_second": {name: round(middle[name], 3) for name in middle}}
    head = ("engine", "MB/s", "min–max")
    return Subject("Redaction", head, rows, claims, notes, kept)
