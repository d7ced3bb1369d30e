"""Batches: calls that belong together, under one id, and how far they are."""

from __future__ import annotations

from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from callsheet.report.json import JsonValue
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.runtime.clock import new_call_id

if TYPE_CHECKING:
    from callsheet.runtime.call import RuntimeCall
    from callsheet.runtime.call_state import CallState
    from callsheet.runtime.options import CallSpec
    from callsheet.runtime.session import RuntimeSession


class Batch:
    """A group of calls. Made by `Session.batch`.

    With a summary, `parent` is a call that represents all of them: it reports how many have ended, and
    completes if none failed.
    """

    def __init__(
        self, session: RuntimeSession, title: str, total: int | None, summary: bool
    ) -> None:
        self.id: str = "batch_" + new_call_id().removeprefix("call_")
        self.parent: RuntimeCall | None = None
        self._session: RuntimeSession = session
        self._title: str = title
        self._total: int | None = total
        self._summary: bool = summary
        self._lock: RLock = RLock()
        self._opened: int = 0
        self._done: int = 0
        self._failed: int = 0

    def call(self, name: str, input: JsonValue = None, **options: Any) -> RuntimeCall:  # noqa: A002
        """Make a call of this batch; the same as `session.call(…, batch=batch)`."""
        return self._session.call(name, input, batch=self, **options)

    async def __aenter__(self) -> Self:
        """Begin; with a summary, announce the call that stands for the batch."""
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the call that stands for the batch."""
        self.__exit__(kind, exc, trace)

    def __enter__(self) -> Self:
        """Begin; with a summary, announce the call that stands for the batch."""
        if self._summary:
            raw: dict[str, JsonValue] = {"title": self._title}
            if self._total is not None:
                raw["total"] = self._total
            parent = self._session.call("batch", raw, title=self._title or None, batch=self.id)
            self.parent = parent.__enter__()
            parent.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the call that stands for the batch."""
        parent = self.parent
        if parent is None:
            return
        if exc is not None:
            parent.__exit__(kind, exc, trace)
            return
        total = max(self._opened, self._total or 0)
        phrase = self._session.phrase
        text = phrase("progress", done=self._done, total=total)
        running = self._opened - self._done
        if self._failed:
            failed = phrase("failed", count=self._failed)
            parent.fail(f"{text} · {failed}", reason=Reason.TOOL_ERROR)
        elif running:
            still = phrase("running", count=running)
            parent.fail(f"{text} · {still}", reason=Reason.ABANDONED)
        else:
            parent.succeed(text, raw={"done": self._done, "total": total})

    # Called by the session

    def join(self, spec: CallSpec) -> Self:
        """Put a call that is to be announced into this batch."""
        spec.batch = self.id
        if spec.parent is None:
            spec.parent = self.parent
        return self

    def opened(self) -> None:
        """Count a call of the batch that was announced."""
        with self._lock:
            self._opened += 1
            self._report()

    def ended(self, call: CallState) -> None:
        """Count a call of the batch that has ended."""
        with self._lock:
            self._done += 1
            self._failed += call.status is not ToolCallStatus.COMPLETED
            self._report()

    def _report(self) -> None:
        if self.parent is not None and not self.parent.has_ended:
            self.parent.progress(self._done, max(self._opened, self._total or 0))
