"""What the adapters share: `Reporter` turns a framework's callbacks into calls of a session.

A call is known by the framework's own id, the key, until it ends. Nothing here raises into the framework:
what can't be reported is counted in `session.health`. `require` checks the framework's version, and
`Decision` is the answer to a question that the framework asks.
"""

from __future__ import annotations

import re
import warnings
from base64 import b64decode
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from importlib import import_module, metadata
from inspect import iscoroutinefunction
from types import TracebackType, new_class
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

from callsheet.acp.permission import PermissionOption
from callsheet.adapters.argument_stream import ArgumentStream, whole_arguments
from callsheet.adapters.results import is_failure, shown
from callsheet.report.content import TextContent
from callsheet.report.errors import CallsheetError
from callsheet.report.json import EMPTY, JsonObject
from callsheet.report.status import Reason
from callsheet.runtime.call import RuntimeCall
from callsheet.runtime.health import PermissionDenied, safely
from callsheet.runtime.options import CallSpec, described
from callsheet.runtime.session import RuntimeSession

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt

T = TypeVar("T")
Callback = TypeVar("Callback", bound=Callable[..., Any])

_RUNNING: ContextVar[RuntimeCall | None] = ContextVar("callsheet_running", default=None)
"""The call whose tool runs in this context: the parent of what it starts, such as a sub-agent's calls."""


def running_call() -> RuntimeCall | None:
    """Return the call whose tool runs in this context; None where no adapter runs one."""
    return _RUNNING.get()


class UnknownFramework(CallsheetError):
    """A framework is not installed, is too old, or is none that there is an adapter for."""


def require(package: str, lowest: str, below: str) -> None:
    """Check the version of a framework. One that is newer than those tried is a warning.

    Args:
        package: The package's name in the registry.
        lowest: The first version that works.
        below: The first version that was not tried.

    Raises:
        UnknownFramework: It is not installed, or older than `lowest`.
    """
    works = f"{package}>={lowest},<{below}"
    try:
        found = metadata.version(package)
    except metadata.PackageNotFoundError:
        raise UnknownFramework(
            f"{package} is not installed; install it: pip install '{works}'"
        ) from None
    if _numbers(found) < _numbers(lowest):
        raise UnknownFramework(f"{package} {found} is too old; these versions work: {works}")
    if _numbers(found) >= _numbers(below):
        message = f"{package} {found} was not tried; reports may lack something. Tried: {works}"
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def _numbers(version: str) -> list[int]:
    found = re.match(r"[\d.]*\d", version)
    return [int(part) for part in found[0].split(".")] if found else [0]


def name_framework(session: RuntimeSession, package: str, client: JsonObject = EMPTY) -> None:
    """Let the history say who makes a session's calls, where nobody has said it: a framework, and for whom.

    Args:
        session: The session; those of its sinks that are logs of a history get the names.
        package: The framework's package in the registry.
        client: What the client calls itself: `name` and `version`.
    """
    if not any(getattr(sink, "takes_records", False) for sink in session.sinks):
        return
    from callsheet.history.rows import Origin, name_text
    from callsheet.history.sink import SessionLog

    origin = Origin(
        agent=package,
        agent_version=metadata.version(package),
        client=name_text(str(client.get("name") or "")),
        client_version=name_text(str(client.get("version") or "")),
        source="adapter",
    )
    for sink in session.sinks:
        if isinstance(sink, SessionLog):
            sink.describe(session.cwd, {}, origin)


@cache
def derived(mixin: type[Any], module: str, base: str) -> type[Any]:
    """Return a class that is ours and the framework's, made when it is used: it imports the framework.

    Raises:
        UnknownFramework: The framework has no such class.
    """
    try:
        found = getattr(import_module(module), base)
    except (ImportError, AttributeError) as exc:
        raise UnknownFramework(f"{module}.{base} can't be used: {exc}") from exc
    return new_class(mixin.__name__, (mixin, found))


