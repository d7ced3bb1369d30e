"""Rules about the life of a call: it opens once, moves as it may, and ends as what it was."""

from __future__ import annotations

from collections import Counter

import pytest

from callsheet.observe import calls
from tests.support import RECORDINGS
from tests.support.talk import Talk, findings, rules


def turn(version: int = 1) -> Talk:
    return Talk(version).opened().prompt()


def loaded(version: int = 1) -> tuple[Talk, int]:
    """Return a talk in which a session is being loaded, and the id of that request."""
    talk = Talk(version).hello()
    method = "session/load" if version == 1 else "session/resume"
    return talk, talk.ask("client", method, {"sessionId": "s", "cwd": "/code"})


@pytest.mark.parametrize("version", [1, 2])
def test_a_call_that_does_everything_right(version: int) -> None:
    talk = turn(version).call("a", "pending", title="Run").question("a").decide()
    talk.call("a", "in_progress").call("a").call("a", "completed").stop()
    talk.prompt().call("b", "pending", title="Run").question("b").decide("no").call("b", "failed")
    assert rules(talk.stop()) == []


# Announcements


def test_announced_twice() -> None:
    talk = turn().call("a", "pending").tell("tool_call", "a", "in_progress").call("a", "completed")
    assert rules(talk.stop()) == ["lifecycle/announced-twice"]


def test_announced_after_it_was_spoken_of_is_not_announced_twice() -> None:
    talk = turn().tell("tool_call_update", "a", "pending").tell("tool_call", "a", "in_progress")
    assert rules(talk.call("a", "completed").stop()) == ["lifecycle/not-announced"]


@pytest.mark.parametrize("version", [1, 2])
def test_an_id_that_was_another_calls_is_found_in_every_later_turn(version: int) -> None:
    talk = turn(version).call("a", "completed", title="One").stop().prompt()
    kind = "tool_call" if version == 1 else "tool_call_update"
    talk.tell(kind, "a", "in_progress", title="Two").call("a", "completed").stop()
    (finding,) = findings(talk)
    assert (finding.rule, finding.call) == ("lifecycle/id-reused", "a")
    assert f"line {6 if version == 1 else 8}" in finding.message


def test_an_id_that_was_a_call_of_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "KEEP_ENDED", 3)
    talk = turn()
    for number in range(6):
        talk.call(f"c{number}", "completed")
    talk.tell("tool_call", "c0", "completed").tell("tool_call_update", "c1", "failed").stop()
    assert rules(talk) == ["lifecycle/id-reused", "lifecycle/after-the-end"]


def test_one_id_in_two_sessions_is_not_reused() -> None:
    talk = turn().call("a", "completed").stop()
    key = talk.ask("client", "session/new", {"cwd": "/code"})
    talk.answer("agent", key, {"sessionId": "other"}).session = "other"
    assert rules(talk.prompt().tell("tool_call", "a", "completed").stop()) == []


@pytest.mark.parametrize("style", ["dir", "agent"])
def test_a_call_that_is_loaded_again_is_the_same_call(style: str) -> None:
    talk = turn().call("a", "completed").stop()
    key = talk.ask("client", "session/load", {"sessionId": "s", "cwd": "/code"})
    talk.tell("tool_call", "a", "completed").answer("agent", key, {})
    assert rules(talk.lines("agent" if style == "agent" else "dir")) == []


def test_ids_that_are_used_twice_in_one_history_or_after_it() -> None:
    talk, key = loaded()
    talk.tell("tool_call", "a", "completed").tell("tool_call", "a", "completed")
    talk.answer("agent", key, {}).prompt().tell("tool_call", "a", "completed").stop()
    assert rules(talk) == ["lifecycle/id-reused"] * 2


def test_not_announced_is_said_once_for_a_call() -> None:
    talk = turn().tell("tool_call_update", "a", "in_progress")
    talk.tell("tool_call_update", "a", "completed").stop()
    (finding,) = findings(talk)
    assert (finding.rule, finding.line) == ("lifecycle/not-announced", 6)


