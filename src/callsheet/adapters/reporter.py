"""What the adapters share: `Reporter` turns a framework's callbacks into calls of a session.

A call is known by the framework's own id, the key, until it ends. Nothing here raises into the framework:
what can't be reported is counted in `session.health`. `Decision` is the answer to a question that the
framework asks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, Self

from callsheet.acp.permission import PermissionOption
from callsheet.adapters.argument_stream import ArgumentStream, whole_arguments
from callsheet.adapters.framework import name_framework
from callsheet.adapters.results import is_failure, shown
from callsheet.report.content import TextContent
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.call import RuntimeCall
from callsheet.runtime.health import PermissionDenied, safely
from callsheet.runtime.options import CallSpec, described
from callsheet.runtime.session import RuntimeSession


class OpenCall(NamedTuple):
    """A call, and the one whose tool has started it, such as that of a sub-agent."""

    call: RuntimeCall
    above: OpenCall | None


_RUNNING: ContextVar[OpenCall | None] = ContextVar("callsheet_running", default=None)


def _running() -> OpenCall | None:
    """Return the call whose tool runs in this context. Not every framework says there that it has ended."""
    found = _RUNNING.get()
    while found is not None and found.call.has_ended:
        found = found.above
    return found


def running_call() -> RuntimeCall | None:
    """Return the call whose tool runs in this context; None where no adapter runs one."""
    found = _running()
    return None if found is None else found.call


class Decision(NamedTuple):
    """The answer to a framework's question. `message` is why not, for the model."""

    is_allowed: bool
    always: bool = False
    message: str = ""


