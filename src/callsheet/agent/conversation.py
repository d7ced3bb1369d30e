"""One ACP session of the agent: its calls, its mode, its messages, and the turn that runs.

A turn ends only when nothing of it runs any more, everything was sent, and everything is stored; then the
prompt is answered. A handler sends its messages in chunks, and a secret may be split over two of them. So
text that may be the beginning of a secret waits in `MessageStream` for the next chunk, a pause, or an update
that must come after it.
"""

from __future__ import annotations

import asyncio
import codecs
import sys
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from callsheet.acp.codec import UpdateFrames
from callsheet.acp.jsonrpc import InvalidRequest, ProtocolError
from callsheet.acp.peer import Peer
from callsheet.agent.client_host import ClientHost
from callsheet.agent.handler import REASONS, Command, Handler, OwnCall, Prompt, Turn
from callsheet.agent.protocol import MODES, config_options, mode_id
from callsheet.agent.turn_usage import Reported, SessionUsage
from callsheet.history.store_errors import HistoryError
from callsheet.redaction.redactor import StreamRedactor
from callsheet.report.errors import CallsheetError, InvalidValue
from callsheet.report.json import JsonObject
from callsheet.report.usage import TokenUsage
from callsheet.runtime.clock import new_call_id
from callsheet.runtime.health import short_message
from callsheet.runtime.pipes import PipeWriter
from callsheet.telemetry import prices, session_sink
from callsheet.telemetry.trace_ids import received
from callsheet.tools.session import Session

if TYPE_CHECKING:
    from callsheet.agent.agent import Agent
    from callsheet.agent.history import Entry
    from callsheet.history.sink import SessionLog
    from callsheet.telemetry.otel import OtelSink


QUIET = 0.1
"""Seconds without a chunk of a message, after which its withheld text is sent."""

DEAD_AFTER = 3600.0
"""Seconds after which a client that reads nothing is considered dead. Until then, updates wait, merged."""

PIECE = 1 << 18
"""Characters of a message that are sent at once."""

_ROLES = {"agent_message_chunk": "agent", "agent_thought_chunk": "thought"}


class Busy(InvalidRequest):
    """A turn is running already."""


class SharedSink:
    """The sink of a session: its share of the pipe to the client."""

    def __init__(self, writer: PipeWriter, peer: Peer) -> None:
        self.peer: Peer | None = peer
        self._writer: PipeWriter = writer

    @property
    def taken(self) -> int:
        """The bytes that the client has taken, from any session: they show that it is alive."""
        return self._writer.taken

    def send(self, items: deque[Any]) -> Awaitable[None] | None:
        """Write lines."""
        return self._writer.send(items)

    def close(self) -> None:
        """Do nothing: the pipe is everybody's."""


