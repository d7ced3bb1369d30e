"""Calls as a table on a terminal. A row is one line, however long a title is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from callsheet.cli.cards.looks import COLOURS, Looks
from callsheet.cli.cards.words import path_text, visible
from callsheet.history import Head, StoredSession
from callsheet.report.report import ToolCallReport

from .finding import SHORT
from .words import ago, clock_time, end_of, took_text

Key = tuple[str, str]
"""A call: its session and its id."""

WIDE = 110
"""Columns from which there is room for the session."""

_COLOURS = {status.value: colour for status, colour in COLOURS.items()}
_WHEN, _TOOK, _LEAST = 10, 7, 12
_ENOUGH, _SHORT, _LONG = 16, 60, 80
"""Columns of a title: with fewer, other columns go; so many for short ones; and the most."""
_GAP = "  "


class Widths(NamedTuple):
    """How wide the columns are; 0 means that one is not shown."""

    when: int
    tool: int
    took: int
    key: int
    session: int
    title: int


def key_of(head: Head) -> Key:
    """Return which call it is."""
    return head.session_id, head.call_id


def shorts(keys: Sequence[str]) -> dict[str, str]:
    """Return ids in short: their ends, as long as it takes to tell them apart."""
    known = set(keys)
    for size in range(SHORT, 40):
        found = {key: key if len(key) <= size + 4 else key[-size:] for key in known}
        if len(set(found.values())) == len(known):
            return found
    return {key: key for key in known}


class Table:
    """A table of calls. Its columns are laid out by the first of them.

    The title has what others leave, as far as titles are long. Where that is little, others go; the id stays.
    """

    def __init__(
        self,
        looks: Looks,
        sample: Sequence[Head],
        sessions: Mapping[str, StoredSession] | None = None,
        *,
        live: bool = False,
    ) -> None:
        """With `sessions`, calls that are in a row of one session stand under its name.

        A `live` table stays while time goes by: it has times of the clock.
        """
        self._looks: Looks = looks
        self._sessions: Mapping[str, StoredSession] = sessions or {}
        several = len({head.session_id for head in sample}) > 1
        runs = sum(1 for _ in groupby(sample, lambda head: head.session_id))
        self._is_grouped: bool = bool(sessions) and several and runs * 3 <= len(sample)
        self._names_sessions: bool = several and not self._is_grouped
        self._is_live: bool = live
        self._title_most: int = max(map(_title_len, sample), default=0)
        self._group: str | None = None
        self._tool: int = max((cell_len(head.name) for head in sample), default=4)
        self._keys: dict[str, str] = shorts([head.call_id for head in sample])
        self._session_keys: dict[str, str] = shorts([head.session_id for head in sample])
        self._key: int = max((len(key) for key in self._keys.values()), default=SHORT)

    def heading(self, width: int) -> Text:
        """Return the row above all others."""
        at = self._widths(width)
        columns = [
            ("WHEN".ljust(at.when), at.when),
            ("TOOL".ljust(at.tool), at.tool),
            ("CALL".ljust(at.title), at.title),
            ("TOOK".rjust(at.took), at.took),
            ("ID".ljust(at.key), at.key),
            ("SESSION", at.session),
        ]
        names = [name for name, wide in columns if wide]
        return Text(f"  {_GAP.join(names)}"[:width].rstrip(), "dim")

    def rows(
        self,
        heads: Sequence[Head],
        width: int,
        now: float,
        reports: Mapping[Key, ToolCallReport],
    ) -> Iterator[Text]:
        """Return a row for each call, and one above those of a session."""
        for head in heads:
            if self._is_grouped and head.session_id != self._group:
                self._group = head.session_id
                yield self._session(head.session_id, width)
            yield self.row(head, width, now, reports.get(key_of(head)))

    def row(
        self,
        head: Head,
        width: int,
        now: float,
        report: ToolCallReport | None = None,
        frame: int | None = None,
    ) -> Text:
        """Return the row of a call. With a `frame`, one that runs has a spinner."""
        at, colour = self._widths(width), _COLOURS.get(head.status, "")
        cells = [
            (fitted(self._when(head, now), at.when, self._looks), "dim"),
            (fitted(visible(head.name), at.tool, self._looks), "cyan"),
            (self._title(head, end_of(head, report), at.title), ""),
            (self._took(head, now).rjust(_TOOK) if at.took else "", "dim"),
            (fitted(self._short(head.call_id), at.key, self._looks), ""),
            (self._session_keys.get(head.session_id, head.session_id[-SHORT:]), "dim"),
        ]
        shown = (at.when, at.tool, at.title, at.took, at.key, at.session)
        row = Text.assemble((self._mark(head, frame), f"bold {colour}"), " ")
        for index, (cell, style) in enumerate(
            cell for cell, wide in zip(cells, shown, strict=True) if wide
        ):
            row.append(_GAP if index else "")
            row.append_text(cell if isinstance(cell, Text) else Text(cell, style))
        row.truncate(width)
        row.rstrip()
        return row

    def _when(self, head: Head, now: float) -> str:
        return clock_time(head.at, now) if self._is_live else ago(head.at, now)

    def _widths(self, width: int) -> Widths:
        session = 0
        if self._names_sessions and width >= WIDE:
            session = max(map(len, self._session_keys.values()), default=SHORT)
        when, tool, took = _WHEN, min(self._tool, max(8, width // 7)), _TOOK

        def left() -> int:
            others = (when, tool, took, self._key, session)
            return width - 2 - sum(wide + len(_GAP) for wide in others if wide)

        if left() < _ENOUGH:
            took = 0
        if left() < _ENOUGH:
            tool = 0
        if left() < _ENOUGH:
            when = 0
        most = _LONG if self._is_live else min(_LONG, max(_SHORT, self._title_most))
        return Widths(when, tool, took, self._key, session, min(most, max(1, left())))

    def _mark(self, head: Head, frame: int | None) -> str:
        running = self._looks.spinner[(frame or 0) % len(self._looks.spinner)]
        still = "●" if self._looks.more == "…" else "@"
        other = still if frame is None else running
        return self._looks.marks.get(head.status, other)

    def _title(self, head: Head, end: str, width: int) -> Text:
        """Return the title, cut so that what came of the call stands behind it."""
        told = visible(head.title or head.name)
        if not end or (head.is_open and head.status == "in_progress"):
            return Text(fitted(told, width, self._looks))
        title = _cut(told, max(_LEAST // 2, width - cell_len(end) - len(_GAP)), self._looks)
        text = Text.assemble(title, _GAP, (end, _COLOURS.get(head.status, "")))
        text.truncate(width, pad=True)
        return text

    def _took(self, head: Head, now: float) -> str:
        if head.is_open:
            return took_text(max(0.0, now - head.at) * 1000)
        return "" if head.duration_ms is None else took_text(head.duration_ms)

    def _short(self, key: str) -> str:
        return visible(self._keys.get(key) or (key if len(key) <= SHORT + 4 else key[-SHORT:]))

    def _session(self, key: str, width: int) -> Text:
        session = self._sessions.get(key)
        parts = [visible(self._session_keys.get(key, key))]
        if session is not None:
            parts += [visible(session.title)] if session.title else []
            parts += [visible(path_text(session.cwd, "", home()))] if session.cwd else []
        return Text(_cut(self._looks.dot.join(parts), width, self._looks), "bold")


def _title_len(head: Head) -> int:
    return cell_len(visible(head.title or head.name)) + len(_GAP) + cell_len(end_of(head))


def home() -> str:
    """Return the user's home, if there is one."""
    try:
        return str(Path.home())
    except RuntimeError:
        return ""


def _cut(text: str, width: int, looks: Looks) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)).rstrip() + looks.more


def fitted(text: str, width: int, looks: Looks) -> str:
    """Return text in just so many cells."""
    return set_cell_size(_cut(text, width, looks), width)
