"""What a reader of a recording knows: who spoke, which sessions, turns, calls and questions there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from callsheet.observe import calls, model, turns
from callsheet.observe.events import (
    CallBegan,
    CallClosed,
    CallLeftOpen,
    MessageSeen,
    PermissionAsked,
    PermissionDecided,
    RecordingEnded,
    TerminalUpdated,
    TurnEnded,
    UnopenedSession,
    UnreadableLine,
    UpdateApplied,
)
from callsheet.observe.lines import RecordedLine, parse_line
from callsheet.observe.model import SeenIds
from callsheet.observe.tracker import Tracker
from tests.support.talk import Style, Talk, rules, watched

T = TypeVar("T")


def of(kind: type[T], moments: list[Any]) -> list[T]:
    return [moment for moment in moments if isinstance(moment, kind)]


def busy(version: int = 1) -> Talk:
    """Make a talk with a question, a terminal, two turns and a cancel."""
    talk = Talk(version).opened().prompt().call("a", "pending").question("a").decide()
    talk.call("a", "in_progress")
    key = talk.ask("agent", "terminal/create", {"sessionId": "s", "command": "ls"})
    talk.answer("client", key, {"terminalId": "t"}).call("a", "completed").stop()
    return talk.prompt().call("b", "in_progress").cancel().call("b", "failed").stop("cancelled")


# Who spoke


@pytest.mark.parametrize("version", [1, 2])
def test_who_spoke_is_reported_from_the_messages_alone(version: int) -> None:
    talk = busy(version)
    _, moments = watched(talk.lines("raw"))
    assert [heard.sender for heard in of(MessageSeen, moments)] == [who for who, _, _ in talk.said]


def test_an_answer_goes_to_whoever_asked_where_both_asked_under_one_id() -> None:
    talk = Talk().opened().prompt()  # the prompt is the client's third request
    for _ in range(2):
        talk.question("a").decide()
    talk.question("a").decide("no")  # this is the agent's third
    talk.stop()
    _, moments = watched(talk.lines("raw"))
    assert [heard.sender for heard in of(MessageSeen, moments)] == [who for who, _, _ in talk.said]
    assert [moment.question.outcome for moment in of(PermissionDecided, moments)][-1] == "rejected"
    assert len(of(TurnEnded, moments)) == 1


def test_an_error_under_an_id_of_both_answers_what_was_asked_last() -> None:
    talk = Talk().opened().prompt()
    for _ in range(3):
        key = talk.ask("agent", "fs/write_text_file", {"sessionId": "s", "path": "/a"})
        talk.answer("client", key, error="no such method")
    talk.call("a", "completed").stop()
    _, moments = watched(talk.lines("raw"))
    assert [heard.sender for heard in of(MessageSeen, moments)] == [who for who, _, _ in talk.said]


def test_of_the_agents_lines_alone_the_version_the_session_and_the_turn_are_known() -> None:
    seen, moments = watched(busy().lines("agent"))
    assert seen.connection.version == 1
    assert seen.connection.is_whole
    assert not seen.connection.has_both_ways
    assert seen.sessions["s"].is_whole
    assert [over.turn.stop_reason for over in of(TurnEnded, moments)] == ["end_turn", "cancelled"]


def test_a_line_that_is_no_message_is_reported() -> None:
    _, moments = watched([parse_line(1, b"\x00\x01")])
    assert [type(moment) for moment in moments] == [UnreadableLine, RecordingEnded]


# Versions


def test_the_version_is_what_the_agent_agreed_to() -> None:
    talk = Talk()
    key = talk.ask("client", "initialize", {"protocolVersion": 2})
    talk.answer("agent", key, {"protocolVersion": 1})
    seen, _ = watched(talk)
    assert (seen.connection.version, seen.connection.is_v1, seen.connection.is_v2) == (
        1,
        True,
        False,
    )


def test_the_version_is_detected_from_updates_where_it_was_not_recorded() -> None:
    older, _ = watched(Talk().call("a", "pending"))
    newer, _ = watched(Talk(2).update("state_update", state="running").call("a", "pending"))
    either, _ = watched(Talk(2).call("a", "pending"))
    assert older.connection.is_v1
    assert newer.connection.is_v2
    assert {either.connection.is_v1, either.connection.is_v2} == {False}


def test_a_first_update_announces_in_v2_only() -> None:
    for version, announced in ((1, None), (2, 6)):
        talk = Talk(version).opened().say("client", {}).tell("tool_call_update", "a", "pending")
        _, moments = watched(talk)
        assert of(UpdateApplied, moments)[0].call.announced == announced


def test_a_permission_request_announces_in_v2_and_reports_the_call() -> None:
    talk = Talk(2).opened().prompt().question("a", title="Run it", status="pending")
    _, moments = watched(talk.decide().call("a", "completed").stop())
    (folded,) = of(UpdateApplied, moments)
    assert folded.call.announced == of(PermissionAsked, moments)[0].line.number
    assert folded.call.fields["title"] == "Run it"
    assert not folded.is_first


def test_null_clears_in_v2_and_changes_nothing_in_v1() -> None:
    for version, title in ((1, "Reading"), (2, None)):
        talk = Talk(version).opened().prompt().call("a", "in_progress", title="Reading")
        talk.update("tool_call_update", toolCallId="a", title=None, status=None)
        _, moments = watched(talk)
        call = of(UpdateApplied, moments)[-1].call
        assert call.fields.get("title") == title
        assert call.status == ("in_progress" if version == 1 else "pending")


def test_chunks_are_added_to_the_content_and_leave_the_announcement_alone() -> None:
    first = [{"type": "content", "content": {"type": "text", "text": "0"}}]
    talk = Talk(2).opened().prompt().call("a", "in_progress", title="Run", content=first)
    for text in "12":
        item = {"type": "content", "content": {"type": "text", "text": text}}
        talk.tell("tool_call_content_chunk", "a", content=item)
    _, moments = watched(talk)
    call = of(UpdateApplied, moments)[-1].call
    assert [item["content"]["text"] for item in call.fields["content"]] == ["0", "1", "2"]
    assert len(call.opening["content"]) == 1


# Sessions


def test_a_session_is_opened_by_its_answer() -> None:
    seen, _ = watched(Talk().opened())
    session = seen.sessions["s"]
    assert (session.asked, session.opened, session.cwd) == (3, 4, "/code")


def test_a_session_that_is_used_without_being_opened_was_opened_before() -> None:
    seen, moments = watched(Talk().prompt().call("a", "pending"))
    assert seen.sessions["s"].is_known
    assert not seen.sessions["s"].is_whole
    assert of(UnopenedSession, moments) == []


def test_what_comes_before_the_answer_to_load_is_history() -> None:
    talk = Talk().hello()
    key = talk.ask("client", "session/load", {"sessionId": "s", "cwd": "/code"})
    talk.call("old", "completed").answer("agent", key, {})
    _, moments = watched(talk.prompt().call("new", "completed").stop())
    assert [begun.call.is_replayed for begun in of(CallBegan, moments)] == [True, False]


def test_a_load_that_is_refused_ends_the_replay() -> None:
    talk = Talk().opened()
    key = talk.ask("client", "session/load", {"sessionId": "s", "cwd": "/code"})
    talk.answer("agent", key, error="it runs").prompt().call("a", "completed").stop()
    _, moments = watched(talk)
    assert [begun.call.is_replayed for begun in of(CallBegan, moments)] == [False]


def test_a_fork_leaves_the_session_that_it_comes_from_as_it_is() -> None:
    talk = Talk().opened()
    key = talk.ask("client", "session/fork", {"sessionId": "s", "cwd": "/other"})
    seen, _ = watched(talk.answer("agent", key, {"sessionId": "fork"}))
    assert not seen.sessions["s"].is_replaying
    assert seen.sessions["s"].cwd == "/code"
    assert seen.sessions["fork"].cwd == "/other"


def test_a_session_that_a_call_opens_for_its_own_agent_is_known() -> None:
    meta = {"subagent_session_info": {"session_id": "child"}}
    talk = Talk().opened().prompt().call("a", "in_progress", _meta=meta)
    _, moments = watched(talk.call("b", "completed", session="child"))
    assert of(UnopenedSession, moments) == []


def test_an_agent_that_is_started_again_begins_anew() -> None:
    talk = Talk().opened().prompt().call("a", "in_progress").opened().prompt().stop()
    seen, moments = watched(talk)
    assert list(seen.sessions) == ["s"]
    assert seen.sessions["s"].calls == {}
    assert [over.at_the_end for over in of(CallClosed, moments)] == [True]


# Turns


def test_a_turn_lasts_from_the_prompt_to_its_answer() -> None:
    _, moments = watched(Talk().opened().prompt().call("a", "completed").stop("refusal"))
    (over,) = of(TurnEnded, moments)
    assert (over.turn.begun, over.turn.ended, over.turn.stop_reason) == (5, 7, "refusal")


def test_in_v2_a_turn_lasts_until_the_session_is_idle() -> None:
    talk = Talk(2).opened().update("state_update", state="idle").prompt()
    _, moments = watched(talk.call("a", "completed").stop().stop())
    (over,) = of(TurnEnded, moments)
    assert (over.turn.begun, over.turn.ended) == (6, 10)


def test_in_v2_an_idle_that_crosses_the_prompt_does_not_end_the_turn() -> None:
    talk = Talk(2).opened()
    talk.ask("client", "session/prompt", {"sessionId": "s", "prompt": []})
    talk.update("state_update", state="idle", stopReason="end_turn")
    talk.update("state_update", state="running").call("a", "completed").stop()
    _, moments = watched(talk)
    assert [over.turn.ended for over in of(TurnEnded, moments)] == [9]


def test_in_v2_an_agent_may_begin_a_turn_by_itself() -> None:
    talk = Talk(2).opened().update("state_update", state="running")
    _, moments = watched(talk.call("a", "completed").stop())
    assert len(of(TurnEnded, moments)) == 1


def test_in_v2_a_refused_prompt_is_no_turn() -> None:
    talk = Talk(2).opened()
    key = talk.ask("client", "session/prompt", {"sessionId": "s", "prompt": []})
    seen, moments = watched(talk.answer("agent", key, error="busy"))
    assert of(TurnEnded, moments) == []
    assert seen.sessions["s"].turn is None


def test_a_prompt_that_is_refused_leaves_the_turn_that_runs() -> None:
    talk = Talk().opened().prompt()
    key = talk.ask("client", "session/prompt", {"sessionId": "s", "prompt": []})
    talk.answer("agent", key, error="busy").call("a", "completed").stop()
    _, moments = watched(talk)
    (over,) = of(TurnEnded, moments)
    assert over.turn.begun == 5
    assert of(CallClosed, moments)[0].call.turn is over.turn


def test_a_prompt_that_is_answered_with_an_error_ends_its_turn() -> None:
    talk = Talk().opened()
    key = talk.ask("client", "session/prompt", {"sessionId": "s", "prompt": []})
    _, moments = watched(talk.call("a", "pending").answer("agent", key, error="no model"))
    assert of(TurnEnded, moments)[0].turn.is_failed
    assert len(of(CallLeftOpen, moments)) == 1


@pytest.mark.parametrize("style", ["dir", "raw"])
def test_a_turn_is_cancelled_by_session_cancel_and_by_taking_its_prompt_back(style: Any) -> None:
    other = Talk().opened().prompt()
    other.note("client", "$/cancel_request", {"requestId": 3})
    for talk in (Talk().opened().prompt().cancel(), other):
        _, moments = watched(talk.stop("cancelled").lines(style))
        assert of(TurnEnded, moments)[0].turn.cancelled == 6


def test_one_call_is_cancelled_when_the_agent_takes_it() -> None:
    for error, cancelled in (("", 9), ("not cancellable", None)):
        talk = Talk(2).opened().prompt().call("a", "in_progress")
        key = talk.ask("client", "tool_call/cancel", {"sessionId": "s", "toolCallId": "a"})
        talk.answer("agent", key, {}, error=error).call("a", "cancelled").stop()
        _, moments = watched(talk)
        assert of(CallClosed, moments)[0].call.cancelled == cancelled


def test_the_list_of_background_work_names_calls_and_their_terminals() -> None:
    shown = [{"type": "terminal", "terminalId": "t"}]
    listed = [{"type": "tool_call", "toolCallId": "a"}, {"type": "terminal", "terminalId": "t"}]
    talk = Talk(2).opened().prompt()
    talk.call("a", "in_progress").call("b", "in_progress", content=shown).call("c", "in_progress")
    _, moments = watched(talk.stop(background=listed))
    assert [left.call.id for left in of(CallLeftOpen, moments)] == ["c"]


# Questions


@pytest.mark.parametrize(
    ("option", "outcome"), [("yes", "allowed"), ("no", "rejected"), ("cancelled", "cancelled")]
)
@pytest.mark.parametrize("version", [1, 2])
def test_what_the_client_decided(version: int, option: str, outcome: str) -> None:
    talk = Talk(version).opened().prompt().call("a", "pending").question("a").decide(option)
    _, moments = watched(talk)
    (decided,) = of(PermissionDecided, moments)
    assert decided.question.outcome == outcome
    assert decided.question.call is of(UpdateApplied, moments)[0].call


def test_an_answer_that_nobody_offered_is_neither_yes_nor_no() -> None:
    _, moments = watched(Talk().opened().prompt().question("a").decide("maybe"))
    assert of(PermissionDecided, moments)[0].question.outcome is None


def test_a_permission_request_that_the_agent_takes_back() -> None:
    talk = Talk().opened().prompt().call("a", "pending").question("a")
    talk.note("agent", "$/cancel_request", {"requestId": 1}).decide("cancelled")
    _, moments = watched(talk)
    assert of(PermissionDecided, moments)[0].question.withdrawn == 8


def test_a_call_that_is_only_asked_about_is_known_too() -> None:
    _, moments = watched(Talk().opened().prompt().question("a").decide("no").stop())
    (begun,) = of(CallBegan, moments)
    assert begun.call.is_asked_first
    assert [left.call for left in of(CallLeftOpen, moments)] == [begun.call]


# Calls


def test_an_id_that_is_used_again_is_another_call() -> None:
    talk = Talk().opened().prompt().call("a", "completed").tell("tool_call", "a", "pending")
    seen, moments = watched(talk)
    first, second = of(CallBegan, moments)
    assert first.call is not second.call
    assert (second.call.is_reused, second.call.ended_before) == (True, 6)
    assert [over.call for over in of(CallClosed, moments)] == [first.call, second.call]
    assert seen.calls == 2


def test_each_call_is_over_once() -> None:
    talk = Talk().opened().prompt().call("a", "completed").call("b", "pending").stop()
    talk.call("b", "failed").prompt().stop()
    _, moments = watched(talk)
    assert [over.call.id for over in of(CallClosed, moments)] == ["a", "b"]


def test_output_by_terminals_is_counted_for_their_call() -> None:
    shown = [{"type": "terminal", "terminalId": "t"}]
    talk = Talk(2).opened().prompt().call("a", "in_progress", content=shown)
    talk.update("terminal_update", terminalId="t")
    talk.update("terminal_output_chunk", terminalId="t", data="four")
    _, moments = watched(talk)
    assert [told.is_known for told in of(TerminalUpdated, moments)] == [False, True]
    assert of(CallClosed, moments)[0].call.output_bytes == 4


# Whatever comes


def test_nothing_that_a_message_holds_is_trusted() -> None:
    odd: list[Any] = [None, 1, "x", [], {}, {"update": 1}, {"sessionId": [], "update": {}}]
    watching, number = Tracker(), 0
    for method in ("initialize", "session/new", "session/prompt", "session/update", "session/load"):
        for params in odd:
            for key in (None, 1, [], {}):
                for message in ({"method": method, "params": params}, {"result": params}):
                    number += 1
                    line = RecordedLine(
                        number, 2, {**message, "id": key}, "agent" if number % 2 else "client"
                    )
                    list(watching.feed(line))
    list(watching.finish())


def test_an_answer_that_is_none_to_the_agents_permission_request_is_not_taken_for_one() -> None:
    talk = Talk().opened().prompt().call("a", "pending").question("a")
    talk.answer("agent", 1, {"modes": {}})  # to a request of the client's that was not recorded
    assert not of(PermissionDecided, watched(talk.lines("agent"))[1])
    talk.decide()
    assert of(PermissionDecided, watched(talk.lines("raw"))[1])


def test_an_agent_that_is_started_again_may_report_a_history_of_ids_that_were_used() -> None:
    first = Talk().opened().prompt().call("a", "completed").stop()
    again = Talk().opened().call("a", "completed")
    lines = [*first.lines("agent"), *again.lines("agent")]
    calls_ = [moment.call for moment in of(CallBegan, watched(lines)[1])]
    assert [call.is_reused for call in calls_] == [False, False]
    same = Talk().opened().prompt().call("a", "completed").tell("tool_call", "a", "completed")
    assert [one.call.is_reused for one in of(CallBegan, watched(same.lines("agent"))[1])] == [0, 1]


def test_in_v2_a_call_from_before_the_recording_is_not_announced_by_its_end() -> None:
    talk = Talk(2).opened().prompt().call("a", "in_progress", title="Reading a.py")
    talk.update("state_update", state="running").call("a", "completed").stop()
    (begun,) = of(CallBegan, watched(talk.lines()[-3:])[1])
    assert begun.call.announced is None
    (begun,) = of(CallBegan, watched(talk)[1])
    assert begun.call.announced is not None


def test_memory_does_not_grow_with_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "KEEP_ENDED", 10)
    monkeypatch.setattr(calls, "KEEP_OPEN", 20)
    monkeypatch.setattr(turns, "MOST_SESSIONS", 5)
    watching, over, begun = Tracker(), 0, 0
    for line in long_recording(sessions=12, calls=60):
        for moment in watching.feed(line):
            over += isinstance(moment, CallClosed)
            begun += isinstance(moment, CallBegan)
    assert len(watching.sessions) == 5
    assert sum(len(session.calls) for session in watching.sessions.values()) <= 5 * 20
    assert begun == watching.calls == 12 * 60
    over += sum(isinstance(moment, CallClosed) for moment in watching.finish())
    assert over == begun


def test_large_calls_are_let_go_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "KEEP_BYTES", 5000)
    talk = Talk().opened().prompt()
    for number in range(20):
        talk.call(f"c{number}", "completed", rawOutput="x" * 1000)
    seen, moments = watched(talk)
    assert len(seen.sessions["s"].calls) <= 5
    assert len(of(CallClosed, moments)) == 20


def long_recording(*, sessions: int, calls: int) -> Iterator[RecordedLine]:
    """Make sessions that end, with calls of which each third does not."""
    lines: list[RecordedLine] = []
    for number in range(sessions):
        talk = Talk(session=f"s{number}").prompt()
        for call in range(calls):
            talk.call(f"c{call}", "pending" if call % 3 == 0 else "completed")
        lines.extend(talk.lines() if number % 2 else talk.stop().lines())
    yield from lines


@pytest.mark.parametrize("style", ["dir", "raw"])
@pytest.mark.parametrize("who", ["client", "agent"])
def test_an_extension_is_answered_by_the_other_side(style: Style, who: str) -> None:
    other = "agent" if who == "client" else "client"
    talk = Talk().opened().prompt()
    for answer in ({"result": None}, {"error": {"code": -32601, "message": "no"}}):
        # The id is that of the prompt, too, which still waits.
        talk.say(who, {"id": 3 if who == "agent" else 9, "method": "_vendor/x", "params": {}})
        talk.say(other, {"id": 3 if who == "agent" else 9, **answer})
    talk.call("a", "in_progress").call("a", "completed").stop()
    assert rules(talk.lines(style), "recording", "order", "lifecycle") == []


def test_of_half_a_recording_an_id_may_be_used_again() -> None:
    talk = Talk().opened().prompt()
    for _ in range(2):
        talk.say("agent", {"id": 7, "method": "fs/read_text_file", "params": {"path": "/a"}})
        talk.say("client", {"id": 7, "result": {"content": "a"}})
    assert "recording/same-id" not in rules(talk.lines("agent"), "recording")


def test_what_is_reported_by_the_way_adds_up() -> None:
    talk = Talk().opened().prompt().call("a", "in_progress", _meta={"x": 1})
    _, moments = watched(talk.call("a", _meta={"y": 2}).call("a", "completed").stop())
    (over,) = of(CallClosed, moments)
    assert over.call.fields["_meta"] == {"x": 1, "y": 2}
    assert over.call.opening["_meta"] == {"x": 1}


# Used ids


def test_used_ids_are_known_by_their_sessions() -> None:
    used = SeenIds()
    used.add("s", "a")
    assert used.has("s", "a")
    assert not used.has("s", "b")
    assert not used.has("other", "a")


def test_the_last_ids_are_known_and_the_oldest_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model, "REMEMBERED_IDS", 100)
    used = SeenIds()
    for number in range(200):
        used.add("s", str(number))
        used.add("s", str(number))  # twice is once
        assert all(used.has("s", str(one)) for one in range(max(0, number - 49), number + 1))
    assert not any(used.has("s", str(number)) for number in range(100))
