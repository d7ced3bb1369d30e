"""The agent: which methods a client may call, and which sessions there are."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from callsheet import __version__
from callsheet.acp.jsonrpc import InvalidParams, InvalidRequest, ProtocolError, UnknownMethod
from callsheet.acp.peer import Peer, peer_of
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object

from .brain import Brain
from .client import Client
from .modes import MODES, OPTION
from .params import check
from .past import Past
from .pipe import Reader, Writer
from .rpc import PATIENCE, Answer, Connection
from .surface import V1, V2, Surface

# What a session needs is imported for the first one: an editor waits for our start.
if TYPE_CHECKING:
    from callsheet.history.history import History
    from callsheet.runtime.permission import Question
    from callsheet.runtime.sanitizer import GuardSettings
    from callsheet.tools.permits import Mode
    from callsheet.tools.session import ToolSettings
    from callsheet.tools.tool import Tool

    from .conversation import Conversation

LINGER = 5
"""Seconds in which everything ends, for a client that reads slowly. One that does not read gets a second."""


class UnknownSession(ProtocolError):
    """No session has that id."""

    code = -32002
    label = "Resource not found"


class AgentSettings(Struct, kw_only=True):
    """How an agent is set up."""

    brain: Callable[[], Brain]
    protocol: Literal[1, 2] = 1
    permission: Mode = "ask"
    locale: str | None = None
    tools: Sequence[Tool] = ()
    tool_settings: ToolSettings | None = None
    guard: GuardSettings | None = None
    history: Callable[[], History] | History | None = None


class Agent:
    """Serves one client."""

    def __init__(self, settings: AgentSettings, reader: Reader, writer: Writer) -> None:
        self.settings: AgentSettings = settings
        self.connection: Connection = Connection(reader, writer, self._serve, self._hear)
        self.peer: Peer = Peer()
        self.client: Client = Client(self.connection, {})
        self.surface: Surface = V1()
        self.conversations: dict[str, Conversation] = {}
        self.past: Past = Past(settings.history)
        self._is_ready: bool = False
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._methods: dict[str, Callable[[JsonObject], Awaitable[Answer]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "session/new": self._new,
            "session/prompt": self._prompt,
            "session/load": self._load,
            "session/resume": self._resume,
            "session/delete": self._delete,
            "session/close": self._close,
            "session/list": self._list,
            "session/set_mode": self._set_mode,
            "session/set_config_option": self._set_option,
            "tool_call/cancel": self._cancel_call,
        }

    async def run(self) -> None:
        """Serve until the client goes, then end everything that it began."""
        try:
            await self.serve()
        finally:
            await self.close()

    async def serve(self, *ends: asyncio.Future[Any]) -> None:
        """Serve until the client goes or does not read any more, or one of the ends has come."""
        running = asyncio.ensure_future(self.connection.run())
        waited = running, self.connection.writer.gone, *ends
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.cancel()

    async def close(self) -> None:
        """End every session, and whatever runs for it."""
        waiting = asyncio.ensure_future(self._wait_for_client())
        closing = [conversation.close() for conversation in self.conversations.values()]
        self.conversations = {}
        await asyncio.gather(*closing, return_exceptions=True)
        await asyncio.gather(self.past.close(), self.connection.stop(), return_exceptions=True)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        waiting.cancel()

    async def _wait_for_client(self) -> None:
        """Let the client read its last lines, but not for ever: editors kill those that linger."""
        writer = self.connection.writer
        for _ in range(LINGER):
            taken = writer.taken
            await asyncio.sleep(1)
            if writer.is_full and writer.taken == taken:
                break
        writer.give_up()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do something beside."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a client that is gone is no news

    # What the connection brings

    async def _serve(self, method: str, params: JsonObject) -> Answer:
        serve = self._methods.get(method)
        if serve is None:
            raise UnknownMethod(method)
        if not self._is_ready and method != "initialize":
            raise InvalidRequest(f"{method} before initialize; say initialize first")
        check(method, params, self.peer.version)
        return await serve(params)

    def _hear(self, method: str, params: JsonObject) -> None:
        if method == "session/cancel":
            conversation = self.conversations.get(params.get("sessionId") or "")
            if conversation is not None:
                conversation.cancel_soon()

    # Methods

    async def _initialize(self, params: JsonObject) -> Answer:
        if self._is_ready:
            raise InvalidRequest("initialize was said before; once is enough")
        wanted: int = params["protocolVersion"]
        version: Literal[1, 2] = 2 if wanted >= 2 and self.settings.protocol == 2 else 1
        self.surface = V2() if version == 2 else V1()
        self.peer = replace(peer_of(params, version), cancels=version == 2)
        abilities = params.get("clientCapabilities") if version == 1 else None
        self.client = Client(self.connection, abilities)
        self._is_ready = True
        info: JsonObject = {"name": "callsheet", "title": "Callsheet", "version": __version__}
        return Answer(self.surface.initialized(info, self.past.is_kept), _warm_up)

    async def _authenticate(self, params: JsonObject) -> Answer:  # noqa: ARG002 - whatever it is
        raise InvalidParams("there is nothing to authenticate with; none is needed")

    async def _new(self, params: JsonObject) -> Answer:
        from .conversation import Conversation

        conversation = await self._open(Conversation.new_id("sess"), params)
        self.conversations[conversation.session_id] = conversation
        return Answer(self.surface.opened(conversation), conversation.show)

    async def _open(self, key: str, params: JsonObject, position: int = 0) -> Conversation:
        """Open a session, new or old, in the directories that the client names."""
        from .conversation import Conversation

        cwd = _directory(params.get("cwd"), "cwd")
        more: list[str] = params.get("additionalDirectories") or []
        servers: list[JsonObject] = params.get("mcpServers") or []
        directories = [_directory(one, "additionalDirectories") for one in more]
        conversation = Conversation(self, key, cwd, directories, servers, position)
        await conversation.open()
        return conversation

    async def _prompt(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        return await self.surface.prompt(conversation, params["prompt"])

    async def _load(self, params: JsonObject) -> Answer:
        """Go on with a session, and tell the client all that it has said and done."""
        if self.peer.version != 1:
            raise UnknownMethod("session/load")
        return await self._go_on(params, replay=True)

    async def _resume(self, params: JsonObject) -> Answer:
        """Go on with a session. In v2, the client may ask for what it has said and done."""
        start = params.get("replayFrom") if self.peer.version == 2 else None
        if start is not None and not (is_object(start) and start.get("type") == "start"):
            raise InvalidParams(f'replayFrom: expected {{"type": "start"}}, got {start!r}')
        return await self._go_on(params, replay=start is not None)

    async def _go_on(self, params: JsonObject, *, replay: bool) -> Answer:
        key: str = params["sessionId"]
        async with self._turn_of(key):
            conversation = self.conversations.get(key)
            if conversation is not None:
                await self._tell_again(conversation, replay)
                return Answer(self._told(conversation))
            conversation = await self._restored(params)
            try:
                await self._tell_again(conversation, replay)
            except BaseException:  # nobody knows of it
                await conversation.close()
                raise
            self.conversations[key] = conversation
        return Answer(self._told(conversation), conversation.show)

    def _turn_of(self, key: str) -> asyncio.Lock:
        """Return what is held while a session is loaded or deleted: two requests must not make two of it."""
        return self._turns.setdefault(key, asyncio.Lock())

    async def _tell_again(self, conversation: Conversation, replay: bool) -> None:
        if replay:
            await conversation.replay()
        await self.surface.resumed(conversation)

    def _told(self, conversation: Conversation) -> JsonObject:
        told = self.surface.opened(conversation)
        del told["sessionId"]
        return told

    async def _restored(self, params: JsonObject) -> Conversation:
        """Open a session that has ended, or that another process had."""
        key: str = params["sessionId"]
        try:
            found = await self.past.find(key)
            position = await self.past.end_of(key) if found is not None else 0
        except CallsheetError as exc:
            raise ProtocolError(f"the history can't be read: {exc}") from exc
        if found is None:
            raise self._unknown(key)
        return await self._open(key, params, position)

    async def _delete(self, params: JsonObject) -> Answer:
        """Remove a session, and all that is kept of it. One that is not there is as the client wants it."""
        key: str = params["sessionId"]
        async with self._turn_of(key):
            conversation = self.conversations.pop(key, None)
            if conversation is not None:
                await conversation.close()
            try:
                await self.past.forget(key)
            except CallsheetError as exc:
                raise ProtocolError(f"the history can't be changed: {exc}") from exc
        return Answer({})

    async def _close(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        del self.conversations[conversation.session_id]
        await conversation.close()
        return Answer({})

    async def _list(self, params: JsonObject) -> Answer:
        cwd, cursor = params.get("cwd"), params.get("cursor")
        try:
            kept, more = await self.past.sessions(cwd, cursor)
        except CallsheetError as exc:
            if isinstance(exc, ProtocolError):
                raise
            kept, more = (
                [],
                None,
            )  # what is wrong with the history was said; those that live are known
        known = {one.session_id for one in kept}
        told: list[JsonValue] = [
            {"sessionId": one.session_id, "cwd": one.session.cwd}
            for one in self.conversations.values()
            if one.session_id not in known and cwd in (None, one.session.cwd)
            if cursor is None and not (kept and one.was_used)
        ]
        told += [self.surface.listed(one) for one in kept]
        return Answer({"sessions": told} | ({} if more is None else {"nextCursor": more}))

    async def _set_mode(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        conversation.set_mode(_mode(params.get("modeId"), "modeId"))
        return Answer({}, lambda: self.spawn(conversation.tell_options()))

    async def _set_option(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        if params.get("configId") != OPTION:
            raise InvalidParams(
                f"configId: the only one is {OPTION!r}, got {params.get('configId')!r}"
            )
        conversation.set_mode(_mode(params.get("value"), "value"))
        then = (lambda: self.spawn(conversation.tell_mode())) if self.peer.version == 1 else None
        return Answer({"configOptions": conversation.options()}, then)

    async def _cancel_call(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        key = params.get("toolCallId")
        if not isinstance(key, str) or not conversation.cancel_call(key):
            raise InvalidParams(f"toolCallId: no call {key!r} is running")
        return Answer({})

    def _of(self, params: JsonObject) -> Conversation:
        key = params.get("sessionId")
        found = self.conversations.get(key) if isinstance(key, str) else None
        if found is None:
            raise self._unknown(key)
        return found

    def _unknown(self, key: JsonValue) -> UnknownSession:
        told = f"there is no session {key!r}; make one by session/new"
        if not self.past.is_kept:
            told += ". Sessions that have ended are not kept: the history is off"
        return UnknownSession(told, data={"sessionId": key})

    # What conversations need

    async def ask_permission(self, conversation: Conversation, question: Question) -> JsonValue:
        """Ask the client whether a call may be done."""
        conversation.questions += 1
        if conversation.questions == 1:
            await self.surface.asking(conversation, True)
        try:
            params = question.params(self.peer.version)
            return await self.connection.ask("session/request_permission", params)
        finally:
            conversation.questions -= 1
            if not conversation.questions:
                await self.surface.asking(conversation, False)


def _warm_up() -> None:
    """Import what a session needs while the client reads our answer."""
    import callsheet.agent.conversation  # noqa: F401  # pyright: ignore[reportUnusedImport]


def _directory(given: JsonValue, field: str) -> str:
    if not isinstance(given, str) or not os.path.isabs(given):  # noqa: PTH117 - as text
        raise InvalidParams(f"{field}: expected an absolute path, got {given!r}")
    if "\0" in given or not os.path.isdir(given):  # noqa: PTH112
        raise InvalidParams(f"{field}: there is no directory {given!r}")
    return given


def _mode(given: JsonValue, field: str) -> str:
    if not isinstance(given, str) or given not in MODES:
        raise InvalidParams(f"{field}: expected one of {', '.join(MODES)}, got {given!r}")
    return given
