"""Which requests wait for an answer, and what a message has to do with them."""

from __future__ import annotations

from typing import Any

from callsheet.observe import senders
from callsheet.observe.lines import Line, Way
from callsheet.observe.moments import Connection, Heard, Json, Over, Turn, Waiting
from callsheet.observe.values import rpc_id, text

KEEP = 4096
"""Requests that wait at most. One that nobody answers must not be kept for ever."""


class Requests:
    """The requests of a recording, by who asked and under which id."""

    def __init__(self) -> None:
        self.asked: dict[tuple[Way, Any], tuple[str, Json, int]] = {}
        self._either: dict[Any, int] = {}
        """Requests of which nobody knows who made them, by their ids: of extensions."""
        self.messages: int = 0
        self.first: int = 0
        self.has_ids: bool = False
        self._time: float | None = None

    def ask(self, sender: Way, key: Any, method: str, params: Json, line: Line) -> None:
        """Note a request."""
        if len(self.asked) >= KEEP:
            del self.asked[next(iter(self.asked))]
        self.asked[sender, key] = method, params, line.number

    def ask_of_either(self, key: Any, line: Line) -> None:
        """Note a request of one side or the other."""
        if len(self._either) >= KEEP:
            del self._either[next(iter(self._either))]
        self._either[key] = line.number

    def restart(self) -> None:
        """Forget all but the last: the agent was started again, and will not answer the others."""
        self.asked = dict(list(self.asked.items())[-1:])
        self._either = {}
        self._time = None

    def sender(self, message: Json, params: Json) -> Way | None:
        """Return who has sent a message, where the recording does not say it."""
        method, key = text(message.get("method")), rpc_id(message.get("id"))
        if method == "$/cancel_request":
            return senders.of_asker(rpc_id(params.get("requestId")), self.asked)
        if method is not None:
            return senders.of_method(method)
        if key in self._either and not senders.tells(message):
            return None
        return senders.of_answer(message, key, self.asked)

    def heard(
        self, line: Line, message: Json, sender: Way | None, connection: Connection, params: Json
    ) -> Heard:
        """Make a moment of a message."""
        self.messages += 1
        self.first = self.first or line.number
        session, method = text(params.get("sessionId")), text(message.get("method"))
        heard = Heard(line, message, sender, connection, session, method, before=self._time)
        if line.time is not None:
            self._time = line.time
        if "id" in message:
            self.has_ids = True
            self._relate(heard, sender, rpc_id(message["id"]))
        return heard

    def over(self, line: int, connection: Connection, calls: int, turns: list[Turn]) -> Over:
        """Return the last moment: what there was, and what was never answered."""
        waiting = [Waiting(way, method, line) for (way, _), (method, _, line) in self.asked.items()]
        return Over(
            line,
            connection,
            line,
            calls,
            messages=self.messages,
            first=self.first,
            has_ids=self.has_ids,
            waiting=waiting,
            turns=turns,
        )

    def _relate(self, heard: Heard, sender: Way | None, key: Any) -> None:
        if sender is None:
            is_odd = heard.method is None and self._either.pop(key, None) is None
            heard.answers = "" if is_odd else None
        elif heard.method is None:
            asker: Way = "client" if sender == "agent" else "agent"
            heard.answers = self.asked.get((asker, key), ("",))[0]
        elif key is not None and (sender, key) in self.asked:
            heard.same_id = self.asked[sender, key][2]
