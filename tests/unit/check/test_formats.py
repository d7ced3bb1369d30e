"""Findings for machines, the score card and the baseline: made in this process, from real recordings."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from callsheet.check.baseline import BadBaseline, Baseline
from callsheet.check.finding import CATEGORIES, SEVERITIES, CheckRule, Finding, Violation
from callsheet.check.output import (
    CheckOutcome,
    FindingWriter,
    JsonWriter,
    JunitWriter,
    SarifWriter,
    SourceProblem,
    totals,
    uri_of,
)
from callsheet.check.rules import RULES
from callsheet.check.runner import (
    RecordingSource,
    UnknownRule,
    check_all,
    choose,
    explained,
    find,
    named,
)
from callsheet.check.scorecard import HEADS, markdown, rows
from callsheet.observe.events import CallClosed, RecordingEnded, UpdateArrived
from tests.support.made_recordings import RECORDINGS, content, told

KEYS = ["rule", "severity", "session", "call", "line", "field", "message"]
Make = Callable[[Callable[[str], object]], FindingWriter]


def rule(
    name: str, check: Callable[[Any], Any], moment: type = CallClosed, severity: Any = "warning"
) -> CheckRule:
    said = {"title": "T", "protocol": "P.", "harm": "H.", "fix": "F & <so>."}
    return CheckRule(id=name, severity=severity, events=(moment,), check=check, **said)


NAMED = rule(
    "complete/named", lambda over: None if over.call.name else Violation("no name", "update.name")
)
EACH = rule(
    "size/each",
    lambda told: Violation(f"{told.line.size:,} bytes, \x1b <&>"),
    UpdateArrived,
    "advice",
)
WHOLE = rule("recording/whole", lambda over: Violation("it is"), RecordingEnded, "error")
SECRET = rule(
    "safety/secret-in-clear", lambda over: Violation("one") if "pw" in over.call.id else None
)
OURS = (NAMED, EACH, WHOLE, SECRET)


def source(data: bytes, path: str = "a.jsonl") -> RecordingSource:
    return RecordingSource(path, len(data), lambda: nullcontext(io.BytesIO(data)))


def real(name: str) -> RecordingSource:
    (found,) = find([str(RECORDINGS / f"{name}.jsonl")], io.BytesIO())
    assert isinstance(found, RecordingSource)
    return found


def run(
    sources: list[Any],
    make: Make | None = None,
    rules: tuple[CheckRule, ...] = OURS,
    **options: Any,
) -> tuple[str, CheckOutcome]:
    out = io.StringIO()
    tellers = [make(out.write)] if make else []
    outcome = check_all(sources, rules, tellers, **options)
    for teller in tellers:
        teller.close(outcome)
    return out.getvalue(), outcome


CALL = {"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed"}


# JSON


def test_json_is_as_the_contract_says() -> None:
    printed, _ = run([real("kimi-cli-1.51.0.mixed-none"), source(told(CALL))], JsonWriter)
    document = json.loads(printed)
    assert list(document) == ["recordings"]
    kimi, made = document["recordings"]
    assert list(kimi) == ["path", "protocol", "agent", "calls", "findings"]
    assert (kimi["protocol"], kimi["agent"], kimi["calls"]) == (1, "Kimi Code CLI 1.51.0", 11)
    assert all(list(finding) == KEYS for finding in kimi["findings"])
    assert {one["severity"] for one in kimi["findings"]} <= set(SEVERITIES)
    assert {one["rule"].partition("/")[0] for one in kimi["findings"]} <= set(CATEGORIES)
    assert made["findings"][0]["call"] == "c1"
    assert made["findings"][0]["line"] == 6


def test_json_of_no_recording_is_json() -> None:
    printed, outcome = run([SourceProblem("x", "is not there")], JsonWriter)
    assert json.loads(printed) == {"recordings": []}
    assert outcome.exit_code == 2


def test_an_agent_that_is_not_known_is_null() -> None:
    updates = b"\n".join(told(CALL).splitlines()[5:6])
    (found,) = json.loads(run([source(updates)], JsonWriter)[0])["recordings"]
    assert (found["protocol"], found["agent"], found["calls"]) == (None, None, 1)


# SARIF


def sarif(*sources: Any, **options: Any) -> dict[str, Any]:
    def make(write: Callable[[str], object]) -> FindingWriter:
        return SarifWriter(write, options.pop("rules", OURS), version="1.2.3")

    printed, _ = run(list(sources), make, fingerprints=True)
    return json.loads(printed)


def test_sarif_has_the_shape_of_its_schema() -> None:
    log = sarif(real("codex-acp-0.16.0.dupid-none"), SourceProblem("gone", "no such file"))
    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (only,) = log["runs"]
    driver = only["tool"]["driver"]
    assert {"name", "version", "rules"} <= driver.keys()
    for described in driver["rules"]:
        assert {"id", "name", "shortDescription", "fullDescription", "help"} <= described.keys()
        assert described["help"].keys() == {"text", "markdown"}
        assert described["defaultConfiguration"]["level"] in ("error", "warning", "note")
    assert only["results"]
    for result in only["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"]
        (location,) = result["locations"]
        place = location["physicalLocation"]
        assert place["region"]["startLine"] >= 1
        assert re.match(r"file:///|[^/]", place["artifactLocation"]["uri"])
        assert re.fullmatch(r"[0-9a-f]{16}", result["partialFingerprints"]["callsheet/v1"])
    (invocation,) = only["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "gone" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_every_rule_there_is_can_be_described() -> None:
    log = sarif(source(told(CALL)), rules=(*OURS, *RULES))
    ids = [described["id"] for described in log["runs"][0]["tool"]["driver"]["rules"]]
    assert ids == [one.id for one in (*OURS, *RULES)]
    assert len(set(ids)) == len(ids)


def test_paths_become_references() -> None:
    assert uri_of("a b/c#1.jsonl") == "a%20b/c%231.jsonl"
    assert uri_of("/tmp/ä.jsonl") == "file:///tmp/%C3%A4.jsonl"
    assert uri_of("-") == "stdin"


# JUnit


def test_junit_has_a_suite_for_each_recording_and_a_test_for_each_rule() -> None:
    sources = [
        real("kimi-cli-1.51.0.mixed-none"),
        source(told(CALL)),
        SourceProblem("gone", "<no>"),
    ]
    printed, _ = run(sources, lambda write: JunitWriter(write, OURS))
    root = ElementTree.fromstring(printed)
    kimi, made, unreadable = root.findall("testsuite")
    for suite in (kimi, made):
        cases = suite.findall("testcase")
        assert [case.get("name") for case in cases] == [one.id for one in OURS]
        assert suite.get("tests") == str(len(cases))
        failed = [case for case in cases if case.find("failure") is not None]
        assert suite.get("failures") == str(len(failed))
    failure = kimi.find("testcase[@name='size/each']/failure")
    assert failure is not None
    assert failure.get("type") == "advice"
    assert failure.text is not None
    assert "<&>" in failure.text
    assert "more" in failure.text.splitlines()[-2]
    assert failure.text.endswith("fix: F & <so>.")
    assert unreadable.find("testcase/error").get("message") == "<no>"  # type: ignore[union-attr]


def test_a_clean_recording_has_tests_that_pass() -> None:
    printed, outcome = run(
        [source(told(CALL))], lambda write: JunitWriter(write, (SECRET,)), rules=(SECRET,)
    )
    (suite,) = ElementTree.fromstring(printed)
    assert (suite.get("tests"), suite.get("failures"), outcome.exit_code) == ("1", "0", 0)


# The baseline


def baselined(
    *sources: RecordingSource, known: bytes | None = None, rules: tuple[CheckRule, ...] = OURS
) -> Any:
    baseline = Baseline.read(known) if known else Baseline()
    out: list[Finding] = []

    class Keep:
        def found(self, finding: Finding, *_: str) -> None:
            out.append(finding)

        def begin(self, *_: Any) -> None: ...

        over = end = close = begin

    outcome = check_all(list(sources), rules, [Keep()], baseline=baseline)  # type: ignore[list-item]
    return out, outcome, baseline.updated({one.id for one in rules})


def test_what_is_known_is_not_shown_again() -> None:
    found, _, known = baselined(real("kimi-cli-1.51.0.mixed-none"))
    assert found
    again, outcome, same = baselined(real("kimi-cli-1.51.0.mixed-none"), known=known)
    assert (again, outcome.known, outcome.exit_code) == ([], len(found), 0)
    assert same == known


def test_it_is_known_again_with_other_ids_times_and_places() -> None:
    one = {**CALL, "tool_call": "call_01ABCDEFGHJKMN", "title": "Reading /code/x1/a.py"}
    two = {**CALL, "tool_call": "call_01ZZZZZZZZZZ99", "title": "Reading /code/x2/a.py"}
    other = {**CALL, "tool_call": "other", "title": "Writing b.py"}
    _, _, known = baselined(source(told(one, other), "run-2026-11-15.jsonl"))
    data = told(other, two).replace(b'"s1"', b'"s77"')
    again, outcome, _ = baselined(source(data, "runs/run-2026-11-16.jsonl"), known=known)
    assert (again, outcome.gone) == ([], [])


def test_one_more_call_with_the_same_fault_is_new() -> None:
    calls = [{**CALL, "tool_call": f"c{n}"} for n in range(3)]
    _, _, known = baselined(source(told(*calls[:2])), rules=(NAMED,))
    new, outcome, _ = baselined(source(told(*calls)), known=known, rules=(NAMED,))
    assert (len(new), outcome.known, outcome.exit_code) == (1, 2, 1)


def test_the_same_fault_more_often_in_one_call_is_not_new() -> None:
    more = {"tool_call_update": "c1", "title": "Reading a.py"}
    _, _, known = baselined(source(told(CALL, more)), rules=(EACH,))
    new, _, _ = baselined(source(told(CALL, *[more] * 5)), known=known, rules=(EACH,))
    assert new == []


def test_another_title_another_tool_and_another_recording_are_new() -> None:
    _, _, known = baselined(source(told(CALL)), rules=(NAMED,))
    for changed, path in (({"title": "Reading b.py"}, "a.jsonl"), ({}, "b.jsonl")):
        data = told({**CALL, **changed})
        assert len(baselined(source(data, path), known=known, rules=(NAMED,))[0]) == 1


def test_what_is_gone_is_said_only_of_what_was_looked_for() -> None:
    first, second = source(told(CALL)), source(told(CALL), "b.jsonl")
    _, _, known = baselined(first, second)
    mended = source(told({**CALL, "name": "read"}))
    _, outcome, updated = baselined(mended, known=known)
    assert [(one.rule, one.recording) for one in outcome.gone] == [("complete/named", "a.jsonl")]
    assert baselined(mended, known=known, rules=(EACH,))[1].gone == []
    kept = [(one["rule"], one["recording"]) for one in json.loads(updated)["findings"]]
    assert ("complete/named", "b.jsonl") in kept
    assert ("complete/named", "a.jsonl") not in kept


def test_a_baseline_shows_no_titles() -> None:
    _, _, known = baselined(source(told({**CALL, "title": "cat hunter2"})))
    assert b"hunter2" not in known


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"version": 9, "findings": []}', b"\xff", b'{"a":1}']
)
def test_what_is_no_baseline_is_refused(data: bytes) -> None:
    with pytest.raises(BadBaseline):
        Baseline.read(data)


# The score card


def test_the_card_counts_by_agent_and_tool() -> None:
    long = {"tool_call_update": "c3", "content": [content("x" * 10_000)]}
    data = told(
        {**CALL, "name": "read"},
        {**CALL, "tool_call": "pw", "name": "read", "status": "pending"},
        {**CALL, "tool_call": "c3", "title": "ls -l", "kind": "execute"},
        long,
        long,
    )
    _, outcome = run([source(data)], rules=(NAMED, SECRET))
    table = {row.name: row.cells for row in rows(outcome.summary)}
    assert table["example 1"][:4] == ("3", "67 %", "67 %", "33 %")
    assert table["example 1"][7] == "1"
    assert table["read"] == ("2", "50 %", "100 %", "50 %", "0", "0", "–", "1")
    assert table["(execute)"][:4] == ("1", "100 %", "0 %", "0 %")
    wire = float(table["(execute)"][6].rstrip("×"))
    assert 2.0 < wire < 2.2


def test_advice_counts_apart_from_what_is_wrong() -> None:
    _, outcome = run([source(told(CALL))], rules=(EACH,))
    row = next(rows(outcome.summary))
    card = dict(zip(HEADS, row.cells, strict=True))
    assert (card["calls"], card["clean"], card["advised"]) == ("1", "100 %", "1")


def test_what_no_rule_looked_for_is_not_said() -> None:
    _, outcome = run([source(told(CALL))], rules=(EACH,))
    assert [row.cells[2] for row in rows(outcome.summary)] == ["–", "–"]


def test_nearly_all_is_not_all() -> None:
    calls = [{**CALL, "tool_call": f"c{n}", "name": "read"} for n in range(400)]
    calls[7]["status"] = "pending"
    _, outcome = run([source(told(*calls))], rules=(NAMED,))
    assert next(rows(outcome.summary)).cells[1] == "99 %"


def test_the_card_is_a_table_of_markdown_that_names_can_not_break() -> None:
    data = told({**CALL, "name": "a|b<img>`*"})
    _, outcome = run([source(data)])
    lines = markdown(outcome.summary, totals(outcome)).splitlines()
    table = lines[: lines.index("")]
    assert all(re.sub(r"\\.", "", line).count("|") == 10 for line in table)
    assert "<img>" not in re.sub(r"\\.", "", "\n".join(table))


def test_names_without_end_are_put_together() -> None:
    calls = [{**CALL, "tool_call": f"c{n}", "name": f"tool{n}"} for n in range(700)]
    _, outcome = run([source(told(*calls))], rules=(NAMED,))
    (agent,) = outcome.summary.agents.values()
    assert (len(agent.tools), agent.tools["others"].calls) == (501, 200)


# Which rules


def test_rules_are_chosen_by_id_category_client_and_severity() -> None:
    def ids(**options: Any) -> set[str]:
        return {one.id for one in choose(RULES, **options)}

    every = {one.id for one in RULES}
    clients = {one.id for one in RULES if one.clients}
    assert ids() == every - clients
    assert ids(clients=["zed"]) - ids() == {one for one in clients if "/zed-" in one}
    assert ids(chosen={"client"}) == clients
    assert ids(chosen={"client"}, clients=["toad"]) == {one for one in clients if "/toad-" in one}
    assert ids(ignored={"lifecycle"}).isdisjoint({one for one in every if one.startswith("life")})
    assert all(one.severity == "error" for one in choose(RULES, least="error"))
    assert ids(chosen=named(["lifecycle/announced-twice, size"])) >= {"lifecycle/announced-twice"}


def test_a_rule_that_is_not_there_is_refused_with_what_is_near() -> None:
    with pytest.raises(UnknownRule, match=r"did you mean .*lifecycle/announced-twice"):
        named(["lifecycle/anounced-twice"])
    with pytest.raises(UnknownRule, match="--rules lists all"):
        named(["xyzzy"])
    assert [one.id for one in explained("announced-twice")] == ["lifecycle/announced-twice"]
    assert explained("all") == RULES


# What can be read


def test_directories_are_searched_and_what_can_not_be_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.jsonl", "a.NDJSON", "c.log", "d.txt", "sub/e.jsonl"):
        (tmp_path / name).write_bytes(told(CALL))
    (tmp_path / "empty").mkdir()
    paths = [
        tmp_path,
        tmp_path / "b.jsonl",
        tmp_path / "d.txt",
        tmp_path / "empty",
        tmp_path / "no",
    ]
    found = list(find([str(path) for path in paths], io.BytesIO()))
    names = [Path(one.path).name for one in found if isinstance(one, RecordingSource)]
    assert names == ["a.NDJSON", "b.jsonl", "c.log", "e.jsonl", "d.txt"]
    problems = [
        (Path(one.path).name, one.message) for one in found if isinstance(one, SourceProblem)
    ]
    assert problems[0][0] == "empty"
    assert "there are no recordings" in problems[0][1]
    assert problems[1] == ("no", "No such file or directory")


def test_what_was_found_before_a_file_broke_is_reported() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error") if self.tell() else OSError(5, "at once")

    broken = RecordingSource("x", 0, lambda: nullcontext(Broken(b"{}")))
    _, outcome = run([broken, source(told(CALL))], rules=(WHOLE,))
    assert outcome.problems == [SourceProblem("x", "at once")]
    assert (outcome.recordings, outcome.findings) == (2, 2)