def test_a_chunk_of_a_call_that_nobody_knows_is_not_announced_in_v2_either() -> None:
    item = {"type": "content", "content": {"type": "text", "text": "x"}}
    talk = turn(2).tell("tool_call_content_chunk", "a", content=item).call("a", "completed")
    assert rules(talk.stop()) == ["lifecycle/not-announced"]
    assert rules(turn(2).call("a", "in_progress", title="Run").call("a", "completed").stop()) == []


def test_what_was_announced_before_the_recording_began_is_not_missed() -> None:
    talk = Talk().update("agent_message_chunk").tell("tool_call_update", "a", "completed")
    assert rules(talk.stop()) == []


# Moves


@pytest.mark.parametrize(
    ("version", "path", "found"),
    [
        (1, "in_progress pending completed", ["moved-back", "never-ran"]),
        (1, "pending in_progress in_progress completed", []),
        (1, "pending failed", []),
        (1, "completed", []),
        (1, "pending completed", ["never-ran"]),
        (1, "in_progress completed in_progress", ["moved-back"]),
        (1, "in_progress completed failed", ["after-the-end"]),
        (1, "in_progress completed completed completed", ["after-the-end"]),
        (2, "pending in_progress paused in_progress completed", []),
        (2, "in_progress paused cancelled", []),
        (2, "in_progress paused pending cancelled", ["moved-back"]),
        (2, "in_progress cancelled completed", ["after-the-end"]),
    ],
)
def test_moves(version: int, path: str, found: list[str]) -> None:
    talk = turn(version)
    for status in path.split():
        talk.call("a", status)
    assert rules(talk.stop()) == [f"lifecycle/{name}" for name in found]


def test_null_as_status_is_a_move_back_in_v2_only() -> None:
    for version, found in ((1, []), (2, ["lifecycle/moved-back"])):
        talk = turn(version).call("a", "in_progress")
        talk.update("tool_call_update", toolCallId="a", status=None)
        assert rules(talk.call("a", "failed").stop()) == found


def test_what_comes_after_the_end_without_a_status() -> None:
    talk = turn().call("a", "completed").call("a", title="Now done").call("a", title="Really")
    (finding,) = findings(talk.stop())
    assert (finding.rule, finding.line, finding.field) == ("lifecycle/after-the-end", 7, None)


def test_a_history_may_leave_out_that_a_call_ran() -> None:
    talk, key = loaded()
    assert rules(talk.call("a", "pending").call("a", "completed").answer("agent", key, {})) == []


@pytest.mark.parametrize(
    ("version", "status", "is_found"),
    [
        (1, "cancelled", True),
        (1, "paused", True),
        (1, "_waiting", True),
        (1, "done", True),
        (1, "failed", False),
        (2, "cancelled", False),
        (2, "_waiting", False),
        (2, "done", True),
    ],
)
def test_a_status_that_the_version_does_not_have(version: int, status: str, is_found: bool) -> None:
    talk = turn(version).call("a", "in_progress").call("a", status).call("a", status)
    found = [finding for finding in findings(talk) if finding.rule == "lifecycle/unknown-status"]
    assert [finding.field for finding in found] == ["update.status"] * is_found


def test_a_status_of_either_version_is_known_where_the_version_is_not() -> None:
    unsure = Talk(2).tell("tool_call_update", "a", "paused").call("a", "cancelled")
    assert "lifecycle/unknown-status" not in rules(unsure)
    surely_v1 = Talk().tell("tool_call", "a", "paused")
    assert "lifecycle/unknown-status" in rules(surely_v1)


# Ends


def test_a_call_that_is_open_when_its_turn_is_over() -> None:
    talk = turn().call("a", "pending").call("b", "in_progress").stop()
    talk.prompt().stop()
    found = findings(talk)
    assert [(one.rule, one.call, one.line) for one in found] == [
        ("lifecycle/never-ended", "a", 8),
        ("lifecycle/never-ended", "b", 8),
    ]


def test_a_call_that_is_open_when_the_prompt_fails() -> None:
    talk = turn().call("a", "pending").answer("agent", 3, error="the model is gone")
    assert rules(talk) == ["lifecycle/never-ended"]


def test_of_the_agents_lines_alone_it_is_known_that_a_call_never_ended() -> None:
    talk = turn().call("a", "pending").stop()
    assert rules(talk.lines("agent")) == ["lifecycle/never-ended"]


