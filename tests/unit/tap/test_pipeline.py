"""How a tap tells of calls: in order, once, under ids of their own, and to an end, whatever the agent does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.made_recordings import (
    ANSWER,
    Message,
    announced,
    asked,
    completed,
    decided,
    updated,
    words,
)
from tests.support.tap_harness import Tapped, kinds, texts, told, updates

SECRET = "ghp_" + "a1B2" * 9

BARE: Message = {
    "title": "bash",
    "name": "bash",
    "kind": "execute",
    "rawInput": {},
    "locations": [],
}
COMMAND = {"command": "ls"}


def request(key: int, method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": key, "method": method, "params": params}


def result(key: int, **told: Any) -> Message:
    return {"jsonrpc": "2.0", "id": key, "result": told}


def said(text: str, kind: str = "agent_message_chunk") -> Message:
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    return {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s1", "update": update},
    }


def of(session: str, message: Message) -> Message:
    """Return a message as one of another session."""
    return {**message, "params": {**message["params"], "sessionId": session}}


CANCEL = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s1"}}


# When a call is announced


@pytest.mark.parametrize(
    ("message", "is_seen"),
    [
        (said("so"), True),
        (said("so", "agent_thought_chunk"), True),
        (said(""), False),
        ({**said(""), "params": {"sessionId": "s1", "update": {"sessionUpdate": "usage_update", "used": 1, "size": 9}}}, False),
        (request(7, "fs/read_text_file", sessionId="s1", path="/a"), False),
        (asked("other"), False),
        (asked("other", title="Run `ls`"), True),
        (ANSWER, True),
    ],
    ids=["message", "thought", "nothing", "usage", "file", "nothing asked", "question", "answer"],
)  # fmt: skip
def test_what_people_see_does_not_overtake_an_announcement(message: Message, is_seen: bool) -> None:
    heard = kinds(Tapped().agent(announced(**BARE), message).heard())
    assert (heard[:1] == ["tool_call"]) == is_seen


def test_cards_come_in_the_order_of_the_calls() -> None:
    tap = Tapped().agent(announced("a", **BARE), announced("b", **BARE), announced("c"))
    assert told(tap.heard()) == [("a", "pending"), ("b", "pending"), ("c", "pending")]
    tap.agent(announced("d", **BARE), announced("e", **BARE), updated("e", rawInput=COMMAND))
    assert [key for key, _ in told(tap.heard())] == ["d", "e"]


def test_what_was_held_of_a_text_comes_before_the_call_that_follows() -> None:
    tap = Tapped().agent(said("the key is AKIAIOSF"), announced(rawInput=COMMAND))
    assert kinds(tap.heard()) == ["agent_message_chunk", "agent_message_chunk", "tool_call"]
    tap.agent(said("the key is AKIAIOSF"), asked("b", **{**BARE, "rawInput": COMMAND}))
    assert kinds(tap.heard())[1:] == [
        "agent_message_chunk",
        "tool_call",
        "session/request_permission",
    ]


# Ids


def test_a_second_announcement_of_a_call_that_runs_is_an_update() -> None:
    tap = Tapped().agent(announced(), announced(title="Read notes.txt again")).wait(1)
    first, second = updates(tap.heard())
    assert (first["sessionUpdate"], second["sessionUpdate"]) == ("tool_call", "tool_call_update")
    assert second["title"] == "Read notes.txt again"


def test_an_id_that_is_used_again_is_another_calls_in_both_directions() -> None:
    tap = Tapped().agent(announced(), completed(), announced(), updated(status="in_progress"))
    assert [key for key, _ in told(tap.heard())] == ["c1", "c1", "c1", "c1~2", "c1~2"]
    tap.agent(asked(rawInput=COMMAND))
    (question,) = tap.heard()
    assert question["params"]["toolCall"]["toolCallId"] == "c1~2"
    tap.client(request(9, "tool_call/cancel", sessionId="s1", toolCallId="c1~2"))
    assert json.loads(tap.to_agent[-1])["params"]["toolCallId"] == "c1"


def test_an_id_that_is_used_again_by_an_update_is_another_calls() -> None:
    """As cline does."""
    other = updated("c1", title="Run make", kind="execute", status="pending", rawInput=COMMAND)
    tap = Tapped().agent(announced(), completed(), other, updated("c1", status="in_progress"))
    assert told(tap.heard())[-2:] == [("c1~2", "pending"), ("c1~2", "in_progress")]


def test_a_result_under_an_id_that_is_over_is_that_of_the_call_that_was_allowed() -> None:
    """As deepagents does: it asks under an id of its own, and the model has used its own id before."""
    tap = Tapped().agent(announced(), completed(), asked("q", **{**BARE, "rawInput": COMMAND}))
    tap.client(decided("yes")).heard()
    (ended,) = updates(tap.agent(completed("c1", content=words("made"))).heard())[-1:]
    assert (ended["toolCallId"], ended["status"], texts(ended)) == ("q", "completed", ["made"])


def test_an_id_that_a_permission_request_has_used_first_is_used_up() -> None:
    tap = Tapped().agent(asked("a", **{**BARE, "rawInput": COMMAND})).client(decided("yes"))
    tap.agent(completed("a"), ANSWER).client(
        request(3, "session/prompt", sessionId="s1", prompt=[])
    )
    tap.heard()
    assert told(tap.agent(announced("a")).heard()) == [("a~2", "pending")]


def test_an_id_that_every_call_has_costs_no_more_each_time() -> None:
    tap = Tapped()
    for _ in range(300):
        tap.agent(announced("bash"), completed("bash"))
    assert told(tap.heard())[-1] == ("bash~300", "completed")


@pytest.mark.parametrize("key", ["", "x" * 300, "a\nb", "\u2028", "a~2"])
def test_an_odd_id_becomes_one_that_any_client_takes(key: str) -> None:
    tap = Tapped().agent(announced(key), announced(key, title="again"), completed(key))
    chosen = {shown for shown, _ in told(tap.heard())}
    assert len(chosen) == 1
    assert 0 < len(chosen.pop()) <= 256


def test_an_update_of_a_call_that_was_never_announced_announces_it() -> None:
    tap = Tapped().agent(updated("x", title="Read a.py", kind="read", status="completed"))
    assert told(tap.wait(0.15).heard()) == [("x", "in_progress"), ("x", "completed")]


def test_a_command_that_is_reported_after_where_it_runs_is_waited_for() -> None:
    """As opencode does."""
    shell = {"title": "bash", "kind": "execute", "rawInput": {"cwd": "/code"}}
    tap = Tapped().agent(announced(**shell))
    assert tap.heard() == []
    tap.agent(updated(status="in_progress", rawInput={"cwd": "/code", "command": "make"}))
    first = updates(tap.heard())[0]
    assert first["rawInput"]["command"] == "make"


def test_what_comes_after_the_end_is_left_out_and_counted() -> None:
    tap = Tapped().agent(announced(), completed())
    tap.heard()
    assert tap.agent(updated(status="failed"), updated(title="late")).wait(1).heard() == []
    assert tap.account.dropped["late"] == 2


# Ends


def test_a_denied_call_is_ended_after_two_seconds_if_the_agent_does_not() -> None:
    tap = Tapped().agent(asked("a", **{**BARE, "rawInput": COMMAND})).client(decided("no"))
    tap.heard()
    assert tap.wait(1.9).heard() == []
    (ended,) = updates(tap.wait(0.2).heard())
    assert (ended["status"], ended["_meta"]["callsheet"]["reason"]) == ("failed", "denied")
    assert tap.agent(updated("a", status="failed")).wait(5).heard() == []


def test_a_denied_call_is_ended_when_its_turn_is() -> None:
    tap = Tapped().agent(asked("a", **{**BARE, "rawInput": COMMAND})).client(decided("no"))
    tap.heard()
    ended, answer = tap.agent(ANSWER).heard()
    assert updates([ended])[0]["_meta"]["callsheet"]["reason"] == "denied"
    assert answer == ANSWER


def test_the_agents_own_words_for_a_denial_stay() -> None:
    tap = Tapped().agent(asked("a", **{**BARE, "rawInput": COMMAND})).client(decided("no"))
    tap.heard()
    (ended,) = updates(tap.agent(updated("a", status="failed", content=words("not today"))).heard())
    assert (texts(ended), ended["_meta"]["callsheet"]["reason"]) == (["not today"], "denied")


def test_what_a_cancel_leaves_open_is_ended_by_the_turns_end() -> None:
    tap = Tapped().agent(announced("a"), announced("b", **BARE)).client(CANCEL)
    tap.wait(0.5).agent(updated("a", status="failed", content=words("stopped")))
    tap.agent(result(2, stopReason="cancelled"))
    ends = [one for one in updates(tap.heard()) if one.get("status") == "failed"]
    assert [one["toolCallId"] for one in ends] == ["a", "b"]
    assert {one["_meta"]["callsheet"]["reason"] for one in ends} == {"cancelled"}


def test_an_agent_that_does_not_heed_a_cancel_does_not_leave_a_call_open() -> None:
    tap = Tapped().agent(announced()).client(CANCEL)
    tap.heard()
    (ended,) = updates(tap.wait(10).heard())
    assert ended["_meta"]["callsheet"]["reason"] == "cancelled"


def test_a_call_of_the_next_turn_is_not_ended_with_the_first() -> None:
    tap = Tapped().agent(announced("a"))
    tap.client(request(3, "session/prompt", sessionId="s1", prompt=[])).agent(announced("b"))
    tap.heard()
    assert told(tap.agent(ANSWER).heard()) == [("a", "failed")]
    assert told(tap.agent(result(3, stopReason="end_turn")).heard()) == [("b", "failed")]


def test_all_that_is_open_ends_when_the_agent_is_gone() -> None:
    tap = Tapped().agent(announced("a"), announced("b", **BARE), of("s2", announced("a")))
    tap.agent(asked("q", **{**BARE, "rawInput": COMMAND})).gone()
    ends = [one for one in updates(tap.heard()) if one.get("status") == "failed"]
    assert len(ends) == 4


def test_an_agent_that_is_started_again_has_left_nothing_open() -> None:
    tap = Tapped().agent(announced("a"), announced("b", **BARE))
    tap.client(request(9, "initialize", protocolVersion=1))
    assert [status for _, status in told(tap.heard())] == ["pending", "pending", "failed", "failed"]
    tap.agent(result(9, protocolVersion=1)).client(request(10, "session/new", cwd="/code"))
    tap.agent(result(10, sessionId="s1"), announced("a"))
    assert told(tap.heard()) == [("a", "pending")]


def test_a_call_that_was_ended_and_is_asked_about_again_gets_a_card_of_its_own() -> None:
    question = asked("a", **{**BARE, "rawInput": COMMAND})
    tap = Tapped().agent(question).client(decided("no")).wait(3)
    tap.heard()
    *_, asks = tap.agent(question).heard()
    assert asks["params"]["toolCall"]["toolCallId"] == "a~2"
    tap.client(decided("yes")).agent(completed("a"))
    assert told(tap.heard())[-1] == ("a~2", "completed")


# Sessions


def test_a_history_is_reported_with_the_same_ids_each_time() -> None:
    history = [announced("a"), completed("a"), announced("a"), completed("a"), announced("c")]
    tap = Tapped()
    first: list[tuple[str, str | None]] = []
    for key in (5, 6):
        tap.client(request(key, "session/load", sessionId="s1", cwd="/code", mcpServers=[]))
        tap.agent(*history, result(key))
        heard = told(tap.heard())
        assert first in ([], heard)
        first = heard
    assert [key for key, status in first if status in ("completed", "failed")] == ["a", "a~2", "c"]
    tap.client(request(7, "session/prompt", sessionId="s1", prompt=[]))
    assert told(tap.agent(announced("a")).heard()) == [("a~3", "pending")]


def test_a_history_is_reported_with_the_places_of_the_session_that_is_loaded() -> None:
    tap = Tapped()
    tap.client(request(5, "session/load", sessionId="old", cwd="/other", mcpServers=[]))
    read = announced("a", without=("locations",), status="completed", rawInput={"path": "b/a.py"})
    (call,) = updates(tap.agent(of("old", read)).heard())
    assert call["locations"] == [{"path": "/other/b/a.py"}]


def test_what_is_open_in_a_session_that_is_loaded_again_is_ended_first() -> None:
    tap = Tapped().agent(announced("a"), announced("b", **BARE))
    tap.client(request(5, "session/load", sessionId="s1", cwd="/code", mcpServers=[]))
    assert [status for _, status in told(tap.heard())][-2:] == ["failed", "failed"]


def test_a_session_that_was_resumed_goes_on_where_it_was() -> None:
    tap = Tapped().agent(announced("a"), completed("a"), announced("b"))
    tap.client(request(5, "session/resume", sessionId="s1", cwd="/code", mcpServers=[]))
    tap.agent(result(5)).client(request(6, "session/prompt", sessionId="s1", prompt=[]))
    tap.heard()
    assert told(tap.agent(completed("b"), announced("a")).heard())[-2:] == [
        ("b", "completed"),
        ("a~2", "pending"),
    ]


def test_calls_of_two_sessions_with_the_same_ids_are_kept_apart() -> None:
    tap = Tapped().client(request(5, "session/new", cwd="/code", mcpServers=[]))
    tap.agent(result(5, sessionId="s2")).client(
        request(6, "session/prompt", sessionId="s2", prompt=[])
    )
    tap.agent(announced("a"), of("s2", updated("a", title="Read b.py", kind="read")))
    tap.agent(of("s2", completed("a")), completed("a"))
    heard = [one["params"] for one in tap.heard() if one.get("method") == "session/update"]
    ends = [one["sessionId"] for one in heard if one["update"].get("status") == "completed"]
    assert ends == ["s2", "s1"]


def test_an_update_under_a_session_that_is_not_at_work_reaches_its_call() -> None:
    tap = Tapped().agent(announced("a"), of("s9", completed("a")))
    assert told(tap.heard())[-1] == ("a", "completed")
    assert tap.account.repaired["session"] == 1


def test_an_old_session_that_was_let_go_does_not_use_its_ids_again() -> None:
    tap = Tapped().agent(announced("a"), completed("a"))
    for number in range(300):
        tap.client(request(100 + number, "session/new", cwd="/code", mcpServers=[]))
        tap.agent(result(100 + number, sessionId=f"n{number}"), of(f"n{number}", announced("x")))
    tap.heard()
    assert told(tap.agent(announced("a")).heard()) == [("a~2", "pending")]
    tap.gone()


# Lines that are not quite JSON


@pytest.mark.parametrize(
    "line",
    [
        b"\xef\xbb\xbf%b\r\n",
        b"  %b \n",
    ],
    ids=["bom", "spaces"],
)
def test_what_stands_around_a_message_does_not_hide_it(line: bytes) -> None:
    tap = Tapped().agent(line % json.dumps(announced()).encode())
    assert told(tap.heard()) == [("c1", "pending")]


@pytest.mark.parametrize("odd", ['"cut \\ud83d"', '"\\udc00"', "NaN", "-Infinity"])
def test_the_end_of_a_call_is_heard_though_no_strict_reader_could_read_it(odd: str) -> None:
    line = json.dumps(completed(rawOutput={"text": "$"})).replace('"$"', odd).encode() + b"\n"
    tap = Tapped().agent(announced(), line)
    assert told(tap.heard())[-1] == ("c1", "completed")
    assert tap.agent(ANSWER).heard() == [ANSWER]


@pytest.mark.parametrize(
    "line",
    [
        b'{"half": \n',
        b"\n",
        b"\0\1\2\n",
        b"[1, 2]\n",
        b'"tool_call"\n',
        json.dumps(announced()).encode() * 2 + b"\n",
        b'{"tool_call":' + b"[" * 5000 + b"\n",
        json.dumps(said("lone \ud83d")).encode() + b"\n",
    ],
)
def test_what_is_no_message_passes_as_it_came(line: bytes) -> None:
    assert Tapped().agent(line).lines() == [line]


def test_what_the_client_says_passes_as_it_came() -> None:
    lines = [
        b'{"half": \n',
        b"\xff\n",
        b'{ "id":1 , "result" : {}}\r\n',
        b'{"method":"x","params":3}\n',
    ]
    assert Tapped().client(*lines).to_agent[-4:] == lines


# Requests for permission


@pytest.mark.parametrize(
    ("told", "asks", "shown"),
    [
        ({"command": "ls"}, {"command": "rm -rf /srv"}, {"command": "rm -rf /srv"}),
        ({"command": "ls"}, {"cmd": "rm -rf /srv"}, {"cmd": "rm -rf /srv"}),
        (
            {"command": "ls"},
            {"command": "ls", "sudo": True},
            {"command": "ls", "sudo": True},
        ),
        ({"command": "ls", "cwd": "/a"}, {"command": "ls"}, {"command": "ls", "cwd": "/a"}),
        ({"command": "ls"}, {"reason": "to see"}, {"command": "ls"}),
    ],
)
def test_people_are_asked_what_the_agent_asks(told: Message, asks: Message, shown: Message) -> None:
    shell = {"name": "bash", "kind": "execute", "locations": []}
    tap = Tapped().agent(announced("a", title="ls", rawInput=told, **shell))
    title = asks.get("command") or asks.get("cmd") or "ls"
    *_, question = tap.agent(asked("a", title=title, rawInput=asks, kind="execute")).heard()
    call = question["params"]["toolCall"]
    assert (call["rawInput"], call["title"]) == (shown, title)
    tap.client(decided("yes")).agent(updated("a", rawInput=told, title="ls", status="in_progress"))
    *_, last = updates(tap.heard())
    assert last.get("rawInput", told) == told


def test_options_of_a_permission_request_that_are_not_in_form_leave_it_as_it_came() -> None:
    question = asked("a", **{**BARE, "rawInput": COMMAND})
    question["params"]["options"].append({"optionId": 4})
    tap = Tapped().agent(question)
    assert json.dumps(question).encode() + b"\n" in tap.lines()


def test_secrets_in_a_permission_request_are_hidden_but_for_the_ids_by_which_it_is_answered() -> (
    None
):
    secret = "ghp_" + "a1B2" * 9
    question = asked("a", title=f"curl {secret}", rawInput={"command": f"curl {secret}"})
    option = {"optionId": f"always {secret}", "name": f"Always {secret}", "kind": "allow_always"}
    question["params"]["options"].append(option)
    heard = Tapped().agent(question).heard()
    assert heard[-1]["params"]["options"].pop() == {
        "optionId": f"always {secret}",
        "name": "Always [redacted:github-token]",
        "kind": "allow_always",
    }
    assert secret not in json.dumps(heard)


def test_secrets_in_the_titles_of_a_list_of_sessions_are_hidden() -> None:
    secret = "ghp_" + "a1B2" * 9
    listed = [
        {"sessionId": secret, "cwd": "/code", "title": f"Use {secret}"},
        {"sessionId": "s", "title": "--token"},
        {"sessionId": "t", "title": "What is it for?"},
    ]
    answer = result(9, sessions=listed, nextCursor=secret)
    (shown,) = Tapped().client(request(9, "session/list")).agent(answer).heard()
    first, *others = shown["result"]["sessions"]
    assert first == {**listed[0], "title": "Use [redacted:github-token]"}
    assert (others, shown["result"]["nextCursor"]) == (listed[1:], secret)


def test_secrets_in_an_error_are_hidden() -> None:
    secret = "ghp_" + "a1B2" * 9
    error = {"jsonrpc": "2.0", "id": 2, "error": {"code": 1, "message": f"bad key {secret}"}}
    assert secret not in json.dumps(Tapped().agent(error).heard())


# Faults of our own


def test_a_repair_that_fails_leaves_a_call_as_it_was_reported_and_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callsheet.tap.tapped_session.repaired", lambda *_: 1 / 0)
    tap = Tapped()
    tap.may_fail = True
    secret = "ghp_" + "a1B2" * 9
    tap.agent(announced("a", title="bash"), updated("a", content=words(f"key {secret}")))
    tap.agent(announced("b"), completed("b")).gone()
    told_of_a = [one for one in updates(tap.heard()) if one["toolCallId"] == "a"]
    assert told_of_a[0]["title"] == "bash"
    assert texts(told_of_a[-1]) == ["key [redacted:github-token]", "Interrupted: the agent stopped"]
    assert tap.account.faults > 1
    assert len(tap.faults) == 1
    assert "ZeroDivisionError" in tap.faults[0]


def test_whatever_fails_the_message_passes_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callsheet.tap.tapped_session.TappedSession.updated", lambda *_: 1 / 0)
    tap = Tapped()
    tap.may_fail, tap.judge = True, None
    assert tap.agent(announced(), completed()).heard() == [announced(), completed()]
    assert tap.account.faults == 2


# Size


MANY = 3000


def test_many_chunks_are_reported_in_few_bytes_and_the_last_is_there() -> None:
    tap = Tapped(2)
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "a"}
    opened = {
        **call,
        "title": "make",
        "kind": "execute",
        "status": "in_progress",
        "rawInput": COMMAND,
    }
    tap.agent(of("s1", {**said(""), "params": {"update": opened}}))
    for number in range(MANY):
        chunk = {
            **call,
            "sessionUpdate": "tool_call_content_chunk",
            "content": words(f"line {number}\n")[0],
        }
        tap.now += 0.01
        tap.agent(of("s1", {**said(""), "params": {"update": chunk}}))
    tap.agent(of("s1", {**said(""), "params": {"update": {**call, "status": "completed"}}}))
    lines = tap.lines()
    assert sum(map(len, lines)) < 10 * sum(len(f"line {number}\n") for number in range(MANY))
    assert f"line {MANY - 1}".encode() in b"".join(lines[-2:])


def test_without_repair_a_call_is_reported_as_it_came_but_for_secrets() -> None:
    told = {"title": "bash", "kind": "other", "rawInput": {"command": f"echo {SECRET}"}}
    tap = Tapped(repair=False).agent(announced(**told), updated(status="completed")).wait(1)
    opened, *_, ended = updates(tap.heard())
    assert (opened["title"], opened["kind"], ended["status"]) == ("bash", "other", "completed")
    assert SECRET not in str(opened["rawInput"])
