"""Own the public `Session` and `Call`, which extend those of the runtime with tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, cast

from msgspec import Struct

from callsheet.report.errors import InvalidValue
from callsheet.report.json import EMPTY, JsonObject, JsonValue
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.call import RuntimeCall
from callsheet.runtime.call_state import CallState
from callsheet.runtime.endings import Ending
from callsheet.runtime.options import CallOptions, Links, SessionOptions
from callsheet.runtime.session import RuntimeSession
from callsheet.telemetry import session_sink
from callsheet.tools.path_locks import PathClaim
from callsheet.tools.permissions import MODES, Mode, Permissions
from callsheet.tools.tool import Registry

from .errors import Cancelled, ToolError
from .executor import AT_ONCE, TIMEOUT, Asked, Executor
from .host import Host
from .result import NO_OUTPUT, ToolResult, content_of
from .tool import Tool
from .workspace import FileMemory, Workspace

if TYPE_CHECKING:
    from callsheet.telemetry.otel import OtelSink
    from callsheet.telemetry.trace_ids import TraceContext

    from .mcp.config import McpServer
    from .mcp.servers import McpServers


T = TypeVar("T")


class ToolSettings(Struct, frozen=True, kw_only=True):
    """Settings that apply to all tools of a session.

    `timeout` is in seconds, for tools without a timeout of their own. `private_hosts` are hosts, addresses
    or networks that `fetch` may connect to although they are not public; "*" allows all.
    """

    timeout: float | None = TIMEOUT
    private_hosts: tuple[str, ...] = ()


class Call(RuntimeCall):
    """A live call, as passed to its tool."""

    session: Session  # pyright: ignore[reportIncompatibleVariableOverride]
    claim: PathClaim | None = None
    """The paths that the executor locks for it."""
    around: PathClaim | None = None
    """The paths that are locked for the calls that it is nested in."""

    def success(self, output: str) -> ToolResult:
        """Return the result of a tool that succeeded. `output` is the text for users and models."""
        return ToolResult.success(self.id, self.report.name or "", output)

    def error(self, error: str | ToolError, *, output: str = "") -> ToolResult:
        """Return the result of a tool that failed.

        Args:
            error: What was wrong, and what would be right: a message or a `ToolError`.
            output: Output besides the message, such as what a command had printed.
        """
        return ToolResult.error(self.id, self.report.name or "", error, output=output)

    @property
    def workspace(self) -> Workspace:
        """The directories that tools may access."""
        return self.session.workspace

    @property
    def files(self) -> FileMemory:
        """The states in which tools of this session have seen files."""
        return self.session.files

    def locate(self, path: Any, line: int | None = None) -> None:
        """Report the file that is being worked on, by the path that the client uses for it."""
        super().locate(self._as_given(path), line)

    def diff(self, path: Any, old: str | None, new: str | None) -> None:
        """Report a change to a file, by the path that the client uses for it."""
        super().diff(self._as_given(path), old, new)

    def _as_given(self, path: Any) -> Any:
        linked = self.workspace.is_linked and isinstance(path, (str, Path))
        return self.workspace.as_given(Path(path)) if linked else path

    def check_wanted(self) -> None:
        """Raise if the call has ended. Call this in a thread to stop work whose result nobody awaits.

        Raises:
            Cancelled: The call has ended.
        """
        if self.has_ended:
            raise Cancelled("stopped")

    def conclude(self, result: ToolResult, reason: Reason | None) -> None:
        """End the call with its result, unless it has ended already."""
        if self.has_ended:
            return
        raw: JsonObject = {"success": result.success}
        if result.error is not None:
            raw["error"] = result.error
        if result.exit_code is not None:
            raw["exit_code"] = result.exit_code
        written = self.output is not None and not self.output.is_empty
        if written and result.error is not None:
            shown: Any = (result.error, *result.content)
        elif written and (result.is_written or result.output == NO_OUTPUT):
            shown = result.content or None
        else:
            shown, written = content_of(result), False
        raw |= self._raw_text(result, written=written)
        raw["metadata"] = dict(result.metadata)
        status = ToolCallStatus.COMPLETED if result.success else ToolCallStatus.FAILED
        if reason is Reason.CANCELLED:
            status = ToolCallStatus.CANCELLED
        self._end(Ending(status, reason, shown), raw)

    def _raw_text(self, result: ToolResult, *, written: bool) -> JsonObject:
        """Return the output, or only a one-line outcome if the output was already sent live.

        Output in a client's own terminal is included, because a client without a user interface does not
        show that terminal.
        """
        own_terminal = self.output is not None and self.output.state.shown_as is not None
        if not written or own_terminal:
            return {} if result.output == result.error else {"output": result.output}
        code = result.exit_code
        line = None if code is None else self.session.phrase("exit_code", code=code)
        message = result.error or line
        return {} if message is None else {"message": message}


class Session(RuntimeSession):
    """The calls of one conversation, its tools, and the sinks that receive them.

    Args:
        session_id: The id of the session; see `callsheet.runtime.session.RuntimeSession`.
        tools: Your own tools, in addition to the built-in ones.
        builtin: Whether to include the built-in tools, or the names of those to include.
        permission: How to handle calls that need permission: "ask", "edits", "allow" or "deny". By default,
            the user is asked if there is an `on_permission` handler; without one, the calls run, except for
            tools that always need permission and paths outside the workspace.
        tool_settings: Settings that apply to all tools.
        mcp_servers: `McpServer` objects, or entries of ACP's `mcpServers`. Their tools are available once
            `connected` has returned; `run` and `run_all` wait for it.
        additional_directories: Directories besides `cwd` that tools may access.
        host: Where files are and commands run, if not on this machine alone.
        on_exception: Called with the traceback, without secrets, of an exception that a tool has not raised
            on purpose. Results and reports have its first line only.
        options: Everything else that `RuntimeSession` accepts.

    Raises:
        InvalidValue: `permission` is not one of the modes.
    """

    call_type: type[Call] = Call  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        session_id: str | None = None,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        builtin: bool | Sequence[str] = True,
        permission: Mode | None = None,
        tool_settings: ToolSettings | None = None,
        mcp_servers: Sequence[McpServer | Mapping[str, Any]] = (),
        additional_directories: Sequence[str] = (),
        host: Host | None = None,
        on_exception: Callable[[str], object] | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        if permission is not None and permission not in MODES:
            raise InvalidValue(
                f"permission: expected one of {', '.join(MODES)}, got {permission!r}"
            )
        sinks = [*options.get("sinks", ())]
        spans = next((one for one in sinks if getattr(one, "takes_ends", False)), None)
        options["sinks"] = [one for one in sinks if one is not spans]
        super().__init__(session_id, additional_directories=additional_directories, **options)
        self.spans: OtelSink | None = cast("OtelSink | None", spans)
        """What makes OpenTelemetry spans of the calls, if anything does."""
        self.trace: TraceContext | None = None
        """What the client's trace is, if it has one: without spans of our own, it is passed on as it came."""
        if self.spans is None:
            self.spans = session_sink(self.session_id)
        else:
            self.spans.opened(self.session_id)
        self.tool_settings: ToolSettings = tool_settings or ToolSettings()
        self.tools: Registry = Registry(tools, builtin=builtin)
        self.host: Host = host or Host()
        self.on_exception: Callable[[str], object] | None = on_exception
        self.files: FileMemory = FileMemory(by_text=self.host.by_text)
        self.workspace: Workspace = Workspace(self.cwd, additional_directories)
        self.permissions: Permissions = Permissions(permission)
        self._executor: Executor = Executor(self, self.tools, self.permissions)
        self._servers: McpServers | None = self._made_servers(mcp_servers) if mcp_servers else None
        self._connecting: asyncio.Task[list[str]] | None = None
        self._when_ended: dict[str, list[Callable[[], object]]] = {}

    def call(
        self,
        name: str,
        input: JsonValue = None,  # noqa: A002 - the contract's name
        *,
        timeout: float | None = None,
        **options: Unpack[CallOptions],
    ) -> Call:
        """Create a call for a tool that you run yourself; see `RuntimeSession.call`."""
        return cast("Call", super().call(name, input, timeout=timeout, **options))

    def open_call(
        self,
        name: str,
        input: JsonValue = None,  # noqa: A002 - the contract's name
        **options: Unpack[CallOptions],
    ) -> Call:
        """Announce a call that is no scope; see `RuntimeSession.open_call`."""
        return cast("Call", super().open_call(name, input, **options))

    async def run(
        self,
        name: str,
        arguments: JsonObject | None = None,
        *,
        timeout: float | None = None,
        **links: Unpack[Links],
    ) -> ToolResult:
        """Run a tool and report its call.

        May be called on any event loop, so that a tool that runs in a thread can make calls.

        Args:
            name: The tool's name.
            arguments: Its arguments.
            timeout: Seconds that it may run, instead of its own timeout or the session's.
            links: `alias`, `parent`, `depends_on`, `batch`, `meta` and `custom`, as in `call`.

        Returns:
            The tool's result. A failure of the tool is returned as a failed result, not raised.
        """
        self.open()
        if self._is_elsewhere():
            return await self._over_there(self.run(name, arguments, timeout=timeout, **links))
        if self._servers is not None:
            await self.connected()
        return await self._executor.run(name, arguments, timeout=timeout, **links)

    async def run_all(self, calls: Iterable[Asked], *, at_once: int = AT_ONCE) -> list[ToolResult]:
        """Run tools in parallel, and return their results in the order of the calls.

        Args:
            calls: The name and the arguments of each call: `[("read", {"path": "a"}), …]`.
            at_once: Maximum number of tools that run at the same time.

        Raises:
            InvalidValue: `at_once` is less than 1.
        """
        self.open()
        if self._is_elsewhere():
            return await self._over_there(self.run_all(calls, at_once=at_once))
        if self._servers is not None:
            await self.connected()
        return await self._executor.run_all(calls, at_once=at_once)

    def _is_elsewhere(self) -> bool:
        """Return whether the session runs on another event loop than the current one."""
        loop = self.loop
        return loop is not None and loop.is_running() and loop is not asyncio.get_running_loop()

    async def _over_there(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the session's own event loop, which the locks on paths belong to."""
        assert self.loop is not None
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def cancel(self, key: str, message: str | None = None) -> bool:
        """Cancel a running tool, from any thread.

        Args:
            key: The id or alias of its call.
            message: The error message of its result, instead of the default one.

        Returns:
            Whether the tool was running.
        """
        return self._executor.cancel(key, message)

    def when_ended(self, call: Call, function: Callable[[], object]) -> None:
        """Schedule a function to be called on the event loop when a call has ended."""
        self._when_ended.setdefault(call.id, []).append(function)

    def ended(self, call: CallState) -> None:
        """Schedule the functions that were registered with `when_ended` for a call."""
        super().ended(call)
        if self.spans is not None:
            self.spans.ended(call)
        for function in self._when_ended.pop(call.id, ()) if self._when_ended else ():
            if self.loop is not None and not self.loop.is_closed():
                self.loop.call_soon_threadsafe(function)

    def trace_meta(self, call_id: str) -> JsonObject:
        """Return the fields of a `_meta` that make what others do for a call a part of its trace."""
        if self.spans is not None:
            return self.spans.context_of(call_id)
        return EMPTY if self.trace is None else self.trace.meta()

    async def connected(self) -> list[str]:
        """Wait until every MCP server has started or failed, and return a message for each problem."""
        if self._servers is None:
            return []
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._connect(self._servers))
        return await asyncio.shield(self._connecting)

    async def _connect(self, servers: McpServers) -> list[str]:
        await servers.__aenter__()
        await servers.tools()
        servers.register(self.tools)
        for problem in servers.problems:
            self.faults.count(problem, failed=1)
        return servers.problems

    def _made_servers(self, given: Sequence[McpServer | Mapping[str, Any]]) -> McpServers:
        from .mcp.servers import McpServers

        made = McpServers(given, self.workspace, lambda: made.register(self.tools))
        self.guard.learn(made.secrets())
        return made

    async def __aenter__(self) -> Self:
        """Open the session, and start its MCP servers without waiting for them."""
        self.open()
        if self._servers is not None:
            self._connecting = asyncio.ensure_future(self._connect(self._servers))
        return self

    async def stop_tools(self) -> None:
        """Stop all running tools, and wait until their calls have ended."""
        await self._executor.stop()

    async def close(self) -> None:
        """Stop all running tools and MCP servers, then close the session; see `RuntimeSession.close`."""
        if self.is_closed:
            return
        try:
            await self._executor.close()
            if self._servers is not None and self._connecting is not None:
                await self._servers.close()
                self._connecting.cancel()
        finally:
            await super().close()
            if self.spans is not None:
                self.spans.close()
