"""What Zed would show people: by its own rules, which are those of ACP v1 and some more.

Sources: its code (`crates/acp_thread`), and what its users told.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from callsheet.check.finding import Rule, Said
from callsheet.check.quoting import quoted
from callsheet.check.rules.shown import can_know, output_of
from callsheet.observe.events import CallBegan, CallClosed, UpdateApplied, UpdateArrived
from callsheet.observe.evidence import texts
from callsheet.observe.model import ObservedCall, many, obj, text

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
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\").match


# How a call ends


def spins_for_ever(over: CallClosed) -> Said | None:
    """Find a call that no final status ended, though its turn is over, and that Zed did not end by itself."""
    call = over.call
    turn = call.turn
    if turn is None or turn.ended is None or not can_know(over.connection):
        return None
    if call.status in ENDS or call.is_replayed or _ended_by_zed(call):
        return None
    if call.status is None or call.status in STATUSES:
        return Said(f"it is {call.status or 'pending'} when the turn is over, and stays so")
    told = quoted(call.status, 20)
    return Said(f"its last status is {told}, which Zed shows as pending", "update.status")


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


def not_found(told: UpdateArrived) -> Said | None:
    """Find an update of a call that Zed has no card for."""
    if told.kind != "tool_call_update" or told.known_before or not can_know(told.connection):
        return None
    if not told.connection.is_whole:
        return None
    return Said("Zed shows a failed card “Tool call not found”, and not what this update says")


def rewrites_a_card(begun: CallBegan) -> Said | None:
    """Find a call that takes over the card of another that has ended."""
    call = begun.call
    if not call.is_reused or not can_know(begun.connection):
        return None
    which = f" of the call that ended on line {call.ended_before}" if call.ended_before else ""
    return Said(f"the card{which} is rewritten, and no new one is shown here", "update.toolCallId")


# What it says


def title_is_markdown(told: UpdateArrived) -> Said | None:
    """Find a title of which Zed's Markdown swallows characters."""
    title = text(told.update.get("title"))
    if title is None or told.kind == "tool_call_content_chunk" or not can_know(told.connection):
        return None
    known = told.call.fields if told.call is not None else {}
    kind = told.update.get("kind") or known.get("kind")
    if kind in _PLAIN_TITLES or known.get("title") == title:
        return None
    line = title.partition("\n")[0][:LONGEST_TITLE]
    if not _MAY_BE_MARKDOWN(line) or not _is_rendered(line):
        return None
    return Said(f"Zed renders {quoted(line)} as Markdown, and signs of it vanish", "update.title")


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


def output_is_hidden(folded: UpdateApplied) -> Said | None:
    """Find an end that brings its output as raw output only, while older content is in its place."""
    update, call = folded.update, folded.call
    if update.get("status") not in ENDS or "content" in update or not can_know(folded.connection):
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
    return Said(
        "Zed shows raw output only if there is no content, and here older content is shown",
        "update.rawOutput",
    )


# Following


def follow_goes_nowhere(told: UpdateArrived) -> Said | None:
    """Find locations of which the last, which moves follow, can't be opened."""
    paths = _new_paths(told)
    if not paths:
        return None
    index, field = len(paths) - 1, f"update.locations[{len(paths) - 1}].path"
    if not _ABSOLUTE(paths[index]):
        return Said(f"{quoted(paths[index])} is not absolute, so Zed opens nothing", field)
    cwd = told.session.cwd
    if cwd and not _is_in(paths[index], cwd) and any(_is_in(path, cwd) for path in paths):
        return Said(f"{quoted(paths[index])} is outside of the project, and stands last", field)
    return None


def too_many_locations(told: UpdateArrived) -> Said | None:
    """Find more locations than anybody wants to have opened."""
    count = len(_new_paths(told))
    if count <= MANY_LOCATIONS:
        return None
    return Said(f"Zed opens {count:,} files, and follows to the last", "update.locations")


def _new_paths(told: UpdateArrived) -> list[str]:
    """Return the paths of locations that were not told before."""
    locations = told.update.get("locations")
    if not locations or not can_know(told.connection):
        return []
    if told.call is not None and told.call.fields.get("locations") == locations:
        return []
    return [path for item in many(locations) if (path := text(obj(item).get("path")))]


def _is_in(path: str, cwd: str) -> bool:
    root = cwd.rstrip("/\\")
    return path == root or path.startswith((f"{root}/", f"{root}\\"))


# Terminals


def unknown_terminal(told: UpdateArrived) -> list[Said]:
    """Find terminals in content that Zed knows nothing of."""
    connection = told.connection
    if not (connection.is_whole and connection.has_both_ways and can_know(connection)):
        return []
    opened = _opened(told.update) if told.kind == "tool_call" else None
    return [
        Said(
            f"Zed knows no terminal {quoted(key, 40)}, and drops this and what follows in the update",
            f"update.content[{index}].terminalId",
        )
        for index, key in _terminals(told.update)
        if key != opened and key not in told.session.terminals
    ]


def _terminals(update: dict[str, Any]) -> Iterator[tuple[int, str]]:
    for index, item in enumerate(many(update.get("content"))):
        told = obj(item)
        key = text(told.get("terminalId"))
        if key is not None and told.get("type") == "terminal":
            yield index, key


def _opened(update: dict[str, Any]) -> str | None:
    return text(obj(obj(update.get("_meta")).get("terminal_info")).get("terminal_id"))


def no_live_output(over: CallClosed) -> Said | None:
    """Find output for a terminal that nobody has told of."""
    if not over.connection.is_whole or not can_know(over.connection):
        return None
    meta = obj(over.call.fields.get("_meta"))
    for name in ("terminal_output", "terminal_exit"):
        key = text(obj(meta.get(name)).get("terminal_id"))
        if key is not None and key not in over.call.session.terminals:
            return Said(
                f"there is output for {quoted(key, 40)}, but no terminal_info with the announcement",
                f"update._meta.{name}",
            )
    return None


