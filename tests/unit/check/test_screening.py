"""Large recordings are screened by a second process, which changes nothing that is found."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from callsheet.check import screening
from callsheet.check.finding import Finding
from callsheet.check.output import FindingWriter
from callsheet.check.rules import RULES
from callsheet.check.runner import RecordingSource, check_all, find
from callsheet.observe.lines import parse_line, read_lines
from callsheet.redaction.redactor import Redactor, Settings
from callsheet.redaction.rules import Rule
from tests.support.made_recordings import RECORDINGS


class Collected(FindingWriter):
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def found(self, finding: Finding, title: str, fingerprint: str) -> None:
        del title, fingerprint
        self.findings.append(finding)


def checked(path: Path) -> list[Finding]:
    writer = Collected()
    outcome = check_all(find([str(path)], io.BytesIO()), RULES, [writer])
    assert not outcome.problems
    return writer.findings


def line(number: int, update: dict[str, Any]) -> dict[str, Any]:
    params = {"sessionId": "s", "update": {"toolCallId": f"c{number}", **update}}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return {"t": number, "dir": "agent->client", "msg": message}


def verdicts(*messages: dict[str, Any]) -> list[int]:
    lines = [parse_line(number, json.dumps(one).encode()) for number, one in enumerate(messages, 1)]
    return list(screening.screen(lines))


CLEAN = {"sessionUpdate": "tool_call", "title": "Reading a", "status": "pending"}


@pytest.mark.parametrize(
    "path", sorted(RECORDINGS.rglob("*.jsonl"))[:12], ids=lambda path: path.name
)
def test_what_is_found_is_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = checked(path)
    # Wait for the verdicts, so that they are used in a recording that is short.
    monkeypatch.setattr(screening, "LARGE", 1)
    monkeypatch.setattr(screening.os, "set_blocking", lambda *_: None)
    assert checked(path) == before


def test_a_clean_message_gets_the_version_that_is_spoken() -> None:
    agreed = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 2}}
    answer = {"t": 0, "dir": "agent->client", "msg": agreed}
    update = {"sessionUpdate": "tool_call_update", "title": "Reading a", "status": "pending"}
    assert verdicts(line(1, CLEAN), answer, line(2, update))[::2] == [1, 2]


@pytest.mark.parametrize(
    "fault",
    [
        {"title": 3},
        {"title": "a\x1b[31m"},
        {"rawInput": {"command": "curl -u ghp_" + "aB3" * 12}},
        {"locations": [{"path": "a.py"}]},
        {"status": "gone"},
    ],
    ids=str,
)
def test_a_message_with_a_fault_is_left_to_the_checker(fault: dict[str, Any]) -> None:
    assert verdicts(line(1, {**CLEAN, **fault})) == [0]


def test_a_line_without_a_direction_or_a_message_is_left_to_the_checker() -> None:
    assert verdicts(line(1, CLEAN)["msg"], {"t": 1, "dir": "agent->client", "raw": "x"}) == [0, 0]


def test_the_users_own_rules_hold_in_the_second_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    made = [line(number, CLEAN) for number in (1, 2)]
    made[1]["msg"]["params"]["update"]["title"] = "Reading Krypton"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in made))
    settings = Settings(rules=(Rule(id="planet", pattern="Krypton", examples=("Krypton",)),))
    monkeypatch.setattr(Redactor, "settings", settings)
    monkeypatch.setattr(screening, "LARGE", 1)
    monkeypatch.setattr(screening.os, "set_blocking", lambda *_: None)
    with path.open("rb") as stream, screening.screened(stream, path.stat().st_size) as found:
        assert [next(found) for _ in read_lines(stream)] == [1, 0]


def test_the_second_process_ends_with_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f"{json.dumps(line(1, CLEAN))}\n" * 100_000)
    monkeypatch.setattr(screening, "LARGE", 1)
    children: list[Any] = []
    start = subprocess.Popen

    def started(*arguments: Any, **options: Any) -> Any:
        children.append(start(*arguments, **options))
        return children[-1]

    monkeypatch.setattr(subprocess, "Popen", started)
    with path.open("rb") as stream, screening.screened(stream, path.stat().st_size) as found:
        next(found)
    assert [child.returncode is not None for child in children] == [True]


def test_what_is_no_file_is_checked_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screening, "LARGE", 1)
    data = json.dumps(line(1, CLEAN)).encode()
    source = RecordingSource("x", len(data), lambda: io.BytesIO(data))
    assert check_all([source], RULES, []).calls == 1


def test_verdicts_that_are_late_are_skipped() -> None:
    reader, writer = screening.os.pipe()
    screening.os.set_blocking(reader, False)
    found = screening._verdicts(reader)  # pyright: ignore[reportPrivateUsage]
    assert [next(found), next(found)] == [0, 0]
    screening.os.write(writer, bytes((1, 1, 2)))
    assert next(found) == 2
    screening.os.write(writer, bytes((1,)))
    screening.os.close(writer)
    assert [next(found), next(found)] == [1, 0]
    screening.os.close(reader)