def harmless(callback: Callback) -> Callback:
    """Make a method that a framework calls count its errors, instead of raising them into the user's run.

    A version that is newer than those tried may give it other objects. The method's object has a `reporter`.
    """

    @wraps(callback)
    def direct(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return callback(self, *args, **kwargs)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the run is not to blame
            return self.reporter.session.faults.degraded(exc)

    @wraps(callback)
    async def awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return await callback(self, *args, **kwargs)
        except Exception as exc:  # noqa: BLE001 - as above
            return self.reporter.session.faults.degraded(exc)

    return cast("Callback", awaited if iscoroutinefunction(callback) else direct)


def prompt_media(prompt: Prompt) -> list[tuple[bytes, str]]:
    """Return the images and the audio of a prompt, each with its MIME type."""
    blocks = (*prompt.images, *prompt.audio)
    return [(b64decode(block["data"]), block["mimeType"]) for block in blocks]


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
    """

    def __init__(self, session: RuntimeSession, framework: str | None = None) -> None:
        self.session: RuntimeSession = session
        if framework is not None:
            name_framework(session, framework)
        self.calls: dict[str, RuntimeCall] = {}
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
        if key in self.calls:
            if args is not None:
                self.arguments(key, args)
        elif args is None:
            self._streams[key] = ArgumentStream(name, {"parent": parent, **options})
        else:
            self._streams.pop(key, None)
            above = _RUNNING.get() if parent is None else self.calls.get(parent)
            if above is not None and above.session is self.session:
                options["parent"] = above
            options.setdefault("alias", key)
            self.calls[key] = self.session.open_call(name, whole_arguments(args), **options)

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
        self.open(key, name, {} if args is None else args, parent=parent, **options)
        self.calls[key].start()

    @safely
    def arguments(self, key: str, given: Any) -> None:
        """Set the arguments of a call, and with them its title, kind and locations."""
        call = self.calls.get(key)
        value = whole_arguments(given)
        if call is None or value == call.whole_input:
            return
        spec = CallSpec(call.report.name or "", value)
        report, _ = described(spec, self.session)
        call.update(
            raw_input=value, title=report.title, kind=report.kind, locations=report.locations
        )

    @safely
    def arguments_piece(self, key: str, piece: str) -> None:
        """Add a piece of arguments that a model is writing as JSON text.

        The call is announced with the first argument that is complete, and gets the others as they are.
        """
        stream = self._streams.get(key)
        if stream is None or not (members := stream.feed(piece)):
            return
        if key in self.calls:
            self.arguments(key, members)
        else:
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
        if key in self.calls:
            self.calls[key].progress(done, total, message)

    @safely
    def output(self, key: str, text: str | bytes) -> None:
        """Append live output of a tool."""
        if key in self.calls:
            self.calls[key].write(text)

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
        call = self.calls.pop(key, None)
        self._streams.pop(key, None)
        if call is None:
            return
        if exc is not None:
            call.close(exc)
            return
        content: Any = output
        raw = None
        if type(output) is not str:
            content, raw = shown(output)
            if len(content) == 1 and type(content[0]) is TextContent:
                content = content[0].text  # a result of one text takes the short way
        if is_error or is_failure(output):
            call.fail(content or None, reason=reason, raw=raw)
        else:
            call.succeed(content or None, raw=raw)

    def close(self, exc: BaseException | None = None) -> None:
        """End every call that is left, the latest first: as cancelled if `exc` is a cancellation."""
        for key in reversed(list(self.calls)):
            call = self.calls.pop(key)
            call.close(exc)
        self._streams.clear()

    # Tools that the adapter runs, and questions

    def runs_here(self, key: str | None) -> None:
        """Make a call the parent of what this context starts from now on; None ends that."""
        _RUNNING.set(None if key is None else self.calls.get(key))

    @contextmanager
    def running(self, key: str) -> Generator[None]:
        """Make a call the parent of what is started in this block."""
        token = _RUNNING.set(self.calls.get(key))
        try:
            yield
        finally:
            _RUNNING.reset(token)

    async def run(
        self,
        key: str,
        name: str,
        args: Any,
        work: Callable[[], Awaitable[T]],
        **options: Any,
    ) -> T:
        """Run a tool, report it from start to end, and return its result or raise what it raises."""
        self.start(key, name, args, **options)
        try:
            with self.running(key):
                result = await work()
        except BaseException as exc:
            self.end(key, exc=exc)
            raise
        self.end(key, result)
        return result

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
        call, mode = self.calls.get(key), getattr(self.session, "permissions", None)
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