def _rule(name: str, **told: Any) -> Rule:
    return Rule(id=f"client/zed-{name}", clients=("zed",), **told)


RULES = (
    _rule(
        "spins-for-ever",
        severity="error",
        moment=CallClosed,
        title="A card in Zed spins for ever",
        protocol="A call ends with `completed` or `failed`. v1 has no other final status.",
        harm="Zed takes a status that it does not know for pending, and ends cards by itself only if the user"
        " cancels or rejects. People wait for nothing.",
        fix="End each call before the turn is answered. Tell a cancelled call as `failed`.",
        check=spins_for_ever,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read"}\n'
        '{"tool_call_update": "c1", "status": "cancelled"}',
    ),
    _rule(
        "not-found",
        severity="error",
        moment=UpdateArrived,
        title="Zed shows “Tool call not found”",
        protocol="`tool_call` announces a call. `tool_call_update` changes one that was announced.",
        harm="A failed card appears that says nothing, and the update is lost.",
        fix="Announce each call by `tool_call` before anything else is told about it.",
        check=not_found,
        example='{"tool_call_update": "c1", "title": "Reading a.py", "status": "completed"}',
    ),
    _rule(
        "rewritten-card",
        severity="error",
        moment=CallBegan,
        title="A new call rewrites an old card in Zed",
        protocol="An id is used for one call in the whole session.",
        harm="What people saw of the first call is gone, and the new one appears far above, or not at all.",
        fix="Make an id of your own for each call, also if the model uses its ids again.",
        check=rewrites_a_card,
        example='{"tool_call": "c1", "title": "Reading a.py", "status": "completed"}\n'
        '{"tool_call": "c1", "title": "Reading b.py"}',
    ),
    _rule(
        "markdown-title",
        severity="warning",
        moment=UpdateArrived,
        title="A title is rendered as Markdown in Zed",
        protocol="A title is a text for people. Whether a client renders it is not said.",
        harm="Zed renders the titles of all kinds but `execute` and `edit`: `__init__.py` reads **init**.py,"
        " and `<div>` is gone.",
        fix="Escape * _ [ < and & by a backslash, or put the name between backticks.",
        check=title_is_markdown,
        example='{"tool_call": "c1", "title": "Reading __init__.py", "kind": "read", "status": "completed"}',
    ),
    _rule(
        "hidden-output",
        severity="warning",
        moment=UpdateApplied,
        title="Output is hidden in Zed by older content",
        protocol="`content` is what is shown. `rawOutput` is what the tool gave.",
        harm="People see the content of the announcement and never what came of the call.",
        fix="Send the output as content with the final update, too.",
        check=output_is_hidden,
        example='{"tool_call": "c1", "title": "ls", "kind": "execute", "content":'
        ' [{"type": "content", "content": {"type": "text", "text": "Lists files."}}]}\n'
        '{"tool_call_update": "c1", "status": "completed", "rawOutput": {"stdout": "a.py"}}',
    ),
    _rule(
        "follow-nowhere",
        severity="warning",
        moment=UpdateArrived,
        title="Follow goes nowhere in Zed",
        protocol="Paths of locations are absolute.",
        harm="Zed moves only to the last location, and only if it is absolute and in the project. People who"
        " follow the agent stay where they were.",
        fix="Make paths absolute, and put the place that the work is at last.",
        check=follow_goes_nowhere,
        example='{"tool_call": "c1", "title": "Reading a.py", "locations": [{"path": "src/a.py"}],'
        ' "status": "completed"}',
    ),
    _rule(
        "many-locations",
        severity="advice",
        moment=UpdateArrived,
        title="More locations than Zed should open",
        protocol="Locations are the files that a call works with.",
        harm="Zed opens a buffer for each, which costs memory, and follows only to the last.",
        fix=f"Send the few that matter, at most {MANY_LOCATIONS}. The rest belongs into content.",
        check=too_many_locations,
        example='{"tool_call": "c1", "title": "Finding files", "status": "completed", "locations": ['
        + ", ".join(f'{{"path": "/code/{n}"}}' for n in range(MANY_LOCATIONS + 1))
        + "]}",
    ),
    _rule(
        "unknown-terminal",
        severity="error",
        moment=UpdateArrived,
        title="Zed drops an update for a terminal that it does not know",
        protocol="A terminal in content was made by `terminal/create`.",
        harm="Zed drops what follows in the update: other content, locations, raw input and output.",
        fix="Put only terminals into content that the client made, or that `_meta.terminal_info` of the"
        " announcement told of.",
        check=unknown_terminal,
        example='{"tool_call": "c1", "title": "make", "kind": "execute", "status": "completed", "content":'
        ' [{"type": "terminal", "terminalId": "t1"}]}',
    ),
    _rule(
        "no-live-output",
        severity="warning",
        moment=CallClosed,
        title="Zed shows no live output",
        protocol="This is no part of ACP. Clients take it that say `terminal_output` in `_meta` of their"
        " capabilities.",
        harm="Zed keeps the output of a terminal that it was not told of, and never shows it.",
        fix="Send `_meta.terminal_info` with the `tool_call`, and a terminal item of that id as its content.",
        check=no_live_output,
        example='{"tool_call": "c1", "title": "make", "kind": "execute"}\n'
        '{"tool_call_update": "c1", "status": "completed", "_meta": {"terminal_output":'
        ' {"terminal_id": "t1", "data": "done"}}}',
    ),
)
