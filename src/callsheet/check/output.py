"""How findings are written: the interface of all formats, and JSON, SARIF and JUnit.

The runner calls a `FindingWriter` as it goes. Writers send each finding on, or hold what they must in a
bounded way: memory does not grow with the recording. Text for people is written by the command line
(`callsheet.cli`), which implements the same interface.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath
from typing import IO, Any, Protocol
from urllib.parse import quote

import msgspec
from msgspec import Struct, field

from callsheet.check.finding import SEVERITIES, CheckRule, Finding, Severity
from callsheet.check.scorecard import Scorecard
from callsheet.observe.model import ObservedCall
from callsheet.report.humanize import plural

Write = Callable[[str], object]

IN_MEMORY = 4 << 20
"""Bytes of a recording's findings that wait in memory, as JSON. More wait in a file."""

SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
SARIF_LEVELS = {"error": "error", "warning": "warning", "advice": "note"}

JUNIT_LINES = 50
"""Findings of one rule in one recording that JUnit's XML lists. The others are counted."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class SourceProblem(Struct, frozen=True):
    """A path that can't be read, and why."""

    path: str
    message: str


class CheckedRecording(Struct, kw_only=True):
    """A recording that was checked. `found` counts the findings that are shown, by severity."""

    path: str
    protocol: int | None = None
    agent: str | None = None
    calls: int = 0
    lines: int = 0
    found: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(SEVERITIES, 0))
    known: int = 0
    """Findings that are in the baseline."""
    has_messages: bool = True
    """Whether it is a recording at all."""
    is_cut: bool = False
    """Whether its last line breaks off in the middle."""


class KnownFinding(Struct, frozen=True):
    """A finding in the baseline: in which recording, of which tool, in how many calls."""

    fingerprint: str
    rule: str
    recording: str
    tool: str
    calls: int = 1


class CheckOutcome(Struct, kw_only=True):
    """The result of checking some recordings."""

    rules: tuple[CheckRule, ...]
    summary: Scorecard
    recordings: int = 0
    clean: int = 0
    calls: int = 0
    found: dict[Severity, int] = field(default_factory=lambda: dict.fromkeys(SEVERITIES, 0))
    known: int = 0
    gone: Sequence[KnownFinding] = ()
    problems: list[SourceProblem] = field(default_factory=list[SourceProblem])

    @property
    def findings(self) -> int:
        """The number of findings."""
        return sum(self.found.values())

    @property
    def exit_code(self) -> int:
        """0 clean, 1 findings, 2 something could not be read."""
        if self.problems:
            return 2
        return 1 if self.findings else 0


class FindingWriter(Protocol):
    """Writes findings in some format. A subclass overrides what it needs; the rest does nothing."""

    def begin(self, path: str) -> None:
        """Handle that a recording is opened."""

    def found(self, finding: Finding, first: int, fingerprint: str) -> None:
        """Handle a finding. `first` is the line on which its call begins; 0 if there is no such call."""

    def over(self, call: ObservedCall) -> None:
        """Handle that nothing more is expected of a call."""

    def end(self, recording: CheckedRecording) -> None:
        """Handle that a recording was read to its end."""

    def close(self, outcome: CheckOutcome) -> None:
        """Handle that all recordings were read."""


def totals(outcome: CheckOutcome) -> str:
    """Return the sentence that sums everything up."""
    read = f"{plural(outcome.recordings, 'recording')}, {plural(outcome.calls, 'call')}"
    known = f" {outcome.known:,} more are in the baseline." if outcome.known else ""
    if not outcome.findings:
        return f"{read}: nothing {'new ' if known else ''}found.{known}"
    nouns = {"advice": ("piece of advice", "pieces of advice")}
    found = [(number, kind) for kind, number in outcome.found.items() if number]
    parts = [plural(number, *nouns.get(kind, (kind,))) for number, kind in found]
    return f"{read}: {', '.join(parts)}.{known}"


