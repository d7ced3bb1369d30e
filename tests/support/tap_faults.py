"""Faults as agents have them, put into recordings of agents that do not have them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Fault = Callable[["Faulty"], None]

STATUSES = [
    "pending",
    "in_progress",
    "completed",
    "failed",
    "cancelled",
    "done",
    "running",
    "",
    None,
]
KINDS = ["shell", "READ", "other", "file_edit", 5, None]
CONTENTS: list[Any] = [
    None,
    [],
    "text",
    {"type": "text", "text": "x"},
    [{"type": "text", "text": "bare"}],
    [{"type": "content", "content": {"type": "text"}}],
    [{"type": "diff", "path": "a.py", "newText": "x"}],
]
PLACES: list[Any] = [
    None,
    ["/a"],
    [{"path": "rel/a.py"}],
    [{"path": "/a", "line": -1}],
    [{"path": "/a", "line": "3"}],
]
INPUTS: list[Any] = [
    None,
    {},
    [],
    "{}",
    '{"command":"ls"}',
    {"command": ["bash", "-lc", "ls"]},
    "ls",
]
FIELDS = ("rawInput", "title", "kind", "locations", "content", "rawOutput", "status")


class Faulty:
    """A recording with faults. `chance` says which."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.lines: list[Line] = [json.loads(line) for line in path.read_bytes().splitlines()]
        self.chance: random.Random = chance

    @property
    def data(self) -> bytes:
        """The recording."""
        return "".join(json.dumps(line) + "\n" for line in self.lines).encode()

    def places(self) -> list[int]:
        """Return where calls are told of."""
        return [place for place, line in enumerate(self.lines) if update_of(line) is not None]

    def put(self, count: int) -> list[str]:
        """Put so many faults in, and give their names."""
        put: list[str] = []
        for _ in range(count):
            if self.places():
                fault = self.chance.choice(FAULTS)
                fault(self)
                put.append(fault.__name__)
        return put

    def one(self) -> tuple[int, Line]:
        """Return an update of a call, and its place."""
        place = self.chance.choice(self.places())
        found = update_of(self.lines[place])
        assert found is not None
        return place, found


def update_of(line: Line) -> Line | None:
    """Return the update of a call that a line tells."""
    message = line["msg"]
    if message.get("method") != "session/update":
        return None
    update = message["params"].get("update") or {}
    return update if "toolCallId" in update else None


def never_told(faulty: Faulty) -> None:
    """Leave an update out."""
    del faulty.lines[faulty.one()[0]]


def told_twice(faulty: Faulty) -> None:
    """Tell one twice."""
    place, _ = faulty.one()
    faulty.lines.insert(place + 1, copy.deepcopy(faulty.lines[place]))


def out_of_order(faulty: Faulty) -> None:
    """Let two have each other's place."""
    (one, _), (other, _) = faulty.one(), faulty.one()
    lines = faulty.lines
    lines[one]["msg"], lines[other]["msg"] = lines[other]["msg"], lines[one]["msg"]


def broken_off(faulty: Faulty) -> None:
    """Say nothing more of a call."""
    place, update = faulty.one()
    key, lines = update["toolCallId"], faulty.lines
    faulty.lines = lines[: place + 1] + [
        line for line in lines[place + 1 :] if (update_of(line) or {}).get("toolCallId") != key
    ]


def of_another(faulty: Faulty) -> None:
    """Tell an update under another call's id, or a new one."""
    (_, update), (_, other) = faulty.one(), faulty.one()
    update["toolCallId"] = faulty.chance.choice([other["toolCallId"], "new_one"])


def of_another_kind(faulty: Faulty) -> None:
    """Tell an announcement as an update, or the other way round."""
    faulty.one()[1]["sessionUpdate"] = faulty.chance.choice(["tool_call", "tool_call_update"])


def without_fields(faulty: Faulty) -> None:
    """Leave fields out."""
    update = faulty.one()[1]
    for name in faulty.chance.sample(FIELDS, 3):
        update.pop(name, None)


def asked_with_little(faulty: Faulty) -> None:
    """Leave fields out of requests for permission, but for the title."""
    for line in faulty.lines:
        if line["msg"].get("method") == "session/request_permission":
            for name in faulty.chance.sample(("rawInput", "kind", "content", "locations"), 2):
                line["msg"]["params"]["toolCall"].pop(name, None)


def _other(name: str, values: list[Any]) -> Fault:
    def other(faulty: Faulty) -> None:
        faulty.one()[1][name] = copy.deepcopy(faulty.chance.choice(values))

    other.__name__ = f"other_{name}"
    return other


FAULTS: list[Fault] = [
    never_told,
    told_twice,
    out_of_order,
    broken_off,
    of_another,
    of_another_kind,
    without_fields,
    asked_with_little,
    _other("status", STATUSES),
    _other("kind", KINDS),
    _other("content", CONTENTS),
    _other("locations", PLACES),
    _other("rawInput", INPUTS),
]
