"""Say once that an agent is tapped: one line, before what the agent sends first in a turn.

Whoever set up a tap may have forgotten it, or may not be the one who sits in front of the editor. So the
first session of an agent behind a tap says it, as text of the agent's answer, because all clients show
that. It comes inside of a turn: some clients are confused by updates that come before a session's id. It
is sent to the client only, and is not stored as the agent's words.

"The first" is remembered by an empty file for each agent's command line, in the user's directory for
state. Where that can't be written, nothing is said: else every session would be the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from callsheet.observe.model import Json, ObservedSession, obj
from callsheet.tap.passthrough import PERMISSION

_VISIBLE = frozenset(
    {"agent_message_chunk", "agent_thought_chunk", "agent_message", "agent_thought", "plan"}
    | {"plan_update", "tool_call", "tool_call_update", "tool_call_content_chunk"}
)
"""Updates in which an agent says or does something in a turn."""


class Notice:
    """What the client is told of the tap, as long as that is to be told.

    Args:
        text: Returns the line, in the user's language.
        claim: Returns whether it is to be sent now. It is asked once, when the time has come.
    """

    def __init__(self, text: Callable[[], str], claim: Callable[[], bool]) -> None:
        self.is_over: bool = False
        self._text: Callable[[], str] = text
        self._claim: Callable[[], bool] = claim

    def before(self, message: Json, session: ObservedSession | None) -> bytes:
        """Return the line to send to the client before a message of the agent; empty if there is none."""
        if session is None or session.turn is None or session.is_replaying:
            return b""
        update = obj(obj(message.get("params")).get("update"))
        is_visible = update.get("sessionUpdate") in _VISIBLE
        if not is_visible and message.get("method") != PERMISSION:
            return b""
        self.is_over = True
        if not self._claim():
            return b""
        return msgspec.json.encode(own_message(session.id, "notice", self._text())) + b"\n"


def own_message(session: str, name: str, said: str) -> Json:
    """Return a message of the tap itself to the user. `name` distinguishes it from others."""
    params = {
        "sessionId": session,
        "update": {
            "sessionUpdate": "agent_message_chunk",
            # Of its own, so that the agent's text is another message where clients know of that.
            "messageId": f"callsheet-{name}",
            "content": {"type": "text", "text": f"_{said}_\n\n"},
        },
    }
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def claim_first(command: Sequence[str]) -> bool:
    """Return whether an agent is tapped for the first time here, and remember that it was."""
    from hashlib import sha256

    from platformdirs import user_state_path

    name = sha256("\0".join(command).encode(errors="surrogateescape")).hexdigest()[:16]
    try:
        directory = user_state_path("callsheet", appauthor=False) / "tapped"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / name).touch(mode=0o600, exist_ok=False)
    except (OSError, RuntimeError):  # it was claimed before, or nothing can be remembered here
        return False
    return True
