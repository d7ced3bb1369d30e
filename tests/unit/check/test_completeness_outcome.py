"""What the checker finds in outcomes: empty, hidden in raw output, failures that look like success."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.made_recordings import (
    Message,
    announced,
    asked,
    check,
    check_bare,
    completed,
    decided,
    rules,
    updated,
    words,
)

RUN: Message = {
    "title": "make test",
    "name": "bash",
    "kind": "execute",
    "rawInput": {"command": "make test"},
    "locations": [],
}


def ran(command: str = "make test", **end: Any) -> list[Message]:
    run = {**RUN, "title": command, "rawInput": {"command": command}}
    return [announced(**run), completed(**end)]


@pytest.mark.parametrize(
    "raw",
    [
        "text",
        {"stdout": "text"},
        {"output": "x"},
        [{"type": "text", "text": "x"}],
        {"result": ["x"]},
    ],
)
@pytest.mark.parametrize("content", [[], words(""), words(" \n")])
def test_a_result_in_the_raw_output_only_is_reported(raw: object, content: object) -> None:
    found = check(*ran(content=content, rawOutput=raw))
    assert [(f.rule, f.severity) for f in found] == [("complete/result-in-raw-output", "warning")]


def test_the_code_of_a_failed_command_belongs_into_the_content_too() -> None:
    failed = updated(status="failed", rawOutput={"exit_code": 3, "stdout": ""})
    assert rules(check(announced(**RUN), failed)) == ["complete/result-in-raw-output"]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "diff", "path": "/code/a", "oldText": "a", "newText": "b"},
        {"type": "terminal", "terminalId": "t1"},
        {"type": "content", "content": {"type": "image", "data": "", "mimeType": "image/png"}},
        words("text")[0],
    ],
)
def test_a_call_that_shows_something_passes(item: Message) -> None:
    assert rules(check(*ran(content=[item], rawOutput="text"))) == []


def test_a_completed_call_that_shows_nothing_is_reported() -> None:
    found = check(announced(), updated(status="completed", content=[]))
    assert [(f.rule, f.severity) for f in found] == [("complete/nothing-shown", "warning")]


@pytest.mark.parametrize(
    ("call", "end"),
    [
        (RUN, {"rawOutput": {"exit_code": 0, "stdout": ""}}),
        (RUN, {"rawOutput": ""}),
        (RUN, {"_meta": {"terminal_exit": {"terminal_id": "t1", "exit_code": 0}}}),
        ({"kind": "think", "name": "think", "title": "Think"}, {}),
        ({"kind": "other", "name": "TodoWrite", "title": "Plan"}, {}),
    ],
)
def test_a_call_that_has_nothing_to_show_passes(call: Message, end: Message) -> None:
    terminal = {"_meta": {"terminal_info": {"terminal_id": "t1"}}}
    shown = updated(content=[{"type": "terminal", "terminalId": "t1"}])
    first = announced(**{**call, "rawInput": {"command": "true"}, **terminal})
    found = check(first, *([shown] if "_meta" in end else []), updated(status="completed", **end))
    assert rules(found) == []


# Failures that look like success


@pytest.mark.parametrize(
    "raw",
    [
        {"exit_code": 3, "stdout": "x"},
        {"exitCode": 127},
        {"output": "x", "metadata": {"exit": 3}},
        {"code": 1, "stderr": "x"},
        {"result": {"returncode": -9}},
        {"stdout": "x", "exit_status": "3"},
        {"observation": {"exit_code": 1}},
    ],
)
def test_an_exit_code_in_the_raw_output_is_believed(raw: object) -> None:
    found = check(*ran(rawOutput=raw))
    assert [(f.rule, f.severity) for f in found] == [("complete/exit-code", "error")]


@pytest.mark.parametrize(
    "said",
    [
        "Exit code 3\nabout to fail",
        "```\nExit code 3\nabout to fail\n```",
        "about to fail\n\n\n[Exit code: 3]",
        "oops\n[exit 127]",
        "oops\nCommand exited with code 3",
        "oops\n(exit code 3)",
        "<returncode>1</returncode>\noops",
        "Here are the results.\n<return-code>\n3\n</return-code>\n<output>\noops\n</output>",
        "oops\n<exited with exit code 1>",
        "oops\n<command with shellId: 7 completed with exit code 1>",
        "oops\n[Command failed with exit code 3]",
        "oops\nError: Command failed (exit code: 3)",
    ],
)
def test_an_exit_code_that_an_agent_writes_is_believed(said: str) -> None:
    assert rules(check(*ran(content=words(said)))) == ["complete/exit-code"]
    assert rules(check(*ran(rawOutput=said))) == ["complete/exit-code"]


@pytest.mark.parametrize(
    "end",
    [
        {"rawOutput": {"exit_code": 0}},
        {"rawOutput": {"exit_code": None}},
        {"rawOutput": {"exit_code": -1, "stdout": "it goes on"}},
        {"rawOutput": {"exit_code": "three"}},
        {"content": words("fine\n<exited with exit code 0>")},
        {"content": words("fine\n[Command succeeded with exit code 0]")},
        {"rawOutput": {"exit_code": 0}, "content": words("oops\n[exit 3]")},
        {"rawOutput": {"status": 200}},
        {"rawOutput": {"status": "completed"}},
        {"content": words("[Exit code: 0]")},
        {"content": words("if it fails, it ends with exit code 3, see there")},
        {"content": words("#!/bin/sh\nfalse\nexit 3")},
        {"content": words("a\n[exit 3]\nb\n" + "c\n" * 200)},
    ],
)
def test_what_is_no_failure_passes(end: Message) -> None:
    assert rules(check(*ran(**end))) == []


def test_a_command_that_prints_a_log_passes() -> None:
    said = words("building\nProcess exited with code 3")
    assert rules(check(*ran("tail build.log", content=said))) == []
    assert rules(check(*ran("npm run build", content=words("x\nProcess exited with code 3")))) != []


@pytest.mark.parametrize(
    "command", ["grep -r x .", "rg x", "ls | grep x", "diff a b", "test -f x", "cd a && rg y"]
)
def test_one_is_an_answer_of_a_search_and_of_a_comparison(command: str) -> None:
    assert rules(check(*ran(command, rawOutput={"exit_code": 1}))) == []
    assert rules(check(*ran(command, rawOutput={"exit_code": 2}))) == ["complete/exit-code"]


@pytest.mark.parametrize(
    "command",
    [
        "echo oops >&2; exit 3",
        "make || exit 3",
        "(exit 3)",
        "echo 'x; exit 3'",
        "exit 0",
        "test -f x && exit 0; exit 3",
        "if false; then exit 3; fi",
        "echo a # b; exit 3",
        "cat <<X\na; exit 3\nX",
    ],
)
def test_the_command_is_no_proof_of_how_it_ended(command: str) -> None:
    assert rules(check(*ran(command))) == []


def test_the_exit_code_of_a_terminal_in_meta_is_believed() -> None:
    terminal = {"type": "terminal", "terminalId": "t1"}
    first = announced(**RUN, content=[terminal], _meta={"terminal_info": {"terminal_id": "t1"}})
    end = {"status": "completed", "_meta": {"terminal_exit": {"terminal_id": "t1", "exit_code": 3}}}
    assert rules(check(first, updated(**end))) == ["complete/exit-code"]


def test_the_exit_code_of_a_terminal_of_v2_is_believed() -> None:
    terminal = {"type": "terminal", "terminalId": "t1"}
    exited = updated()
    exited["params"]["update"] = {
        "sessionUpdate": "terminal_update",
        "terminalId": "t1",
        "exitStatus": {"exitCode": 3},
    }
    first = updated(status="pending", **RUN, content=[terminal])
    found = check(first, exited, updated(status="completed"), version=2)
    assert rules(found) == ["complete/exit-code"]


def test_the_exit_code_of_a_client_s_terminal_is_believed() -> None:
    place = {"sessionId": "s1", "terminalId": "t1"}
    wait = {"jsonrpc": "2.0", "id": 9, "method": "terminal/wait_for_exit", "params": place}
    waited = {"jsonrpc": "2.0", "id": 9, "result": {"exitCode": 3, "signal": None}}
    first = announced(**RUN, content=[{"type": "terminal", "terminalId": "t1"}])
    assert rules(check(first, wait, waited, updated(status="completed"))) == ["complete/exit-code"]
    failed = updated(status="failed")
    assert rules(check(first, wait, waited, failed)) == []


@pytest.mark.parametrize(
    "raw",
    [
        {"isError": True, "content": [{"type": "text", "text": "no"}]},
        {"is_error": True},
        {"success": False, "message": "no"},
        {"ok": False},
        {"error": "no such thing"},
        {"error": {"code": 7}, "output": ""},
        {"status": "error"},
        {"result": {"isError": True}},
        "<tool_use_error>no</tool_use_error>",
    ],
)
def test_a_tool_s_own_error_is_believed(raw: object) -> None:
    found = check(announced(), completed(rawOutput=raw))
    assert [(f.rule, f.severity) for f in found] == [("complete/error-as-success", "error")]


def test_a_text_of_json_is_looked_into_where_a_file_was_changed() -> None:
    raw = '{"success": false, "error": "no_match"}'
    assert rules(check(announced(kind="edit"), completed(rawOutput=raw))) == [
        "complete/error-as-success"
    ]
    assert rules(check(announced(), completed(rawOutput=raw))) == [], "it may be what was read"


@pytest.mark.parametrize(
    "raw",
    [
        {"isError": False},
        {"success": True, "error": None},
        {"error": ""},
        {"error": "deprecated", "data": [1]},
        {"error": False},
        {"errors": ["x"]},
        {"text": "isError: true"},
        "error: none",
    ],
)
def test_what_reports_no_error_passes(raw: object) -> None:
    assert rules(check(announced(), completed(rawOutput=raw))) == []


def test_a_tool_s_error_in_a_failed_call_passes() -> None:
    failed = updated(status="failed", content=words("no"), rawOutput={"isError": True})
    assert rules(check(announced(), failed)) == []


# Failures without a reason


def test_a_failure_says_why() -> None:
    found = check(announced(), updated(status="failed"))
    assert [(f.rule, f.severity) for f in found] == [("complete/failed-without-reason", "warning")]


def test_a_diff_is_no_reason() -> None:
    diff = {"type": "diff", "path": "/code/a", "oldText": "a", "newText": "b"}
    found = check(announced(kind="edit", content=[diff]), updated(status="failed"))
    assert rules(found) == ["complete/failed-without-reason"]


def test_a_failure_with_a_reason_passes() -> None:
    for reason in ({"content": words("no")}, {"_meta": {"callsheet": {"reason": "timeout"}}}):
        assert rules(check(announced(), updated(status="failed", **reason))) == []


def test_a_terminal_of_the_client_shows_the_reason() -> None:
    first = announced(**RUN, content=[{"type": "terminal", "terminalId": "t1"}])
    assert rules(check(first, updated(status="failed"))) == []


def test_half_of_a_recording_does_not_show_who_ended_a_call() -> None:
    assert rules(check_bare(announced(), updated(status="failed"))) == []


def test_people_know_what_they_have_rejected() -> None:
    question = asked(rawInput={"path": "/code/notes.txt"})
    found = check(announced(), question, decided("no"), updated(status="failed"))
    assert rules(found) == []
    found = check(announced(), question, decided("yes"), updated(status="failed"))
    assert rules(found) == ["complete/failed-without-reason"]


def test_people_know_what_they_have_cancelled() -> None:
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}
    assert rules(check(announced(), cancel, updated(status="failed"))) == []


@pytest.mark.parametrize(
    "said",
    [
        "oops\nCommand exited with non-zero code 3",
        "Exited with code 3\noops",
        "Output: oops\nExit Code: 3\nSignal: (none)\nProcess Group PGID: 12",
        "Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\noops",
    ],
)
def test_an_exit_code_among_other_words_of_the_agent_is_believed(said: str) -> None:
    assert rules(check(*ran(content=words(said)))) == ["complete/exit-code"]


def test_an_exit_code_within_an_exit_status_is_believed() -> None:
    raw = {"output": "x", "exitStatus": {"exitCode": 3, "signal": None}}
    assert rules(check(*ran(rawOutput=raw))) == ["complete/exit-code"]


def test_a_command_that_prints_a_code_itself_passes() -> None:
    said = words("exit code: 1")
    assert rules(check(*ran('false; echo "exit code: $?"', content=said))) == []


@pytest.mark.parametrize(
    "command",
    [
        "git grep foo",
        "git diff --exit-code",
        "grep -n 'a;b|c' notes.txt",
        "test -f notes.txt && echo yes",
        "cd src; [ -d a ] && ls a",
    ],
)
def test_an_answer_of_1_passes(command: str) -> None:
    assert rules(check(*ran(command, rawOutput={"exit_code": 1}))) == []
    assert rules(check(*ran(command, rawOutput={"exit_code": 2}))) == ["complete/exit-code"]


@pytest.mark.parametrize(
    "command", ["git commit -m 'grep; test'", "make test", "grep -q a b; make", "echo '&& test x'"]
)
def test_a_failure_of_1_is_reported(command: str) -> None:
    assert rules(check(*ran(command, rawOutput={"exit_code": 1}))) == ["complete/exit-code"]


def test_the_status_of_what_was_looked_up_passes() -> None:
    build = {"status": "failed", "conclusion": "failure", "url": "https://ci.example/1"}
    assert rules(check(*ran(rawOutput=build))) == []
    for own in ({"status": "failed"}, {"status": "error", "message": "no such build"}):
        assert rules(check(*ran(rawOutput=own))) == ["complete/error-as-success"]


def test_a_call_that_asks_how_another_ended_passes() -> None:
    end: Message = {"content": words("oops\nexit code: 1"), "rawOutput": {"exit_code": 1}}
    look: Message = {**RUN, "name": "BashOutput", "title": "Output of shell 1"}
    other = announced(**{**look, "rawInput": {"bash_id": "1"}})
    assert rules(check(other, completed(**end))) == []
    own = announced(**{**look, "rawInput": {"command": "make", "session_id": "1"}})
    assert rules(check(own, completed(**end))) == ["complete/exit-code"]
