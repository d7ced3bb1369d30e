"""What a call shows, line by line: text, diffs, output, and what can only be described; and how it ended.

`body_of` turns the content of a report into lines. Whoever shows them knows how many rows there are, and
`fit_lines` leaves out the middle of a long body. `footer_of` has the facts that stand below it. All text is
safe for a terminal from here on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from callsheet.acp import git_patch
from callsheet.acp.terminal_text import to_plain
from callsheet.cli.output import harmless, path_text, visible
from callsheet.report.content import (
    AudioContent,
    DiffContent,
    EmbeddedResource,
    FileChange,
    ImageContent,
    ResourceLink,
    TerminalContent,
    TextContent,
    ToolCallContent,
)
from callsheet.report.humanize import bytes_text, duration_text, plural
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus
from callsheet.report.terminal import TerminalState

_PatchRow: TypeAlias = tuple[str, int, str]
"""The sign of a line of a patch, its number in the file that has it, and its text."""

TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""Returns the state of an agent's terminal, if it is known."""

_FENCED = re.compile(r"(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\1\s*", re.DOTALL)

LIVE_BYTES = 8 * 1024
"""Bytes of the end of an output that are looked at to show its last lines."""

CONTEXT = 3
"""Unchanged lines that are shown around a change."""

_FILE = re.compile(r"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_VERBS = {"add": "new file", "delete": "deleted", "move": "moved from", "copy": "copied from"}
_DIFF_STYLES = {"+": "green", "-": "red"}

MOST_ROWS = 40
"""Lines of what a call shows, when it has ended. The rest is counted."""

MOST_PLACES = 3
"""Locations that are named; the others are only counted."""

_ENDS = {
    Reason.DENIED: "denied",
    Reason.TIMEOUT: "timed out",
    Reason.ABANDONED: "abandoned",
}


# Lines


class BodyLine(NamedTuple):
    """One line of a body, and its style, as rich names styles.

    `lines` is how many lines of the call's own it stands for: a note about what was left out stands for many.
    """

    text: str
    style: str = ""
    lines: int = 1


def left_out(lines: int, size: int = 0) -> BodyLine:
    """Return the note about lines that are left out; if these are not known, about their bytes."""
    amount = plural(lines, "line") if lines else bytes_text(size)
    return BodyLine(f"… {amount} left out …", "dim italic", lines)


def fit_lines(lines: list[BodyLine], most: int) -> list[BodyLine]:
    """Return the beginning and the end of a body, in `most` lines, with a note about the rest."""
    if len(lines) <= most:
        return lines
    first, last = most // 3, len(lines) - (most - most // 3 - 1)
    note = left_out(sum(line.lines for line in lines[first:last]))
    return [*lines[:first], note, *lines[last:]]


# Items


def body_of(report: ToolCallReport, terminal_of: TerminalOf, cwd: str) -> list[BodyLine]:
    """Return all that a call shows, line by line.

    Args:
        report: The call.
        terminal_of: Returns the output of a terminal that the call shows.
        cwd: The directory that paths are shown relative to.
    """
    lines: list[BodyLine] = []
    for item in report.content:
        if isinstance(item, TextContent):
            lines += [] if repeats_the_end(item.text, report) else text_lines(item.text)
        elif isinstance(item, DiffContent):
            lines += diff_lines(item, cwd)
        elif isinstance(item, TerminalContent):
            state = terminal_of(item.terminal_id)
            lines += [] if state is None else output_lines(state)
        else:
            lines += _described(item)
    return lines


def plain_lines(report: ToolCallReport, terminal_of: TerminalOf, cwd: str) -> Iterator[str]:
    """Yield what a card shows as plain lines: the title, the body, and how the call ended."""
    yield visible(report.title or report.name or report.tool_call_id)
    for line in body_of(report, terminal_of, cwd):
        yield line.text.rstrip()
    yield " · ".join(footer_of(report, cwd))


def text_lines(text: str) -> list[BodyLine]:
    """Return text as lines. One that is a single code block is shown without its fence."""
    text = text.strip("\n")
    fenced = _FENCED.fullmatch(text)
    if fenced is not None:
        text = fenced[2]
    return [BodyLine(harmless(line.rstrip("\r"))) for line in text.split("\n")] if text else []


def _described(item: ToolCallContent) -> list[BodyLine]:
    """Return a description of what can't be shown as text."""
    if isinstance(item, (ImageContent, AudioContent)):
        kind = "image" if isinstance(item, ImageContent) else "audio"
        facts = [kind, item.mime_type, _size(item.data)]
    elif isinstance(item, ResourceLink):
        facts = [item.title or item.name, item.uri]
        facts += [bytes_text(item.size)] if item.size is not None else []
    elif isinstance(item, EmbeddedResource):
        if item.text is not None:
            return [BodyLine(visible(item.uri), "bold"), *text_lines(item.text)]
        facts = [item.uri, item.mime_type or "binary", _size(item.blob or "")]
    else:
        return [BodyLine("[content of a kind that is not known here]", "dim italic")]
    return [BodyLine(visible(f"[{' · '.join(facts)}]"), "bold")]


def _size(data: str) -> str:
    """Return the size of what stands there in base64."""
    return bytes_text(len(data) * 3 // 4 - data.count("=", -2))


# Output of terminals


def last_lines(state: TerminalState, most: int) -> list[str]:
    """Return the last lines of an output that goes on."""
    data = state.tail(LIVE_BYTES)
    text = to_plain(data, final=False)
    lines = text.rstrip("\n").split("\n")
    if state.total > len(data) and len(lines) > 1:
        lines = lines[1:]  # it may have begun anywhere
    return [harmless(line) for line in lines[-most:]] if text.strip() else []


def output_lines(state: TerminalState) -> list[BodyLine]:
    """Return the output as far as it is stored: its beginning and its end, and a note about the rest."""
    stored = state.tail(state.total)
    if len(stored) == state.total:
        return _plain_lines(stored)
    head = state.head[: state.head.rfind(b"\n") + 1] or state.head
    tail = stored[stored.find(b"\n") + 1 :]
    size = state.total - len(head) - len(tail)
    if size <= 0:  # the two overlap: the end has all but the first bytes
        return _plain_lines(head[: state.total - len(tail)] + tail)
    lines = state.newlines - head.count(b"\n") - tail.count(b"\n")
    return [*_plain_lines(head), left_out(lines, size), *_plain_lines(tail)]


def _plain_lines(data: bytes) -> list[BodyLine]:
    text = to_plain(data, final=True).removesuffix("\n")
    return [BodyLine(harmless(line)) for line in text.split("\n")] if data else []


# Diffs


def diff_lines(diff: DiffContent, cwd: str) -> list[BodyLine]:
    """Return the lines of each file that has changed, with a few lines around each change.

    All diffs come as git patches: where an agent sent no patch of its own, one is made of the texts.
    """
    sections = _FILE.split(diff.patch or "")[1:]
    if len(sections) != len(diff.changes):  # there is no patch, or a file without text
        sections = [git_patch.write([change]) for change in diff.changes]
    lines: list[BodyLine] = []
    for change, section in zip(diff.changes, sections, strict=True):
        rows = list(_patch_rows(section))
        lines += [_file_line(change, rows, cwd)]
        wide = max((len(str(number)) for _, number, _ in rows), default=1)
        for sign, number, text in rows:
            shown = sign.replace("-", "−")
            row = f"{number:>{wide}} {shown} {text}" if sign != "⋮" else "⋮".rjust(wide)
            lines.append(BodyLine(row, _DIFF_STYLES.get(sign, "")))
    return lines


def _file_line(change: FileChange, rows: list[_PatchRow], cwd: str) -> BodyLine:
    verb = _VERBS.get(change.operation, "")
    if change.old_path is not None:
        verb += " " + visible(path_text(change.old_path, cwd))
    added, removed = (sum(row[0] == sign for row in rows) for sign in "+-")
    counts = f"+{added} −{removed}" if rows else ""
    name = visible(path_text(change.path, cwd))
    return BodyLine("  ".join(filter(None, (name, verb, counts))), "bold")


def _patch_rows(section: str) -> Iterator[_PatchRow]:
    """Yield the changed lines of one file, those near to them, and a `⋮` for each stretch of others.

    A patch of a small file has all of its lines, so most of them are dropped here.
    """
    rows: dict[int, _PatchRow] = {}
    old = new = place = 0
    for line in section.split("\n"):
        sign = line[:1]
        if hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
            place += 1  # so that there is a gap between two hunks
        elif (old or new) and sign in ("+", "-", " "):
            place += 1
            rows[place] = sign, old if sign == "-" else new, harmless(line[1:])
            old, new = old + (sign != "+"), new + (sign != "-")
    changed = [place for place, row in rows.items() if row[0] != " "]
    near = {place + by for place in changed for by in range(-CONTEXT, CONTEXT + 1)}
    last = None
    for place in sorted(near & rows.keys()):
        if last is not None and place > last + 1:
            yield "⋮", 0, ""
        yield rows[place]
        last = place


# How it ended


def footer_of(report: ToolCallReport, cwd: str) -> list[str]:
    """Return the facts that stand under a call: how it ended, how long it took, and where it was."""
    notes, places = report.notes, report.locations
    facts = [end_text(report)]
    if (took := _number(notes.get("durationMs"))) is not None:
        facts.append(duration_text(took))
    elif report.reason is Reason.DENIED:
        facts.append("not run")
    for place in places[:MOST_PLACES]:
        line = "" if place.line is None else f":{place.line}"
        facts.append(visible(path_text(place.path, cwd)) + line)
    if len(places) > MOST_PLACES:
        facts.append(f"and {len(places) - MOST_PLACES} more")
    if redactions := _number(notes.get("redactions")):
        facts.append(plural(int(redactions), "redaction"))
    return facts


def end_text(report: ToolCallReport) -> str:
    """Return in a word or two how a call ended."""
    if report.status is not ToolCallStatus.FAILED:
        return report.status.value.replace("_", " ")
    if report.reason is Reason.EXIT_CODE and is_object(report.raw_output):
        ended = report.raw_output
        metadata = ended.get("metadata")
        signal = ended.get("signal") or (is_object(metadata) and metadata.get("signal"))
        if signal:
            return f"failed: {visible(str(signal))}"
        if isinstance(code := ended.get("exit_code"), int):
            return f"failed: exit code {code}"
    return _ENDS.get(report.reason, "failed") if report.reason else "failed"


def repeats_the_end(text: str, report: ToolCallReport) -> bool:
    """Return whether a text only repeats how the call ended: `Cancelled`, `Exit code 3`."""
    return report.status.is_final and text.strip().lower() in end_text(report).split(": ")


def _number(value: JsonValue) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
