"""What a session and its calls take by name, for those who pass it on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypedDict

from callsheet.acp.peer import Peer
from callsheet.describe.classify import Annotations
from callsheet.report.fields import Kind, ToolCallLocation
from callsheet.report.json import JsonObject
from callsheet.runtime.clock import Clock
from callsheet.runtime.guard import GuardSettings
from callsheet.runtime.permission import OnPermission
from callsheet.runtime.sinks import OnUpdate, Sink

if TYPE_CHECKING:
    from callsheet.runtime.batch import Batch
    from callsheet.runtime.call import Call


class SessionOptions(TypedDict, total=False):
    """Options of `Session`, but for its id and directories."""

    cwd: str | os.PathLike[str]
    locale: str | None
    on_update: OnUpdate | None
    sinks: Iterable[Sink | OnUpdate]
    peer: Peer | None
    on_permission: OnPermission | None
    on_lost: Callable[[Sink, str], None] | None
    guard: GuardSettings | None
    strict: bool
    dead_after: float
    clock: Clock | None


class Links(TypedDict, total=False):
    """How a call belongs to others, and what is said of it besides."""

    alias: str | None
    parent: Call | str | None
    depends_on: Sequence[Call | str]
    batch: Batch | str | None
    meta: JsonObject
    custom: JsonObject | None


class CallOptions(Links, total=False):
    """Options of `Session.call`."""

    title: str | None
    kind: Kind | str | None
    locations: Sequence[ToolCallLocation | str] | None
    timeout: float | None
    annotations: Annotations | None
