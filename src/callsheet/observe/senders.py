"""Who has sent a message, where the recording does not say it.

Most methods belong to one side. An answer goes to whoever has asked; where both sides have asked under one
id, what is in it tells.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from callsheet.observe.lines import Way
from callsheet.observe.moments import Json
from callsheet.observe.values import obj

AGENTS = ("session/update", "session/request_permission")
OPENING = ("session/new", "session/load", "session/resume", "session/fork")
_AGENTS_BEGIN = ("fs/", "terminal/", "elicitation/")
_CLIENTS_BEGIN = ("session/", "auth", "initialize", "tool_call/", "logout")
_TELLING = {
    "initialize": "protocolVersion",
    "session/new": "sessionId",
    "session/prompt": "stopReason",
    "session/request_permission": "outcome",
    "terminal/create": "terminalId",
    "fs/read_text_file": "content",
}


def of_method(method: str) -> Way | None:
    """Return who calls a method."""
    if method == "terminal/cancel":
        return "client"
    if method in AGENTS or method.startswith(_AGENTS_BEGIN):
        return "agent"
    return "client" if method.startswith(_CLIENTS_BEGIN) else None


def of_answer(message: Json, key: Any, asked: dict[tuple[Way, Any], Any]) -> Way | None:
    """Return who has answered. `asked` has what waits for an answer, by who asked and under which id."""
    ways: list[Way] = [way for way in ("client", "agent") if (way, key) in asked]
    if "client" not in ways and method_answered(obj(message.get("result"))):
        return "agent"  # what the client has asked was not recorded
    if ways == ["agent"] and not _fits(asked["agent", key][0], message):
        return None  # the same, most likely
    if len(ways) == 2:
        ways = [way for way in ways if _fits(asked[way, key][0], message)] or ways
    if not ways:
        return None
    # Where nothing tells, it is the last question that is answered first: a turn waits for what it asks.
    asker = max(ways, key=lambda way: asked[way, key][2])
    return "agent" if asker == "client" else "client"


def _fits(method: str, message: Json) -> bool:
    known: Container[str] = obj(message.get("result"))
    key = _TELLING.get(method)
    return key is None or key in known or "error" in message


def tells(message: Json) -> bool:
    """Whether an answer tells by what is in it which method it answers."""
    return not obj(message.get("result")).keys().isdisjoint(_TELLING.values())


def of_asker(key: Any, asked: dict[tuple[Way, Any], Any]) -> Way | None:
    """Return who takes back a request: whoever has made it. None if both have asked under one id."""
    ways: list[Way] = [way for way in ("client", "agent") if (way, key) in asked]
    return ways[0] if len(ways) == 1 else None


def method_answered(result: Json) -> str:
    """Return the method that an agent has answered, of a recording that has only the agent's lines."""
    for method in ("initialize", "session/new", "session/prompt"):
        if _TELLING[method] in result:
            return method
    return ""


def opening(asked: dict[tuple[Way, Any], Any]) -> int | None:
    """Return the line of the client's last request that may open a session, if none has answered it."""
    lines = [
        line
        for (asker, _), (method, _, line) in asked.items()
        if asker == "client" and (method in OPENING or method.startswith("_"))
    ]
    return max(lines, default=None)
