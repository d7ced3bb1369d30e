"""What is said under a call that has ended: how it ended, how long it took, where it worked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from callsheet.limits.truncation import file_uri
from callsheet.report.fields import ToolCallLocation
from callsheet.report.json import JsonValue, is_object
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus

from .words import bytes_text, duration_text, path_text, visible

MOST_PLACES = 3
"""Places that are named; of the others, only the number is said."""

_ENDS = {
    Reason.DENIED: "denied",
    Reason.TIMEOUT: "timed out",
    Reason.ABANDONED: "abandoned",
}


class Fact(NamedTuple):
    """A few words. `link` is the address that they stand for."""

    text: str
    link: str | None = None


def facts_of(report: ToolCallReport, cwd: str, home: str = "") -> list[Fact]:
    """Return what is said under a call."""
    notes = report.notes
    said = [Fact(end_text(report))]
    if (took := _number(notes.get("durationMs"))) is not None:
        said.append(Fact(duration_text(took)))
    elif report.reason is Reason.DENIED:
        said.append(Fact("not run"))
    if is_object(report.raw_output) and "exit_code" in report.raw_output:
        # Of a tool inside a process, what is measured is the process.
        said.extend(map(Fact, _used(notes.get("usage"))))
    said.extend(_places(report.locations, cwd, home))
    if redactions := _number(notes.get("redactions")):
        said.append(Fact(f"{redactions:.0f} redaction{'' if redactions == 1 else 's'}"))
    return said


def end_text(report: ToolCallReport) -> str:
    """Give in a word or two how a call ended."""
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


def says_the_end(text: str, report: ToolCallReport) -> bool:
    """Whether a text says just what is said of the end anyway: `Cancelled`, `Exit code 3`."""
    return report.status.is_final and text.strip().lower() in end_text(report).split(": ")


def _used(usage: JsonValue) -> Iterator[str]:
    if not is_object(usage):
        return
    cpu, memory = _number(usage.get("cpuMs")), _number(usage.get("maxRssKb"))
    if cpu is not None and cpu >= 100:  # less is what starting anything takes
        yield f"cpu {duration_text(cpu)}"
    if memory is not None and memory >= 50_000:
        yield f"memory {bytes_text(memory * 1024)}"


def _places(places: tuple[ToolCallLocation, ...], cwd: str, home: str) -> Iterator[Fact]:
    for place in places[:MOST_PLACES]:
        text = visible(path_text(place.path, cwd, home))
        yield Fact(text if place.line is None else f"{text}:{place.line}", file_uri(place.path))
    if len(places) > MOST_PLACES:
        yield Fact(f"and {len(places) - MOST_PLACES} more")


def _number(value: JsonValue) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
