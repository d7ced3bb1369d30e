"""A client that counts (`python -m bench.reader`): it reads lines from stdin until they end.

It says `ready`, and at the end how many bytes and lines there were, and how many bytes of live
output they brought. Where output came too fast, the agent says how much it left out; that is
counted apart.
"""

from __future__ import annotations

import base64
import os
import re
import sys

import msgspec
from msgspec import Struct, field

_NOTICE = re.compile(rb"\r\n\[(\d+) bytes left out\]\r\n")


class Count(Struct):
    """What a reader has seen. `shown` and `left_out` are bytes of live output."""

    wire: int = 0
    lines: int = 0
    shown: int = 0
    left_out: int = 0


class _Output(Struct):
    data: str = ""


class _Meta(Struct):
    terminal_output: _Output = field(default_factory=_Output)


class _Update(Struct):
    kind: str = field(name="sessionUpdate")
    data: str = ""
    meta: _Meta = field(name="_meta", default_factory=_Meta)


class _Params(Struct):
    update: _Update


class _Line(Struct):
    params: _Params


_decode = msgspec.json.Decoder(_Line).decode


def count_lines(fd: int) -> Count:
    """Read until the end."""
    count, rest = Count(), b""
    while data := os.read(fd, 1 << 20):
        count.wire += len(data)
        *lines, rest = (rest + data).split(b"\n")
        count.lines += len(lines)
        for line in lines:
            _count_output(count, _decode(line).params.update)
    if rest:
        raise ValueError(f"the last line has no end: {rest[:100]!r}")
    return count


def _count_output(count: Count, update: _Update) -> None:
    if update.kind == "terminal_output_chunk":
        data = base64.b64decode(update.data)
    else:
        data = update.meta.terminal_output.data.encode()
    count.shown += len(data)
    for notice in _NOTICE.finditer(data):
        count.shown -= len(notice[0])
        count.left_out += int(notice[1])


def _main() -> None:
    print("ready", flush=True)
    count = count_lines(sys.stdin.fileno())
    print(msgspec.json.encode(count).decode(), flush=True)


if __name__ == "__main__":
    _main()
