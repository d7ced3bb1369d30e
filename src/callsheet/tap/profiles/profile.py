"""What is peculiar to one agent, as data. All of it is optional: an agent that nobody knows has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from callsheet.report.status import Reason

if TYPE_CHECKING:
    from callsheet.tap.repair.known import Known

NameOf: TypeAlias = "Callable[[Known], str | None]"
InputOf: TypeAlias = "Callable[[Known], Any]"
FailureOf: TypeAlias = "Callable[[Known], Reason | None]"


class Profile(Struct, frozen=True, kw_only=True):
    """One agent's ways.

    - `agents`: what it calls itself in `agentInfo.name`, in lower case; a name that begins so fits, too.
    - `name_of` gives a call's tool name, where the agent hides it somewhere: in an id, in a title.
    - `input_of` gives a call's input, where it is told by other means than `rawInput`.
    - `failure_of` says why a call failed, whichever way the agent tells its end. It is asked of calls that
      have ended. None if nothing says that it failed, or why.
    """

    agents: tuple[str, ...] = ()
    name_of: NameOf | None = None
    input_of: InputOf | None = None
    failure_of: FailureOf | None = None
