"""What a call shows, as blocks of lines: text, diffs, output, and what can only be described.

`blocks_of` turns each item of a report's content into a `Block`. Whoever shows blocks decides how many rows
there are: `share_rows` divides them among the blocks, and `Block.fitted` leaves out the middle of a long one
and says how much that was. All text is safe for a terminal from here on.
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

LEAST_ROWS = 6
"""Rows that each block gets at least."""

Tone = Literal["", "dim", "note", "name", "add", "remove"]
"""What a line is, for whoever has colours."""


TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""Gives the state of an agent's terminal, if it is known."""

_FENCED = re.compile(r"(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\1\s*", re.DOTALL)

LIVE_BYTES = 8 * 1024
"""Bytes of the end of an output that are looked at to show its last lines."""

CONTEXT = 3
"""Unchanged lines that are shown around a change."""

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_VERBS = {"add": "new file", "delete": "deleted", "move": "moved from", "copy": "copied from"}


# Blocks


class BodyLine(NamedTuple):
    """One line of a body. `lead` stands before it, once, however often the line is broken."""

    text: str
    tone: Tone = ""
    lead: str = ""


class Block(NamedTuple):
    """Lines that belong together. Between `head` and `tail` may be a gap of lines that are not known."""

    head: Sequence[BodyLine]
    tail: Sequence[BodyLine] = ()
    gap_lines: int = 0
    gap_bytes: int = 0

    @property
    def has_gap(self) -> bool:
        """Whether something is left out between the two parts."""
        return bool(self.gap_lines or self.gap_bytes)

    def lines(self) -> list[BodyLine]:
        """Return all lines that are known, the gap said where it is."""
        return [*self.head, *self._notice(self.gap_lines), *self.tail]

    def fitted(self, most: int, rows_of: Callable[[BodyLine], int]) -> list[BodyLine]:
        """Return the beginning and the end of the block, in about `most` rows, and say what is left out."""
        if not self.has_gap:
            known = [*self.head, *self.tail]
            if sum(map(rows_of, known[: most + 1])) <= most and len(known) <= most:
                return known
            first = _taken(known, most // 3, rows_of)
            last = _taken(known[first:][::-1], most - most // 3 - 1, rows_of)
            head, tail, left = known[:first], known[len(known) - last :], len(known) - first - last
        else:
            first = _taken(self.head, most // 3, rows_of)
            last = _taken(self.tail[::-1], most - most // 3 - 1, rows_of)
            head, tail = self.head[:first], self.tail[len(self.tail) - last :]
            left = self.gap_lines + len(self.head) + len(self.tail) - first - last
        return [*head, *self._notice(left), *tail]

    def _notice(self, lines: int) -> list[BodyLine]:
        if lines:
            return [BodyLine(f"… {plural(lines, 'line')} left out …", "note")]
        return (
            [BodyLine(f"… {bytes_text(self.gap_bytes)} left out …", "note")] if self.has_gap else []
        )


def block_of(texts: Sequence[str], tone: Tone = "") -> Block:
    """Return a block of lines that all are alike."""
    return Block([BodyLine(text, tone) for text in texts])


def share_rows(most: int, wanted: Sequence[int]) -> list[int]:
    """Share rows out: who wants little gets all of that, and the others the same each."""
    shares = [LEAST_ROWS] * len(wanted)
    for place, index in enumerate(sorted(range(len(wanted)), key=lambda index: wanted[index])):
        even = most // (len(wanted) - place)
        shares[index] = max(LEAST_ROWS, min(wanted[index], even))
        most -= shares[index]
    return shares


def _taken(lines: Sequence[BodyLine], most: int, rows_of: Callable[[BodyLine], int]) -> int:
    """Count the first lines that take `most` rows at most; one is taken in any case."""
    rows = 0
    for count, line in enumerate(lines):
        rows += rows_of(line)
        if rows > most:
            return max(1, count)
    return len(lines)


# Items


def blocks_of(report: ToolCallReport, terminal_of: TerminalOf, cwd: str) -> list[Block]:
    """Return all that a call shows."""
    blocks: list[Block] = []
    for item in report.content:
        if isinstance(item, TextContent) and repeats_the_end(item.text, report):
            continue
        blocks += [block for block in _item(item, terminal_of, cwd) if block.head or block.tail]
    return blocks


def _item(item: ToolCallContent, terminal_of: TerminalOf, cwd: str) -> list[Block]:
    if isinstance(item, TextContent):
        return [text_block(item.text)]
    if isinstance(item, DiffContent):
        return diff_blocks(item, cwd)
    if isinstance(item, TerminalContent):
        state = terminal_of(item.terminal_id)
        return [] if state is None else [output_block(state)]
    return [_described(item)]


def text_block(text: str) -> Block:
    """Return text as lines. One that is a single code block is shown without its fence."""
    text = text.strip("\n")
    fenced = _FENCED.fullmatch(text)
    if fenced is not None:
        text = fenced[2]
    return block_of([harmless(line.rstrip("\r")) for line in text.split("\n")] if text else [])


def _described(item: ToolCallContent) -> Block:
    """Give in a line what can't be shown in text."""
    if isinstance(item, (ImageContent, AudioContent)):
        what = "image" if isinstance(item, ImageContent) else "audio"
        size = _size(item.data)
        return block_of([visible(f"[{what} · {item.mime_type} · {size}]")], "name")
    if isinstance(item, ResourceLink):
        said = [item.title or item.name, item.uri]
        said += [bytes_text(item.size)] if item.size is not None else []
        return block_of([visible(f"[{' · '.join(said)}]")], "name")
    if isinstance(item, EmbeddedResource):
        if item.text is None:
            size = _size(item.blob or "")
            kind = item.mime_type or "binary"
            return block_of([visible(f"[{item.uri} · {kind} · {size}]")], "name")
        return Block([*block_of([visible(item.uri)], "name").head, *text_block(item.text).head])
    return block_of(["[content of a kind that is not known here]"], "note")


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


def output_block(state: TerminalState) -> Block:
    """Return the output as far as it is kept."""
    kept = state.tail(state.total)
    if len(kept) == state.total:
        return block_of(to_lines(kept))
    head = state.head[: state.head.rfind(b"\n") + 1] or state.head
    tail = kept[kept.find(b"\n") + 1 :]
    left = state.total - len(head) - len(tail)
    lines = state.newlines - head.count(b"\n") - tail.count(b"\n")
    if (
        left <= 0
    ):  # what is kept of both overlaps: the end alone says it all but for its first bytes
        head, left, lines = head[: state.total - len(tail)], 0, 0
    return Block(block_of(to_lines(head)).head, block_of(to_lines(tail)).head, lines, left)


def to_lines(data: bytes) -> list[str]:
    """Return bytes of a terminal as plain lines."""
    text = to_plain(data, final=True)
    return [harmless(line) for line in text.removesuffix("\n").split("\n")] if text else []


# Diffs


class DiffRow(NamedTuple):
    """One line of a patch. `number` is its line in the file that has it."""

    sign: str
    number: int
    text: str


def diff_blocks(diff: DiffContent, cwd: str) -> list[Block]:
    """Return a block for each file that has changed."""
    patch = git_patch.write(diff.changes) if diff.patch is None else diff.patch
    sections = list(_sections(patch))
    if len(sections) != len(diff.changes):  # a file without text has none, and others can't be told
        by_one = [list(_sections(git_patch.write([change]))) for change in diff.changes]
        sections = [rows[0] if rows else [] for rows in by_one]
    pairs = zip(diff.changes, sections, strict=True)
    return [_file_block(change, rows, cwd) for change, rows in pairs]


def _file_block(change: FileChange, rows: list[DiffRow], cwd: str) -> Block:
    added = sum(row.sign == "+" for row in rows)
    removed = sum(row.sign == "-" for row in rows)
    name = visible(path_text(change.path, cwd))
    verb = _VERBS.get(change.operation, "")
    if change.old_path is not None:
        verb += " " + visible(path_text(change.old_path, cwd))
    counts = f"+{added} −{removed}" if rows else ""
    head = BodyLine("  ".join(filter(None, (name, verb, counts))), "name")
    return Block([head, *_numbered(_near(rows))])


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
