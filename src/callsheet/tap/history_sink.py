"""Store in the history what a tap sends: calls as the client saw them, and the messages around them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from callsheet.history.rows import Origin, name_and_version
from callsheet.observe.model import Json, many, obj, text
from callsheet.report.json import JsonObject
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage
from callsheet.runtime.sanitizer import Sanitizer
from callsheet.tap.passthrough import StoreText

if TYPE_CHECKING:
    from callsheet.history.history import History
    from callsheet.history.sink import SessionLog

LAST = 4.0
"""Seconds that the history has to write what waits when the tap ends."""

MOST_LOGS = 64
"""Sessions whose logs are open at once. Of more, the oldest log is dropped, and opened again on use."""

Write: TypeAlias = "Callable[[SessionLog], object]"

_KINDS = {"agent_message": "agent", "agent_thought": "thought", "user_message": "user"}


class HistorySink:
    """The history of a tap. It is opened when there is something to store.

    A failure of the history never stops or delays the caller: the first one is reported through `warn`, and
    what could not be stored is lost.
    """

    def __init__(
        self, make: Callable[[], History], command: str, warn: Callable[[str], None]
    ) -> None:
        self._make: Callable[[], History] = make
        self._history: History | None = None
        self.agent: str = ""
        """The agent's name and version, once it has said them."""
        self.client: str = ""
        """The client's name and version, once it has said them."""
        self._source: str = "tap"
        self._info: JsonObject = {"command": command}
        self._warn_once: Callable[[str], None] | None = warn
        self._is_stored: bool = False
        """Whether the agent stores its sessions in the same history by itself."""
        self._logs: dict[str, SessionLog] = {}
        self._message: tuple[str, str, str] = ("", "", "")
        self._count: int = 0

    def answered(self, answer: Json) -> None:
        """Take an answer of the agent. A session that it stores itself is not stored again."""
        theirs = obj(obj(answer.get("_meta")).get("callsheet")).get("history")
        try:
            if theirs is not None:
                self._history = self._history or self._make()
                self._is_stored = theirs == self._history.fingerprint
        except Exception as exc:  # noqa: BLE001 - the session goes on without a history
            self._failed(exc)

    def reopened(self, session: str) -> None:
        """Note that an earlier session continues: what follows is stored as a new part of it."""
        self._logs.pop(session, None)

    def call(self, session: str, cwd: str, record: CallRecord) -> None:
        """Store a call as it is now."""
        self._message = ("", "", "")
        self._write(session, cwd, lambda log: log.send(deque([record])))

    def prompt(self, session: str, cwd: str, params: Json, sanitizer: Sanitizer) -> None:
        """Store what the user has typed, without secrets, also if the agent refuses it."""
        blocks = _blocks(many(params.get("prompt")))
        self._store(session, cwd, "user", None, [sanitizer.value(block)[0] for block in blocks])
        title = next((text(block.get("text")) for block in blocks if "text" in block), None)
        if title:
            name = sanitizer.clean(title)
            self._write(session, cwd, lambda log: log.name(name))

    def begin_turn(self, session: str, cwd: str, trace: str | None = None) -> str:
        """Begin a turn: what comes now belongs to it. Return its key; empty if the history fails."""
        keys: list[str] = []
        self._write(session, cwd, lambda log: keys.append(log.begin_turn(trace)))
        return "".join(keys)

    def set_usage(self, session: str, cwd: str, usage: TokenUsage) -> None:
        """Store what the turn that runs, or else the last one, has used so far."""
        self._write(session, cwd, lambda log: log.set_usage(usage))

    def end_turn(self, session: str, cwd: str, reason: str | None, usage: TokenUsage) -> None:
        """End the turn that runs."""
        self._write(session, cwd, lambda log: log.end_turn(reason, usage))

    def update(self, session: str, cwd: str, update: Json) -> StoreText | None:
        """Store a message as the client is shown it, and return a function that stores its next pieces."""
        kind = _KINDS.get((text(update.get("sessionUpdate")) or "").removesuffix("_chunk"))
        content = update.get("content")
        blocks = _blocks(many(content) or [content])
        if kind is not None and blocks and any(block.get("text") != "" for block in blocks):
            return self._store(session, cwd, kind, text(update.get("messageId")), blocks)
        if update.get("sessionUpdate") == "plan":
            entries: list[Json] = [
                obj(entry) for entry in many(update.get("entries")) if obj(entry)
            ]
            self._write(session, cwd, lambda log: log.plan("plan", entries))
        return None

    def close(self) -> None:
        """Write what waits, and close the history."""
        if self._history is not None:
            self._history.close_now(LAST)

    def _store(
        self, session: str, cwd: str, kind: str, message_id: str | None, blocks: list[Any]
    ) -> StoreText:
        now = (session, kind, message_id or "")
        if now != self._message or kind == "user":
            self._message, self._count = now, self._count + 1
        key = message_id or f"message-{self._count}"
        self._write(session, cwd, lambda log: log.say(kind, key, blocks))
        last: JsonObject = blocks[-1] if blocks else {}

        def store_more(text: str) -> None:
            more = [{**last, "text": text}]
            if kind == "user":
                self._store(session, cwd, kind, message_id, more)
            else:
                self._write(session, cwd, lambda log: log.say(kind, key, more))

        return store_more

    # Writing. A failure here never reaches the caller.

    def _write(self, session: str, cwd: str, write: Write) -> None:
        if self._is_stored:
            return
        try:
            log = self._logs.get(session) or self._begin(session, cwd)
            if not log.is_described:  # a client may prompt before the agent has answered anything
                log.describe(cwd, {}, self._origin())
            write(log)
        except Exception as exc:  # noqa: BLE001 - the session goes on without a history
            self._failed(exc)

    def _begin(self, session: str, cwd: str) -> SessionLog:
        if self._history is None:
            self._history = self._make()
        # Positions order what is stored of one session. An earlier process may have stored some of it:
        # an agent may use the id of a session again, and sessions are loaded. The microseconds since 1970
        # come after all of that, without a query for the last position.
        position = int(time.time() * 1e6)
        log = self._logs[session] = self._history.session(
            session, cwd=cwd, info=self._info, origin=self._origin(), position=position
        )
        if len(self._logs) > MOST_LOGS:
            del self._logs[next(iter(self._logs))]
        return log

    def _origin(self) -> Origin:
        agent, version = name_and_version(self.agent)
        client, client_version = name_and_version(self.client)
        return Origin(
            agent=agent,
            agent_version=version,
            client=client,
            client_version=client_version,
            source=self._source,
        )

    def _failed(self, exc: Exception) -> None:
        warn, self._warn_once = self._warn_once, None
        if warn is not None:
            warn(f"the history fails, and something is not stored ({type(exc).__name__})")


def _blocks(parts: list[Any]) -> list[Json]:
    """Return the blocks that are well-formed."""
    found = [obj(one) for one in parts if type(obj(one).get("type")) is str]
    return [one for one in found if one["type"] != "text" or type(one.get("text")) is str]
