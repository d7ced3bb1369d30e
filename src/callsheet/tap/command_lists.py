"""Long lists of commands, cleaned a slice at a time.

An agent may tell of hundreds of slash commands at once. Where their words look like secrets, it takes a while
to see that they are none, and a request for permission that follows would wait for it. So a long list waits
aside, and everything else overtakes it: it stands nowhere among the cards, and no message depends on it.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from callsheet.observe.moments import Json
from callsheet.observe.values import many, obj
from callsheet.redaction.redact import Redactor

KIND = "available_commands_update"

LONG = 64 * 1024
"""Bytes of a list that is cleaned aside."""

SLICE = 8 * 1024
"""Bytes that are cleaned at once: a few milliseconds, whatever they hold."""

GAP = 0.002
"""Seconds between two slices, in which others have their turn."""

_encode = msgspec.json.Encoder().encode


class CommandLists:
    """The lists that wait, in the order in which they came."""

    def __init__(self, redactor: Redactor) -> None:
        self.due: float | None = None
        self._redactor: Redactor = redactor
        self._waiting: deque[_CommandList] = deque()

    def take(self, line: bytes, message: Json, now: float) -> bool:
        """Take an update, if it is a long list of commands, or one that must not overtake such a list."""
        update = obj(obj(message.get("params")).get("update"))
        if update.get("sessionUpdate") != KIND or (len(line) < LONG and not self._waiting):
            return False
        commands: Any = update.get("availableCommands")
        if type(commands) is not list:
            return False
        self._waiting.append(_CommandList(line, message, many(commands)))
        self.due = now + GAP if self.due is None else self.due
        return True

    def tick(self, now: float) -> tuple[list[bytes], int]:
        """Clean a slice. Return the line of a list that is done, if one is, and how many secrets it had."""
        if self.due is None or self.due > now:
            return [], 0
        first = self._waiting[0]
        first.clean_some(self._redactor)
        if not first.is_done:
            self.due = now + GAP
            return [], 0
        self._waiting.popleft()
        self.due = now + GAP if self._waiting else None
        return [first.line(self._redactor)], first.hidden

    def finish(self) -> tuple[list[bytes], int]:
        """Clean all that waits, at once."""
        lines: list[bytes] = []
        hidden = 0
        while self.due is not None:
            made, found = self.tick(self.due)
            lines += made
            hidden += found
        return lines, hidden


class _CommandList:
    """An update, of which some commands are cleaned already."""

    def __init__(self, line: bytes, message: Json, commands: list[Any]) -> None:
        self.hidden: int = 0
        self._line: bytes = line
        self._message: Json = message
        self._commands: list[Any] = commands
        self._clean: list[Any] = []
        self._step: int = max(1, len(commands) * SLICE // len(line))

    @property
    def is_done(self) -> bool:
        return len(self._clean) == len(self._commands)

    def clean_some(self, redactor: Redactor) -> None:
        begin = len(self._clean)
        some = self._commands[begin : begin + self._step]
        if not redactor.is_clean(some):
            some, found = redactor.value(some)
            self.hidden += found
        self._clean += some

    def line(self, redactor: Redactor) -> bytes:
        """Return the line that the client is told: as it came, unless it has a secret."""
        params = obj(self._message.get("params"))
        update: Json = {**obj(params.get("update")), "availableCommands": []}
        if not redactor.is_clean(update):
            update, found = redactor.value(update)
            self.hidden += found
        if not self.hidden:
            return self._line
        update = {**update, "availableCommands": self._clean}
        return _encode({**self._message, "params": {**params, "update": update}}) + b"\n"
