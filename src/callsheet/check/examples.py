"""Examples of what breaks a rule, as short as they can be told.

An example is lines of JSON. One with a `method`, a `result` or an `error` is a message. Any other is the
update of a `session/update`, or its beginning: `{"tool_call": "c1", "title": "…"}`.
"""

from __future__ import annotations

import json
from typing import Any

from callsheet.observe.model import obj

SESSION = "s1"
_KINDS = ("tool_call", "tool_call_update", "tool_call_content_chunk")
BEFORE: tuple[dict[str, Any], ...] = (
    {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
    {"id": 0, "result": {"protocolVersion": 1, "agentInfo": {"name": "example", "version": "1"}}},
    {"id": 1, "method": "session/new", "params": {"cwd": "/code", "mcpServers": []}},
    {"id": 1, "result": {"sessionId": SESSION}},
    {"id": 2, "method": "session/prompt", "params": {"sessionId": SESSION, "prompt": []}},
)
AFTER: tuple[dict[str, Any], ...] = ({"id": 2, "result": {"stopReason": "end_turn"}},)


def recording_of(example: str) -> bytes:
    """Return the recording of a whole turn in which the lines of an example are told."""
    told = [_message(json.loads(line)) for line in example.splitlines() if line.strip()]
    return b"".join(
        json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        for message in (*BEFORE, *told, *AFTER)
    )


def _message(line: Any) -> dict[str, Any]:
    told = obj(line)
    if told.keys() & {"method", "result", "error"}:
        return told
    for kind in _KINDS:
        if kind in told:
            rest = {key: value for key, value in told.items() if key != kind}
            told = {"sessionUpdate": kind, "toolCallId": told[kind], **rest}
    return {"method": "session/update", "params": {"sessionId": SESSION, "update": told}}
