"""The tap between two versions of ACP: a pipeline whose other messages go over the bridge.

What is about calls is told in the client's version by the pipeline itself. All else is translated, both
ways, by `bridging`; what the bridge passes is passed as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from callsheet.acp.peer import Peer, peer_of
from callsheet.observe.moments import Asked, Folded, Json, Session
from callsheet.observe.values import obj

from .bridging import Bridging
from .context import Context
from .keeping import Keeping
from .pipeline import Pipeline
from .reading import read
from .session import TappedSession

_encode = msgspec.json.Encoder().encode


class BridgedPipeline(Pipeline):
    """One tap, between a client and an agent that may speak different versions."""

    def __init__(
        self, tap: Context, say: Callable[[str], None], keeping: Keeping | None = None
    ) -> None:
        super().__init__(tap, say, keeping)
        to_client = tap.settings.protocol_to or 1
        self._bridge: Bridging = Bridging(2 if to_client == 1 else 1, to_client)
        tap.account.unspoken = self._bridge.lost

    # Lines

    def passes(self, lines: bytes) -> bool:
        """Take in whole lines of the agent, if they pass as they came. What is translated does not."""
        return self._bridge.is_idle and super().passes(lines)

    def from_client(self, line: bytes, now: float) -> None:
        """Take in a line of the client."""
        self._messages.alike = None
        message = read(line)
        if message is None:
            self.to_agent.append(line)
            return
        if message.get("method") == "initialize":
            self._client = _peer_of(obj(message.get("params")))
        try:
            told = self._bridge.from_client(message)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the session goes on
            self._failed(exc)
            self.to_agent.append(line)
            return
        if told.to_client:
            self._release(now)
            self.to_client += [_line(one) for one in told.to_client]
        for one in told.to_agent:
            super().from_client(line if one is message else _line(one), now)

    def from_agent(self, line: bytes, now: float) -> None:
        """Take in a line of the agent. All of them are looked into: they may have to be translated."""
        if self._bridge.is_idle:
            super().from_agent(line, now)
        else:
            self._look(line, now, hears=True)

    def agent_gone(self, now: float) -> None:
        """Hear that the agent will say nothing more."""
        super().agent_gone(now)
        self.to_client += [_line(one) for one in self._bridge.agent_gone().to_client]

    def _pass_on(self, line: bytes, message: Json, now: float) -> None:
        if message.get("method") != "session/update":
            self.release_questions(now)  # as long as the bridge knows what they are about
        told = self._bridge.from_agent(message)
        self.to_agent += [_line(one) for one in told.to_agent]
        for one in told.to_client:
            super()._pass_on(line if one is message else _line(one), one, now)

    def _of_client(self, message: Json, now: float) -> None:
        known = self._client  # what the client itself has said, in its own version
        super()._of_client(message, now)
        self._client = known

    # Calls

    def _peer(self) -> Peer:
        version = self._bridge.client_version
        owns = self._client.owns_terminals and version == 1 == self._bridge.agent_version
        return replace(self._client, version=version, owns_terminals=owns)

    def _session(self, session: Session, now: float) -> TappedSession:
        found = super()._session(session, now)
        found.is_muted = self._bridge.is_muted(session.id)
        return found

    def _on_folded(self, folded: Folded, message: Json, now: float) -> bool:
        if folded.is_first:
            self._bridge.call_told(folded.session.id)
        return super()._on_folded(folded, message, now)

    def _send_request(self, asked: Asked, request: Json) -> None:
        session = asked.question.session
        before = self._bridge.permission_asked(session.id if session is not None else "", request)
        self.to_agent += [_line(one) for one in before.to_agent]
        self.to_client += [_line(one) for one in before.to_client]
        super()._send_request(asked, request)

    _HANDLERS = {**Pipeline._HANDLERS, Folded: _on_folded}  # noqa: RUF012


def _peer_of(params: Json) -> Peer:
    """Read a client's `initialize`, which names itself otherwise in v2."""
    version = params.get("protocolVersion")
    told: dict[str, Any] = {
        "clientInfo": params.get("clientInfo") or params.get("info"),
        "clientCapabilities": params.get("clientCapabilities") or params.get("capabilities"),
    }
    return peer_of(told, 2 if isinstance(version, int) and version >= 2 else 1)


def _line(message: Json) -> bytes:
    return _encode(message) + b"\n"
