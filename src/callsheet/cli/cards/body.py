"""What a call shows, line by line: text, diffs, output, and what can only be described.

`body_of` turns the content of a report into lines. Whoever shows them knows how many rows there are, and
`fit_lines` leaves out the middle of a long body. All text is safe for a terminal from here on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from callsheet.acp import git_patch
from callsheet.acp.terminal_text import to_plain
from callsheet.cli.cards.footer import repeats_the_end
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
from callsheet.report.humanize import bytes_text, plural
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState

Tone = Literal["", "dim", "note", "name", "add", "remove"]
"""What a line is, for whoever has colours."""


TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""Returns the state of an agent's terminal, if it is known."""

_FENCED = re.compile(r"(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\1\s*", re.DOTALL)

LIVE_BYTES = 8 * 1024
"""Bytes of the end of an output that are looked at to show its last lines."""

CONTEXT = 3
"""Unchanged lines that are shown around a change."""

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_VERBS = {"add": "new file", "delete": "deleted", "move": "moved from", "copy": "copied from"}


# Lines


class BodyLine(NamedTuple):
    """One line of a body. `lead` stands before it, once, however often the line is wrapped.

    `lines` is how many lines of the call's own it stands for: a note about what was left out stands for many.
    """

    text: str
    tone: Tone = ""
    lead: str = ""
    lines: int = 1


def left_out(lines: int, size: int = 0) -> BodyLine:
    """Return the note about lines that are left out; if these are not known, about their bytes."""
    amount = plural(lines, "line") if lines else bytes_text(size)
    return BodyLine(f"… {amount} left out …", "note", lines=lines)


def fit_lines(
    lines: Sequence[BodyLine], most: int, rows_of: Callable[[BodyLine], int]
) -> Sequence[BodyLine]:
    """Return the beginning and the end of a body, in about `most` rows, with a note about the rest.

    Args:
        lines: The body.
        most: Rows that there are.
        rows_of: Returns the rows that a line takes.
    """
    if len(lines) <= most and sum(map(rows_of, lines)) <= most:
        return lines
    first = _count_fitting(lines, most // 3, rows_of)
    last = _count_fitting(lines[first:][::-1], most - most // 3 - 1, rows_of)
    rest = lines[first : len(lines) - last]
    note = [left_out(sum(line.lines for line in rest))] if rest else []
    return [*lines[:first], *note, *lines[len(lines) - last :]]


def _count_fitting(lines: Sequence[BodyLine], most: int, rows_of: Callable[[BodyLine], int]) -> int:
    """Return how many of the first lines take `most` rows at most; one is taken in any case."""
    rows = 0
    for count, line in enumerate(lines):
        rows += rows_of(line)
        if rows > most:
            return max(1, count)
    return len(lines)


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
            return [BodyLine(visible(item.uri), "name"), *text_lines(item.text)]
        facts = [item.uri, item.mime_type or "binary", _size(item.blob or "")]
    else:
        return [BodyLine("[content of a kind that is not known here]", "note")]
    return [BodyLine(visible(f"[{' · '.join(facts)}]"), "name")]


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


class DiffRow(NamedTuple):
    """One line of a patch. `number` is its line in the file that has it."""

    sign: str
    number: int
    text: str


def diff_lines(diff: DiffContent, cwd: str) -> list[BodyLine]:
    """Return the lines of each file that has changed, with a few lines around each change.

    All diffs come as git patches: where an agent sent no patch of its own, one is made of the texts.
    """
    patch = git_patch.write(diff.changes) if diff.patch is None else diff.patch
    sections = list(_sections(patch))
    if len(sections) != len(
        diff.changes
    ):  # a file without text has no section, so they can't be matched
        by_one = [list(_sections(git_patch.write([change]))) for change in diff.changes]
        sections = [rows[0] if rows else [] for rows in by_one]
    pairs = zip(diff.changes, sections, strict=True)
    return [line for change, rows in pairs for line in _file_lines(change, rows, cwd)]


def _file_lines(change: FileChange, rows: list[DiffRow], cwd: str) -> list[BodyLine]:
    added = sum(row.sign == "+" for row in rows)
    removed = sum(row.sign == "-" for row in rows)
    name = visible(path_text(change.path, cwd))
    verb = _VERBS.get(change.operation, "")
    if change.old_path is not None:
        verb += " " + visible(path_text(change.old_path, cwd))
    counts = f"+{added} −{removed}" if rows else ""
    head = BodyLine("  ".join(filter(None, (name, verb, counts))), "name")
    return [head, *_numbered(_near(rows))]


def _numbered(rows: list[DiffRow | None]) -> Iterator[BodyLine]:
    wide = max((len(str(row.number)) for row in rows if row), default=1)
    for row in rows:
        if row is None:
            yield BodyLine("", "dim", "⋮".rjust(wide) + "   ")
            continue
        tone: Tone = {"+": "add", "-": "remove"}.get(row.sign, "")  # pyright: ignore[reportAssignmentType]
        sign = "−" if row.sign == "-" else row.sign
        yield BodyLine(row.text, tone, f"{row.number:>{wide}} {sign} ")


def _near(rows: list[DiffRow]) -> list[DiffRow | None]:
    """Return the rows near a change; None stands for each stretch of others."""
    changes = [index for index, row in enumerate(rows) if row.sign != " "]
    near: list[DiffRow | None] = []
    shown = 0  # everything before is shown or skipped
    for change in changes:
        begin = max(shown, change - CONTEXT)
        end = min(len(rows), change + CONTEXT + 1)
        if begin > shown and near:
            near.append(None)
        near.extend(rows[begin:end])
        shown = max(shown, end)
    return near


def _sections(patch: str) -> Iterator[list[DiffRow]]:
    """Return the rows of each file in a patch."""
    rows: list[DiffRow] | None = None
    old = new = 0
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            if rows is not None:
                yield rows
            rows, old, new = [], 0, 0
        elif rows is None:
            continue
        elif hunk := _HUNK.match(line):
            old, new = int(hunk[1]), int(hunk[2])
        elif not (old or new) or line[:1] not in ("+", "-", " "):
            continue
        elif line[0] == "-":
            rows.append(DiffRow("-", old, harmless(line[1:])))
            old += 1
        else:
            rows.append(DiffRow(line[0], new, harmless(line[1:])))
            new, old = new + 1, old + (line[0] == " ")
    if rows is not None:
        yield rows
