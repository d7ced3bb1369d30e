"""What sessions and calls are opened with, and how a call's options become its first report.

`SessionOptions`, `CallOptions` and `Links` are keyword arguments, for code that passes them on. `CallSpec`
holds those of one call until it is announced; `described` sanitizes, describes and bounds it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

from msgspec import Struct

from callsheet.acp.peer import Peer
from callsheet.describe.classify import Annotations
from callsheet.report.errors import InvalidValue
from callsheet.report.fields import NOTES, Kind, ToolCallLocation, ToolKind, settle_meta, to_kind
from callsheet.report.ids import check_id
from callsheet.report.json import EMPTY, JsonObject, JsonValue, patched
from callsheet.report.report import SETTLED, ToolCallReport
from callsheet.report.status import ToolCallStatus
from callsheet.runtime.clock import new_call_id

if TYPE_CHECKING:
    from callsheet.runtime.batch import Batch
    from callsheet.runtime.call import RuntimeCall
    from callsheet.runtime.clock import Clock
    from callsheet.runtime.permission import OnPermission
    from callsheet.runtime.sanitizer import GuardSettings
    from callsheet.runtime.session import RuntimeSession
    from callsheet.runtime.sinks import OnParams, OnUpdate, Sink

_PENDING = ToolCallStatus.PENDING

MOST_LINKS = 100
"""Most dependencies of a call that are reported."""


class SessionOptions(TypedDict, total=False):
    """Options of `Session`, but for its id and directories."""

    cwd: str | os.PathLike[str]
    locale: str | None
    on_update: OnUpdate | None
    on_params: OnParams | None
    sinks: Iterable[Sink | OnUpdate]
    peer: Peer | None
    on_permission: OnPermission | None
    on_lost: Callable[[Sink, str], None] | None
    guard: GuardSettings | None
    strict: bool
    dead_after: float
    clock: Clock | None


class Links(TypedDict, total=False):
    """How a call relates to others, and its additional metadata.

    - `alias`: the id that a model uses for the call.
    - `parent`: the call that this one is part of, or its id or alias.
    - `depends_on`: calls of this session, or their ids or aliases, that this one depends on.
    - `batch`: the batch that the call belongs to.
    - `meta`: fields for ACP's `_meta`.
    - `custom`: fields for `_meta.callsheet.custom`.
    """

    alias: str | None
    parent: RuntimeCall | str | None
    depends_on: Sequence[RuntimeCall | str]
    batch: Batch | str | None
    meta: JsonObject
    custom: JsonObject | None


class CallOptions(Links, total=False):
    """Options of `Session.call`. What is left out of the first three is found by `describe`.

    - `title`: the title, or a template for it: "Reading {path}".
    - `kind`: the kind of tool.
    - `locations`: the files that the call works on.
    - `annotations`: the annotations that an MCP server declares for the tool.
    """

    title: str | None
    kind: Kind | str | None
    locations: Sequence[ToolCallLocation | str] | None
    annotations: Annotations | None


class CallSpec(Struct):
    """What a call is opened with; the fields are the arguments of `RuntimeSession.call`."""

    name: str
    input: JsonValue = None
    title: str | None = None
    kind: Kind | str | None = None
    locations: Sequence[ToolCallLocation | str] | None = None
    alias: str | None = None
    parent: Any = None
    depends_on: Any = ()
    batch: Any = None
    annotations: Annotations | None = None
    meta: JsonObject = EMPTY
    custom: JsonObject | None = None
    is_bare: bool = False
    """Whether it is known that there is nothing but a name and an input."""


def new_report(
    name: str,
    title: str,
    kind: Kind = ToolKind.OTHER,
    locations: tuple[ToolCallLocation, ...] = (),
    raw_input: JsonValue = None,
    meta: JsonObject = EMPTY,
) -> ToolCallReport:
    """Return the first report of a call of ours, from values that are checked already."""
    return ToolCallReport(
        new_call_id(), name, title, kind, _PENDING, (), locations, raw_input, None, meta, SETTLED
    )


def described(spec: CallSpec, session: RuntimeSession) -> tuple[ToolCallReport, JsonValue]:
    """Return a new call's report, and its whole input.

    A value that can't be reported is left out and counted; in strict mode, it raises.
    """
    guard, raw, found, size = session.guard, spec.input, 0, 0
    if raw is not None:
        raw, found, size = guard.sealed(raw, runs=True)
    name = guard.names.get(spec.name) or guard.name(spec.name)
    is_small = size is not None and size + len(name) <= session.small_input
    if spec.is_bare and is_small and not found:
        seen = session.describer(name, raw)
        return new_report(name, seen.title or name, seen.kind, seen.locations, raw), raw
    title, kind = spec.title, spec.kind
    if kind is not None:
        kind = session.faults.attempt(to_kind, kind)
    if title is not None:
        title = guard.command(title)
    if found and kind is None:  # a mark may stand where a command's dangerous part was
        kind = session.describer(name, guard.json(spec.input)).kind
    seen = session.describer(
        name,
        raw,
        kind=kind,
        title=title,
        locations=spec.locations,
        annotations=spec.annotations,
    )
    fields: dict[str, Any] = {
        "name": name,
        "title": seen.title or name,
        "kind": seen.kind,
        # What was found in the input is sanitized already.
        "locations": seen.locations if spec.locations is None else guard.places(seen.locations),
        "raw_input": raw,
    }
    if spec.meta:
        fields["meta"], more = guard.value(spec.meta)
        found += more
    if spec.custom:
        fields["notes"], more = guard.value({"custom": spec.custom})
        found += more
    notes: JsonObject = {}
    if found or spec.meta or spec.custom or not (is_small and title is spec.locations is None):
        fields, notes = guard.bounded(fields, None, found)
    if spec.alias is not None or spec.parent is not None or spec.depends_on or spec.batch:
        _link(notes, spec, session)
    if notes or spec.meta:
        fields["meta"] = _meta(fields.get("meta"), notes, session)
    return new_report(**fields), raw


def _meta(given: Any, notes: JsonObject, session: RuntimeSession) -> JsonObject:
    """Return the `_meta` of a new call, with its notes."""
    meta = EMPTY
    if given:
        meta = patched(EMPTY, session.faults.attempt(settle_meta, given) or EMPTY)
    return {**meta, NOTES: {**(meta.get(NOTES) or EMPTY), **notes}} if notes else meta


def _link(notes: JsonObject, spec: CallSpec, session: RuntimeSession) -> None:
    """Add a call's links to its notes, as far as they lead somewhere."""
    attempt = session.faults.attempt

    def id_of(given: object) -> str:
        return check_id(session.guard.clean(given) if isinstance(given, str) else given)

    def known(given: Any) -> str:
        return session.id_of(getattr(given, "id", given))

    def add(key: str, check: Callable[[Any], Any], given: Any) -> None:
        if given is not None and (checked := attempt(check, given)) is not None:
            notes[key] = checked

    add("alias", id_of, spec.alias)
    add("parentId", known, spec.parent)
    others: Any = spec.depends_on
    if others:
        others = cast("list[Any]", others) if isinstance(others, (list, tuple)) else [others]
        ids = [attempt(known, other) for other in others[:MOST_LINKS]]
        if linked := [one for one in ids if one is not None]:
            notes["dependsOn"] = linked
    add("batchId", id_of, spec.batch)


def checked_timeout(seconds: object, session: RuntimeSession) -> float | None:
    """Return a call's timeout, or None with a fault for one that is no number of seconds."""
    if seconds is None or (isinstance(seconds, (int, float)) and seconds > 0):
        return seconds
    given = seconds if isinstance(seconds, (int, float)) else type(seconds).__name__
    session.faults.degraded(InvalidValue(f"timeout: expected seconds above 0, got {given}"))
    return None
