"""What particular clients would show wrongly, whichever client the recording was made with.

- Zed has rules of its own beside those of ACP v1. Sources: its code (`crates/acp_thread`), and reports of
  its users.
- Toad ignores locations, raw input and raw output, and shows a diff only if the key `oldText` is there.
- acpx prints text from raw output by the names of keys.

None of them speaks v2, so nothing is reported where v2 is spoken.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from callsheet.check.finding import Violation, quoted, rule
from callsheet.check.rules.completeness_files import bare_diffs
from callsheet.observe.events import (
    CallBegan,
    CallClosed,
    PermissionAsked,
    UpdateApplied,
    UpdateArrived,
)
from callsheet.observe.evidence import OUTPUT_KEYS, output_of, texts
from callsheet.observe.model import ObservedCall, many, obj, text
from callsheet.observe.tool_identity import is_absolute

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


ENDS = ("completed", "failed")
STATUSES = ("pending", "in_progress", *ENDS)
MANY_LOCATIONS = 20
"""Each opens a buffer."""

LONGEST_TITLE = 1000
_PLAIN_TITLES = ("execute", "edit")
_MAY_BE_MARKDOWN = re.compile(
    r"[*_~].*[*_~]|<[a-zA-Z/!?]|\]\(|&#?\w+;|^\s*(?:[#>+*=-]|\d+[.)]\s)"
).search
_HARMLESS = frozenset(
    {"paragraph_open", "paragraph_close", "inline", "text", "text_special", "code_inline"}
)


# How a call ends


@rule("client/zed-spins-for-ever", CallClosed)
def spins_for_ever(event: CallClosed) -> Violation | None:
    """Find a call without a final status when its turn is over, unless Zed ended it by itself."""
    call = event.call
    turn = call.turn
    if turn is None or turn.ended is None or event.connection.is_v2:
        return None
    if call.status in ENDS or call.is_replayed or _ended_by_zed(call):
        return None
    if call.status is None or call.status in STATUSES:
        return Violation(f"it is still {call.status or 'pending'} when the turn is over")
    status = quoted(call.status, 20)
    return Violation(f"its last status is {status}, which Zed shows as pending", "update.status")


def _ended_by_zed(call: ObservedCall) -> bool:
    """Whether Zed itself has ended the card: by a cancelled turn, or a rejected question."""
    turn = call.turn
    last = call.statuses[-1][1] if call.statuses else call.first
    if turn is not None and turn.cancelled is not None and last < turn.cancelled:
        return True
    if turn is not None and turn.ended is not None and turn.stop_reason == "cancelled":
        return last < turn.ended
    return any(
        asked.outcome == "rejected" and asked.answered is not None and last < asked.answered
        for asked in call.questions
    )


# Which card it is


@rule("client/zed-not-found", UpdateArrived)
def not_found(event: UpdateArrived) -> Violation | None:
    """Find an update of a call that Zed has no card for."""
    if event.kind != "tool_call_update" or event.known_before or event.connection.is_v2:
        return None
    if not event.connection.is_whole:
        return None
    return Violation("Zed shows a failed card “Tool call not found”, and drops this update")


@rule("client/zed-rewritten-card", CallBegan)
def rewrites_a_card(event: CallBegan) -> Violation | None:
    """Find a call that takes over the card of another that has ended."""
    call = event.call
    if not call.is_reused or event.connection.is_v2:
        return None
    which = f" of the call that ended on line {call.ended_before}" if call.ended_before else ""
    return Violation(
        f"the card{which} is rewritten, and no new one is shown here", "update.toolCallId"
    )


# What the card shows


@rule("client/zed-markdown-title", UpdateArrived, fields=["title"])
def title_is_markdown(event: UpdateArrived) -> Violation | None:
    """Find a title of which Zed's Markdown swallows characters."""
    title = text(event.update.get("title"))
    if title is None or event.kind == "tool_call_content_chunk" or event.connection.is_v2:
        return None
    known = event.call.fields if event.call is not None else {}
    kind = event.update.get("kind") or known.get("kind")
    if kind in _PLAIN_TITLES or known.get("title") == title:
        return None
    line = title.partition("\n")[0][:LONGEST_TITLE]
    if not _MAY_BE_MARKDOWN(line) or not _is_rendered(line):
        return None
    return Violation(
        f"Zed renders {quoted(line)} as Markdown, and characters of it disappear", "update.title"
    )


