"""Calls that are done and have shown nothing: their ends wait for a result, and none is lost by that."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.report.terminal import CallRecord
from tests.support.made_recordings import (
    ANSWER,
    GOOD,
    IDLE,
    Message,
    announced,
    asked,
    completed,
    decided,
    opening,
    updated,
    words,
)
from tests.support.tap_harness import Tapped, told, updates
from tests.unit.tap.test_pipeline import BARE, CANCEL, COMMAND, request, result, said

LOAD = request(7, "session/load", sessionId="s1", cwd="/code", mcpServers=[])

SILENT = {"title": "Read a.py", "kind": "read", "rawInput": {"path": "a.py"}, "status": "completed"}


def test_a_result_that_is_reported_after_the_end_is_shown() -> None:
    tap = Tapped().agent(announced(**SILENT))
    assert told(tap.heard()) == [("c1", "in_progress")]
    (ended,) = updates(tap.agent(completed()).heard())
    assert ended["status"] == "completed"
    assert "two" in str(ended["content"])


@pytest.mark.parametrize("message", [said("There."), result(2, stopReason="end_turn")])
def test_an_end_without_a_result_does_not_wait_when_the_agent_goes_on(message: Message) -> None:
    first, ended, *others = Tapped().agent(announced(**SILENT), message).heard()
    assert told([first, ended]) == [("c1", "in_progress"), ("c1", "completed")]
    assert others == [message]


def test_an_end_without_a_result_waits_no_longer_than_150_ms() -> None:
    tap = Tapped().agent(announced(**SILENT)).wait(0.14)
    assert told(tap.heard()) == [("c1", "in_progress")]
    assert told(tap.wait(0.01).heard()) == [("c1", "completed")]
    assert (
        Tapped().agent(announced(**SILENT)).gone().heard()[-1]["params"]["update"]["status"]
        == "completed"
    )


def test_a_history_may_report_all_calls_first_and_then_their_results() -> None:
    tap = Tapped()
    tap.client(request(7, "session/load", sessionId="s1", cwd="/code", mcpServers=[]))
    keys = ("h1", "h2", "h3")
    tap.agent(*[announced(key, **SILENT) for key in keys], said("Let me see."))
    tap.agent(*[updated(key, status="completed", rawOutput=key) for key in keys[:2]])
    assert told(tap.heard())[-2:] == [("h1", "completed"), ("h2", "completed")]
    tap.agent(result(7))
    assert told(tap.heard()) == [("h3", "completed")]


def ends(tap: Tapped) -> list[tuple[str, str | None]]:
    """Return how the calls have ended, all of them."""
    tap.gone()
    return [(key, status) for key, status in told(tap.heard()) if status in ("completed", "failed")]


# Another call under the same id

OTHER = {"title": "Read b.py", "rawInput": {"path": "/code/b.py"}, "status": "in_progress"}


def test_a_call_that_waits_ends_before_another_has_its_id() -> None:
    tap = Tapped().agent(announced(**SILENT), announced(**OTHER)).wait(0.2)
    tap.agent(completed(), ANSWER)
    assert ends(tap) == [("c1", "completed"), ("c1~2", "completed")]


def test_a_permission_request_under_the_id_of_a_call_that_waits_is_about_another() -> None:
    tap = Tapped().agent(announced(**SILENT), asked("c1", **{**BARE, "rawInput": COMMAND}))
    *_, question = tap.heard()
    assert question["params"]["toolCall"]["toolCallId"] == "c1~2"


def test_an_update_that_reports_something_else_to_do_is_about_another() -> None:
    other = updated(title="Run make", kind="execute", status="pending", rawInput=COMMAND)
    tap = Tapped().agent(announced(**SILENT), other, updated(status="in_progress"), completed())
    assert ends(tap) == [("c1", "completed"), ("c1~2", "completed")]


def test_a_call_that_goes_on_with_more_input_is_the_same() -> None:
    more = updated(status="pending", title="Write a.py", rawInput={"path": "a.py", "content": "x"})
    tap = Tapped().agent(announced(status="in_progress"), more, completed())
    assert ends(tap) == [("c1", "completed")]


def test_a_history_in_which_calls_share_an_id_is_reported_whole() -> None:
    calls = [announced("c", **{**SILENT, "content": words(f"text {n}")}) for n in range(3)]
    tap = Tapped().client(LOAD).agent(*calls, result(7))
    assert ends(tap) == [(key, "completed") for key in ("c", "c~2", "c~3")]


def test_what_is_reported_late_of_a_call_is_not_the_result_of_one_that_was_allowed() -> None:
    tap = Tapped().agent(announced(), completed(), asked("q", **{**BARE, "rawInput": COMMAND}))
    tap.client(decided("yes")).agent(completed(rawOutput={"lines": 2}))
    tap.agent(updated("q", status="failed", content=words("no way")))
    assert ends(tap) == [("c1", "completed"), ("q", "failed")]


# What else may come while one waits


@pytest.mark.parametrize("status", ["in_progress", "pending", "running"])
@pytest.mark.parametrize("history", [False, True])
def test_a_call_that_is_done_stays_so(status: str, *, history: bool) -> None:
    tap = Tapped()
    if history:
        tap.client(LOAD)
    tap.agent(announced(**SILENT), updated(status=status, content=words("x")))
    tap.agent(result(7) if history else ANSWER)
    assert told(tap.heard())[-1] == ("c1", "completed")


def test_a_call_of_v2_that_is_done_stays_so() -> None:
    tap = Tapped(2).agent(updated(**SILENT), updated(status="in_progress", content=words("x")))
    assert ("c1", "completed") in told(tap.agent(IDLE).heard())


def test_a_call_in_a_history_that_ends_in_a_word_of_its_own_is_done() -> None:
    tap = Tapped().client(LOAD).agent(announced(**{**SILENT, "status": "success"}), result(7))
    assert ends(tap) == [("c1", "completed")]


def test_a_history_may_take_long() -> None:
    tap = Tapped().client(LOAD).agent(announced(**SILENT)).wait(60).agent(completed(), result(7))
    assert "two" in str(updates(tap.heard())[-1]["content"])


def test_a_call_of_a_history_that_goes_on_waits_no_longer_than_others() -> None:
    going_on = {**GOOD, "status": "in_progress"}
    tap = Tapped(2).client(LOAD).agent(updated(**going_on), result(7), updated(status="completed"))
    assert ("c1", "completed") in told(tap.wait(0.15).heard())


def test_another_call_does_not_overtake_one_that_waits() -> None:
    tap = Tapped().agent(announced("a", **SILENT), announced("b"))
    assert told(tap.heard()) == [("a", "in_progress"), ("a", "completed"), ("b", "pending")]


def test_calls_that_run_together_may_all_be_done_before_their_results_are_reported() -> None:
    tap = Tapped().agent(announced("a"), announced("b"))
    tap.heard()
    tap.agent(updated("a", status="completed"), updated("b", status="completed"))
    assert told(tap.heard()) == [("a", "in_progress"), ("b", "in_progress")]
    first, second = updates(tap.agent(completed("a"), completed("b")).heard())
    assert [(one["toolCallId"], one["status"]) for one in (first, second)] == [
        ("a", "completed"),
        ("b", "completed"),
    ]
    assert "two" in str(first["content"])
    assert "two" in str(second["content"])


@pytest.mark.parametrize("before", [(announced("a"),), ()], ids=["announced", "not announced"])
def test_another_call_under_an_id_of_the_last_turn_is_shown(before: tuple[Message, ...]) -> None:
    make = {"title": "Run make", "kind": "execute", "rawInput": {"command": "make"}}
    tap = Tapped().agent(*before, completed("a", title="Read a.py"), ANSWER)
    tap.heard()
    heard = tap.agent(announced("a", **make), asked("a")).heard()
    assert next(key for key, _ in told(heard)) == "a~2"
    assert heard[-1]["params"]["toolCall"]["rawInput"] == make["rawInput"]


def test_a_result_that_only_a_late_announcement_reports_is_shown() -> None:
    tap = Tapped().agent(announced("a"), updated("a", status="completed"), ANSWER)
    tap.heard()
    late = tap.agent(announced("a", status="completed", content=words("The result"))).wait(1)
    assert "The result" in str(late.heard())


def test_calls_of_a_session_without_turns_may_share_an_id() -> None:
    tap = Tapped(begun=False)
    for message in opening()[:4]:
        (tap.client if "method" in message else tap.agent)(message)
    for _ in range(3):
        tap.agent(announced("a"), completed("a"))
    keys = [key for key, status in told(tap.heard()) if status == "completed"]
    assert keys == ["a", "a~2", "a~3"]


def test_a_call_that_was_done_by_a_word_of_its_own_keeps_its_exit_code() -> None:
    failed = {"rawInput": {"command": "false"}, "rawOutput": {"exit_code": 3}}
    tap = Tapped().agent(announced(**BARE), updated(status="done", rawInput=COMMAND))
    tap.agent(updated(status="in_progress", **failed))
    assert told(tap.wait(1).heard())[-1] == ("c1", "failed")


def test_a_call_that_is_asked_about_is_cancelled_with_its_turn() -> None:
    tap = Tapped().agent(announced(**{**GOOD, "status": "done"}), asked())
    tap.client(decided("yes")).client(CANCEL)
    heard = tap.agent({**ANSWER, "result": {"stopReason": "cancelled"}}).heard()
    assert told(heard)[-1] == ("c1", "failed")


def test_a_command_that_only_a_permission_request_reports_is_remembered() -> None:
    tap = Tapped().agent(asked(title="frobnicate --all", kind="execute")).client(decided("yes"))
    tap.agent(
        announced(
            title="Shell",
            kind="execute",
            status="completed",
            content=words("bash: frobnicate: command not found"),
            without=("rawInput", "name", "locations"),
        )
    )
    assert told(tap.heard())[-1] == ("c1", "failed")


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_call_that_is_asked_about_has_not_ended(answer: str) -> None:
    tap = Tapped().agent(announced(**{**GOOD, "status": "done"}), asked())
    statuses = [status for _, status in told(tap.heard())]
    assert statuses == ["in_progress"]
    heard = tap.client(decided(answer)).agent(ANSWER).heard()
    assert told(heard)[-1] == ("c1", "completed" if answer == "yes" else "failed")


# Notes, and the history


def kept(tap: Tapped) -> list[tuple[str, str]]:
    """Keep calls, and give what was kept: ids and statuses."""
    found: list[tuple[str, str]] = []

    def keep(session: str, cwd: str, record: CallRecord) -> None:
        del session, cwd
        found.append((record.report.tool_call_id, record.report.status.value))

    tap.pipeline._tap.store = keep  # pyright: ignore[reportPrivateUsage]
    return found


def test_what_a_history_replays_is_not_kept_again() -> None:
    tap = Tapped()
    found = kept(tap)
    tap.client(LOAD).agent(announced(**{**SILENT, "content": words("x")}), result(7))
    assert found == []


def test_an_end_that_waits_is_kept_when_a_session_is_loaded_again() -> None:
    tap = Tapped()
    found = kept(tap)
    tap.agent(announced(**SILENT)).client(LOAD)
    assert found == [("c1", "in_progress"), ("c1", "completed")]


@pytest.mark.parametrize(
    ("meta", "lasted"), [({}, 1000), ({"_meta": {"callsheet": {"durationMs": 5}}}, 5)]
)
def test_an_end_is_reported_with_the_time_of_it(meta: dict[str, Any], lasted: int) -> None:
    tap = Tapped().agent(announced(**{**SILENT, "status": "in_progress"})).wait(1)
    *_, ended = updates(tap.agent(updated(status="completed", **meta)).wait(0.2).heard())
    assert ended["_meta"]["callsheet"]["durationMs"] == lasted


def test_a_call_that_is_neither_over_nor_going_on_is_over_when_another_has_its_id() -> None:
    odd = {"_meta": {"callsheet": {"status": "paused"}}}
    tap = Tapped().agent(announced(status="failed", **odd), announced(**OTHER), completed())
    assert ends(tap) == [("c1", "failed"), ("c1~2", "completed")]


def test_what_reports_nothing_of_a_result_does_not_end_the_wait() -> None:
    tap = Tapped().agent(announced(**SILENT), updated(_meta={"x": 1}), completed())
    *_, ended = updates(tap.heard())
    assert (ended["status"], "two" in str(ended["content"])) == ("completed", True)


def test_a_late_repeat_is_not_the_result_of_one_that_was_allowed() -> None:
    tap = Tapped().agent(announced(), completed(content=words("5 passed in 1.0s")))
    tap.agent(asked("q", **{**BARE, "rawInput": COMMAND})).client(decided("yes"))
    tap.agent(completed(content=words("5 passed in 1.02s")), updated("q", status="failed"))
    assert ends(tap) == [("c1", "completed"), ("q", "failed")]


# Sessions


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_that_is_resumed_without_its_history_goes_on(version: int) -> None:
    resume = request(7, "session/resume", sessionId="s1", cwd="/code", mcpServers=[])
    begun = {**SILENT, "status": "in_progress"}
    tap = Tapped(version).agent((announced if version == 1 else updated)(**begun)).client(resume)
    tap.agent(updated(title="Read a.py", status="in_progress"), result(7), completed())
    assert ends(tap) == [("c1", "completed")]


def test_a_long_history_may_report_all_calls_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callsheet.observe.calls.KEEP_ENDED", 100)
    keys = [f"h{number}" for number in range(150)]
    tap = Tapped().client(LOAD).agent(*[announced(key, **SILENT) for key in keys])
    tap.agent(*[completed(key) for key in keys], result(7))
    assert ends(tap) == [(key, "completed") for key in keys]
    assert not tap.account.dropped


def test_a_history_that_fails_leaves_nothing_open() -> None:
    error = {"jsonrpc": "2.0", "id": 7, "error": {"code": -1, "message": "no"}}
    tap = Tapped().client(LOAD).agent(announced("h", status="in_progress"), error)
    assert told(tap.heard())[-1] == ("h", "failed")


def test_a_call_outside_of_turns_ends_with_the_next() -> None:
    tap = Tapped().agent(ANSWER, announced(status="in_progress"))
    tap.client(request(3, "session/prompt", sessionId="s1", prompt=[]))
    tap.agent(result(3, stopReason="end_turn"))
    assert told(tap.heard())[-1] == ("c1", "failed")


def test_a_call_that_waits_is_not_cancelled_with_its_session() -> None:
    tap = Tapped().client(LOAD).agent(announced(**SILENT))
    tap.client(request(8, "session/close", sessionId="s1")).wait(6)
    assert told(tap.heard())[-1] == ("c1", "completed")


def test_a_turn_within_a_load_does_not_wait_for_it() -> None:
    tap = Tapped().agent(ANSWER).client(LOAD).agent(announced("a", **SILENT))
    tap.client(request(9, "session/prompt", sessionId="s1", prompt=[]))
    tap.agent(announced("b", **SILENT))
    tap.heard()
    first, _ = tap.agent(result(9, stopReason="end_turn")).heard()
    assert told([first]) == [("b", "completed")]


# Ends that are known, and were not told


def test_a_command_whose_exit_code_is_known_has_ended() -> None:
    shell = {"title": "make", "kind": "execute", "rawInput": COMMAND, "status": "in_progress"}
    last = updated(status="weird", rawOutput={"exit_code": 2, "output": "nope"})
    *_, ended, _ = Tapped().agent(announced(**shell), last, ANSWER).heard()
    (call,) = updates([ended])
    assert (call["status"], call["_meta"]["callsheet"]["reason"]) == ("failed", "exit_code")
    assert "nope" in str(call["content"])


def test_a_name_that_an_agent_has_for_a_call_is_no_others() -> None:
    alias = {"_meta": {"callsheet": {"alias": "b"}}}
    tap = Tapped().agent(announced("a", **alias), announced("b"), completed("b"), completed("a"))
    assert ends(tap) == [("b~2", "completed"), ("a", "completed")]


def test_the_name_that_another_tap_has_noted_stays() -> None:
    alias = {"_meta": {"callsheet": {"alias": "a"}}}
    tap = Tapped().agent(announced("a"), completed("a"))
    tap.heard()
    (second,) = updates(tap.agent(announced("a~2", **alias)).heard())
    assert second["_meta"]["callsheet"]["alias"] == "a"


# As agents do it


def test_a_yes_that_is_asked_for_under_an_id_of_its_own_is_to_the_call_that_is_there() -> None:
    """OpenHands asks so, under one id for all that it does in a session."""
    question = {"title": "Confirm Agent Actions", "kind": "other", "status": "pending"}
    tap = Tapped()
    for key in ("a", "b"):
        tap.agent(announced(key), asked("confirm", **question))
        assert tap.heard()[-1]["params"]["toolCall"]["toolCallId"] == key
        tap.client(decided("yes")).agent(completed(key))
    assert ends(tap.agent(ANSWER)) == [("b", "completed")]


def test_a_yes_to_nothing_that_is_known_leaves_no_failure() -> None:
    question = asked("confirm", title="Confirm", kind="other")
    tap = Tapped().agent(announced("a"), announced("b"), question).client(decided("yes"))
    tap.agent(completed("a"), completed("b"), ANSWER)
    tap.client(request(3, "session/prompt", sessionId="s1", prompt=[]))
    tap.agent(announced("c"), announced("d"), question).client(decided("yes"))
    tap.agent(completed("c"), completed("d"), result(3, stopReason="end_turn"))
    assert {status for _, status in ends(tap)} == {"completed"}


def test_a_result_that_is_a_text_of_json_reports_how_a_command_ended() -> None:
    shell = {"title": "Running bash", "kind": "execute", "rawInput": {"command": "nosuch"}}
    raw = '{"status": "failed", "exit_code": 127, "output": "not found"}'
    tap = Tapped().agent(announced(**shell), updated(status="completed", rawOutput=raw))
    *_, ended = updates(tap.heard())
    assert (ended["status"], ended["_meta"]["callsheet"]["reason"]) == ("failed", "exit_code")


def test_where_a_command_runs_and_what_for_is_no_part_of_it() -> None:
    """As Gemini has it in titles."""
    title = "echo one [current working directory /code] (Run it)"
    (call,) = updates(
        Tapped().agent(announced(title=title, kind="execute", rawInput={})).wait(1).heard()
    )
    assert call["rawInput"] == {"command": "echo one"}


def test_terminals_are_kept_apart_as_calls_are() -> None:
    """Codex names a terminal by its call, and the model may use the id again."""
    terminal = [{"type": "terminal", "terminalId": "c1"}]
    shell = {"kind": "execute", "rawInput": COMMAND, "content": terminal}
    info = {"terminal_info": {"terminal_id": "c1"}}
    tap = Tapped()
    for word in ("one", "two"):
        output = {"terminal_output_delta": {"terminal_id": "c1", "data": f"{word}\n"}}
        left = {"terminal_exit": {"terminal_id": "c1", "exit_code": 0}}
        tap.agent(announced(title="Run make", _meta=info, **shell))
        tap.agent(updated(status="completed", _meta={**output, **left}))
    shown = {"c1": "", "c1~2": ""}
    for one in updates(tap.heard()):
        shown[one["toolCallId"]] += str(one.get("content") or "")
    assert ("one" in shown["c1"], "two" in shown["c1"]) == (True, False)
    assert ("one" in shown["c1~2"], "two" in shown["c1~2"]) == (False, True)


# When a call begins to run


def test_a_call_runs_from_the_moment_that_it_is_allowed() -> None:
    tap = Tapped().agent(announced(**GOOD), asked())
    tap.heard()
    assert told(tap.client(decided("yes")).heard()) == [("c1", "in_progress")]
    tap.wait(3).agent(updated(status="in_progress"), completed(content=words("ok")))
    assert told(tap.heard()) == [("c1", "completed")]


@pytest.mark.parametrize("answer", ["no", "never"])
def test_a_call_that_is_not_allowed_does_not_run(answer: str) -> None:
    tap = Tapped().agent(announced(**GOOD), asked())
    tap.heard()
    assert told(tap.client(decided(answer)).heard()) == []
