"""One connection to a server, from hello to its end. It is never mended: who needs another makes one.

The SDK's contexts must be left by the task that entered them. So each connection has a task that owns
them, and calls are made from other tasks. Every call ends when the connection does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from callsheet.tools.errors import IOFailed

from . import sdk
from .config import McpServer
from .faults import Lost, NotDelivered, ServerFault, StartFailed
from .process import ServerProcess

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult, Tool

    from .client import Client
    from .links import Link

ABANDON = 0.5
"""Seconds in which a server is told that a call was cancelled; after that, the caller waits no more."""

LAST_WORDS = 0.2
"""Seconds in which an answer that came just before the end is still taken."""


class Connection:
    """A connection. Making one starts to connect; `ready` waits for it."""

    def __init__(
        self,
        server: McpServer,
        cwd: str,
        roots: Sequence[Path],
        on_change: Callable[[], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        self._server = server
        self._cwd = server.cwd or cwd
        self._roots = roots
        self._on_change = on_change
        self._ready: asyncio.Future[Sequence[Tool]] = loop.create_future()
        self._end: asyncio.Future[str] = loop.create_future()
        self._client: Client | None = None
        self._link: Link | None = None
        self._process: ServerProcess | None = None
        self._strays: set[asyncio.Task[Any]] = set()
        # Not in the context of the call that happens to need the connection: it outlives the call.
        self._owner = asyncio.create_task(
            self._own(), name=f"callsheet {server}", context=Context()
        )
        self._owner.add_done_callback(lambda _: self._fail("was closed"))  # if it never began

    @property
    def is_over(self) -> bool:
        """Whether it is of no use any more."""
        if self._end.done() or self._owner.done():
            return True
        return self._process is not None and self._process.has_exited

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of it."""
        return self._owner.done() and not self._strays

    async def ready(self) -> Sequence[Tool]:
        """Wait until the server has said hello, and give its tools. Raises `StartFailed`."""
        return await asyncio.shield(self._ready)

    async def list_tools(self) -> Sequence[Tool]:
        """Ask for the tools again."""
        return [] if self._client is None else await self._client.list_tools()

    async def call(
        self, tool: str, arguments: dict[str, Any], on_progress: ProgressFnT
    ) -> CallToolResult:
        """Call a tool, once. Raises a `ToolError`, `Lost`, or `NotDelivered`."""
        if self._client is None or self.is_over:
            raise NotDelivered(self.why)
        asking = asyncio.create_task(self._client.call(tool, arguments, on_progress))
        asking.add_done_callback(_heard)
        try:
            await asyncio.wait({asking, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.wait({asking}, timeout=LAST_WORDS)
            self._note_end()
            if self._end.done() and (not asking.done() or isinstance(asking.exception(), IOFailed)):
                raise Lost(self.why)
            return asking.result()
        finally:
            if not asking.done():
                await self._abandon(asking)

    async def _abandon(self, asking: asyncio.Task[Any]) -> None:
        """Let the server know that nobody waits, but don't wait long for that."""
        self._strays.add(asking)
        asking.add_done_callback(self._strays.discard)
        asking.cancel()
        await asyncio.wait({asking}, timeout=ABANDON)

    def lose(self, why: str) -> None:
        """End the connection, and with it every call."""
        if not self._end.done():
            self._end.set_result(why)

    def _note_end(self) -> None:
        """End if the link is over."""
        if self._link is not None and self._link.over.done():
            self.lose(self._link.over.result())

    async def close(self) -> None:
        """End the connection, and wait until nothing is left of it."""
        self.lose("was closed")
        if not self._ready.done():
            self._owner.cancel()
        await asyncio.wait({self._owner, *self._strays})

    @property
    def why(self) -> str:
        """Why it is over, and what the server complained of last."""
        why = self._end.result() if self._end.done() else "is not connected"
        tail = self._link.tail if self._link is not None else ""
        return f"{why}. The last that it wrote:\n{tail}" if tail else why

    # What the owner does

    async def _own(self) -> None:
        try:
            async with asyncio.timeout(self._server.start_timeout) as deadline:
                try:
                    self._process = await self._start()
                    await sdk.prepare()
                    await self._speak(deadline)
                except BaseException as exc:
                    self._fail(self._why_not(exc, timed_out=deadline.expired()))
                    raise
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - all of it was told
            pass
        finally:
            self.lose("was closed")
            if self._process is not None:
                await self._process.close()

    async def _start(self) -> ServerProcess | None:
        if self._server.command is None:
            return None
        try:
            return await ServerProcess.start(
                self._server.command, self._server.args, self._server.env, self._cwd
            )
        except NotADirectoryError as exc:
            raise StartFailed(f"can't be started: {exc}") from None
        except FileNotFoundError:
            raise StartFailed(
                f"can't be started: there is no program {self._server.command!r}"
            ) from None
        except OSError as exc:
            raise StartFailed(f"can't be started: {exc.strerror or exc}") from None

    async def _speak(self, deadline: asyncio.Timeout) -> None:
        from .client import Client, link_to

        link = self._link = link_to(self._server, self._process)
        link.over.add_done_callback(lambda _: self._note_end())
        async with Client.over(self._server, link, self._roots, self._on_change) as client:
            tools = await client.greet()
            deadline.reschedule(None)
            self._client = client
            self._ready.set_result(tools)
            await asyncio.shield(self._end)

    def _fail(self, why: str) -> None:
        """Tell everybody who waits that it went wrong, before what is left is cleared away."""
        self.lose(why)
        if not self._ready.done():
            self._ready.set_exception(StartFailed(self.why))
            self._ready.exception()  # told, also if nobody waits

    def _why_not(self, exc: BaseException, *, timed_out: bool) -> str:
        exc = _innermost(exc)
        if timed_out:
            return f"did not start within {self._server.start_timeout:g} seconds"
        if isinstance(exc, ServerFault):
            return str(exc)
        if isinstance(exc, asyncio.CancelledError):
            return "was closed"
        return f"can't be spoken with: {str(exc).strip() or type(exc).__name__}"


def _heard(task: asyncio.Task[Any]) -> None:
    """Take note of what a task has raised, also if nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


def _innermost(exc: BaseException) -> BaseException:
    """Return what was raised: the SDK's task groups wrap whatever passes them."""
    if isinstance(exc, BaseExceptionGroup):
        return _innermost(cast("BaseExceptionGroup[BaseException]", exc).exceptions[0])
    return exc
