"""A tap in this process, between a client and an agent that a test plays.

`Tapped` goes message by message, by a clock of its own. A real tap is `TapProcess` of `raw_agent.py`.

tap = Tapped().agent(announced(rawInput={}))
assert tap.heard() == []
assert kinds(tap.wait(0.2).heard()) == ["tool_call"]
"""

from __future__ import annotations

import json
import re
from typing import Any, Self

from callsheet.tap.context import Context, TapSettings
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from callsheet.telemetry.budget import parse_budget
from tests.support.made_recordings import Message, opening
from tests.support.tap_judge import Judge

_NUMBER = re.compile(rb"(\[redacted:[a-z-]+)#\d+\]")
"""Marks are numbered where there are several secrets of a kind in a process: then tests would depend on others."""


class Tapped:
    """The tap, what it has said, and a judge of that. The turn of a session has begun."""

    def __init__(
        self, version: int = 1, *, begun: bool = True, budget: str | None = None, **settings: Any
    ) -> None:
        self.account: Account = Account()
        self.faults: list[str] = []
        self.now: float = 0.0
        self.may_fail: bool = False
        chosen = TapSettings(locale="en", **settings)
        tap = Context(chosen, self.account, spill=False)
        # A tap with a budget answers prompts itself, of which the judge knows nothing.
        limit = None if budget is None else parse_budget(budget)
        self.pipeline: Pipeline = Pipeline(tap, self.faults.append, budget=limit)
        self.judge: Judge | None = Judge(version) if chosen.repair and limit is None else None
        self.to_agent: list[bytes] = []
        self._heard: list[bytes] = []
        if begun:
            for message in opening(version):
                (self.client if "method" in message else self.agent)(message)
            self.lines()

    def client(self, *messages: Message | bytes) -> Self:
        """Let the client say something. What the agent hears is in `to_agent`."""
        for message in messages:
            line = line_of(message)
            self.pipeline.from_client(line, self.now)
            self._take()
            if self.judge is not None:
                self.judge.client_says(line)
        return self

    def agent(self, *messages: Message | bytes) -> Self:
        """Let the agent say something."""
        for message in messages:
            line = line_of(message)
            if self.judge is not None:
                self.judge.agent_says(line)
            self.pipeline.from_agent(line, self.now)
            self._take()
        return self

    def wait(self, seconds: float) -> Self:
        """Let time go by."""
        end = self.now + seconds
        while (due := self.pipeline.due) is not None and due <= end:
            self.now = max(self.now, due)
            self.pipeline.tick(self.now)
            self._take()
        self.now = end
        return self

    def gone(self) -> Self:
        """Let the agent be gone."""
        self.pipeline.agent_gone(self.now)
        self._take()
        if self.judge is not None:
            self.judge.all_have_ended()
        return self

    def lines(self) -> list[bytes]:
        """Return the lines that the client has heard since it was last asked."""
        heard, self._heard = self._heard, []
        return heard

    def heard(self) -> list[Message]:
        """Return the messages that the client has heard since it was last asked."""
        return [json.loads(line) for line in self.lines()]

    def _take(self) -> None:
        for line in self.pipeline.to_client:
            if self.judge is not None:
                self.judge.client_hears(line)
        self._heard += [_NUMBER.sub(rb"\1]", line) for line in self.pipeline.to_client]
        self.pipeline.to_client.clear()
        self.to_agent += self.pipeline.to_agent
        self.pipeline.to_agent.clear()
        assert self.may_fail or self.account.faults == 0, self.faults


def line_of(message: Message | bytes) -> bytes:
    """Return a message as a line."""
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


def updates(messages: list[Message]) -> list[Message]:
    """Return the updates of sessions."""
    return [one["params"]["update"] for one in messages if one.get("method") == "session/update"]


def told(messages: list[Message]) -> list[tuple[str, str | None]]:
    """Return which calls were told of in updates, and the statuses that they were given."""
    calls = [one for one in updates(messages) if "toolCallId" in one]
    return [(one["toolCallId"], one.get("status")) for one in calls]


def kinds(messages: list[Message]) -> list[str]:
    """Return what messages are: the kind of an update, else the method, or `answer`."""
    return [
        one["params"]["update"]["sessionUpdate"]
        if one.get("method") == "session/update"
        else one.get("method", "answer")
        for one in messages
    ]


def unnumbered(text: str) -> str:
    """Return a text with marks that don't tell one secret of a kind from another."""
    return _NUMBER.sub(rb"\1]", text.encode()).decode()


def texts(update: Message) -> list[str]:
    """Return the texts that an update shows."""
    items = update.get("content") or []
    items = items if isinstance(items, list) else [items]
    return [one["content"]["text"] for one in items if one.get("type") == "content"]
