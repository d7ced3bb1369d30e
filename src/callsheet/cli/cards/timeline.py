"""The calls of a trace as a table on a terminal: title, findings, duration, and a bar that shows when it ran.

Bars stand on one scale, so calls that ran at the same time overlap. Time in which nothing ran is shortened,
and counted. Each row is exactly as wide as the terminal, however long its title is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from rich.text import Text

from callsheet.cli.cards.card import COLOURS, mark
from callsheet.cli.output import visible
from callsheet.report.humanize import duration_text, plural
from callsheet.report.status import ToolCallStatus
from callsheet.ui.traced import Trace, TracedCall

IDLE = 0.05
"""The share of the scale that a pause has at most."""

FOUND, TOOK, GAP = 5, 7, 1
DEEPEST = 4
LONGEST_TITLE = 1000

Pair = tuple[TracedCall | None, TracedCall | None]


class Scale:
    """Maps times to columns. Pauses in which no call ran are shortened.

    `idle` is how many seconds are left out that way.
    """

    def __init__(self, calls: Iterable[TracedCall], width: int) -> None:
        spans = sorted((call.announced, _end(call)) for call in calls)
        busy: list[list[float]] = []
        for begin, end in spans:
            if busy and begin <= busy[-1][1]:
                busy[-1][1] = max(busy[-1][1], end)
            else:
                busy.append([begin, end])
        total = sum(end - begin for begin, end in busy)
        longest = IDLE * total or 1.0
        self.idle: float = 0.0
        self.width: int = width
        # Where each busy time begins, on the clock and on the scale.
        self._begins: list[float] = [begin for begin, _ in busy]
        self._places: list[float] = [0.0]
        for (begin, end), (after, _) in pairwise(busy):
            pause = min(after - end, longest)
            self.idle += after - end - pause
            self._places.append(self._places[-1] + end - begin + pause)
        self._ends: list[float] = [end for _, end in busy]
        self._length: float = (self._places[-1] + busy[-1][1] - busy[-1][0] if busy else 0.0) or 1.0

    def column(self, time: float) -> float:
        """Return the column of a time."""
        found = max(0, bisect_right(self._begins, time) - 1)
        if not self._begins:
            return 0.0
        within = min(time, self._ends[found]) - self._begins[found]
        return (self._places[found] + within) / self._length * self.width

    def bar(self, call: TracedCall) -> Text:
        """Return when a call waited and when it ran, as a part of a line."""
        first = min(self.width - 1, int(self.column(call.announced)))
        last = min(self.width, max(first + 1, round(self.column(_end(call)))))
        ran = call.announced if call.started is None else call.started
        runs = min(last - 1, max(first, round(self.column(ran))))
        bar = Text(" " * first)
        bar.append("┄" * (runs - first), "dim").append("━" * (last - runs), colour_of(call))
        return bar.append(" " * (self.width - last))


def _end(call: TracedCall) -> float:
    times = (call.ended, call.first_output, call.started, call.announced)
    return max(time for time in times if time is not None)


def colour_of(call: TracedCall) -> str:
    """Return the colour of a call's status."""
    try:
        return COLOURS[ToolCallStatus(call.status)]
    except ValueError:
        return "yellow"


def timeline(trace: Trace, width: int, pairs: Iterable[Pair] | None = None) -> Iterator[Text]:
    """Yield a table of calls, row by row, each as wide as the terminal.

    Args:
        trace: The calls.
        width: The columns of the terminal.
        pairs: Each call beside the same as the agent sent it, to show both.
    """
    both = pairs is not None
    # Beside two titles, there is room for bars only on a wide terminal.
    bar = 0 if both and width < 100 else width // 6 if both else width // 3
    rest = width - TOOK - GAP - (bar + GAP if bar else 0)
    title = rest // 2 - FOUND - 2 * GAP if both else rest - FOUND - 2 * GAP
    scale, depths = Scale(trace.calls, bar), _depths(trace.calls)
    if both:
        heads = [("AS THE AGENT SENT IT", title), ("FOUND", FOUND), ("BEHIND THE TAP", title)]
    else:
        heads = [("CALL", title)]
    idle = f"{duration_text(scale.idle * 1000)} idle left out" if scale.idle >= 1 else ""
    times = idle if trace.has_times else "in order; no times were recorded"
    yield _row(
        width,
        *[_cell(name, size, "dim") for name, size in heads],
        _cell("FOUND", FOUND, "dim"),
        _cell("TOOK", TOOK, "dim", right=True),
        _cell(times, bar, "dim"),
    )
    for old, call in pairs if pairs is not None else ((None, call) for call in trace.calls):
        shown = call or old
        cwd = "" if shown is None else trace.sessions.get(shown.session, "")
        cells = _titled(old, title, cwd) if both else []
        depth = 0 if call is None else depths[call.session, call.id]
        cells += _titled(call, title, cwd, depth)
        took = ""
        if shown is not None and shown.took is not None and trace.has_times:
            took = duration_text(shown.took)
        cells.append(_cell(took, TOOK, "dim", right=True))
        if bar and shown is not None:
            cells.append(scale.bar(shown))
        yield _row(width, *cells)


def _titled(call: TracedCall | None, width: int, cwd: str, depth: int = 0) -> list[Text]:
    """Return the cells of a call's title and of how much is wrong with it."""
    if call is None:
        return [_cell("", width, ""), _cell("", FOUND, "")]
    text = Text("  " * min(depth, DEEPEST))
    text.append(f"{mark(call.status)} ", colour_of(call))
    title = (call.title or call.name or call.id)[:LONGEST_TITLE]
    if len(cwd) > 1:  # a column has little room, and all paths would look the same in it
        title = title.replace(f"{cwd}/", "").replace(cwd, ".")
    text.append(visible(title), "bold")
    text.truncate(width, overflow="ellipsis", pad=True)
    found = _cell(str(len(call.findings) or ""), FOUND, "red", right=True)
    return [text, found]


def _cell(text: str, width: int, style: str, *, right: bool = False) -> Text:
    cell = Text(text, style)
    cell.truncate(width, overflow="ellipsis")
    cell.align("right" if right else "left", width)
    return cell


def _row(width: int, *cells: Text) -> Text:
    row = Text(" " * GAP).join(cell for cell in cells if cell)
    row.truncate(width, overflow="ellipsis", pad=True)
    row.no_wrap, row.overflow, row.end = True, "ignore", "\n"
    return row


def _depths(calls: Iterable[TracedCall]) -> dict[tuple[str, str], int]:
    """Return how deep each call stands below the one that started it."""
    depths: dict[tuple[str, str], int] = {}
    for call in calls:
        above = depths.get((call.session, call.parent or ""))
        depths[call.session, call.id] = 0 if above is None else above + 1
    return depths


def facts(trace: Trace) -> str:
    """Return what a trace is about, in a line."""
    open_calls = sum(call.ended is None for call in trace.calls)
    found = len(trace.findings) + sum(len(call.findings) for call in trace.calls)
    parts = [
        trace.agent or "an unknown agent",
        f"ACP {trace.protocol}" if trace.protocol else "",
        plural(len(trace.calls), "call"),
        f"{open_calls} open" if open_calls else "",
        plural(found, "finding"),
    ]
    return visible(" · ".join(filter(None, parts)))