class MessageStream:
    """Messages of one session, redacted: one kind at a time."""

    def __init__(
        self,
        redactor: Callable[[], StreamRedactor | None],
        send: Callable[[str, str], Awaitable[None]],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._redactor: Callable[[], StreamRedactor | None] = redactor
        self._send: Callable[[str, str], Awaitable[None]] = send
        self._spawn: Callable[[Coroutine[Any, Any, None]], None] = spawn
        self._kind: str = ""
        self._open: StreamRedactor | None = None
        self._decoder: codecs.IncrementalDecoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._timer: asyncio.TimerHandle | None = None

    async def write(self, kind: str, text: str) -> None:
        """Add a chunk, and send the text that can't be part of a secret."""
        if kind != self._kind:
            await self.flush()
            self._kind = kind
        if self._open is None:
            self._open = self._redactor()
        if self._open is None:  # nothing is redacted
            await self._send(kind, text)
            return
        data = self._open.feed(text.encode("utf-8", "replace"))
        self._stop_timer()
        if self._open.held:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(QUIET, lambda: self._spawn(self._pause()))
        await self._pass_on(data)

    async def flush(self) -> None:
        """Send what waits: something else follows, or nothing more."""
        stream, self._open = self._open, None
        self._stop_timer()
        if stream is not None:
            await self._pass_on(stream.finish())

    async def _pause(self) -> None:
        self._timer = None
        if self._open is not None and self._open.held:
            await self._pass_on(self._open.flush())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _pass_on(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        if text:
            await self._send(self._kind, text)


class Conversation:
    """A session, as the agent has it. `position` is where the stored timeline of a resumed one goes on."""

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
        self.own_calls: dict[str, OwnCall] = {}
        self.agent: Agent = agent
        self._turn: asyncio.Task[Any] | None = None
        self._over: asyncio.Future[None] | None = None
        self._is_cancelled: bool = False
        self._message: str = ""
        self._host: ClientHost = ClientHost(agent.client, agent.capabilities, session_id)
        info: JsonObject = {
            "additionalDirectories": list(additional),
            "locale": agent.settings.locale,
        }
        self._log: SessionLog | None = agent.history.log(session_id, cwd, info, agent.who, position)
        self._before: int = position
        about = agent.settings.info
        self._spans: OtelSink | None = session_sink(
            session_id, agent=about["name"], version=about["version"]
        )
        self._followers: list[SessionLog | OtelSink] = [
            one for one in (self._log, self._spans) if one is not None
        ]
        self.session: Session = Session(
            session_id,
            cwd=cwd,
            additional_directories=additional,
            locale=agent.settings.locale,
            on_permission=lambda question: agent.ask_permission(self, question),
            on_lost=self._lost,
            on_exception=_complain,
            dead_after=DEAD_AFTER,
            permission=agent.settings.permission,
            tools=agent.settings.tools,
            builtin=agent.settings.builtin_tools,
            host=self._host,
            mcp_servers=[*agent.settings.mcp_servers, *servers],
            guard=agent.settings.guard,
            tool_settings=agent.settings.tool_settings,
            peer=agent.peer,
            sinks=self._followers,
        )
        self.session_id: str = session_id
        self.usage: SessionUsage = SessionUsage(session_id, agent.settings.budget)
        self._is_warned: bool = False
        self.messages: MessageStream = MessageStream(
            self.session.guard.stream, self._send_piece, agent.spawn
        )
        self._frames: UpdateFrames = UpdateFrames(session_id)
        try:
            self._handler: Handler = agent.settings.handler()
        except ProtocolError:
            raise
        except Exception as exc:
            message = self.safe_message(exc)
            raise ProtocolError(f"the handler can't be made: {message}") from exc

    # Opening and closing

    def show(self) -> None:
        """Begin to send, now that the client has the id of the session."""
        if self.session.is_closed:  # closed or deleted before the client has read its id
            return
        self.session.attach(SharedSink(self.agent.client.writer, self.agent.peer))
        self.agent.spawn(self._introduce())

    async def _introduce(self) -> None:
        await self.send_commands()
        known = len(self.session.tools)
        for problem in await self.session.connected():
            sys.stderr.write(f"callsheet: {self.session.guard.clean(problem)}\n")
        if len(self.session.tools) != known:
            await self.send_commands()

    async def close(self) -> None:
        """End the turn that runs, and everything of the session."""
        await self.cancel()
        await self.session.close()

    # Turns

    def begin(self) -> None:
        """Begin a turn: from now on it can be cancelled, and there can be no other."""
        if self._over is not None:
            raise Busy("a turn of this session is running; wait for its end, or cancel it")
        self.usage.refuse(self.session.phrase)
        self.usage.begin()
        self._over = asyncio.get_running_loop().create_future()
        self._is_cancelled = False
        self.turns += 1
        self._message = self.new_id("msg")

    async def prompt(
        self, key: str, blocks: Sequence[JsonObject], meta: JsonObject | None = None
    ) -> str:
        """Run the turn that has begun, until everything of it was sent and stored.

        Args:
            key: The id of the user's message.
            blocks: The message.
            meta: The `_meta` of the request.

        Returns:
            Why the turn stopped.
        """
        reason, stopped = None, "error"
        try:
            self._note_turn(meta)
            self._store_prompt(key, blocks)
            if not self._is_cancelled:
                work: Any = self._handler.turn(Prompt(tuple(blocks)), Turn(self))
                if not isawaitable(work):
                    raise InvalidValue(  # noqa: TRY301
                        f"{type(self._handler).__name__}.turn has to be async: "
                        "`async def turn(self, prompt, turn)`"
                    )
                self._turn = asyncio.ensure_future(work)
                reason = await self._turn
                stopped = _stop_reason(reason)
        except asyncio.CancelledError:
            if not self._is_cancelled:  # the request itself was cancelled
                raise
        except Exception as exc:
            if not self._is_cancelled:  # else it comes from stopping the handler
                if not isinstance(exc, CallsheetError):  # those are raised on purpose
                    _complain(self.session.guard.clean(traceback.format_exc()))
                raise
        finally:
            self._turn = None
            stopped = "cancelled" if self._is_cancelled else stopped
            await self._settle(stopped)
        return stopped

    def _note_turn(self, meta: JsonObject | None) -> None:
        """Note the turn in the history, and begin its span, under the trace of the client if it has one."""
        key, given = "", received(meta)
        self.session.trace = given
        if self._log is not None:
            key = self._log.begin_turn(None if given is None else given.traceparent)
        if self._spans is not None:
            self._spans.begin_turn(key, meta)

    async def _settle(self, stopped: str) -> None:
        """End the turn: nothing of it runs, and everything was sent and stored."""
        try:
            await self.session.stop_tools()
            if not self._is_warned:
                self._is_warned = await self._say_of_budget("budget_unknown")
            await self.messages.flush()
            await self.session.flush()
            for one in self._followers:
                one.end_turn(stopped, self._safe_usage())
            await self.agent.history.settle()
            await self._host.settled()
        finally:
            over, self._over = self._over, None
            if over is not None:
                over.set_result(None)

    async def report_usage(self, **reported: Unpack[Reported]) -> None:
        """Take what a handler reports. If the budget is spent by that, cancel the turn, and say why."""
        self.usage.add(**reported)
        for one in self._followers:
            one.set_usage(self._safe_usage())
        if (update := self.usage.update()) is not None:
            await self.update(update)
        if self.usage.has_budget:
            await asyncio.to_thread(prices.load)  # it takes long, once
            if await self._say_of_budget("budget_stopped"):
                self.cancel_soon()

    async def _say_of_budget(self, due: str) -> bool:
        """Tell the user of the budget if this phrase is due now, and return whether it is."""
        phrase, texts = self.usage.count() or ("", {})
        if phrase != due or self._is_cancelled:
            return False
        said = f"_{self.session.phrase(phrase, **texts)}_\n\n"
        await self.messages.write("agent_message_chunk", said)
        await self.messages.flush()
        return True

    def _safe_usage(self) -> TokenUsage:
        """Return what the turn has used, without secrets in the names."""
        usage, clean = self.usage.turn, self.session.guard.clean
        return replace(usage, model=usage.model and clean(usage.model))

    def cancel_soon(self) -> None:
        """Cancel the turn that runs, once: after that, it is cleaning up."""
        if self._over is not None and not self._is_cancelled:
            self._is_cancelled = True
            if self._turn is not None:
                self._turn.cancel()

    async def cancel(self) -> None:
        """End the turn that runs, if one does, and wait for its end."""
        self.cancel_soon()
        if self._over is not None:
            await asyncio.wait({self._over}, timeout=10)

    def safe_message(self, exc: BaseException) -> str:
        """Return an exception in a line, without secrets."""
        return short_message(exc, self.session.guard.clean)

    def cancel_call(self, key: str) -> bool:
        """Stop one call, and return whether it was running."""
        if self.session.cancel(key):
            return True
        scope = self.own_calls.get(key)
        if scope is not None:
            scope.cancel()
        return scope is not None

    # The history

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self._over is not None

    @property
    def was_used(self) -> bool:
        """Whether something of it is stored."""
        return self._log is not None and (self._before > 0 or self.turns > 0)

    def _store_prompt(self, key: str, blocks: Sequence[JsonObject]) -> None:
        """Store the user's message, without secrets."""
        if self._log is None:
            return
        safe, _ = self.session.guard.value(list(blocks))
        self._before = self._log.position
        self._log.say("user", key, safe)
        self._log.name(Prompt(tuple(safe)).text)

    async def replay(self) -> None:
        """Send the client all messages and calls of the session, as it would have seen them live."""
        if self.is_busy:
            raise Busy("a turn of this session is running; load it when that has ended")
        from callsheet.history.replay import Replay

        writer = self.agent.client.writer
        alive = [report.tool_call_id for report in self.session.reports if not report.is_final]
        replay = Replay(self.session_id, self.agent.peer, words=self.session.words, alive=alive)
        try:
            async for entry in self.agent.history.entries(self.session_id):
                for line in replay.lines(entry):
                    await writer.post(line)
        except HistoryError as exc:
            raise ProtocolError(f"the history can't be read: {exc}") from exc

    def past(self) -> AsyncIterator[Entry]:
        """Return the messages and calls before this turn."""
        return self.agent.history.entries(self.session_id, self._before)

    # Updates

    async def update(self, update: JsonObject) -> None:
        """Send an update, after everything that came before it."""
        await self.messages.flush()
        await self._send(update)

    async def _send(self, update: JsonObject) -> None:
        await self.session.flush()
        await self.agent.client.writer.post(self._frames.line(update))

    async def _send_piece(self, kind: str, text: str) -> None:
        for start in range(0, len(text), PIECE):
            chunk: JsonObject = {"type": "text", "text": text[start : start + PIECE]}
            await self._send({"sessionUpdate": kind, "messageId": self._message, "content": chunk})
            if self._log is not None:
                self._log.say(_ROLES[kind], self._message, [chunk])

    async def plan(self, entries: Sequence[JsonObject]) -> None:
        """Send the plan."""
        safe: list[JsonObject] = self.session.guard.value(list(entries))[0]
        await self.update(self.agent.protocol.plan(safe))
        if self._log is not None:
            self._log.plan(f"{self._message}-plan", safe)

    def commands(self) -> Sequence[Command]:
        """Return the handler's slash commands."""
        commands = getattr(self._handler, "commands", None)  # a handler may have none
        return commands(list(self.session.tools)) if commands is not None else ()

    async def send_commands(self) -> None:
        """Send the slash commands."""
        commands = self.agent.protocol.commands(self.commands())
        await self.update(
            {"sessionUpdate": "available_commands_update", "availableCommands": commands}
        )

    async def send_options(self) -> None:
        """Send the config options, after the mode was chosen."""
        options = self.options()
        await self.update({"sessionUpdate": "config_option_update", "configOptions": options})

    async def send_mode(self) -> None:
        """Send the mode, after the config option was chosen."""
        await self.update({"sessionUpdate": "current_mode_update", "currentModeId": self.mode})

    # Permission

    @property
    def mode(self) -> str:
        """The id of the mode that holds now."""
        return mode_id(self.session.permissions.mode or "ask")

    def set_mode(self, key: str) -> None:
        """Choose a mode."""
        self.session.permissions.mode = MODES[key]

    def options(self) -> list[JsonObject]:
        """Return the config options as they are now."""
        return config_options(self.mode, self.session.phrase, self.agent.peer.version)

    def _lost(self, sink: object, why: str) -> None:  # noqa: ARG002
        """Disconnect a client that can't be sent anything. If the history is lost, go on without it."""
        if sink is not self._log:
            self.agent.client.writer.close()

    @staticmethod
    def new_id(what: str) -> str:
        """Return a new unique id."""
        return f"{what}_" + new_call_id().removeprefix("call_")


def _complain(text: str) -> None:
    """Write to stderr, which editors keep in their logs, where the author of a handler or tool finds it."""
    sys.stderr.write(text)


def _stop_reason(given: object) -> str:
    """Return why a turn stopped, as ACP has it."""
    if given is None:
        return "end_turn"
    if given in REASONS:
        return str(given)
    raise InvalidValue(
        f"the handler returned {given!r}; a turn ends by {', '.join(REASONS)}, or None"
    )
