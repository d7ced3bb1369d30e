"""Callsheet's side of one call's life: ledger, wire, lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from callsheet.acp import v1
from callsheet.acp.codec import Update, UpdateFrames
from callsheet.acp.peer import Peer
from callsheet.acp.views import view_for
from callsheet.report.content import TextContent
from callsheet.report.fields import ToolCallLocation, ToolKind
from callsheet.report.ledger import Ledger
from callsheet.report.status import ToolCallStatus
from callsheet.runtime.clock import new_call_id

from .work import LIMIT, LINE, NAME, PATH, SESSION, TEXT, TITLE

_READ = ToolKind.READ
_IN_PROGRESS = ToolCallStatus.IN_PROGRESS
_COMPLETED = ToolCallStatus.COMPLETED


def make_life() -> Callable[[], list[bytes]]:
    """Return the life of a call for a caller that holds the reports and tells each change itself."""
    ledger = Ledger(SESSION, new_call_id)
    line = UpdateFrames(SESSION).line
    announce = v1.announce
    update = cast("Callable[..., Update]", v1.update)  # None only where nothing changed

    def life() -> list[bytes]:
        opened = ledger.open(
            NAME,
            title=TITLE,
            kind=_READ,
            locations=(ToolCallLocation(PATH, LINE),),
            raw_input={"path": PATH, "limit": LIMIT},
        )
        key = opened.tool_call_id
        first = line(announce(opened))
        running = ledger.update(key, _IN_PROGRESS)
        second = line(update(running, opened))
        done = ledger.update(
            key, _COMPLETED, content=(TextContent(TEXT),), raw_output={"content": TEXT}
        )
        return [first, second, line(update(done, running))]

    return life


def make_life_in_view() -> Callable[[], list[bytes]]:
    """Return the same life through a view, which remembers what its peer has seen."""
    ledger = Ledger(SESSION, new_call_id)
    view, line = view_for(Peer(), ledger.terminal), UpdateFrames(SESSION).line

    def life() -> list[bytes]:
        report = ledger.open(
            NAME,
            title=TITLE,
            kind=_READ,
            locations=(ToolCallLocation(PATH, LINE),),
            raw_input={"path": PATH, "limit": LIMIT},
        )
        key = report.tool_call_id
        lines = [line(update) for update in view.call(report)]
        report = ledger.update(key, _IN_PROGRESS)
        lines += [line(update) for update in view.call(report)]
        report = ledger.update(
            key, _COMPLETED, content=(TextContent(TEXT),), raw_output={"content": TEXT}
        )
        lines += [line(update) for update in view.call(report)]
        return lines

    return life
