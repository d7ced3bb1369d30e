"""The floor: what msgspec alone needs for the same lines. It checks and remembers nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import msgspec
from msgspec import UNSET, Struct, UnsetType

from .work import KIND, LIMIT, LINE, NAME, PATH, SESSION, TEXT, TITLE


class Location(Struct):
    """A place in a file."""

    path: str
    line: int


class Text(Struct, tag="text"):
    """A block of text."""

    text: str


class Content(Struct, tag="content"):
    """An item of content."""

    content: Text


class Meta(Struct):
    """What stands in `_meta`."""

    tool_name: str


_KEYS = {
    "tool_call_id": "toolCallId",
    "raw_input": "rawInput",
    "raw_output": "rawOutput",
    "meta": "_meta",
}


class ToolCall(Struct, tag_field="sessionUpdate", tag="tool_call", rename=_KEYS):
    """A call is announced."""

    tool_call_id: str
    title: str
    kind: str
    status: str
    name: str
    locations: list[Location]
    raw_input: object
    meta: Meta


class ToolCallUpdate(Struct, tag_field="sessionUpdate", tag="tool_call_update", rename=_KEYS):
    """A call has changed."""

    tool_call_id: str
    status: str
    content: list[Content] | UnsetType = UNSET
    raw_output: object = UNSET


class Params(Struct, rename="camel"):
    """Whose session, and what is new in it."""

    session_id: str
    update: ToolCall | ToolCallUpdate


class Notification(Struct):
    """A line."""

    params: Params
    jsonrpc: str = "2.0"
    method: str = "session/update"


def make_life() -> Callable[[], list[bytes]]:
    """Return the life of a call. Its id is as long as one of callsheet's."""
    encode = msgspec.json.Encoder().encode
    number = count()

    def life() -> list[bytes]:
        key = f"call_{next(number):026d}"
        opened = ToolCall(
            key,
            TITLE,
            KIND,
            "pending",
            NAME,
            [Location(PATH, LINE)],
            {"path": PATH, "limit": LIMIT},
            Meta(NAME),
        )
        running = ToolCallUpdate(key, "in_progress")
        done = ToolCallUpdate(key, "completed", [Content(Text(TEXT))], {"content": TEXT})
        return [
            encode(Notification(Params(SESSION, opened))) + b"\n",
            encode(Notification(Params(SESSION, running))) + b"\n",
            encode(Notification(Params(SESSION, done))) + b"\n",
        ]

    return life