class Reporter:
    """Reports the calls of a framework to a session, each by the framework's own id.

    A `with` block, or `close`, ends what was left open.

    Args:
        session: The session, opened by `async with`.
        framework: The framework's package, by which the history knows who has made the calls.
        before_call: Sends what a served agent has said so far.
    """

    def __init__(
        self,
        session: RuntimeSession,
        framework: str | None = None,
        before_call: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.session: RuntimeSession = session
        self._before_call: Callable[[], Awaitable[None]] | None = before_call
        if framework is not None:
            name_framework(session, framework)
        self.calls: dict[str, list[OpenCall]] = {}
        """The calls that have not ended, by their keys."""
        self._streams: dict[str, ArgumentStream] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(exc)

    async def flush(self) -> None:
        """Send what the agent has said, before a call is announced."""
        if self._before_call is not None:
            await self._before_call()

    # The life of a call

    @safely
    def open(
        self,
        key: str,
        name: str,
        args: Any = None,
        *,
        parent: str | None = None,
        **options: Any,
    ) -> None:
        """Announce a call as pending: a model asks for it. One that is known gets its arguments.

        Args:
            key: The framework's id of the call.
            name: The tool's name.
            args: The arguments, as an object or as JSON text. While they are None, nothing is announced: an
                editor shows a call whose input it does not know badly, and some never update it.
            parent: The key of the call that this one is part of. Default: the one whose tool is running.
            options: As in `session.call`.
        """
        self._opened(key, name, args, parent, options)

    @safely
    def start(
        self,
        key: str,
        name: str,
        args: Any = None,
        *,
        parent: str | None = None,
        **options: Any,
    ) -> None:
        """Report that a tool runs. Arguments as in `open`; a call that is not known is announced."""
        opened = self._opened(key, name, {} if args is None else args, parent, options)
        if opened is not None:
            opened.call.start()

    def _opened(
        self, key: str, name: str, args: Any, parent: str | None, options: dict[str, Any]
    ) -> OpenCall | None:
        above = _running() if parent is None else self._found(parent)
        for one in self.calls.get(key, ()):
            # Some models number the calls of each agent anew. An approval is asked for at the top,
            # whichever agent's call it is about.
            is_asked = one.call.status is ToolCallStatus.PENDING and None in (above, one.above)
            if one.above is above or is_asked:
                if args is not None:
                    self._set_arguments(one.call, args)
                return one
        if args is None:
            self._streams[key] = ArgumentStream(name, {"parent": parent, **options})
            return None
        self._streams.pop(key, None)
        if above is not None and above.call.session is self.session:
            options["parent"] = above.call
        options.setdefault("alias", key)
        call = self.session.open_call(name, whole_arguments(args), **options)
        self.calls.setdefault(key, []).append(opened := OpenCall(call, above))
        return opened

    def _found(self, key: str) -> OpenCall | None:
        known = self.calls.get(key, ())
        if len(known) == 1:
            return known[0]
        here = _running()
        below = [one for one in known if one.above is here]
        same = [one for one in known if one is here]
        return next(iter(below or same or known), None)

    def find(self, key: str) -> RuntimeCall | None:
        """Return the call that has a key and has not ended; of several, the one that belongs here."""
        found = self._found(key)
        return None if found is None else found.call

    def _set_arguments(self, call: RuntimeCall, given: Any) -> None:
        """Set the arguments of a call, and with them its title, kind and locations."""
        value = whole_arguments(given)
        if value == call.whole_input:
            return
        spec = CallSpec(call.report.name or "", value)
        report, _ = described(spec, self.session)
        call.update(
            raw_input=value, title=report.title, kind=report.kind, locations=report.locations
        )

    @safely
    def arguments_piece(self, key: str, piece: object) -> None:
        """Add a piece of arguments that a model is writing as JSON text. What is no text is ignored.

        The call is announced with the first argument that is complete, and gets the others as they are.
        """
        stream = self._streams.get(key)
        if stream is not None and isinstance(piece, str) and (members := stream.feed(piece)):
            self.open(key, stream.name, members, **stream.options)
            self._streams[key] = stream

    @safely
    def progress(
        self,
        key: str,
        done: float | None = None,
        total: float | None = None,
        message: str | None = None,
    ) -> None:
        """Report how far a tool is."""
        if (call := self.find(key)) is not None:
            call.progress(done, total, message)

    @safely
    def end(
        self,
        key: str,
        output: Any = None,
        exc: BaseException | None = None,
        *,
        is_error: bool = False,
        reason: Reason = Reason.TOOL_ERROR,
    ) -> None:
        """End a call. The end of one that is not known, or has ended, is ignored.

        Args:
            key: The framework's id of the call.
            output: The tool's result, of any kind.
            exc: What the tool raised, also if the framework made a result of it.
            is_error: Whether the result says that the tool has failed. MCP's results say it themselves.
            reason: Why it failed, if `is_error`.
        """
        self._streams.pop(key, None)
        if (found := self._found(key)) is None:
            return
        self.calls[key].remove(found)
        if not self.calls[key]:
            del self.calls[key]
        call, raw = found.call, None
        content: Any = output
        if exc is not None:
            call.close(exc)
            return
        try:
            is_error = is_error or is_failure(output)
            if type(output) is not str:
                items, raw = shown(output)
                is_text = len(items) == 1 and type(items[0]) is TextContent
                content = items[0].text if is_text else items  # one text takes the short way
        except Exception as fault:  # noqa: BLE001 - a result can be anything, and the call has ended
            self.session.faults.degraded(fault)
            content = None
        if is_error:
            call.fail(content or None, reason=reason, raw=raw)
        else:
            call.succeed(content or None, raw=raw)

    def abandon(self, keys: Iterable[str], exc: BaseException) -> None:
        """End those of these calls that have not begun to run, and now never will."""
        for key in list(keys):
            call = self.find(key)
            if call is not None and call.status is ToolCallStatus.PENDING:
                self.end(key, exc=exc)

    def close(self, exc: BaseException | None = None) -> None:
        """End every call that is left, the latest first: as cancelled if `exc` is a cancellation."""
        for opened in reversed([one for known in self.calls.values() for one in known]):
            opened.call.close(exc)
        self.calls.clear()
        self._streams.clear()

    # Tools that the adapter runs, and questions

    def runs_here(self, key: str) -> None:
        """Make a call the parent of what this context starts from now on, until it ends."""
        _RUNNING.set(self._found(key) or _running())

    @contextmanager
    def running(self, key: str) -> Generator[None]:
        """Make a call the parent of what is started in this block."""
        before = _RUNNING.get()
        self.runs_here(key)
        try:
            yield
        finally:
            _RUNNING.set(before)  # no token: a generator may be closed in another context

    async def approval(
        self,
        key: str,
        name: str,
        args: Any = None,
        *,
        always: bool = False,
        **options: Any,
    ) -> Decision:
        """Ask the client what the framework asks: may this call be run? A refusal ends the call.

        Args:
            key: The framework's id of the call, which is announced if it is not known.
            name: The tool's name.
            args: The arguments.
            always: Whether the framework can remember an approval for all calls of this tool.
            options: As in `session.call`.
        """
        self.open(key, name, {} if args is None else args, **options)
        call, mode = self.find(key), getattr(self.session, "permissions", None)
        if getattr(mode, "mode", None) == "allow":
            return Decision(True)
        if call is None:
            return Decision(False, message=self.session.phrase("nobody_to_ask"))
        if getattr(mode, "mode", None) == "deny":
            self.end(key, exc=(refused := PermissionDenied(self.session.phrase("denied"))))
            return Decision(False, message=str(refused))
        kinds = ["allow_once", *(["allow_always"] if always else []), "reject_once"]
        options_ = [PermissionOption(kind, self.session.phrase(kind), kind) for kind in kinds]
        try:
            chosen = await call.permission(options_)
        except PermissionDenied as exc:
            self.end(key, exc=exc)  # it has ended already, and is forgotten now
            return Decision(False, message=str(exc))
        except BaseException as exc:
            self.end(key, exc=exc)
            raise
        return Decision(True, chosen.kind == "allow_always")
