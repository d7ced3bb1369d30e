"""What a script is made of, and what all dialects share."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

PIECE = 12
"""Characters of a text, or of the arguments of a call, that go in one event."""

PROMPT = "Play what comes next in the script."
"""What the user says. By this a turn of the user's is told from errands of the agent's own."""

RESULTS = ('"tool_call_id"', '"tool_result"', '_call_output"', '"functionResponse"')
"""What stands in a result of a tool, in some dialect."""

_ids = count(1)
_answers = count(1)


@dataclass(frozen=True)
class Use:
    """A tool that the model calls: with arguments, or with a text where the tool takes just that."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    id: str = field(default_factory=lambda: f"call_{next(_ids)}")

    @property
    def as_json(self) -> str:
        """The arguments as models write them."""
        return json.dumps(self.arguments)


@dataclass(frozen=True)
class Step:
    """One answer of the model: something said, or tools called, or both."""

    uses: tuple[Use, ...] = ()
    text: str = ""


def pieces(text: str) -> Iterator[str]:
    """Cut a text as models stream it."""
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def new_id(kind: str) -> str:
    """Return an id of an answer. Agents take answers with the same id for one."""
    return f"{kind}_{next(_answers)}"


def event(data: Any, name: str = "") -> bytes:
    """Write a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def goes_on(entries: Any) -> bool:
    """Whether a conversation has come to where the script goes on: the user has asked, or a tool has answered.

    An agent may have errands of its own, also with tools: a title, or what the user could say next.
    """
    since: list[Any] = []
    for entry in entries or ():
        is_answer = isinstance(entry, dict) and _is_answer(entry)
        since = [] if is_answer else [*since, entry]
    said = json.dumps(since)
    return PROMPT in said or any(word in said for word in RESULTS)


def _is_answer(entry: dict[str, Any]) -> bool:
    return entry.get("role") in ("assistant", "model") or str(entry.get("type")).endswith("_call")
