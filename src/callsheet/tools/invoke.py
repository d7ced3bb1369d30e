"""Calls a tool's function, in the way that it wants to be called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from .shield import shielded
from .threads import in_thread

if TYPE_CHECKING:
    from .session import Call
    from .tool import Tool

MOST_KEPT = 1 << 20
"""Characters of what a tool yields that become its output. All of it is shown live."""


async def invoke(tool: Tool, call: Call, values: dict[str, Any], said: list[str]) -> Any:
    """Call the function with its arguments, and give what it returns, or what it has yielded.

    The text that it yields is put into `said`, so that it is known also if the function fails.
    """
    function = tool.function
    given = (call,) if tool.parameters.takes_call else ()
    if tool.how == "async":
        return await function(*given, **values)
    if tool.how == "sync":
        made = await in_thread(lambda: _shielded(lambda: function(*given, **values)))
        return await made if isawaitable(made) else made
    stream = _Stream(call, said)
    if tool.how == "async stream":
        async for piece in function(*given, **values):
            stream.take(piece)
    else:
        await in_thread(lambda: _shielded(lambda: stream.take_all(function(*given, **values))))
    return stream.result()


def _shielded(work: Callable[[], Any]) -> Any:
    """Call a function in a thread. It may go on when its call has ended, and must not print then, either."""
    with shielded():
        return work()


class _Stream:
    """What a tool yields: text and bytes are live output, anything else is its result."""

    def __init__(self, call: Call, kept: list[str]) -> None:
        self._call: Call = call
        self._kept: list[str] = kept
        self._length: int = 0
        self._last: Any = None

    def take(self, piece: Any) -> None:
        if not isinstance(piece, (str, bytes, bytearray)):
            self._last = piece
            return
        self._call.write(piece)
        text = piece if isinstance(piece, str) else bytes(piece).decode(errors="replace")
        if self._length < MOST_KEPT:
            self._kept.append(text[: MOST_KEPT - self._length])
        self._length += len(text)

    def take_all(self, pieces: Iterable[Any]) -> None:
        for piece in pieces:
            if self._call.has_ended:
                return
            self.take(piece)

    def result(self) -> Any:
        if self._last is not None:
            return self._last
        left = self._length - MOST_KEPT
        text = "".join(self._kept)
        if left > 0:
            mark = self._call.session.desk.phrase("bytes_left_out", count=left)
            done = self._call.success(f"{text}\n[{mark}]").with_metadata("truncated", True)
            return done.as_written()
        return self._call.success(text).as_written()
