"""What passes the tap that is not about calls: as it is, but for secrets in what people are shown."""

from __future__ import annotations

from collections.abc import Callable
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

_PARTS = ("params", "result", "error")
"""What of a message may hold a secret."""

_encode = msgspec.json.Encoder().encode


class _Run(NamedTuple):
    """A run of text under way: what its last piece looked like, and until when it waits."""

    kind: str
    speech: Speech
    message: Json
    until: float


class Messages:
    """Passes on updates of sessions that are not about calls. Without a redactor, all of them as they are."""

    def __init__(
        self,
        redactor: Redactor | None,
        account: Account,
        keep: Callable[[Json], None] | None = None,
    ) -> None:
        self._redactor: Redactor | None = redactor
        self._account: Account = account
        self._keep: Callable[[Json], None] | None = keep
        self._runs: dict[str, _Run] = {}

    def pass_on(self, line: bytes, message: Json, now: float) -> list[bytes]:
        """Give the lines for an update of a session. `line` is it, as it came."""
        if self._redactor is None:
            return [self._shown(message, line)]
        params = obj(message.get("params"))
        session = text(params.get("sessionId")) or ""
        update = obj(params.get("update"))
        kind, piece = update.get("sessionUpdate"), _piece(update)
        if kind not in CHUNKS or piece is None:
            rest, clean = self.end(session), self._clean(message)
            if clean is not None:
                line, message = _encode(clean) + b"\n", clean
            return [*rest, self._shown(message, line)]
        run = self._runs.get(session)
        lines: list[bytes] = []
        if run is None or run.kind != kind:
            lines = self.end(session)
            run = _Run(kind, Speech(self._redactor), message, now)
        said = run.speech.say(piece)
        self._runs[session] = run._replace(message=message, until=now + QUIET)
        self._count(run.speech)
        if said is piece:
            return [*lines, self._shown(message, line)]
        return [*lines, self._shown(_with(message, said))] if said else lines

    def end(self, session: str) -> list[bytes]:
        """Give what waits in a session: something else comes now."""
        run = self._runs.pop(session, None)
        if run is None:
            return []
        rest = run.speech.end()
        self._count(run.speech)
        return [self._shown(_with(run.message, rest))] if rest else []

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
                lines += [self._shown(_with(run.message, rest))] if rest else []
        return lines

    def cleaned(self, line: bytes, message: Json) -> bytes:
        """Give a message without secrets; the line as it came if it has none."""
        clean = self._clean(message)
        return line if clean is None else _encode(clean) + b"\n"

    def recorded(self, line: bytes, message: Json) -> bytes:
        """Give a message as it is recorded: without secrets, wherever they are.

        They are not counted: nobody would have been shown them.
        """
        redactor = self._redactor
        if redactor is None or redactor.is_clean(message):
            return line
        parts = {key: redactor.value(message[key]) for key in _PARTS if key in message}
        if not any(count for _, count in parts.values()):
            return line
        return _encode({**message, **{key: part for key, (part, _) in parts.items()}}) + b"\n"

    def _clean(self, message: Json) -> Json | None:
        """Give a message without secrets; None if it has none."""
        params = message.get("params")
        if self._redactor is None or self._redactor.is_clean(params):
            return None
        clean, count = self._redactor.value(params)
        self._account.hidden += count
        return {**message, "params": clean} if count else None

    def _shown(self, message: Json, line: bytes | None = None) -> bytes:
        """Give the line of a message that the client is shown, and keep it."""
        if self._keep is not None:
            self._keep(message)
        return _encode(message) + b"\n" if line is None else line

    def _count(self, speech: Speech) -> None:
        self._account.hidden += speech.hidden
        speech.hidden = 0


def is_invisible(message: Json) -> bool:
    """Whether an update changes nothing that stands among the cards of a session."""
    update = obj(obj(message.get("params")).get("update"))
    return text(update.get("sessionUpdate")) in _INVISIBLE or _piece(update) == ""


def _piece(update: Json) -> str | None:
    content = obj(update.get("content"))
    return text(content.get("text")) if content.get("type") == "text" else None


def _with(message: Json, said: str) -> Json:
    """Give a message with another text."""
    params: dict[str, Any] = obj(message["params"])
    update = obj(params["update"])
    content = {**obj(update["content"]), "text": said}
    return {**message, "params": {**params, "update": {**update, "content": content}}}
