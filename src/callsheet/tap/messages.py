"""What passes the tap that is not about calls: as it is, but for secrets in what people are shown."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from callsheet.check.recording.moments import Json
from callsheet.check.recording.values import obj, text
from callsheet.guard.redact import Redactor

from .account import Account
from .speech import QUIET, Speech

CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
"""Updates that are pieces of a longer text."""

_INVISIBLE = frozenset(
    (
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    )
)
"""Updates that stand nowhere among the cards: they may overtake one that waits."""

_encode = msgspec.json.Encoder().encode


class _Run(NamedTuple):
    """A run of text under way: what its last piece looked like, and until when it waits."""

    kind: str
    speech: Speech
    message: Json
    until: float


class Messages:
    """Passes on updates of sessions that are not about calls. Without a redactor, all of them as they are."""

    def __init__(self, redactor: Redactor | None, account: Account) -> None:
        self._redactor: Redactor | None = redactor
        self._account: Account = account
        self._runs: dict[str, _Run] = {}

    def pass_on(self, line: bytes, message: Json, now: float) -> list[bytes]:
        """Give the lines for an update of a session. `line` is it, as it came."""
        if self._redactor is None:
            return [line]
        params = obj(message.get("params"))
        session = text(params.get("sessionId")) or ""
        update = obj(params.get("update"))
        kind, piece = update.get("sessionUpdate"), _piece(update)
        if kind not in CHUNKS or piece is None:
            return [*self.end(session), self.cleaned(line, message)]
        run = self._runs.get(session)
        lines: list[bytes] = []
        if run is None or run.kind != kind:
            lines = self.end(session)
            run = _Run(kind, Speech(self._redactor), message, now)
        said = run.speech.say(piece)
        self._runs[session] = run._replace(message=message, until=now + QUIET)
        self._count(run.speech)
        if said is piece:
            return [*lines, line]
        return [*lines, _with(message, said)] if said else lines

    def end(self, session: str) -> list[bytes]:
        """Give what waits in a session: something else comes now."""
        run = self._runs.pop(session, None)
        if run is None:
            return []
        rest = run.speech.end()
        self._count(run.speech)
        return [_with(run.message, rest)] if rest else []

    def end_all(self) -> list[bytes]:
        """Give what waits in all sessions."""
        return [line for session in list(self._runs) for line in self.end(session)]

    @property
    def due(self) -> float | None:
        """When something has waited for long enough."""
        return min((run.until for run in self._runs.values() if run.speech.held), default=None)

    def tick(self, now: float) -> list[bytes]:
        """Give what has waited for long enough."""
        lines: list[bytes] = []
        for run in self._runs.values():
            if run.speech.held and run.until <= now:
                rest = run.speech.pause()
                self._count(run.speech)
                lines += [_with(run.message, rest)] if rest else []
        return lines

    def cleaned(self, line: bytes, message: Json) -> bytes:
        """Give a message without secrets; the line as it came if it has none."""
        if self._redactor is None or self._redactor.is_clean(message.get("params")):
            return line
        params, count = self._redactor.value(message.get("params"))
        if not count:
            return line
        self._account.hidden += count
        return _encode({**message, "params": params}) + b"\n"

    def _count(self, speech: Speech) -> None:
        self._account.hidden += speech.hidden
        speech.hidden = 0


def is_invisible(message: Json) -> bool:
    """Whether an update changes nothing that stands among the cards of a session."""
    update = obj(obj(message.get("params")).get("update"))
    return update.get("sessionUpdate") in _INVISIBLE or _piece(update) == ""


def _piece(update: Json) -> str | None:
    content = obj(update.get("content"))
    return text(content.get("text")) if content.get("type") == "text" else None


def _with(message: Json, said: str) -> bytes:
    """Give a message with another text."""
    params: dict[str, Any] = obj(message["params"])
    update = obj(params["update"])
    content = {**obj(update["content"]), "text": said}
    return (
        _encode({**message, "params": {**params, "update": {**update, "content": content}}}) + b"\n"
    )