def _is_rendered(line: str) -> bool:
    """Whether Markdown makes more of a line than text and code."""
    if html.unescape(line) != line:
        return True
    for block in _markdown().parse(line):
        if block.type not in _HARMLESS:
            return True
        if any(part.type not in _HARMLESS for part in block.children or ()):
            return True
    return False


@cache
def _markdown() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("strikethrough")


@rule("client/zed-hidden-output", UpdateApplied)
def output_is_hidden(event: UpdateApplied) -> Violation | None:
    """Find an end that brings its output as raw output only, while older content is in its place."""
    update, call = event.update, event.call
    if update.get("status") not in ENDS or "content" in update or event.connection.is_v2:
        return None
    items = many(call.fields.get("content"))
    if not items or any(obj(item).get("type") != "content" for item in items):
        return None
    if call.opening.get("content") != items:
        return None  # it came while the call ran, and is its output
    output = output_of(update.get("rawOutput")).strip()
    begin = output[:40]
    if not begin or any(begin in shown for shown in texts(items)):
        return None
    return Violation(
        "Zed shows raw output only if there is no content, and here it shows older content",
        "update.rawOutput",
    )


# Following


@rule("client/zed-follow-nowhere", UpdateArrived, fields=["locations"])
def follow_goes_nowhere(event: UpdateArrived) -> Violation | None:
    """Find locations of which the last, which moves follow, can't be opened."""
    paths = _new_paths(event)
    if not paths:
        return None
    index, field = len(paths) - 1, f"update.locations[{len(paths) - 1}].path"
    if not is_absolute(paths[index]):
        return Violation(f"{quoted(paths[index])} is not absolute, so Zed opens nothing", field)
    cwd = event.session.cwd
    if cwd and not _is_in(paths[index], cwd) and any(_is_in(path, cwd) for path in paths):
        return Violation(f"{quoted(paths[index])} is outside the project, and comes last", field)
    return None


@rule("client/zed-many-locations", UpdateArrived, fields=["locations"])
def too_many_locations(event: UpdateArrived) -> Violation | None:
    """Find more locations than anybody wants to have opened."""
    count = len(_new_paths(event))
    if count <= MANY_LOCATIONS:
        return None
    return Violation(f"Zed opens {count:,} files, and follows only to the last", "update.locations")


def _new_paths(event: UpdateArrived) -> list[str]:
    """Return the paths of an update's locations, unless they are unchanged."""
    locations = event.update.get("locations")
    if not locations or event.connection.is_v2:
        return []
    if event.call is not None and event.call.fields.get("locations") == locations:
        return []
    return [path for item in many(locations) if (path := text(obj(item).get("path")))]


def _is_in(path: str, cwd: str) -> bool:
    root = cwd.rstrip("/\\")
    return path == root or path.startswith((f"{root}/", f"{root}\\"))


# Terminals


@rule("client/zed-unknown-terminal", UpdateArrived, fields=["content"])
def unknown_terminal(event: UpdateArrived) -> list[Violation]:
    """Find terminals in content that Zed knows nothing of."""
    connection = event.connection
    if not (connection.is_whole and connection.has_both_ways and not connection.is_v2):
        return []
    opened = _opened(event.update) if event.kind == "tool_call" else None
    return [
        Violation(
            f"Zed doesn't know terminal {quoted(key, 40)}, and drops the rest of the update",
            f"update.content[{index}].terminalId",
        )
        for index, key in _terminals(event.update)
        if key != opened and key not in event.session.terminals
    ]


