"""Report the tools of an MCP server of the Python SDK as they run.

    report_tools(server, session)

`server` is an `MCPServer` or a low-level `Server` of mcp 2, or a `FastMCP` or `Server` of mcp 1. Version 2
has middleware, which sees each `tools/call` with its result; in version 1 the handler of these requests is
wrapped. To both, a tool's failure is a result without its exception; that is noted where tools are run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from callsheet.adapters.framework import harmless, imported, require
from callsheet.adapters.reporter import Reporter
from callsheet.adapters.results import is_failure
from callsheet.describe.classify import reading_kind
from callsheet.report.json import is_object
from callsheet.runtime.clock import new_call_id

if TYPE_CHECKING:
    from callsheet.runtime.session import RuntimeSession

VERSIONS = ("mcp", "1.23", "3")

Approve = Callable[[str, Mapping[str, Any]], bool]
"""Whether a call of a tool, by its name and arguments, needs the user's approval."""

_raised: ContextVar[list[BaseException] | None] = ContextVar("callsheet_mcp_raised", default=None)
"""Where the exception of the tool that runs is noted."""


def report_tools(server: Any, session: RuntimeSession, *, approve: Approve | None = None) -> None:
    """Report the calls of a server's tools to a session, which is opened by the first of them.

    Args:
        server: An `MCPServer`, a `FastMCP` or a low-level `Server`, with its tools registered.
        session: The session; it should end after the server.
        approve: Decides which calls need an approval by the session's client. Without it, none do.

    Raises:
        UnknownFramework: `mcp` is not installed, or too old.
        TypeError: `server` is no server of the SDK, or has no tools yet.
    """
    require(*VERSIONS)
    tools = _Tools(server, session, approve)
    inner = getattr(server, "_lowlevel_server", None) or getattr(server, "_mcp_server", server)
    if (manager := getattr(server, "_tool_manager", None)) is not None:
        _note_exceptions(manager)
    if isinstance(getattr(inner, "middleware", None), list):
        inner.middleware.append(tools.middleware)
        return
    request = imported(VERSIONS, "mcp.types", "CallToolRequest")
    handlers: Any = getattr(inner, "request_handlers", {})
    if (handler := handlers.get(request)) is None:
        expected = "an MCPServer, FastMCP or Server of mcp>=1.23,<3 with its tools registered"
        raise TypeError(f"expected {expected}, got {server!r}")
    handlers[request] = tools.wrapped(handler)


class _Tools:
    """The tools of one server, and what is known of them."""

    def __init__(self, server: Any, session: RuntimeSession, approve: Approve | None) -> None:
        self.reporter: Reporter = Reporter(session, "mcp")
        self._server: Any = server
        self._approve: Approve | None = approve
        self._declared: dict[str, dict[str, Any]] = {}
        self._tokens: dict[Any, str] = {}  # mcp 1 sends progress with its request's

    async def middleware(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Report a `tools/call` of mcp 2, and learn from the answers of `tools/list`."""
        if (method := getattr(ctx, "method", None)) != "tools/call":
            result = await call_next(ctx)
            if method == "tools/list":
                self._learn(result)
            return result
        self._follow_request(ctx, key := new_call_id())
        params: dict[str, Any] = ctx.params or {}
        given = params.get("name", ""), params.get("arguments")
        return await self._run(key, *given, lambda: call_next(ctx))

    @harmless
    def _follow_request(self, ctx: Any, key: str) -> None:
        """Report the progress that a request of mcp 2 sends: its session is its own."""
        send = ctx.session.report_progress

        async def report_progress(progress: float, *more: Any, **named: Any) -> None:
            self.reporter.progress(key, progress, *more, **named)
            await send(progress, *more, **named)

        ctx.session.report_progress = report_progress

    def wrapped(self, handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """Return a handler of `tools/call` in mcp 1 that reports the calls."""
        request_ctx: Any = import_module("mcp.server.lowlevel.server").request_ctx

        async def handle(request: Any) -> Any:
            key, ctx = new_call_id(), request_ctx.get(None)
            token = getattr(getattr(ctx, "meta", None), "progressToken", None)
            if ctx is not None and token is not None:
                self._follow(ctx.session)
                self._tokens[id(ctx.session), token] = key
            try:
                given = request.params.name, request.params.arguments
                return await self._run(key, *given, lambda: handler(request))
            finally:
                self._tokens.pop((id(ctx and ctx.session), token), None)

        return handle

    @harmless
    def _follow(self, connection: Any) -> None:
        """Report the progress that a connection of mcp 1 sends."""
        send = connection.send_progress_notification
        if getattr(send, "reports_to", None) is self:
            return

        async def send_progress(*given: Any, **named: Any) -> None:
            names = ("progress_token", "progress", "total", "message")
            values = dict(zip(names, given, strict=False)) | named
            key = self._tokens.get((id(connection), values.get("progress_token")), "")
            self.reporter.progress(key, *(values.get(name) for name in names[1:]))
            await send(*given, **named)

        send_progress.reports_to = self  # type: ignore[attr-defined]
        connection.send_progress_notification = send_progress

    async def _run(
        self, key: str, name: Any, arguments: Any, run: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Run a tool, and report it."""
        if (reporter := self.reporter).session.is_closed:
            return await run()
        reporter.session.open()
        about: dict[str, Any] = {"alias": None, **await self._about(name)}
        if self._approve is not None and self._approve(name, arguments or {}):
            approval = await reporter.approval(key, str(name), arguments, **about)
            if not approval.is_allowed:
                return _refusal(approval.message)
        reporter.start(key, str(name), arguments, **about)
        noted = _raised.set(raised := list[BaseException]())
        try:
            with reporter.running(key):
                result = await run()
        except BaseException as exc:
            reporter.end(key, exc=exc)
            raise
        finally:
            _raised.reset(noted)
        answer = getattr(result, "root", result)  # mcp 1 wraps results
        reporter.end(key, answer, raised[-1] if raised and is_failure(answer) else None)
        return result

    async def _about(self, name: Any) -> dict[str, Any]:
        """Return what the server declares about a tool."""
        if name not in self._declared and hasattr(self._server, "_tool_manager"):
            with suppress(Exception):  # the tool runs, whatever the list has
                self._learn(await self._server.list_tools())
        return self._declared.get(name, {})

    @harmless
    def _learn(self, listed: Any) -> None:
        plain = _plain(listed)
        for tool in map(_plain, plain["tools"] if is_object(plain) else plain):
            name: str = tool["name"]
            hints: dict[str, Any] = tool.get("annotations") or {}
            self._declared[name] = about = dict[str, Any](annotations=hints)
            if hints.get("readOnlyHint") is True:
                about["kind"] = reading_kind(name)  # the server is the caller's own


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    return value if dump is None else dump(by_alias=True, exclude_none=True)


def _refusal(message: str) -> Any:
    types = import_module("mcp.types")
    result = types.CallToolResult(content=[{"type": "text", "text": message}], isError=True)
    return types.ServerResult(result) if isinstance(types.ServerResult, type) else result


def _note_exceptions(manager: Any) -> None:
    """Note what tools raise, before the server makes a result of it that does not have the exception."""
    call_tool = manager.call_tool

    async def noting(*given: Any, **more: Any) -> Any:
        try:
            return await call_tool(*given, **more)
        except Exception as exc:
            if (raised := _raised.get()) is not None:
                raised.append(exc.__cause__ or exc)
            raise

    manager.call_tool = noting
