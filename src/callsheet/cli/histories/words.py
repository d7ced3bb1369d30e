"""Times, ends and ids as people and machines read them."""

from __future__ import annotations

from datetime import UTC, datetime

from callsheet.cli.cards.facts import end_text
from callsheet.history import Head
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_WORDS = {Reason.TIMEOUT.value: "timed out", Reason.EXIT_CODE.value: "exit code"}
_OPEN = {"pending": "pending", "in_progress": "running", "paused": "paused"}


def ago(at: float, now: float) -> str:
    """Return how long ago something was; of what is long past, the day."""
    age = now - at
    if -_MINUTE < age < 5:
        return "just now"
    if 0 <= age < _MINUTE:
        return f"{age:.0f} s ago"
    if 0 <= age < _HOUR:
        return f"{age // _MINUTE:.0f} min ago"
    if 0 <= age < _DAY:
        return f"{age // _HOUR:.0f} h ago"
    if 0 <= age < 30 * _DAY:
        return f"{age // _DAY:.0f} d ago"
    return f"{datetime.fromtimestamp(at):%Y-%m-%d}"


def clock_time(at: float, now: float) -> str:
    """Return when something was as a clock shows it; of another day, that day."""
    when = datetime.fromtimestamp(at)
    today = when.date() == datetime.fromtimestamp(now).date()
    return f"{when:%H:%M:%S}" if today else f"{when:%Y-%m-%d}"


def local_time(at: float) -> str:
    """Return a moment as clocks here show it."""
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M:%S}"


def utc_time(at: float) -> str:
    """Return a moment for machines: RFC 3339, in UTC."""
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")


def took_text(milliseconds: float) -> str:
    """Return a duration in seven characters at most: `320 ms`, `4.2 s`, `3.1 min`, `2.5 h`."""
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    for size, unit in ((1, "s"), (_MINUTE, "min"), (_HOUR, "h"), (_DAY, "d")):
        if seconds / size < 59.95 or unit == "d":
            break
    return f"{seconds / size:.1f} {unit}"


def end_of(head: Head, report: ToolCallReport | None = None) -> str:
    """Give in a word or two how a call ended, or how it is. With a report, an exit code is named."""
    if head.is_open:
        return _OPEN.get(head.status, head.status)
    if head.status == "completed":
        return ""
    if report is not None and head.reason == Reason.EXIT_CODE:
        said = end_text(report).removeprefix("failed: ")
        return said.replace("exit code ", "exit ")
    reason = head.reason or head.status
    return _WORDS.get(reason, reason.replace("_", " "))


def is_in(head: Head, status: str | None) -> bool:
    """Whether a call is in a status, `open`, or ended for a reason."""
    if status is None or head.status == status:
        return True
    if status == "open":
        return head.is_open
    return head.status != "completed" and head.reason == status and status != "cancelled"
