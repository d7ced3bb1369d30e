"""Rules about order: each message in its session and its turn, each question about a call that is there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import RECORDINGS
from tests.support.talk import Talk, findings, rules


def turn(version: int = 1, session: str = "s") -> Talk:
    return Talk(version, session).opened().prompt()


# Sessions


def test_an_update_before_the_session_is_answered_is_found_once() -> None:
    talk = Talk().hello()
    key = talk.ask("client", "session/new", {"cwd": "/code"})
    talk.update("available_commands_update").update("current_mode_update")
    (finding,) = findings(talk.answer("agent", key, {"sessionId": "s"}).prompt().stop())
    found = (finding.rule, finding.severity, finding.line, finding.session)
    assert found == ("order/news-before-session", "warning", 4, "s")


def test_a_call_before_the_session_is_answered_is_an_error() -> None:
    talk = Talk().hello()
    key = talk.ask("client", "session/new", {"cwd": "/code"})
    talk.call("a", "completed").answer("agent", key, {"sessionId": "s"})
    assert rules(talk.prompt().stop(), "order") == ["order/before-session"]


def test_what_comes_before_the_answer_to_load_is_in_time() -> None:
    talk = Talk().hello()
    key = talk.ask("client", "session/load", {"sessionId": "s", "cwd": "/code"})
    talk.update("user_message_chunk").call("a", "completed").answer("agent", key, {})
    assert rules(talk) == []


def test_a_session_that_nobody_has_opened() -> None:
    talk = turn().call("a", "completed", session="t").update("plan", session="t").stop()
    assert rules(talk) == ["order/unknown-session"]


def test_sessions_that_were_opened_before_the_recording_began_are_not_missed() -> None:
    assert rules(Talk().call("a", "completed")) == []
    assert rules(turn().call("a", "completed", session="t").lines("agent")) == []


def two_sessions(version: int = 1) -> Talk:
    talk = turn(version)
    key = talk.ask("client", "session/new", {"cwd": "/code"})
    return talk.answer("agent", key, {"sessionId": "t"})


@pytest.mark.parametrize("version", [1, 2])
def test_an_update_of_a_call_under_another_session(version: int) -> None:
    talk = two_sessions(version).call("a", "in_progress", title="Run")
    talk.call("a", session="t", content=[]).call("a", "completed").stop()
    (finding,) = findings(talk)
    assert (finding.rule, finding.session, finding.call) == ("order/another-session", "t", "a")


def test_two_sessions_may_use_one_id_each() -> None:
    for version in (1, 2):
        talk = two_sessions(version).call("a", "in_progress", title="Run")
        kind = "tool_call" if version == 1 else "tool_call_update"
        talk.tell(kind, "a", "completed", session="t", title="Run")
        assert rules(talk.call("a", "completed").stop()) == []


# Turns


def test_an_update_of_a_call_after_its_turn_is_found_once() -> None:
    talk = turn().call("a", "in_progress").stop().call("a").call("a", "completed")
    assert rules(talk) == ["lifecycle/never-ended", "order/late-call"]


def test_an_update_that_comes_in_the_next_turn_is_late_too() -> None:
    talk = turn().call("a", "in_progress").stop().prompt().call("a", "completed").stop()
    found = findings(talk)
    assert [(one.rule, one.line) for one in found][-1] == ("order/late-call", 9)


def test_a_call_that_begins_after_the_turn() -> None:
    assert rules(turn().stop().call("a", "completed")) == ["order/late-call"]
    assert rules(Talk().opened().call("a", "completed")) == []  # there was no turn that it missed
    assert rules(Talk(2).opened().prompt().stop().call("a", "completed")) == []


def test_background_work_is_not_late() -> None:
    asked = {"run_in_background": True}
    talk = turn().call("a", "in_progress", rawInput=asked).stop().call("a", "in_progress")
    talk.call("b", "completed", _meta={"claudeCode": {"parentToolUseId": "a"}})
    assert rules(talk.call("a", "completed")) == []
    listed = [{"type": "tool_call", "toolCallId": "a"}]
    talk = turn(2).call("a", "in_progress").stop(background=listed).call("a", "completed")
    assert rules(talk) == []


@pytest.mark.parametrize("kind", ["agent_message_chunk", "agent_thought_chunk"])
def test_what_the_agent_says_after_its_turn_is_found_once(kind: str) -> None:
    talk = turn().update(kind).stop().update(kind).update(kind).prompt().update(kind).stop()
    (finding,) = findings(talk)
    assert (finding.rule, finding.line) == ("order/late-content", 8)


def test_what_does_not_belong_to_a_turn_may_come_between() -> None:
    talk = Talk().opened().update("agent_message_chunk").prompt().stop()
    talk.update("available_commands_update").update("usage_update").update("session_info_update")
    assert rules(talk) == []
    assert rules(turn(2).stop().update("agent_message_chunk")) == []
    assert rules(turn().stop().update("agent_message_chunk").lines("agent")) == []


def overlapping(**capabilities: object) -> Talk:
    talk = Talk().hello(agentCapabilities=capabilities)
    key = talk.ask("client", "session/new", {"cwd": "/code"})
    return talk.answer("agent", key, {"sessionId": "s"}).prompt()


def prompted(talk: Talk) -> int:
    return talk.ask("client", "session/prompt", {"sessionId": "s", "prompt": []})


def test_prompts_that_overlap_and_are_both_taken() -> None:
    talk = overlapping()
    second = prompted(talk)
    talk.call("a", "in_progress").stop().call("a", "completed")
    (finding,) = findings(talk.answer("agent", second, {"stopReason": "end_turn"}))
    assert (finding.rule, finding.line) == ("order/overlapping-prompts", 6)


def test_prompts_that_are_refused_cancelled_or_queued_do_not_overlap() -> None:
    refused = overlapping()
    refused.answer("agent", prompted(refused), error="a turn runs").stop()
    queued = overlapping(_meta={"claudeCode": {"promptQueueing": True}})
    second = prompted(queued)
    queued.stop().answer("agent", second, {"stopReason": "end_turn"})
    cancelled = overlapping().cancel()
    second = prompted(cancelled)
    cancelled.stop("cancelled").answer("agent", second, {"stopReason": "end_turn"})
    joined = turn(2).prompt().stop()
    assert rules(refused) == rules(queued) == rules(cancelled) == rules(joined) == []


# Questions


def test_permission_for_a_call_that_was_never_announced() -> None:
    talk = turn().question("a").decide().question("a").decide()
    talk.tell("tool_call", "a", "completed").stop()
    (finding,) = findings(talk)
    assert (finding.rule, finding.field) == (
        "order/asked-unannounced",
        "params.toolCall.toolCallId",
    )


def test_permission_for_a_call_that_is_there() -> None:
    assert (
        rules(turn().call("a", "pending").question("a").decide().call("a", "failed").stop()) == []
    )
    in_v2 = turn(2).question("a", title="Run").decide().call("a", "in_progress")
    assert rules(in_v2.call("a", "completed").stop()) == []
    in_the_middle = Talk().prompt().question("a").decide().call("a", "completed").stop()
    assert "order/asked-unannounced" not in rules(in_the_middle)


def test_in_v2_a_command_may_name_its_call_but_does_not_announce_it() -> None:
    def asking(key: str | None) -> Talk:
        talk = turn(2).call("a", "pending", title="Run")
        subject = {"type": "command", "command": "ls", "cwd": "/code", "toolCallId": key}
        params = {"sessionId": "s", "title": "May I?", "subject": subject, "options": []}
        request = talk.ask("agent", "session/request_permission", params)
        talk.answer("client", request, {"outcome": {"outcome": "selected", "optionId": "x"}})
        return talk.call("a", "in_progress").call("a", "completed").stop(background=[])

    assert rules(asking("a")) == rules(asking(None)) == []
    assert rules(asking("b"), "order") == ["order/asked-unannounced"]


def test_permission_under_another_id_than_the_calls() -> None:
    given = {"command": "rm -r build"}
    talk = turn().call("a", "pending", rawInput=given).question("perm-1", rawInput=given).decide()
    (finding,) = findings(talk.call("a", "failed").stop())
    assert finding.rule == "order/asked-under-another-id"
    assert "under the id a" in finding.message


def test_a_permission_request_in_other_words_is_known_by_its_title() -> None:
    title = "Edit `/code/a.py`"
    talk = turn().call("a", "pending", title=title, kind="edit", rawInput={"path": "/code/a.py"})
    talk.question("b", title=title, rawInput={"file_path": "/code/a.py", "new": "x"}).decide()
    assert rules(talk.call("a", "completed").stop(), "order") == ["order/asked-under-another-id"]


def test_a_title_that_says_only_what_a_call_is_does_not_make_it_the_same() -> None:
    talk = turn().call("a", "pending", title="Edit a file", kind="edit", rawInput={"path": "/b"})
    talk.question("b", title="Edit a file", rawInput={"path": "/a"}).decide()
    talk.call("a", "completed").call("b", "completed")
    assert rules(talk.stop(), "order") == ["order/asked-unannounced"]


def test_a_permission_request_is_known_by_the_file_that_it_would_change() -> None:
    place, given = {"path": "/code/a.py"}, {"tool": "patch", "arguments": {"path": "/code/a.py"}}
    diff = {"type": "diff", **place, "oldText": "a", "newText": "b"}

    def asking(**call: Any) -> list[str]:
        talk = turn().call("a", "pending", title="patch: a.py", **call)
        talk.question("approval-1", kind="edit", rawInput=given, content=[diff]).decide()
        return rules(talk.call("a", "completed").stop(), "order")

    assert asking(kind="edit", locations=[place]) == ["order/asked-under-another-id"]
    assert asking(kind="edit", locations=[{"path": "/b"}]) == ["order/asked-unannounced"]
    assert asking(kind="read", locations=[place]) == ["order/asked-unannounced"]


def test_a_permission_request_about_another_input_is_about_another_call() -> None:
    talk = turn().call("a", "pending", rawInput={"command": "ls"})
    talk.question("b", rawInput={"command": "rm"}).decide().call("a", "failed")
    assert rules(talk.call("b", "failed").stop()) == ["order/asked-unannounced"]


def test_a_permission_request_that_is_open_when_its_turn_is_over() -> None:
    talk = turn().call("a", "pending").question("a").call("a", "failed")
    assert rules(talk.stop(), "order") == ["order/left-unanswered"]


def test_a_permission_request_that_was_answered_taken_back_or_cancelled_is_not_left() -> None:
    answered = turn().call("a", "pending").question("a").decide("no").call("a", "failed").stop()
    taken_back = turn().call("a", "pending").question("a")
    taken_back.note("agent", "$/cancel_request", {"requestId": 1}).call("a", "failed").stop()
    cancelled = turn().call("a", "pending").question("a").cancel().call("a", "failed")
    cancelled.stop("cancelled").decide("cancelled")
    one_way = turn().call("a", "pending").question("a").call("a", "failed").stop().lines("agent")
    assert rules(answered) == rules(taken_back) == rules(cancelled) == rules(one_way) == []


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_call_that_ended_before_its_permission_request_was_answered(status: str) -> None:
    talk = turn().call("a", "in_progress").question("a").call("a", status).decide().stop()
    assert rules(talk) == ["order/ended-while-asking"]


def test_a_permission_request_whose_call_ended_for_a_reason_that_people_know() -> None:
    cancelled = turn().call("a", "pending").question("a").cancel().call("a", "failed")
    taken_back = turn().call("a", "pending").question("a")
    taken_back.note("agent", "$/cancel_request", {"requestId": 1}).call("a", "failed")
    in_order = turn().call("a", "in_progress").question("a").decide().call("a", "completed").stop()
    assert rules(cancelled.decide("cancelled").stop("cancelled")) == []
    assert rules(taken_back.decide("cancelled").stop()) == []
    assert rules(in_order) == []


# Real agents, counted by hand


@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("claude-agent-acp-0.99.1.mixed-none", 0),
        ("codex-acp-0.16.0.mixed-none", 0),
        ("fast-agent-0.10.48.mixed-none", 0),
        ("gemini-cli-0.61.0.mixed-none", 5),
        ("kimi-cli-1.51.0.mixed-none", 0),
        ("opencode-1.18.33.mixed-none", 0),
        ("ends/codex-acp-0.16.0.reject-none", 1),
        ("ends/gemini-cli-0.61.0.reject-none", 2),
        ("ends/kimi-cli-1.51.0.reject-none", 0),
    ],
)
def test_what_real_agents_ask_about(name: str, questions: int) -> None:
    found = rules(RECORDINGS / f"{name}.jsonl", "order")
    assert found == ["order/asked-unannounced"] * questions
