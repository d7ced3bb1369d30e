"""The input and the output of a repair.

`Known` is all that another agent has reported of one call so far, as the tracker applies it
(`callsheet.observe`), and what earlier repairs have found. `CallDraft` is what a client is to be sent
of it. A stage reads the one and changes the other. `in_acp` translates agents' own names for a call's status.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from callsheet.describe import Describer
from callsheet.observe.model import Json, ObservedCall, ObservedConnection
from callsheet.report.fields import CustomKind
from callsheet.report.json import JsonObject
from callsheet.report.status import Reason
from callsheet.tap.profiles import Profile

ACP = frozenset(("pending", "in_progress", "completed", "failed", "cancelled"))

FINAL = frozenset(("completed", "failed", "cancelled"))

_SAME = {
    "pending": "pending queued waiting scheduled created validating proposed notstarted"
    " awaitingapproval awaitingconfirmation awaitingpermission waitingforapproval"
    " waitingforconfirmation waitingforpermission needsapproval pendingapproval",
    "completed": "completed complete success succeeded successful done finished ok",
    "failed": "failed fail failure error errored exception crashed",
}
_ENDS = {
    Reason.DENIED: "rejected denied declined refused permissiondenied userrejected",
    Reason.CANCELLED: "cancelled canceled aborted interrupted usercancelled usercanceled",
    Reason.TIMEOUT: "timeout timedout deadlineexceeded",
}

_STATUS = {word: status for status, words in _SAME.items() for word in words.split()}
_REASON = {word: reason for reason, words in _ENDS.items() for word in words.split()}


def in_acp(status: str, *, is_v2: bool) -> tuple[str, Reason | None]:
    """Return the ACP status for an agent's status, and why the call ended, if the status implies it.

    An unknown status means that the call is running.
    """
    if status in ACP or (is_v2 and status == "paused"):
        return status, Reason.CANCELLED if status == "cancelled" else None
    word = "".join(filter(str.isalnum, status.rpartition(".")[2])).lower()
    reason = _REASON.get(word)
    if reason is not None:
        return "cancelled" if reason is Reason.CANCELLED else "failed", reason
    return _STATUS.get(word, "in_progress"), None


class Known(Struct, eq=False):
    """All that is known of a call now. Stages read it, and never change it."""

    call: ObservedCall
    """As it was reported: `call.fields` by ACP's names, in the agent's version, secrets and all."""
    profile: Profile
    describer: Describer
    asked: Json = field(default_factory=dict[str, Any])
    """What permission requests have reported of the call."""
    newer: Json = field(default_factory=dict[str, Any])
    """Input, title and kind of the last of them, where no update has reported others since."""
    earlier: Any = None
    """The input that was found out last."""
    diffs: list[Any] = field(default_factory=list[Any])
    """Diffs that earlier updates have shown, the last ones. A later update may have left them out."""
    title: str = ""
    """The title that the client was sent last, and …"""
    has_own_title: bool = False
    """… whether the tap made it."""
    cwd: str = ""
    """The session's directory; empty if it is unknown."""
    status: str | None = None
    """The status to assume instead of the reported one, if any."""

    @property
    def connection(self) -> ObservedConnection:
        """What client and agent agreed on."""
        return self.call.session.connection


class CallDraft(Struct, eq=False):
    """What a client is to be sent of a call. Fields are as ACP has them, in the agent's version."""

    name: str = ""
    title: str = ""
    kind: str | None = None
    kind_while_open: str | None = None
    """The kind to send until the call ends, if `kind` would make a client ask less than the reported kind."""
    status: str | None = None
    reason: str | None = None
    """Why it failed, one of `Reason`, if we know."""
    content: list[Any] = field(default_factory=list[Any])
    locations: list[Any] = field(default_factory=list[Any])
    raw_input: Any = None
    raw_output: Any = None
    repaired: set[str] = field(default_factory=set[str])
    """What was repaired: name, title, kind, input, locations, paths, content, status."""
    is_streaming: bool = False
    """Whether its arguments are still on their way: a title that the agent makes of them is cut."""
    has_own_title: bool = False
    """Whether the tap made the title, not the agent: then it is escaped for clients that render Markdown."""
    custom_kind: CustomKind | None = None
    """A kind that only our own agent has, where `kind` is `other`."""
    meta: JsonObject = field(default_factory=dict[str, Any])
    """What the last update has in `_meta`, and …"""
    extra: JsonObject = field(default_factory=dict[str, Any])
    """… in fields that Callsheet does not know. The client may know them."""

    @property
    def shown_kind(self) -> str | None:
        """The kind that the client is sent. A call that has ended needs no approval, so it may have any."""
        return self.kind if self.status in FINAL else self.kind_while_open or self.kind