def valid_path(path: str) -> str:
    """Return a path as valid Unicode, whatever bytes the file system has in it."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class JsonWriter(FindingWriter):
    """Writes one JSON object, with each finding on a line of its own."""

    def __init__(self, write: Write) -> None:
        self._write: Write = write
        self._waiting: IO[bytes] | None = None
        self._recordings: int = 0

    def begin(self, path: str) -> None:
        """Begin a list of findings."""
        del path
        self._waiting = tempfile.SpooledTemporaryFile(IN_MEMORY)  # noqa: SIM115

    def found(self, finding: Finding, first: int, fingerprint: str) -> None:
        """Hold a finding until the recording ends: the number of calls comes before it."""
        del first, fingerprint
        assert self._waiting is not None
        self._waiting.write(b",\n  " if self._waiting.tell() else b"\n  ")
        self._waiting.write(msgspec.json.encode(finding))

    def end(self, recording: CheckedRecording) -> None:
        """Write the recording."""
        head = {
            "path": valid_path(recording.path),
            "protocol": recording.protocol,
            "agent": recording.agent,
            "calls": recording.calls,
        }
        self._write(",\n" if self._recordings else '{"recordings": [\n')
        self._recordings += 1
        self._write(_json(head)[:-1] + ', "findings": [')
        assert self._waiting is not None
        with self._waiting as waiting:
            waiting.seek(0)
            for line in waiting:
                self._write(line.decode())
        self._write("]}")

    def close(self, outcome: CheckOutcome) -> None:
        """Write the end."""
        del outcome
        self._write("]}\n" if self._recordings else '{"recordings": []}\n')


class SarifWriter(FindingWriter):
    """Writes SARIF 2.1.0, which code hosts show beside the code: one run, results as they are found.

    With `has_baseline`, all findings are marked as new ones.
    """

    def __init__(
        self,
        write: Write,
        rules: Collection[CheckRule],
        *,
        version: str,
        has_baseline: bool = False,
    ) -> None:
        self._write: Write = write
        self._indexes: dict[str, int] = {rule.id: index for index, rule in enumerate(rules)}
        self._has_baseline: bool = has_baseline
        self._uri: str = ""
        self._results: int = 0
        driver = {
            "name": "callsheet check",
            "version": version,
            "rules": [_descriptor(rule) for rule in rules],
        }
        write('{"$schema": ' + _json(SARIF_SCHEMA) + ', "version": "2.1.0", "runs": [{\n"tool": ')
        write(_json({"driver": driver}) + ',\n"columnKind": "utf16CodeUnits",\n"results": [')

    def begin(self, path: str) -> None:
        """Note where the findings are."""
        self._uri = uri_of(path)

    def found(self, finding: Finding, first: int, fingerprint: str) -> None:
        """Write a result."""
        del first
        place = f"{finding.field}: " if finding.field else ""
        result: dict[str, Any] = {
            "ruleId": finding.rule,
            "ruleIndex": self._indexes[finding.rule],
            "level": SARIF_LEVELS[finding.severity],
            "message": {"text": f"{place}{finding.message}"},
            "locations": [self._location(finding)],
            "partialFingerprints": {"callsheet/v1": fingerprint},
        }
        if self._has_baseline:
            result["baselineState"] = "new"
        self._write((",\n" if self._results else "\n") + _json(result))
        self._results += 1

    def close(self, outcome: CheckOutcome) -> None:
        """Write the end: what could not be read."""
        invocation = {
            "executionSuccessful": not outcome.problems,
            "exitCode": outcome.exit_code,
            "toolExecutionNotifications": [
                {
                    "level": "error",
                    "message": {"text": f"{valid_path(problem.path)}: {problem.message}"},
                }
                for problem in outcome.problems
            ],
        }
        self._write(f'\n],\n"invocations": [{_json(invocation)}]\n}}]}}\n')

    def _location(self, finding: Finding) -> dict[str, Any]:
        location: dict[str, Any] = {
            "physicalLocation": {
                "artifactLocation": {"uri": self._uri},
                "region": {"startLine": max(1, finding.line)},
            }
        }
        if finding.call is not None:
            name = "/".join(filter(None, (finding.session, finding.call)))
            location["logicalLocations"] = [{"name": finding.call, "fullyQualifiedName": name}]
        return location


def _descriptor(rule: CheckRule) -> dict[str, Any]:
    """Return a rule as SARIF describes it."""
    description = f"{rule.protocol} {rule.harm}"
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.replace("/", "-").split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": description},
        "help": {
            "text": f"{description} {rule.fix}",
            "markdown": f"**The protocol:** {rule.protocol}\n\n**Why it matters:** {rule.harm}\n\n"
            f"**How to fix it:** {rule.fix}",
        },
        "defaultConfiguration": {"level": SARIF_LEVELS[rule.severity]},
        "properties": {"tags": [rule.category, *rule.clients]},
    }


def uri_of(path: str) -> str:
    """Return a path as a relative reference, or as a `file:` URI if it is absolute."""
    if path == "-":
        return "stdin"
    pure = PurePath(path)
    quoted = quote(pure.as_posix().encode("utf-8", "surrogateescape"))
    if not pure.is_absolute():
        return quoted.removeprefix("./")
    return f"file://{quoted}" if quoted.startswith("/") else f"file:///{quoted}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


class JunitWriter(FindingWriter):
    """Writes JUnit's XML, which every CI shows: a suite for each recording, a test for each rule."""

    def __init__(self, write: Write, rules: Collection[CheckRule]) -> None:
        self._write: Write = write
        self._rules: Collection[CheckRule] = rules
        self._lines: dict[str, list[str]] = {}
        self._counts: Counter[str] = Counter()
        write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="callsheet check">\n')

    def begin(self, path: str) -> None:
        """Begin a suite."""
        del path
        self._lines, self._counts = {}, Counter()

    def found(self, finding: Finding, first: int, fingerprint: str) -> None:
        """Hold a line about the finding."""
        del first, fingerprint
        self._counts[finding.rule] += 1
        lines = self._lines.setdefault(finding.rule, [])
        if len(lines) < JUNIT_LINES:
            parts = (f"line {finding.line}", finding.call, finding.field, finding.message)
            lines.append(": ".join(part for part in parts if part))

    def end(self, recording: CheckedRecording) -> None:
        """Write a suite."""
        name = _attribute(valid_path(recording.path))
        tests, failures = len(self._rules), len(self._counts)
        self._write(
            f'<testsuite name={name} tests="{tests}" failures="{failures}" errors="0" skipped="0">\n'
        )
        for rule in self._rules:
            case = f"<testcase classname={name} name={_attribute(rule.id)}"
            failure = self._failure(rule)
            self._write(f"{case}>{failure}</testcase>\n" if failure else f"{case}/>\n")
        self._write("</testsuite>\n")

    def close(self, outcome: CheckOutcome) -> None:
        """Write what could not be read, and the end."""
        if outcome.problems:
            number = len(outcome.problems)
            self._write(
                f'<testsuite name="unreadable" tests="{number}" failures="0" errors="{number}"'
                ' skipped="0">\n'
            )
            for problem in outcome.problems:
                name = _attribute(valid_path(problem.path))
                case = f"<testcase classname={name} name={_attribute('read')}>"
                error = f"<error message={_attribute(problem.message)}/>"
                self._write(f"{case}{error}</testcase>\n")
            self._write("</testsuite>\n")
        self._write("</testsuites>\n")

    def _failure(self, rule: CheckRule) -> str:
        number = self._counts[rule.id]
        if not number:
            return ""
        lines = list(self._lines[rule.id])
        if number > len(lines):
            lines.append(f"… and {number - len(lines):,} more")
        message = _attribute(f"{rule.title} ({plural(number, 'finding')})")
        from xml.sax.saxutils import escape  # it imports a client of HTTP

        body = escape(_without_control("\n".join((*lines, f"fix: {rule.fix}"))))
        return f'<failure message={message} type="{rule.severity}">{body}</failure>'


def _attribute(text: str) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(_without_control(text))


def _without_control(text: str) -> str:
    """Replace the characters that XML can't represent."""
    return _NOT_IN_XML.sub("�", text)
