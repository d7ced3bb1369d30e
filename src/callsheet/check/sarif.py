"""Findings as SARIF 2.1.0, which code hosts show beside the code. Results are written as they are found."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from callsheet.check.as_json import encoded, told
from callsheet.check.finding import Finding, Rule
from callsheet.check.telling import Outcome, Recording
from callsheet.observe.model import ObservedCall

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {"error": "error", "warning": "warning", "advice": "note"}


class SarifTeller:
    """Writes one run. `has_baseline` says that all findings are new ones."""

    def __init__(
        self,
        write: Callable[[str], object],
        rules: Collection[Rule],
        *,
        version: str,
        has_baseline: bool = False,
    ) -> None:
        self._write: Callable[[str], object] = write
        self._indexes: dict[str, int] = {rule.id: index for index, rule in enumerate(rules)}
        self._has_baseline: bool = has_baseline
        self._uri: str = ""
        self._results: int = 0
        driver = {
            "name": "callsheet check",
            "version": version,
            "rules": [descriptor(rule) for rule in rules],
        }
        write('{"$schema": ' + _text(SCHEMA) + ', "version": "2.1.0", "runs": [{\n"tool": ')
        write(_text({"driver": driver}) + ',\n"columnKind": "utf16CodeUnits",\n"results": [')

    def begin(self, path: str) -> None:
        """Note where the findings are."""
        self._uri = uri_of(path)

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        """Write a result."""
        del title
        result: dict[str, Any] = {
            "ruleId": finding.rule,
            "ruleIndex": self._indexes[finding.rule],
            "level": LEVELS[finding.severity],
            "message": {"text": _sentence(finding)},
            "locations": [self._location(finding)],
            "partialFingerprints": {"callsheet/v1": fingerprint},
        }
        if self._has_baseline:
            result["baselineState"] = "new"
        self._write((",\n" if self._results else "\n") + _text(result))
        self._results += 1

    def over(self, call: ObservedCall) -> None:
        """Need not be told."""

    def end(self, recording: Recording) -> None:
        """Need not be told."""

    def close(self, outcome: Outcome) -> None:
        """Write the end: what could not be read."""
        invocation = {
            "executionSuccessful": not outcome.problems,
            "exitCode": outcome.exit_code,
            "toolExecutionNotifications": [
                {
                    "level": "error",
                    "message": {"text": f"{told(problem.path)}: {problem.message}"},
                }
                for problem in outcome.problems
            ],
        }
        self._write(f'\n],\n"invocations": [{_text(invocation)}]\n}}]}}\n')

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


def descriptor(rule: Rule) -> dict[str, Any]:
    """Return a rule as SARIF describes it."""
    said = f"{rule.protocol} {rule.harm}"
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.replace("/", "-").split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": said},
        "help": {
            "text": f"{said} {rule.fix}",
            "markdown": f"**The protocol:** {rule.protocol}\n\n**Why it matters:** {rule.harm}\n\n"
            f"**How to fix it:** {rule.fix}",
        },
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
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


def _sentence(finding: Finding) -> str:
    place = f"{finding.field}: " if finding.field else ""
    return f"{place}{finding.message}"


def _text(value: object) -> str:
    return encoded(value).decode()