def test_background_work_may_go_on_when_a_turn_is_over() -> None:
    listed = [{"type": "tool_call", "toolCallId": "a"}]
    assert rules(turn(2).call("a", "in_progress").stop(background=listed)) == []
    asked = {"command": "serve", "run_in_background": True}
    assert rules(turn().call("a", "in_progress", rawInput=asked).stop()) == []


def test_in_v2_what_is_not_listed_as_background_work_ends_with_the_turn() -> None:
    late = turn(2).call("a", "in_progress").stop(background=[]).call("a", "completed")
    assert rules(late) == ["lifecycle/never-ended", "order/late-call"]
    unsaid = turn(2).call("a", "in_progress").stop().call("a", "completed")
    assert rules(unsaid) == []
    never = turn(2).call("a", "in_progress").stop().prompt().stop()
    assert rules(never) == ["lifecycle/never-ended"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_call_that_is_open_after_a_cancel(version: int) -> None:
    talk = turn(version).call("a", "in_progress").cancel().stop("cancelled", background=[])
    assert rules(talk) == ["lifecycle/open-after-cancel"]


def test_a_single_call_that_was_cancelled_and_did_not_end() -> None:
    def cancelled(error: str = "") -> Talk:
        talk = turn(2).call("a", "in_progress")
        key = talk.ask("client", "tool_call/cancel", {"sessionId": "s", "toolCallId": "a"})
        return talk.answer("agent", key, {}, error=error)

    listed = [{"type": "tool_call", "toolCallId": "a"}]
    assert rules(cancelled().stop(background=[])) == ["lifecycle/open-after-cancel"]
    assert rules(cancelled().stop(background=listed)) == ["lifecycle/open-after-cancel"]
    assert rules(cancelled("not cancellable").stop(background=listed)) == []
    assert rules(cancelled().call("a", "completed").stop()) == []  # the work finished first


@pytest.mark.parametrize("option", ["no", "cancelled"])
def test_a_call_that_is_open_after_a_denial(option: str) -> None:
    talk = turn().call("a", "pending").question("a").decide(option)
    assert rules(talk.stop()) == ["lifecycle/open-after-denial"]


def test_a_permission_request_that_a_cancel_dismissed_is_no_denial() -> None:
    talk = turn().call("a", "pending").question("a").cancel().decide("cancelled")
    assert rules(talk.stop("cancelled")) == ["lifecycle/open-after-cancel"]


def test_what_was_allowed_at_the_second_time_was_not_denied() -> None:
    talk = turn().call("a", "pending").question("a").decide("no").question("a").decide("yes")
    assert rules(talk.call("a", "in_progress").call("a", "completed").stop()) == []


def test_a_denied_call_that_is_shown_as_completed() -> None:
    for option, found in (("no", 1), ("cancelled", 1), ("yes", 0), ("maybe", 0)):
        talk = turn().call("a", "in_progress").question("a").decide(option).call("a", "completed")
        assert rules(talk.stop()) == ["lifecycle/denied-but-completed"] * found


def test_a_cancelled_call_that_is_shown_as_completed() -> None:
    talk = turn().call("a", "in_progress").cancel().call("a", "completed").stop("cancelled")
    (finding,) = findings(talk)
    assert (finding.rule, finding.line) == ("lifecycle/cancelled-but-completed", 8)


def test_what_ended_before_the_cancel_or_began_after_it_was_not_cancelled() -> None:
    before = turn().call("a", "completed").cancel().stop("cancelled")
    after = turn().cancel().call("a", "in_progress").call("a", "completed").stop("cancelled")
    ignored = turn().call("a", "in_progress").cancel().call("a", "completed").stop("end_turn")
    assert rules(before) == rules(after) == rules(ignored) == []


def test_an_end_may_cross_the_cancel_on_the_wire() -> None:
    talk = turn().call("a", "in_progress").cancel()
    talk.clock -= 0.999
    assert rules(talk.call("a", "completed").stop("cancelled")) == []


def test_a_cancelled_command_that_says_that_it_was_through_was_not_cancelled() -> None:
    for code, found in ((0, 0), (3, 1)):
        talk = turn().call("a", "in_progress").cancel()
        talk.call("a", "completed", rawOutput={"exit_code": code}).stop("cancelled")
        assert rules(talk) == ["lifecycle/cancelled-but-completed"] * found


def test_a_history_with_a_call_that_never_ended() -> None:
    talk, key = loaded()
    talk.call("a", "pending").call("b", "completed").answer("agent", key, {})
    assert rules(talk.prompt().stop()) == ["lifecycle/open-in-history"]
    running, key = loaded(2)
    running.call("a", "in_progress").update("state_update", state="running").answer(
        "agent", key, {}
    )
    assert rules(running.call("a", "completed").stop()) == []


def test_a_recording_that_breaks_off_in_a_turn_is_only_advised_about() -> None:
    for talk in (turn().call("a", "pending"), Talk().call("a", "pending")):
        (finding,) = findings(talk)
        assert (finding.rule, finding.severity) == ("lifecycle/cut-off", "advice")
    assert rules(turn().call("a", "completed")) == []


# Real agents, counted by hand


def count(name: str) -> Counter[str]:
    found = rules(RECORDINGS / f"{name}.jsonl", "lifecycle")
    return Counter(rule.partition("/")[2] for rule in found)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-agent-acp-0.99.1.dupid-none", {"id-reused": 8, "never-ran": 9}),
        ("codex-acp-0.16.0.dupid-none", {"id-reused": 2}),
        ("fast-agent-0.10.48.dupid-none", {}),
        ("gemini-cli-0.61.0.dupid-none", {"id-reused": 2}),
        ("kimi-cli-1.51.0.dupid-none", {"id-reused": 2}),
        ("opencode-1.18.33.dupid-none", {"id-reused": 2}),
        ("codex-acp-0.16.0.mixed-none", {}),
        ("kimi-cli-1.51.0.mixed-none", {}),
        ("opencode-1.18.33.mixed-none", {}),
        ("ends/codex-acp-0.16.0.reject-none", {"open-after-denial": 1}),
        ("ends/codex-acp-0.16.0.cancel_perm-none", {"open-after-cancel": 1}),
        ("ends/fast-agent-0.10.48.fail_cmd-none", {"never-ended": 2}),
        ("ends/gemini-cli-0.61.0.reject-none", {"open-after-denial": 2}),
        (
            "ends/gemini-cli-0.61.0.cancel_parallel-none",
            {"not-announced": 2, "cancelled-but-completed": 1},
        ),
        ("ends/kimi-cli-1.51.0.cancel_parallel-none", {"open-after-cancel": 2}),
        ("ends/kimi-cli-1.51.0.reject-none", {}),
        ("ends/opencode-1.18.33.cancel-none", {"cancelled-but-completed": 1}),
    ],
)
def test_what_real_agents_do(name: str, expected: dict[str, int]) -> None:
    assert count(name) == expected


