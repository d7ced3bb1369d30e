"""Terminals of other agents: their output is told once, in order, without secrets, and before the call's end."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest

from tests.support.made_recordings import Message, announced, completed, opening, updated
from tests.support.tap_harness import Tapped, texts, unnumbered, updates

SECRET = "ghp_" + "a1B2" * 9
SHOWN = [{"type": "terminal", "terminalId": "t1"}]
CALL: Message = {
    "title": "make",
    "kind": "execute",
    "rawInput": {"command": "make"},
    "content": SHOWN,
}

CREATE: Message = {
    "jsonrpc": "2.0",
    "id": 70,
    "method": "terminal/create",
    "params": {"sessionId": "s1", "command": "make"},
}
CREATED: Message = {"jsonrpc": "2.0", "id": 70, "result": {"terminalId": "t1"}}


def base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def update(what: str, /, **fields: Any) -> Message:
    params = {"sessionId": "s1", "update": {"sessionUpdate": what, **fields}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def terminal(what: str = "terminal_update", /, **fields: Any) -> Message:
    return update(what, terminalId="t1", **fields)


def chunk(text: str) -> Message:
    return terminal("terminal_output_chunk", data=base64(text))


def call(**fields: Any) -> Message:
    return update("tool_call_update", toolCallId="c1", **fields)


def meta(**told: Any) -> Message:
    return updated(_meta=told)


def output(text: str) -> Message:
    return meta(terminal_output={"terminal_id": "t1", "data": text})


def output_of(tap: Tapped) -> str:
    """Return all output that a v2 client was told."""
    found = b""
    for one in updates(tap.heard()):
        found += b64decode(one.get("data") or (one.get("output") or {}).get("data") or "")
    return unnumbered(found.decode())


def zed() -> Tapped:
    """Return a tap in front of a client that shows live terminals out of `_meta`."""
    tap = Tapped(begun=False)
    hello, *rest = opening()
    hello["params"]["clientCapabilities"] = {"_meta": {"terminal_output": True}}
    for message in (hello, *rest):
        (tap.client if "method" in message else tap.agent)(message)
    tap.heard()
    return tap


@pytest.mark.parametrize("is_repaired", [True, False])
@pytest.mark.parametrize("cut", [4, 20, 43])
def test_a_secret_in_two_chunks_is_hidden(cut: int, is_repaired: bool) -> None:
    tap = Tapped(2, repair=is_repaired)
    tap.agent(terminal(command=f"login {SECRET}"), call(**CALL, status="in_progress"))
    text = f"a\ntoken={SECRET}\nb\n"
    tap.agent(chunk(text[:cut]), chunk(text[cut:]), terminal(exitStatus={"exitCode": 0})).wait(1)
    lines = b"".join(tap.lines())
    assert SECRET.encode() not in lines
    tap = Tapped(2, repair=is_repaired).agent(call(**CALL, status="in_progress"))
    tap.agent(chunk(text[:cut]), chunk(text[cut:]), terminal(exitStatus={"exitCode": 0})).wait(1)
    assert output_of(tap) == "a\ntoken=[redacted:github-token]\nb\n"


@pytest.mark.parametrize("is_repaired", [True, False])
def test_a_secret_in_a_whole_output_is_hidden(is_repaired: bool) -> None:
    tap = Tapped(2, repair=is_repaired).agent(call(**CALL, status="in_progress"))
    tap.agent(terminal(output={"data": base64(f"x {SECRET}\n")}, exitStatus={"exitCode": 0}))
    assert output_of(tap.wait(1)) == "x [redacted:github-token]\n"


@pytest.mark.parametrize(
    "last",
    [
        [chunk("key AKIAIOSF"), terminal(exitStatus={"exitCode": 0})],
        [terminal(output={"data": base64("key AKIAIOSF")}, exitStatus={"exitCode": 0})],
        [chunk("key AKIAIOSF")],
    ],
    ids=["exit", "whole", "no exit"],
)
def test_no_output_comes_after_the_end_of_the_call(last: list[Message]) -> None:
    tap = Tapped(2).agent(call(**CALL, status="in_progress"), *last, call(status="completed"))
    told = updates(tap.wait(1).heard())
    assert told[-1]["status"] == "completed"
    assert tap.wait(1).heard() == []


def test_what_waits_of_an_output_that_is_replaced_never_comes() -> None:
    tap = Tapped(2).agent(call(**CALL, status="in_progress"), chunk("old AKIAIOSF"))
    tap.agent(terminal(output={"data": base64("new\n")}), call(status="completed"))
    assert output_of(tap.wait(1)) == "new\n"


@pytest.mark.parametrize(
    "odd",
    [
        {"cwd": "not/absolute"},
        {"exitStatus": {"exitCode": "none"}},
        {"size": {"cols": "wide"}},
        {"_meta": 4},
    ],
    ids=lambda odd: next(iter(odd)),
)
def test_an_update_that_is_not_valid_shows_no_secret_either(odd: Message) -> None:
    tap = Tapped(2).agent(terminal(**odd, output={"data": base64(f"x {SECRET}\n")}))
    tap.agent(call(**CALL, status="in_progress"))
    assert base64(f"x {SECRET}\n")[:-4] not in b"".join(tap.lines()).decode()


# v1


def test_output_in_meta_is_shown_as_text_to_clients_that_know_no_terminals() -> None:
    tap = Tapped().agent(announced(**CALL, _meta={"terminal_info": {"terminal_id": "t1"}}))
    tap.agent(output(f"a\ntoken={SECRET[:9]}"), output(f"{SECRET[9:]}\nkey AKIAIOSF"))
    tap.agent(
        updated(status="completed", _meta={"terminal_exit": {"terminal_id": "t1", "exit_code": 0}})
    )
    shown = [text for one in updates(tap.heard()) for text in texts(one)]
    assert shown[-1] == "```\na\ntoken=[redacted:github-token]\nkey AKIAIOSF\n```"


@pytest.mark.parametrize("cwd", ["/code", ".", 4, None])
def test_output_in_meta_reaches_clients_that_show_it_live(cwd: Any) -> None:
    info = {"terminal_id": "t1", "cwd": cwd}
    tap = zed().agent(announced(**CALL, _meta={"terminal_info": info}))
    tap.agent(output(f"a\ntoken={SECRET[:9]}"), output(f"{SECRET[9:]}\n"), completed(content=SHOWN))
    first, *rest = updates(tap.heard())
    assert first["_meta"]["terminal_info"]["terminal_id"] == "t1"
    data = [
        one["_meta"]["terminal_output"]["data"]
        for one in rest
        if "terminal_output" in one.get("_meta", {})
    ]
    assert "".join(data) == "a\ntoken=[redacted:github-token]\n"
    assert rest[-1]["status"] == "completed"


def test_terminals_of_the_client_stay_what_they_are() -> None:
    tap = Tapped().agent(CREATE).client(CREATED).agent(announced(**CALL), completed(content=SHOWN))
    assert updates(tap.heard())[0]["content"] == SHOWN


@pytest.mark.parametrize("version", [1, 2])
def test_a_terminal_that_is_not_known_yet_is_shown_all_the_same(version: int) -> None:
    """It may be told of right after the call, even when that has ended."""
    tell = announced if version == 1 else updated
    tap = Tapped(version).agent(tell(**{**CALL, "status": "completed"})).wait(1)
    assert updates(tap.heard())[0]["content"] == SHOWN


def test_an_agents_own_terminal_without_output_does_not_hide_the_result() -> None:
    shown = [{"type": "terminal", "terminalId": "c1"}]
    tap = Tapped().agent(announced(**{**CALL, "content": shown}, status="in_progress"))
    tap.agent(completed(content=shown, rawOutput={"output": "made it\n"}))
    assert "made it" in str(texts(updates(tap.heard())[-1]))


def test_memory_does_not_grow_with_terminals_that_never_end() -> None:
    tap = Tapped(2).agent(call(**CALL, status="in_progress"))
    for number in range(600):
        tap.agent(
            update("terminal_output_chunk", terminalId=f"t{number}", data=base64("key AKIAIOSF"))
        )
    session = tap.pipeline._sessions.get("s1")  # pyright: ignore[reportPrivateUsage]
    assert session is not None
    assert len(session.terminals._streams) <= 256  # pyright: ignore[reportPrivateUsage]
