"""One session's `session/update` notifications as lines. The part that is always the same is encoded once."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from callsheet.acp.jsonrpc import FRAME_BUDGET, FrameTooLarge
from callsheet.acp.messages import Update, as_dict, stub
from callsheet.report.errors import CallsheetError, InvalidValue
from callsheet.report.json import check_text

LEAVE_OUT = ("rawOutput", "content", "rawInput", "locations", "_meta")
"""What a line goes without that would be too large, in this order."""

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
        """Return the line for one update, or raise `FrameTooLarge`."""
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

    def fitting(self, update: Update) -> tuple[bytes, str | None]:
        """Return the line of an update with as much of it as fits, and what was wrong with the whole of it."""
        try:
            return self.line(update), None
        except Exception as exc:  # noqa: BLE001 - whatever it is, where the call is in its life must be told
            wrong = str(exc)
            raw = dict(as_dict(update)) if isinstance(exc, CallsheetError) else stub(update)
        for key in LEAVE_OUT:
            raw.pop(key, None)
            with suppress(Exception):
                return self.line(raw), wrong
        return self.line(stub(update)), wrong
