"""Recordings that tests make, message by message, and what the checker finds in them.

    found = check(announced(title="bash"), updated(status="completed"))
    assert "complete/title" in rules(found)

Or as the examples of rules are written, for one rule, be it about a client or not:

    assert found_by("client/zed-not-found", told({"tool_call_update": "c1", "title": "ls"}))

Recordings of real agents: a few that are kept here, and all those that lie beside the project, if they do.
"""

from __future__ import annotations

import json
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from typing import Any

from callsheet.check.engine import check_stream
from callsheet.check.finding import Finding
from callsheet.check.rules import RULES
from callsheet.observe.tracker import CALLS
from tests.support import RECORDINGS, ROOT

Message = dict[str, Any]

CLIENTS = ("zed", "toad", "acpx")
COMPLETE = [rule for rule in RULES if rule.category == "complete"]
"""The rules that these recordings are made for. What others say of them is not looked at."""

GOOD: Message = {
    "title": "Read notes.txt",
    "name": "read",
    "kind": "read",
    "rawInput": {"path": "/code/notes.txt"},
    "locations": [{"path": "/code/notes.txt"}],
}
"""What a complete announcement has."""


# An example is lines of JSON. One with a `method`, a `result` or an `error` is a message. Any other is the
# update of a `session/update`, or its beginning: `{"tool_call": "c1", "title": "…"}`.

SESSION = "s1"
BEFORE: tuple[Message, ...] = (
    {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
    {"id": 0, "result": {"protocolVersion": 1, "agentInfo": {"name": "example", "version": "1"}}},
    {"id": 1, "method": "session/new", "params": {"cwd": "/code", "mcpServers": []}},
    {"id": 1, "result": {"sessionId": SESSION}},
    {"id": 2, "method": "session/prompt", "params": {"sessionId": SESSION, "prompt": []}},
)
AFTER: tuple[Message, ...] = ({"id": 2, "result": {"stopReason": "end_turn"}},)


def recording_of(example: str) -> bytes:
    """Return the recording of a whole turn in which the lines of an example are sent."""
    messages = [_message(json.loads(line)) for line in example.splitlines() if line.strip()]
    return b"".join(
        json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        for message in (*BEFORE, *messages, *AFTER)
    )


def _message(line: Any) -> Message:
    fields = dict(line)
    if fields.keys() & {"method", "result", "error"}:
        return fields
    for kind in CALLS:
        if kind in fields:
            rest = {key: value for key, value in fields.items() if key != kind}
            fields = {"sessionUpdate": kind, "toolCallId": fields[kind], **rest}
    return {"method": "session/update", "params": {"sessionId": SESSION, "update": fields}}


def content(said: str) -> Message:
    """Return a text as an item of a call's content."""
    return {"type": "content", "content": {"type": "text", "text": said}}


def words(said: str) -> list[Message]:
    """Return a text as a call's content."""
    return [content(said)]


def tell(update: Message, key: str = "c1") -> Message:
    """Make a notification about a call."""
    params = {"sessionId": SESSION, "update": {"toolCallId": key, **update}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def announced(key: str = "c1", *, without: tuple[str, ...] = (), **fields: Any) -> Message:
    """Announce a call, a complete one unless told otherwise."""
    whole = {"sessionUpdate": "tool_call", "status": "pending", **GOOD, **fields}
    return tell({name: value for name, value in whole.items() if name not in without}, key)


def updated(key: str = "c1", **fields: Any) -> Message:
    """Update a call."""
    return tell({"sessionUpdate": "tool_call_update", **fields}, key)


def completed(key: str = "c1", **fields: Any) -> Message:
    """End a call well; it shows something unless told otherwise."""
    return updated(key, **{"status": "completed", "content": words("one\ntwo\n"), **fields})


def asked(key: str = "c1", **fields: Any) -> Message:
    """Ask for permission."""
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    options += [{"optionId": "no", "name": "No", "kind": "reject_once"}]
    call = {"toolCallId": key, **fields}
    params = {"sessionId": SESSION, "toolCall": call, "options": options}
    return {"jsonrpc": "2.0", "id": "p1", "method": "session/request_permission", "params": params}


def decided(option: str) -> Message:
    """Answer the question."""
    outcome = {"outcome": "selected", "optionId": option}
    return {"jsonrpc": "2.0", "id": "p1", "result": {"outcome": outcome}}


def opening(version: int = 1) -> list[Message]:
    """Return the messages before the first call, in new objects: a test may change them."""
    return [_in_version(version, {"jsonrpc": "2.0", **deepcopy(message)}) for message in BEFORE]


def _in_version(version: int, message: Message) -> Message:
    told = {
        key: {**value, "protocolVersion": version} if "protocolVersion" in value else value
        for key, value in message.items()
        if key in ("params", "result")
    }
    return {**message, **told}


ANSWER: Message = {"jsonrpc": "2.0", **AFTER[0]}
IDLE: Message = {
    "jsonrpc": "2.0",
    "method": "session/update",
    "params": {"sessionId": SESSION, "update": {"sessionUpdate": "state_update", "state": "idle"}},
}


def check(*messages: Message, version: int = 1) -> list[Finding]:
    """Check a whole turn with these messages in it."""
    over = ANSWER if version == 1 else IDLE
    return check_bare(*opening(version), *messages, over)


def check_bare(*messages: Message) -> list[Finding]:
    """Check just these messages: a piece of a recording."""
    data = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    return list(check_stream(BytesIO(data), rules=COMPLETE))


def check_file(name: str) -> list[Finding]:
    """Check a recording of `tests/recordings`."""
    with (RECORDINGS / name).open("rb") as stream:
        return list(check_stream(stream, rules=COMPLETE))


def rules(found: list[Finding], category: str = "complete") -> list[str]:
    """Return which rules of a category were broken, by name, in order."""
    return [finding.rule for finding in found if finding.rule.startswith(f"{category}/")]


def told(*lines: Message) -> bytes:
    """Return a recording of a turn with these updates and messages, written as examples are."""
    return recording_of("\n".join(map(json.dumps, lines)))


def found_by(rule: str, data: bytes) -> list[Finding]:
    """Return what one rule finds, be it about a client or not."""
    chosen = [one for one in RULES if one.id == rule]
    assert chosen, rule
    return list(check_stream(BytesIO(data), rules=chosen, clients=CLIENTS))


HERE = RECORDINGS
OURS = sorted(HERE.rglob("*.jsonl"))
SHARED = sorted((ROOT.parent / "shared" / "recordings").glob("*-*/*.jsonl"))


def name_of(path: Path) -> str:
    """Return a name for a test of a recording."""
    return f"{path.parent.name}/{path.name}"
