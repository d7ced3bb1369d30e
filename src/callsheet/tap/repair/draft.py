"""`CallDraft`: what a client is to be sent of a call of another agent, before it becomes a report.

A tapped call has three forms: as it was observed (`ObservedCall`), the draft that repair makes of that, and
the report that is sent (`ToolCallReport`). A draft is never changed: each stage of the repair takes one, and
returns it or a better one. After each update of the call there is a new draft (`as_reported`), which
knows what the one before it had found.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from callsheet.describe import Describer
from callsheet.observe.model import FINAL, ObservedCall
from callsheet.report.errors import InvalidLocation
from callsheet.report.fields import CustomKind
from callsheet.report.json import JsonObject, check_path
from callsheet.tap.profiles import Profile, profile_of


class CallDraft(Struct, frozen=True, eq=False, kw_only=True):
    """A call as a client is to be sent it. Fields are as ACP has them, in the agent's version."""

    call: ObservedCall
    """As it was reported: `call.fields` by ACP's names, secrets and all."""
    describer: Describer
    earlier_input: Any = None
    """The input of the draft before this one."""
    earlier_diffs: list[Any] = []
    """Diffs that earlier drafts had, the last ones. A later update may have left them out."""
    earlier_title: str = ""
    """The title of the draft before this one, which the client was sent, and …"""
    had_own_title: bool = False
    """… whether the tap made it."""

    name: str = ""
    title: str = ""
    kind: str | None = None
    kind_while_open: str | None = None
    """The kind to send until the call ends, if `kind` would make a client ask less than the reported kind."""
    status: str | None = None
    reason: str | None = None
    """Why it failed, one of `Reason`, if we know."""
    content: list[Any] = []
    locations: list[Any] = []
    raw_input: Any = None
    raw_output: Any = None
    repaired: frozenset[str] = frozenset()
    """What was repaired: name, title, kind, input, locations, paths, content, status."""
    is_streaming: bool = False
    """Whether its arguments are still on their way: a title that the agent makes of them is cut."""
    has_own_title: bool = False
    """Whether the tap made the title, not the agent: then it is escaped for clients that render Markdown."""
    custom_kind: CustomKind | None = None
    """A kind that only our own agent has, where `kind` is `other`."""
    meta: JsonObject = {}
    """What the last update has in `_meta`, and …"""
    extra: JsonObject = {}
    """… in fields that Callsheet does not know. The client may know them."""

    def with_repair(self, what: str, **fields: Any) -> CallDraft:
        """Return a draft with other fields, in which `what` counts as repaired."""
        return replace(self, **fields, repaired=self.repaired | {what})

    @property
    def shown_kind(self) -> str | None:
        """The kind that the client is sent. A call that has ended needs no approval, so it may have any."""
        return self.kind if self.has_ended else self.kind_while_open or self.kind

    @property
    def has_ended(self) -> bool:
        """Whether its status is final."""
        return self.status in FINAL

    @property
    def is_v2(self) -> bool:
        """Whether ACP v2 is spoken."""
        return self.call.session.connection.is_v2

    @property
    def profile(self) -> Profile:
        """What is peculiar to its agent."""
        return profile_of(self.call.session.connection.agent)

    @property
    def cwd(self) -> str:
        """The session's directory; empty if it is unknown."""
        return valid_directory(self.call.session.cwd) or ""


def valid_directory(cwd: str | None) -> str | None:
    """Return a session's directory if it is a valid absolute path, else None."""
    try:
        return None if cwd is None else check_path(cwd)
    except InvalidLocation:
        return None
