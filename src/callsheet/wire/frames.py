"""One session's `session/update` notifications as lines. The part that is always the same is encoded once."""

from __future__ import annotations

import msgspec

from callsheet.report.errors import InvalidValue
from callsheet.report.values import check_text

from .jsonrpc import FRAME_BUDGET, FrameTooLarge
from .messages import ToolCall, ToolCallUpdate, Update

_encode = msgspec.json.Encoder().encode
_join = b"".join


class UpdateFrames:
    """Turns updates of one session into lines."""

    def __init__(self, session_id: str, *, budget: int = FRAME_BUDGET) -> None:
        session = _encode(check_text(session_id, "session id"))
        self.budget: int = budget
        self._head: bytes = (
            b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
            + session
            + b',"update":'
        )

    def line(self, update: Update) -> bytes:
        """Give the line for one update, or raise `FrameTooLarge`."""
        kind = type(update)
        if kind is not ToolCallUpdate and kind is not ToolCall and kind is not dict:
            raise InvalidValue(
                f"expected an update, got {kind.__name__}; where an encoder gives None, nothing has "
                "changed and nothing is to be sent"
            )
        line = _join((self._head, _encode(update), b"}}\n"))
        if len(line) > self.budget:
            raise FrameTooLarge(len(line), self.budget)
        return line
