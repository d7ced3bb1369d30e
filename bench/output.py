"""What a command prints, as a tool gets it: source code and a log, in writes of 47 bytes.

A megabyte is made once and written again and again, so that it costs no memory of its own. It has
quotes, backslashes and characters of several bytes; many of these are split over two writes.
"""

from __future__ import annotations

import argparse
import codecs
import inspect
import textwrap
from collections.abc import Iterator
from itertools import cycle, islice

WRITE = 47
SIZE = 1_000_000


def pieces() -> list[bytes]:
    """Return a megabyte in pieces."""
    data = "".join(islice(_lines(), SIZE // 20)).encode()[:SIZE]
    return [data[begin : begin + WRITE] for begin in range(0, SIZE // WRITE * WRITE, WRITE)]


def texts() -> list[str]:
    """Return the same as text, for a peer that takes no bytes."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    return [decode(piece) for piece in pieces()]


def _lines() -> Iterator[str]:
    """Return lines of source code and of a log in turns, without end."""
    source = cycle((inspect.getsource(argparse) + inspect.getsource(textwrap)).splitlines())
    for number, line in enumerate(source):
        yield line + "\n"
        passed = "✓ PASSED" if number % 17 else "✗ FAILED"
        yield (
            f"2026-03-04T10:{number // 60 % 60:02d}:{number % 60:02d}Z INFO"
            f' tests/test_{number % 97}.py::test_reads["C:\\tmp\\{number}"] {passed}\n'
        )
