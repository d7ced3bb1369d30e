"""One ACP session of the agent: its calls, its mode, and the turn that runs."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from callsheet.acp.codec import UpdateFrames
from callsheet.acp.jsonrpc import InvalidRequest, ProtocolError
from callsheet.history.errors import HistoryError
from callsheet.report.errors import CallsheetError, InvalidValue
from callsheet.report.json import JsonObject, JsonValue
from callsheet.runtime.health import short_message
from callsheet.runtime.permission import Question
from callsheet.runtime.timing import new_call_id
from callsheet.tools.session import Session

from .brain import REASONS, Brain, Command, Prompt
from .modes import MODES, config_options, mode_id
from .own_calls import OwnCalls
from .pipe import SharedSink
from .speech import Speech
from .turn import Turn

if TYPE_CHECKING:
    from callsheet.history.sink import SessionLog

    from .abilities.host import ClientHost
    from .agent import Agent
    from .past import Entry


DEAD_AFTER = 3600.0
"""Seconds after which a client that reads nothing is given up. Until then, what it is told waits, merged."""

_KINDS = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought"}

PIECE = 1 << 18
"""Characters of a message that are sent at once."""


class Busy(InvalidRequest):
    """A turn is running already."""


class Conversation:
    """A session, as the agent has it."""

    def __init__(
        self,
        agent: Agent,
        session_id: str,
        cwd: str,
        additional: Sequence[str],
        servers: Sequence[Mapping[str, Any]],
        position: int = 0,
    ) -> None:
        self.turns: int = 0
        self.questions: int = 0
        self.own_calls: OwnCalls = OwnCalls()
        self._agent: Agent = agent
        self._turn: asyncio.Task[Any] | None = None
        self._over: asyncio.Future[None] | None = None
        self._is_cancelled: bool = False
        self._message: str = ""
        self._host: ClientHost | None = agent.client.host(session_id)
        info: JsonObject = {
            "additionalDirectories": list(additional),
            "locale": agent.settings.locale,
        }
        self._log: SessionLog | None = agent.past.log(session_id, cwd, info, position)
        self._before: int = position
        self.session: Session = Session(
            session_id,
            cwd=cwd,
            additional_directories=additional,
            locale=agent.settings.locale,
            on_permission=self._ask,
            on_lost=self._lost,
            dead_after=DEAD_AFTER,
            permission=agent.settings.permission,
            tools=agent.settings.tools,
            host=self._host,
            mcp_servers=servers,
            guard=agent.settings.guard,
            tool_settings=agent.settings.tool_settings,
            peer=agent.peer,
            sinks=[] if self._log is None else [self._log],
        )
        self.session_id: str = session_id
        self.speech: Speech = Speech(self.session.desk.guard.stream, self._said, self.spawn)
        self._frames: UpdateFrames = UpdateFrames(session_id)
        self._brain: Brain = self._mind()

    def _mind(self) -> Brain:
        try:
            return self._agent.settings.brain()
        except Exception as exc:
            raise ProtocolError(f"the mind can't be made: {self.told(exc)}") from exc

    # Opening and closing

    async def open(self) -> None:
        """Begin. Nothing is sent to the client yet."""
        await self.session.__aenter__()

    def show(self) -> None:
        """Begin to send, now that the client knows of the session."""
        if self.session.desk.is_closed:  # it was closed or deleted before the client had read of it
            return
        self.session.attach(SharedSink(self._agent.connection.writer, self._agent.peer))
        self._agent.spawn(self._introduce())

    async def _introduce(self) -> None:
        await self.tell_commands()
        known = len(self.session.tools)
        await self.session.connected()
        if len(self.session.tools) != known:
            await self.tell_commands()

    async def close(self) -> None:
        """End the turn that runs, and everything of the session."""
        await self.cancel()
        await self.session.close()

    # Turns

    def begin(self) -> None:
        """Begin a turn: from now on it can be cancelled, and there can be no other."""
        if self._over is not None:
            raise Busy("a turn of this session is running; wait for its end, or cancel it")
        self._over = asyncio.get_running_loop().create_future()
        self._is_cancelled = False
        self.turns += 1
        self._message = self.new_id("msg")

    async def prompt(self, key: str, blocks: Sequence[JsonObject]) -> str:
        """Run the turn that has begun, and give why it stopped, when everything of it was sent and kept.

        `key` is the id of the user's message.
        """
        reason = None
        try:
            self._heard(key, blocks)
            if not self._is_cancelled:
                self._turn = asyncio.ensure_future(
                    self._brain.turn(Prompt(tuple(blocks)), Turn(self))
                )
                reason = await self._turn
        except asyncio.CancelledError:
            if not self._is_cancelled:  # the request itself was taken back
                raise
        except Exception as exc:
            if not self._is_cancelled:  # else it is what stopping the mind has led to
                if not isinstance(exc, CallsheetError):  # what is raised on purpose says it all
                    self._complain()
                raise
        finally:
            self._turn = None
            await self._settle()
        return "cancelled" if self._is_cancelled else _stop_reason(reason)

    def _complain(self) -> None:
        """Tell whoever writes the mind where it failed. Editors keep an agent's stderr in their logs."""
        sys.stderr.write(self.session.desk.guard.clean(traceback.format_exc()))

    async def _settle(self) -> None:
        """Let the turn be over: nothing runs, and everything was sent."""
        try:
            await self.session.stop_tools()
            await self.speech.flush()
            await self.session.flush()
            await self._agent.past.settle()
            if self._host is not None:
                await self._host.settled()
        finally:
            over, self._over = self._over, None
            if over is not None:
                over.set_result(None)

    def cancel_soon(self) -> None:
        """Tell the turn that runs to end. Once is enough: it is cleaning up from then on."""
        if self._over is not None and not self._is_cancelled:
            self._is_cancelled = True
            if self._turn is not None:
                self._turn.cancel()

    async def cancel(self) -> None:
        """End the turn that runs, if one does, and wait for its end."""
        self.cancel_soon()
        if self._over is not None:
            await asyncio.wait({self._over}, timeout=10)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something beside."""
        self._agent.spawn(work)

    def told(self, exc: BaseException) -> str:
        """Say what went wrong, without secrets."""
        return short_message(exc, self.session.desk.guard.clean)

    def cancel_call(self, key: str) -> bool:
        """Stop one call. Gives whether it was running."""
        return self.session.cancel(key) or self.own_calls.cancel(key)

    # What was before

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self._over is not None

    @property
    def was_used(self) -> bool:
        """Whether something is kept of it, so that the history knows of it."""
        return self._log is not None and (self._before > 0 or self.turns > 0)

    def _heard(self, key: str, blocks: Sequence[JsonObject]) -> None:
        """Keep what the user said, without secrets."""
        if self._log is None:
            return
        safe, _ = self.session.desk.guard.value(list(blocks))
        self._before = self._log.position
        self._log.say("user", key, safe)
        self._log.name(Prompt(tuple(safe)).text)

    async def replay(self) -> None:
        """Tell the client what the session has said and done, as it would have seen it live."""
        if self.is_busy:
            raise Busy("a turn of this session is running; load it when that has ended")
        from callsheet.history.replay import Replay

        desk, writer = self.session.desk, self._agent.connection.writer
        alive = [report.tool_call_id for report in self.session.reports if not report.is_final]
        replay = Replay(self.session_id, self._agent.peer, words=desk.words, alive=alive)
        try:
            async for entry in self._agent.past.entries(self.session_id):
                for line in replay.lines(entry):
                    await writer.post(line)
        except HistoryError as exc:
            raise ProtocolError(f"the history can't be read: {exc}") from exc

    def past(self) -> AsyncIterator[Entry]:
        """Return what was said and done before this turn."""
        return self._agent.past.entries(self.session_id, self._before)

    # What is said to the client

    async def update(self, update: JsonObject) -> None:
        """Send an update, after everything that was said before it."""
        await self.speech.flush()
        await self._send(update)

    async def _send(self, update: JsonObject) -> None:
        await self.session.flush()
        await self._agent.connection.writer.post(self._frames.line(update))

    async def say(self, kind: str, text: str) -> None:
        """Send a piece of a message. What may be a part of a secret waits for the next."""
        await self.speech.say(kind, text)

    async def finish_saying(self) -> None:
        """Send what waits of a message: something else comes now."""
        await self.speech.flush()

    async def _said(self, kind: str, text: str) -> None:
        for start in range(0, len(text), PIECE):
            chunk: JsonObject = {"type": "text", "text": text[start : start + PIECE]}
            await self._send({"sessionUpdate": kind, "messageId": self._message, "content": chunk})
            if self._log is not None:
                self._log.say(_KINDS[kind], self._message, [chunk])

    async def plan(self, entries: Sequence[JsonObject]) -> None:
        """Send the plan."""
        told: list[JsonObject] = self.session.desk.guard.value(list(entries))[0]
        await self.update(self._agent.surface.plan(told))
        if self._log is not None:
            self._log.plan(f"{self._message}-plan", told)

    def commands(self) -> Sequence[Command]:
        """Return the slash commands that there are."""
        tell = getattr(self._brain, "commands", None)  # a mind may have none
        return tell(list(self.session.tools)) if tell is not None else ()

    async def tell_commands(self) -> None:
        """Tell which slash commands there are."""
        await self.update(self._agent.surface.commands(self.commands()))

    async def tell_options(self) -> None:
        """Tell the config options, after the mode was chosen."""
        options = self.options()
        await self.update({"sessionUpdate": "config_option_update", "configOptions": options})

    async def tell_mode(self) -> None:
        """Tell the mode, after the config option was chosen."""
        await self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})

    # Permission

    @property
    def mode(self) -> str:
        """The id of the mode that holds now."""
        return mode_id(self.session.permits.mode or "ask")

    def set_mode(self, key: str) -> None:
        """Choose a mode."""
        self.session.permits.mode = MODES[key]

    def options(self) -> list[JsonObject]:
        """Return the config options as they are now."""
        return config_options(self.mode, self.session.desk.phrase, self._agent.peer.version)

    def _lost(self, sink: object, why: str) -> None:  # noqa: ARG002
        """A client that can't be told is as good as gone. Without its history, work goes on."""
        if sink is not self._log:
            self._agent.connection.writer.give_up()

    async def _ask(self, question: Question) -> JsonValue:
        return await self._agent.ask_permission(self, question)

    @staticmethod
    def new_id(what: str) -> str:
        """Return an id of its own."""
        return f"{what}_" + new_call_id().removeprefix("call_")


def _stop_reason(given: object) -> str:
    """Return why a turn stopped, in ACP's words."""
    if given is None:
        return "end_turn"
    if given in REASONS:
        return str(given)
    raise InvalidValue(f"the mind gave {given!r}; a turn ends by {', '.join(REASONS)}, or None")
