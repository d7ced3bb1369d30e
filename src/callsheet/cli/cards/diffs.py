"""Diffs as lines, with line numbers and a few lines around each change.

All come as git patches: where an agent sent no patch of its own, one is made of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from callsheet.acp import git_patch
from callsheet.report.content import DiffContent, FileChange

from .lines import Block, Line, Tone
from .words import harmless, path_text, visible

CONTEXT = 3
"""Unchanged lines that are shown around a change."""

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_VERBS = {"add": "new file", "delete": "deleted", "move": "moved from", "copy": "copied from"}


class Row(NamedTuple):
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


def _file_block(change: FileChange, rows: list[Row], cwd: str) -> Block:
    added = sum(row.sign == "+" for row in rows)
    removed = sum(row.sign == "-" for row in rows)
    name = visible(path_text(change.path, cwd))
    verb = _VERBS.get(change.operation, "")
    if change.old_path is not None:
        verb += " " + visible(path_text(change.old_path, cwd))
    counts = f"+{added} −{removed}" if rows else ""
    head = Line("  ".join(filter(None, (name, verb, counts))), "name")
    return Block([head, *_numbered(_near(rows))])


def _numbered(rows: list[Row | None]) -> Iterator[Line]:
    wide = max((len(str(row.number)) for row in rows if row), default=1)
    for row in rows:
        if row is None:
            yield Line("", "dim", "⋮".rjust(wide) + "   ")
            continue
        tone: Tone = {"+": "add", "-": "remove"}.get(row.sign, "")  # pyright: ignore[reportAssignmentType]
        sign = "−" if row.sign == "-" else row.sign
        yield Line(row.text, tone, f"{row.number:>{wide}} {sign} ")


def _near(rows: list[Row]) -> list[Row | None]:
    """Return the rows near a change; None stands for each stretch of others."""
    changes = [index for index, row in enumerate(rows) if row.sign != " "]
    near: list[Row | None] = []
    shown = 0  # everything before is shown or skipped
    for change in changes:
        begin = max(shown, change - CONTEXT)
        end = min(len(rows), change + CONTEXT + 1)
        if begin > shown and near:
            near.append(None)
        near.extend(rows[begin:end])
        shown = max(shown, end)
    return near


def _sections(patch: str) -> Iterator[list[Row]]:
    """Return the rows of each file in a patch."""
    rows: list[Row] | None = None
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
            rows.append(Row("-", old, harmless(line[1:])))
            old += 1
        else:
            rows.append(Row(line[0], new, harmless(line[1:])))
            new, old = new + 1, old + (line[0] == " ")
    if rows is not None:
        yield rows