@pytest.mark.parametrize("kind", ["think", "switch_mode"])
def test_what_does_not_run_may_complete_at_once(kind: str) -> None:
    opening = {"sessionUpdate": "tool_call", "toolCallId": "a", "title": "Think", "kind": kind}
    told = {"sessionId": "s", "update": {**opening, "status": "pending"}}
    talk = turn().note("agent", "session/update", told).call("a", "completed").stop()
    assert rules(talk) == []


def test_a_denied_call_that_completes_is_reported_once() -> None:
    talk = turn().call("a", "pending").question("a").decide("no").call("a", "completed").stop()
    assert rules(talk) == ["lifecycle/denied-but-completed"]


def test_a_history_of_which_only_the_agents_half_is_known_may_leave_out_what_ran() -> None:
    talk, key = loaded()
    talk.call("a", "pending").call("a", "completed").answer("agent", key, {})
    assert rules(talk.lines("agent")) == []
    assert "lifecycle/never-ran" in rules(turn().call("a", "pending").call("a", "completed").stop())


def test_no_finding_shows_a_secret_or_steers_a_terminal() -> None:
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    talk = turn().call(f"a {secret}", f"no {secret}").call("b\x1b[2J", "in_progress")
    found = findings(talk.question(f"c {secret}").stop(), "lifecycle", "order", "schema")
    assert len(found) >= 4
    for one in found:
        assert secret not in f"{one.call} {one.message}"
        assert f"{one.call}{one.message}".isprintable()
