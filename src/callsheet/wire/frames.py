"""One session's `session/update` notifications as lines. The part that is always the same is encoded once."""

from __future__ import annotations

import msgspec

from callsheet.report.errors import InvalidValue
from callsheet.report.values import check_text

from .jsonrpc import FRAME_BUDGET, FrameTooLarge
from .messages import Update

_encode = msgspec.json.Encoder().encode
_join = b"".join
_BRACE = ord("{")


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
        encoded = _encode(update)
        if encoded[0] != _BRACE:
            raise InvalidValue(
                f"expected an update, got {type(update).__name__}; where an encoder gives None, nothing "
                "has changed and nothing is to be sent"
            )
        line = _join((self._head, encoded, b"}}\n"))
        if len(line) > self.budget:
            raise FrameTooLarge(len(line), self.budget)
        return line
