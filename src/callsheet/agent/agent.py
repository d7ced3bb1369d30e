"""The agent: which methods a client may call, which sessions there are, and how it ends.

`Agent` serves one client over two descriptors; `serve` is the same on this process's stdin and stdout.
Editors end agents without asking: the end of stdin, SIGTERM, SIGINT, SIGHUP or a broken pipe each cancel
every turn, close every call, and leave no child behind.

What a session needs (tools, redaction, history) is imported only after `initialize` was answered, because an
editor waits for that answer. So this module imports `conversation` late, and `client_host` not at all.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from msgspec.structs import replace

from callsheet.acp.jsonrpc import InvalidParams, InvalidRequest, ProtocolError, UnknownMethod
from callsheet.acp.peer import Peer, peer_of
from callsheet.agent.handshake import Handshake, chosen_version, initialized
from callsheet.agent.history import AgentHistory
from callsheet.agent.protocol import MODES, OPTION, AcpV1, AcpV2, check_params
from callsheet.agent.settings import AgentSettings, AuthRequired
from callsheet.report.errors import CallsheetError
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object
from callsheet.runtime.pipes import PipeReader, PipeWriter
from callsheet.runtime.rpc import PATIENCE, Answer, Disconnected, RpcPeer

if TYPE_CHECKING:
    from callsheet.agent.conversation import Conversation
    from callsheet.runtime.permission import Question

LINGER = 5
"""Seconds for a client that reads slowly to read its last lines. One that reads nothing gets one second."""

LAST = 10.0
"""Seconds after which the process ends by force, should a handler or a tool refuse to stop."""

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")


class UnknownSession(ProtocolError):
    """No session has that id."""

    code = -32002
    label = "Resource not found"


class Agent:
    """Serve one client: dispatch its requests, and own its sessions.

    Args:
        settings: The agent's settings.
        stdin: The descriptor that the client's bytes are read from. It stays open.
        stdout: The descriptor that lines for the client are written to. It stays open.
        handshake: What was read and answered before.
    """

    def __init__(
        self, settings: AgentSettings, stdin: int, stdout: int, handshake: Handshake | None = None
    ) -> None:
        handshake = handshake or Handshake()
        self.settings: AgentSettings = settings
        self.client: RpcPeer = RpcPeer(
            PipeReader(stdin, handshake.ahead), PipeWriter(stdout), self._serve, self._notified
        )
        self.peer: Peer = Peer()
        self.capabilities: JsonObject = EMPTY
        self.client_info: JsonObject = EMPTY
        self.protocol: AcpV1 = AcpV1()
        self.conversations: dict[str, Conversation] = {}
        self.history: AgentHistory = AgentHistory(settings.history)
        self._is_ready: bool = False
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._methods: dict[str, Callable[[JsonObject], Awaitable[Answer]]] = {
            "initialize": self._initialize,
            "authenticate": self._authenticate,
            "auth/login": self._authenticate,
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
        if handshake.params is not None:
            self._get_ready(handshake.params)
            _warm_up()

    async def run(self) -> None:
        """Serve until the client disconnects, then close every session."""
        try:
            await self.serve()
        finally:
            await self.close()

    async def serve(self, *ends: asyncio.Future[Any]) -> None:
        """Serve until the client disconnects or is given up as dead, or one of `ends` is done."""
        running = asyncio.ensure_future(self.client.run())
        waited = running, self.client.writer.gone, *ends
        try:
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            running.cancel()
            self.client.lose(Disconnected("the client is gone"))

    async def close(self) -> None:
        """Close every session, and stop everything that runs for it."""
        waiting = asyncio.ensure_future(self._wait_for_client())
        closing = [conversation.close() for conversation in self.conversations.values()]
        self.conversations = {}
        await asyncio.gather(*closing, return_exceptions=True)
        await asyncio.gather(self.history.close(), self.client.stop(), return_exceptions=True)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE)
        waiting.cancel()
        self.client.writer.close()

    async def _wait_for_client(self) -> None:
        """Let the client read its last lines, but not for ever: editors kill agents that linger."""
        writer = self.client.writer
        for _ in range(LINGER):
            taken = writer.taken
            await asyncio.sleep(1)
            if writer.is_full and writer.taken == taken:
                break
        writer.close()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Run work in a task of its own, which is cancelled at the end."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # mostly a client that is gone, which is handled elsewhere

    # Requests and notifications

    async def _serve(self, method: str, params: JsonObject) -> Answer:
        serve = self._methods.get(method)
        if serve is None:
            raise UnknownMethod(method)
        if method != "initialize":
            if not self._is_ready:
                raise InvalidRequest(f"{method} before initialize; send initialize first")
            takes = self.settings.prompt_capabilities
            check_params(method, params, self.peer.version, takes)
        return await serve(params)

    def _notified(self, method: str, params: JsonObject) -> None:
        if method == "session/cancel":
            conversation = self.conversations.get(params.get("sessionId") or "")
            if conversation is not None:
                conversation.cancel_soon()

    # Methods

    async def _initialize(self, params: JsonObject) -> Answer:
        if self._is_ready:
            raise InvalidRequest("initialize was sent before; once is enough")
        # Checked by hand: loading the schema would delay the answer that the editor waits for.
        wanted = params.get("protocolVersion")
        if type(wanted) is not int:
            raise InvalidParams(f"protocolVersion: expected a whole number, got {wanted!r}")
        version = self._get_ready(params)
        mine = self.settings
        answer = initialized(
            version, self.history.is_on, mine.info, mine.prompt_capabilities, mine.auth_methods
        )
        return Answer(answer, _warm_up)

    def _get_ready(self, params: JsonObject) -> Literal[1, 2]:
        """Take note of what the client is, and return the version of ACP that is spoken with it."""
        version = chosen_version(params["protocolVersion"], self.settings.protocol)
        self.protocol = AcpV2() if version == 2 else AcpV1()
        self.peer = replace(peer_of(params, version), cancels=version == 2)
        capabilities = params.get("clientCapabilities") if version == 1 else None  # v2 has none
        self.capabilities = capabilities if is_object(capabilities) else EMPTY
        about = params.get("clientInfo" if version == 1 else "info")
        self.client_info = about if is_object(about) else EMPTY
        self._is_ready = True
        return version

    @property
    def who(self) -> JsonObject:
        """Who makes the calls, as the history wants to know it."""
        agent, client = self.settings.info, self.client_info
        return {
            "agent": agent["name"],
            "agent_version": agent["version"],
            "client": client.get("name"),
            "client_version": client.get("version"),
        }

    async def _authenticate(self, params: JsonObject) -> Answer:
        known, authenticate = self.settings.auth_methods, self.settings.authenticate
        if not known or authenticate is None:
            raise InvalidParams("there is nothing to authenticate with; none is needed")
        ids = [str(method["id"]) for method in known]
        if params["methodId"] not in ids:
            given = params["methodId"]
            raise InvalidParams(f"methodId: expected one of {', '.join(ids)}, got {given!r}")
        try:
            waiting = authenticate(params["methodId"])
            if isinstance(waiting, Awaitable):
                await waiting
        except Exception as exc:
            raise AuthRequired(f"authentication failed: {type(exc).__name__}: {exc}") from exc
        return Answer({})

    async def _new(self, params: JsonObject) -> Answer:
        from callsheet.agent.conversation import Conversation

        conversation = await self._open(Conversation.new_id("sess"), params)
        self.conversations[conversation.session_id] = conversation
        return Answer(self.protocol.opened(conversation) | self.history.meta, conversation.show)

    async def _open(self, key: str, params: JsonObject, position: int = 0) -> Conversation:
        """Open a session, new or stored, in the directories that the client names."""
        from callsheet.agent.conversation import Conversation

        cwd = _directory(params["cwd"], "cwd")
        more: list[str] = params.get("additionalDirectories") or []
        servers: list[JsonObject] = params.get("mcpServers") or []
        directories = [_directory(one, "additionalDirectories") for one in more]
        conversation = Conversation(self, key, cwd, directories, servers, position)
        await conversation.session.__aenter__()  # nothing is sent to the client yet
        return conversation

    async def _prompt(self, params: JsonObject) -> Answer:
        return await self.protocol.prompt(self._of(params), params["prompt"], params.get("_meta"))

    async def _load(self, params: JsonObject) -> Answer:
        """Continue a session, and replay it to the client. v2 has `session/resume` for both."""
        return await self._continue(params, replay=True)

    async def _resume(self, params: JsonObject) -> Answer:
        """Continue a session. In v2, the client may ask for a replay."""
        start = params.get("replayFrom") if self.peer.version == 2 else None
        if start is not None and start["type"] != "start":
            raise InvalidParams(f'replayFrom: expected {{"type": "start"}}, got {start!r}')
        return await self._continue(params, replay=start is not None)

    async def _continue(self, params: JsonObject, *, replay: bool) -> Answer:
        key: str = params["sessionId"]
        async with self._lock_of(key):
            conversation = self.conversations.get(key)
            is_new = conversation is None
            if conversation is None:
                conversation = await self._restored(params)
            try:
                if replay:
                    await conversation.replay()
                await self.protocol.resumed(conversation)
            except BaseException:
                if is_new:  # nobody knows of it yet
                    await conversation.close()
                raise
            self.conversations[key] = conversation
        opened = self.protocol.opened(conversation) | self.history.meta
        del opened["sessionId"]
        return Answer(opened, conversation.show if is_new else None)

    def _lock_of(self, key: str) -> asyncio.Lock:
        """Return the lock held while a session is loaded or deleted: two requests must not open it twice."""
        return self._locks.setdefault(key, asyncio.Lock())

    async def _restored(self, params: JsonObject) -> Conversation:
        """Open a stored session, which has ended or belongs to another process."""
        key: str = params["sessionId"]
        try:
            found = await self.history.find(key)
            position = await self.history.end_of(key) if found is not None else 0
        except CallsheetError as exc:
            raise ProtocolError(f"the history can't be read: {exc}") from exc
        if found is None:
            raise self._unknown(key)
        return await self._open(key, params, position)

    async def _delete(self, params: JsonObject) -> Answer:
        """Delete a session, and all that is stored of it. One that does not exist is deleted already."""
        key: str = params["sessionId"]
        async with self._lock_of(key):
            conversation = self.conversations.pop(key, None)
            if conversation is not None:
                await conversation.close()
            try:
                await self.history.forget(key)
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
            stored, more = await self.history.sessions(cwd, cursor)
        except ProtocolError:
            raise
        except CallsheetError:  # it was reported on stderr; the open sessions can still be listed
            stored, more = [], None
        known = {one.session_id for one in stored}
        sessions: list[JsonValue] = [
            {"sessionId": one.session_id, "cwd": one.session.cwd}
            for one in self.conversations.values()
            if one.session_id not in known and cwd in (None, one.session.cwd)
            if cursor is None and not (stored and one.was_used)
        ]
        sessions += [self.protocol.listed(one) for one in stored]
        return Answer({"sessions": sessions} | ({} if more is None else {"nextCursor": more}))

    async def _set_mode(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        conversation.set_mode(_mode(params["modeId"], "modeId"))
        return Answer({}, lambda: self.spawn(conversation.send_options()))

    async def _set_option(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        if params["configId"] != OPTION:
            raise InvalidParams(f"configId: the only one is {OPTION!r}, got {params['configId']!r}")
        conversation.set_mode(_mode(params.get("value"), "value"))
        then = (lambda: self.spawn(conversation.send_mode())) if self.peer.version == 1 else None
        return Answer({"configOptions": conversation.options()}, then)

    async def _cancel_call(self, params: JsonObject) -> Answer:
        conversation = self._of(params)
        key: str = params["toolCallId"]
        if not conversation.cancel_call(key):
            raise InvalidParams(f"toolCallId: no call {key!r} is running")
        return Answer({})

    def _of(self, params: JsonObject) -> Conversation:
        key: str = params["sessionId"]
        found = self.conversations.get(key)
        if found is None:
            raise self._unknown(key)
        return found

    def _unknown(self, key: JsonValue) -> UnknownSession:
        message = f"there is no session {key!r}; make one by session/new"
        if not self.history.is_on:
            message += ". Sessions that have ended are not stored: the history is off"
        return UnknownSession(message, data={"sessionId": key})

    async def ask_permission(self, conversation: Conversation, question: Question) -> JsonValue:
        """Ask the client whether a call may be run. The first open question and the last change the state."""
        conversation.questions += 1
        if conversation.questions == 1:
            await self.protocol.asking(conversation, True)
        try:
            params = question.params(self.peer.version)
            return await self.client.request("session/request_permission", params)
        finally:
            conversation.questions -= 1
            if not conversation.questions:
                await self.protocol.asking(conversation, False)


def _warm_up() -> None:
    """Import what a session needs while the client reads our answer."""
    import callsheet.agent.conversation  # noqa: F401  # pyright: ignore[reportUnusedImport]


def _directory(given: str, field: str) -> str:
    if not os.path.isabs(given):  # noqa: PTH117 - as text
        raise InvalidParams(f"{field}: expected an absolute path, got {given!r}")
    if "\0" in given or not os.path.isdir(given):  # noqa: PTH112
        raise InvalidParams(f"{field}: there is no directory {given!r}")
    return given


def _mode(given: JsonValue, field: str) -> str:
    if not isinstance(given, str) or given not in MODES:
        raise InvalidParams(f"{field}: expected one of {', '.join(MODES)}, got {given!r}")
    return given


# On stdin and stdout


def serve(
    settings: AgentSettings, handshake: Handshake | None = None, *, setup: Sequence[str] = ()
) -> int:
    """Serve the client on stdin and stdout until it disconnects or a signal arrives.

    Args:
        settings: The agent's settings.
        handshake: What was read and answered before.
        setup: The command that prints an editor's settings, for a hint on a terminal.

    Returns:
        The exit code: 0 if the client disconnected, 128 plus the signal's number after a signal.
    """
    from callsheet.tools.stdio_guard import own_stdio

    if os.isatty(0):
        from callsheet.agent.startup import explain  # rarely needed

        explain(setup)
    with own_stdio() as own:
        return asyncio.run(_serve(settings, own.stdin.fileno(), own.stdout.fileno(), handshake))


async def _serve(
    settings: AgentSettings, stdin: int, stdout: int, handshake: Handshake | None
) -> int:
    agent = Agent(settings, stdin, stdout, handshake)
    gc.freeze()  # the modules stay, so it need not look for garbage among them
    gc.enable()
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not signalled.done():  # a second one must not disturb the end
            signalled.set_result(number)

    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None:
            with suppress(NotImplementedError, RuntimeError):  # not on Windows
                loop.add_signal_handler(number, stop, number)
    await agent.serve(signalled)
    code = 128 + signalled.result() if signalled.done() else 0
    # A handler or a tool that blocks the loop, or a thread that never ends, must not delay the exit for ever.
    timer = threading.Timer(LAST, os._exit, (code,))
    timer.daemon = True
    timer.start()
    await agent.close()
    return code
