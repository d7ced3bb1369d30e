"""The footer of a call that has ended: how it ended, how long it took, where it worked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from callsheet.cli.output import path_text, visible
from callsheet.limits.truncation import file_uri
from callsheet.report.fields import ToolCallLocation
from callsheet.report.humanize import duration_text, plural
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus

MOST_PLACES = 3
"""Locations that are named; the others are only counted."""

_ENDS = {
    Reason.DENIED: "denied",
    Reason.TIMEOUT: "timed out",
    Reason.ABANDONED: "abandoned",
}


class Fact(NamedTuple):
    """A short text, and the address that it links to, if any."""

    text: str
    link: str | None = None


def footer_of(report: ToolCallReport, cwd: str, home: str = "") -> list[Fact]:
    """Return the facts that stand under a call."""
    notes = report.notes
    facts = [Fact(end_text(report))]
    if (took := _number(notes.get("durationMs"))) is not None:
        facts.append(Fact(duration_text(took)))
    elif report.reason is Reason.DENIED:
        facts.append(Fact("not run"))
    facts.extend(_places(report.locations, cwd, home))
    if redactions := _number(notes.get("redactions")):
        facts.append(Fact(plural(int(redactions), "redaction")))
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


def _places(places: tuple[ToolCallLocation, ...], cwd: str, home: str) -> Iterator[Fact]:
    for place in places[:MOST_PLACES]:
        text = visible(path_text(place.path, cwd, home))
        yield Fact(text if place.line is None else f"{text}:{place.line}", file_uri(place.path))
    if len(places) > MOST_PLACES:
        yield Fact(f"and {len(places) - MOST_PLACES} more")


def _number(value: JsonValue) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
