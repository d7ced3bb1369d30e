"""Sessions without end: an agent that talks and calls tools, under ids that never come again.

As a program (`python tests/support/tap_torrent.py MESSAGES`), it is that agent: it says so many messages without being
asked, and one that it knows for a mark after each tenth.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import count, islice
from typing import Any, Literal, TypeAlias

Way: TypeAlias = Literal["client", "agent"]

MARK = "A tenth is done."
TALK = [
    "I",
    " look",
    " at",
    " what",
    " the",
    " tests",
    " say",
    " of it,",
    " and",
    " change",
    " a",
    " line",
    " or two.\n",
]


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"


def _told(session: str, update: dict[str, Any]) -> bytes:
    return _line({"method": "session/update", "params": {"sessionId": session, "update": update}})


def said(session: str, text: str) -> bytes:
    """Return a piece of talk."""
    content = {"type": "text", "text": text}
    return _told(session, {"sessionUpdate": "agent_message_chunk", "content": content})


def _call(session: str, key: str, number: int) -> Iterator[bytes]:
    """Return a call's life. Some of them never end."""
    path = f"/code/src/file_{number}.py"
    opened = {"title": "Read", "kind": "read", "rawInput": {"path": path}, "status": "pending"}
    yield _told(session, {"sessionUpdate": "tool_call", "toolCallId": key, **opened})
    if number % 50 == 0:
        return
    update = {"sessionUpdate": "tool_call_update", "toolCallId": key}
    yield _told(session, {**update, "status": "in_progress"})
    block = {"type": "content", "content": {"type": "text", "text": f"line {number}\n" * 40}}
    yield _told(session, {**update, "status": "completed", "content": [block]})


def traffic(pieces: int, calls: int) -> Iterator[tuple[Way, bytes]]:
    """Return the lines of sessions without end, each with one turn of so many pieces of talk and calls."""
    requests = count(1)
    yield "client", _line({"id": 0, "method": "initialize", "params": {"protocolVersion": 1}})
    yield "agent", _line({"id": 0, "result": {"protocolVersion": 1}})
    for number in count():
        session, new, prompt = f"sess_{number}", next(requests), next(requests)
        yield "client", _line({"id": new, "method": "session/new", "params": {"cwd": "/code"}})
        yield "agent", _line({"id": new, "result": {"sessionId": session}})
        blocks = [{"type": "text", "text": f"Do number {number}."}]
        params = {"sessionId": session, "prompt": blocks}
        yield "client", _line({"id": prompt, "method": "session/prompt", "params": params})
        for call in range(calls):
            for piece in range(pieces // calls):
                yield "agent", said(session, TALK[piece % len(TALK)])
            for line in _call(session, f"call_{number}_{call}", number * calls + call):
                yield "agent", line
        yield "agent", _line({"id": prompt, "result": {"stopReason": "end_turn"}})


def main() -> None:
    """Say it all, then wait until nobody asks for more."""
    many = int(sys.argv[1])
    lines = (line for way, line in traffic(300, 6) if way == "agent")
    for tenth in range(10):
        with open(1, "wb", closefd=False) as out:
            out.writelines(islice(lines, many // 10))
            out.write(said(f"mark_{tenth}", MARK))
    while os.read(0, 1 << 16):
        pass


if __name__ == "__main__":
    main()