def _terminals(update: dict[str, Any]) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(many(update.get("content"))):
        fields = obj(item)
        key = text(fields.get("terminalId"))
        if key is not None and fields.get("type") == "terminal":
            yield index, key


def _opened(update: dict[str, Any]) -> str | None:
    return text(obj(obj(update.get("_meta")).get("terminal_info")).get("terminal_id"))


@rule("client/zed-no-live-output", CallClosed)
def no_live_output(event: CallClosed) -> Violation | None:
    """Find output for a terminal that was never announced."""
    if not event.connection.is_whole or event.connection.is_v2:
        return None
    meta = obj(event.call.fields.get("_meta"))
    for name in ("terminal_output", "terminal_exit"):
        key = text(obj(meta.get(name)).get("terminal_id"))
        if key is not None and key not in event.call.session.terminals:
            return Violation(
                f"output was sent for {quoted(key, 40)}, but the announcement had no terminal_info",
                f"update._meta.{name}",
            )
    return None


_NO_OLD_TEXT = "its diff has no oldText, so Toad does not show it"


@rule("client/toad-no-diff", UpdateArrived, fields=["content"])
def diff_is_not_shown(event: UpdateArrived) -> list[Violation]:
    """Find diffs without the key `oldText`."""
    if event.connection.is_v2:
        return []
    before = {path for _, path in bare_diffs(event.call.fields)} if event.call is not None else ()
    return [
        Violation(f"{quoted(path)}: {_NO_OLD_TEXT}", f"update.content[{index}].oldText")
        for index, path in bare_diffs(event.update)
        if path not in before
    ]


@rule("client/toad-asks-without-diff", PermissionAsked)
def diff_is_not_asked(event: PermissionAsked) -> list[Violation]:
    """Find the same in a request for permission, where it decides what the user allows."""
    if event.connection.is_v2:
        return []
    return [
        Violation(f"{quoted(path)}: {_NO_OLD_TEXT}", f"params.toolCall.content[{index}].oldText")
        for index, path in bare_diffs(event.question.tool_call)
    ]


@rule("client/toad-empty-card", CallClosed)
def card_is_empty(event: CallClosed) -> Violation | None:
    """Find an output that is only in the raw output."""
    call = event.call
    if call.ended is None or not event.is_known or many(call.fields.get("content")):
        return None
    if event.connection.is_v2 or not output_of(call.fields.get("rawOutput")).strip():
        return None
    return Violation("all output is in rawOutput, which Toad does not show", "update.rawOutput")


@rule("client/acpx-unknown-output", CallClosed)
def output_has_no_key(event: CallClosed) -> Violation | None:
    """Find a raw output of which acpx knows no key, where there is no content either."""
    call = event.call
    raw = obj(call.fields.get("rawOutput"))
    if call.ended is None or not raw or not event.is_known or event.connection.is_v2:
        return None
    if many(call.fields.get("content")) or not raw.keys().isdisjoint(OUTPUT_KEYS):
        return None
    if not any(_has_text(value) for value in raw.values()):
        return None  # numbers and flags are no output
    return Violation(f"acpx knows none of its keys: {_some(list(raw))}", "update.rawOutput")


def _has_text(value: Any) -> bool:
    """Whether there is something to print in a value."""
    if type(value) is str:
        return bool(value.strip())
    return any(map(_has_text, many(value))) or any(map(_has_text, obj(value).values()))


def _some(keys: list[str]) -> str:
    named = ", ".join(key[:30] for key in keys[:5])
    return f"{named}, …" if len(keys) > 5 else named


@rule("client/acpx-no-title", CallClosed)
def no_title(event: CallClosed) -> Violation | None:
    """Find a call that never has a title."""
    call = event.call
    if (text(call.fields.get("title")) or "").strip() or event.connection.is_v2:
        return None
    if not event.connection.is_whole or call.is_asked_first:
        return None
    return Violation("acpx prints the id where the title should be", "update.title")
