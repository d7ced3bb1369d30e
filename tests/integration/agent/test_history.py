"""The agent and its history: what is kept, when it is durable, and how sessions are gone on with."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from callsheet.agent.handler import Prompt, Turn
from callsheet.agent.startup import palette
from callsheet.history import History, NotKept, Query, StoredCall, StoredMessage, store_at
from callsheet.history.rows import Origin
from callsheet.history.sink import SessionLog
from tests.support.agent_client import Client, Refused, doing, play, play_process
from tests.support.processes import linux, new_token, with_token

SECRET = "ghp_" + "Zk3x9Qw7Lm2Rt8Vb5Nc1Yd6Hj4Pf0Sg3TuAe"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/kept/history.sqlite"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    (place / "notes.txt").write_text("one\ntwo\n")
    return place


@asynccontextmanager
async def agent(url: str, version: int = 1, **more: Any) -> AsyncGenerator[Client]:
    async with play(
        handler=palette,
        permission="allow",
        history=lambda: History(url),
        version=version,
        **more,
    ) as client:
        yield client


async def read(url: str, ask: Callable[[Any], Any]) -> Any:
    """Ask the store as another process would."""
    store = store_at(url)
    store.open(write=False)
    try:
        return ask(store)
    finally:
        store.close()


async def load(client: Client, session: str, cwd: Path, **more: Any) -> Any:
    params = {"sessionId": session, "cwd": str(cwd), **more}
    if client.version == 1:
        return await client.request("session/load", {**params, "mcpServers": []})
    return await client.request("session/resume", {**params, "replayFrom": {"type": "start"}})


async def test_a_call_is_durable_when_its_turn_is_answered(url: str, place: Path):
    async with agent(url) as client:
        session = await client.new_session(place)
        for number in range(3):
            await client.prompt(session, "/read notes.txt")
            heads = await read(url, lambda store: store.heads(Query(session_id=session)))
            assert [head.status for head in heads] == ["completed"] * (number + 1)
            assert heads[0].call_id == client.call()["toolCallId"]


@pytest.mark.parametrize("version", [1, 2])
async def test_a_loaded_session_goes_on(url: str, place: Path, version: int):
    async with agent(url, version) as client:
        session = await client.new_session(place)
        await client.prompt(session, "/read notes.txt")
        first = _state(client.call())
    async with agent(url, version) as client:
        told = await load(client, session, place)
        assert "sessionId" not in told
        assert told["configOptions"]
        assert _state(client.call()) == first
        assert await client.prompt(session, "!echo more") == "end_turn"
        assert len(client.calls) == 2
    kept = await read(url, lambda store: store.timeline(session))
    assert [_short(entry) for entry in kept] == [
        ("user", "/read notes.txt"), "read", ("user", "!echo more"), "bash",
    ]  # fmt: skip


def _state(call: dict[str, Any]) -> dict[str, Any]:
    """Return what is known of a call, but for which kind of update told it last."""
    return {
        key: value for key, value in call.items() if key != "sessionUpdate" and value is not None
    }


def _short(entry: StoredCall | StoredMessage) -> Any:
    if isinstance(entry, StoredCall):
        return entry.head.name
    return entry.kind, "".join(block["text"] for block in entry.blocks)


async def test_resuming_sends_nothing_in_v1_and_the_state_in_v2(url: str, place: Path):
    async with agent(url) as client:
        session = await client.new_session(place)
        await client.prompt(session, "/read notes.txt")
    async with agent(url) as client:
        await client.request("session/resume", {"sessionId": session, "cwd": str(place)})
        assert client.calls == {}
        assert await client.prompt(session, "/read notes.txt") == "end_turn"
    async with agent(url, 2) as client:
        await client.request("session/resume", {"sessionId": session, "cwd": str(place)})
        assert client.calls == {}
        (state,) = client.updates_of("state_update")
        assert state["state"] == "idle"
        with pytest.raises(Refused, match="replayFrom"):
            params = {"sessionId": session, "cwd": str(place), "replayFrom": {"type": "end"}}
            await client.request("session/resume", params)


async def test_sessions_are_listed_with_titles_page_by_page_and_deleted(url: str, place: Path):
    history = History(url)
    for number in range(120):
        log = history.session(f"sess_{number:03}", cwd=str(place if number % 2 else place.parent))
        log.name(f"Question {number}")
        log.say("user", f"msg_{number}", [{"type": "text", "text": "hi"}])
    await history.close()
    by_hand = History(url)
    for number in range(60):  # what was run by `callsheet call` is no conversation
        log = by_hand.session(f"call_{number}", info={"source": "call"})
        log.say("user", f"m_{number}", [{"type": "text", "text": "hi"}])
    await by_hand.close()
    async with agent(url) as client:
        unused = await client.new_session(place)
        first = await client.request("session/list", {})
        assert len(first["sessions"]) > 50, "a page is full"
        found, cursor = list[Any](), None
        while True:
            params = {"cursor": cursor} if cursor else {}
            page = await client.request("session/list", params)
            found += page["sessions"]
            if (cursor := page.get("nextCursor")) is None:
                break
        keys = [one["sessionId"] for one in found]
        assert sorted(keys) == sorted([unused, *(f"sess_{n:03}" for n in range(120))])
        assert keys[:2] == [unused, "sess_119"]
        assert found[1]["title"] == "Question 119"
        assert found[1]["updatedAt"].endswith("Z")
        there = await client.request("session/list", {"cwd": str(place)})
        assert {one["cwd"] for one in there["sessions"]} == {str(place)}
        with pytest.raises(Refused, match="cursor: expected the nextCursor"):
            await client.request("session/list", {"cursor": "nonsense"})
        await client.request("session/delete", {"sessionId": "sess_119"})
        with pytest.raises(Refused, match="there is no session 'sess_119'"):
            await load(client, "sess_119", place)
        for gone in ("sess_119", "sess_never_was"):  # as the client wants it already
            assert await client.request("session/delete", {"sessionId": gone}) == {}


async def test_a_session_without_an_absolute_directory_is_not_listed(url: str, place: Path) -> None:
    async with History(url) as history:
        for number, cwd in enumerate(("", ".", "code/app", str(place))):
            log = history.session(f"sess_{number}", cwd=cwd, info={"source": "tap"})
            log.say("user", "m1", [{"type": "text", "text": "hello"}])
    async with agent(url) as client:
        listed = (await client.request("session/list", {}))["sessions"]
        assert [one["cwd"] for one in listed] == [str(place)]


async def test_a_session_is_deleted_without_a_history_whether_it_is_there_or_not() -> None:
    async with play(handler=palette, permission="allow") as client:
        assert await client.request("session/delete", {"sessionId": "sess_never_was"}) == {}


BY_HAND = Origin(source="call")


async def test_a_conversation_is_listed_first_whatever_was_run_by_hand_since(url: str, place: Path):
    async with agent(url) as client:
        session = await client.new_session(place)
        await client.prompt(session, "/read notes.txt")
    async with History(url) as history:
        for number in range(300):
            log = history.session(f"sess_{number:03}", cwd=str(place), origin=BY_HAND)
            log.say("user", f"msg_{number}", [{"type": "text", "text": "hi"}])
    async with agent(url) as client:
        listed = await client.request("session/list", {})
        assert [one["sessionId"] for one in listed["sessions"]] == [session]
        assert "nextCursor" not in listed


async def test_a_plan_is_stored_without_secrets(url: str, place: Path):
    async def turn(_: Prompt, turn: Turn) -> None:
        await turn.plan([{"content": f"use {SECRET}", "_meta": {"token": SECRET}}])

    async with play(handler=doing(turn), history=lambda: History(url)) as client:
        session = await client.new_session(place)
        await client.prompt(session)
        assert SECRET not in str(client.received)
    kept = await read(url, lambda store: store.timeline(session))
    assert [entry.kind for entry in kept] == ["user", "plan"]
    assert SECRET not in str(kept)


async def test_an_agent_goes_on_without_a_history_that_takes_nothing(
    url: str, place: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(SessionLog, "send", fail)
    async with play(handler=palette, history=lambda: History(url)) as client:
        session = await client.new_session(place)
        for _ in range(5):
            assert await client.prompt(session, "/read notes.txt") == "end_turn"


async def test_a_deleted_session_leaves_no_spill_file(
    url: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # A process: the directory of spill files is read from the environment once.
    async with play_process("--history", url, "--permission", "allow") as client:
        session = await client.new_session(place)
        (place / "large.txt").write_text("".join(f"line {n}\n" for n in range(30_000)))
        await client.prompt(session, "/read large.txt")
        assert list((tmp_path / "cache/callsheet/spill").glob("spill-*"))
        await client.request("session/delete", {"sessionId": session})
        assert not list((tmp_path / "cache/callsheet/spill").glob("spill-*"))


async def test_without_a_history_nothing_is_promised(place: Path):
    async with play_process("--history", "off") as client:
        hello = next(m for m in client.received if "agentCapabilities" in (m.get("result") or {}))
        assert hello["result"]["agentCapabilities"]["loadSession"] is False
        session = await client.new_session(place)
        with pytest.raises(Refused, match="the history is off"):
            await load(client, "sess_x", place)
        listed = await client.request("session/list", {})
        assert [one["sessionId"] for one in listed["sessions"]] == [session]


async def test_a_secret_that_the_user_types_is_not_stored(url: str, place: Path, tmp_path: Path):
    async with agent(url) as client:
        session = await client.new_session(place)
        await client.prompt(session, f"!echo {SECRET}")
    kept = await read(url, lambda store: store.timeline(session))
    assert "[redacted" in kept[0].blocks[0]["text"]
    assert "[redacted" in str(kept[1].record.report)
    assert SECRET not in str(kept)
    data = b"".join(file.read_bytes() for file in (tmp_path / "kept").iterdir() if file.is_file())
    assert SECRET.encode() not in data


@linux
@pytest.mark.parametrize("end", ["eof", "SIGTERM", "SIGKILL"])
async def test_whatever_ends_the_agent_its_calls_are_closed(url: str, place: Path, end: str):
    token = new_token()
    async with play_process("--history", url, "--permission", "allow") as client:
        process = client.process
        session = await client.new_session(place)
        turn = client.start_prompt(session, f"!echo on; sleep {token}")
        while not with_token(f"sleep\0{token}\0"):
            await asyncio.sleep(0.02)
        if end == "SIGKILL":  # what it has begun is kept within a moment
            await _until_stored(url, session)
        if end == "eof":
            client.hang_up()
        else:
            process.send_signal(getattr(signal, end))
        await process.wait()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
    if end == "SIGKILL":
        (head,) = await read(url, lambda store: store.heads(Query(session_id=session)))
        assert head.is_open
        async with agent(url) as client:  # the next start finds it
            await client.request("session/list", {})
    (call,) = await read(url, lambda store: store.calls(Query(session_id=session)))
    report = call.record.report
    reasons = {"SIGKILL": "abandoned", "SIGTERM": "cancelled", "eof": "cancelled"}
    assert (report.status.value in ("failed", "cancelled"), report.notes["reason"]) == (
        True,
        reasons[end],
    )
    assert "endedAt" in report.notes


async def _until_stored(url: str, session: str) -> None:
    for _ in range(200):
        with suppress(NotKept):
            heads = await read(url, lambda store: store.heads(Query(session_id=session)))
            if heads and heads[0].status == "in_progress":
                return
        await asyncio.sleep(0.05)
    raise AssertionError("the call was not kept while it ran")


async def test_live_output_is_stored_while_the_call_runs(url: str, place: Path):
    async with play_process("--history", url, "--permission", "allow") as client:
        process = client.process
        session = await client.new_session(place)
        command = "!for i in $(seq 1 1000); do echo line $i; sleep 0.05; done"
        turn = client.start_prompt(session, command)
        seen = set[int]()
        for _ in range(200):
            with suppress(NotKept):
                for call in await read(url, lambda store: store.calls(Query(session_id=session))):
                    seen |= {one.total for one in call.record.terminals if one.total}
            if len(seen) > 2:
                break
            await asyncio.sleep(0.05)
        process.kill()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
    assert len(seen) > 2, "it grows while the command runs"
    async with agent(url) as client:
        await client.request("session/list", {})
    (call,) = await read(url, lambda store: store.calls(Query(session_id=session)))
    assert call.head.reason == "abandoned"
    assert call.record.terminals[0].total >= max(seen)
    assert call.head.duration_ms is not None
    assert call.head.duration_ms > 1000, "it ended when it was last seen"


async def test_a_clients_own_terminal_is_text_when_the_session_is_loaded(url: str, place: Path):
    terminal = {"output": "from the client\n", "truncated": False, "exitStatus": {"exitCode": 0}}
    capabilities = {"terminal": True}
    async with agent(url, capabilities=capabilities) as client:
        client.on["terminal/create"] = lambda _: {"terminalId": "client-7"}
        client.on["terminal/output"] = lambda _: terminal
        client.on["terminal/wait_for_exit"] = lambda _: {"exitCode": 0}
        client.on["terminal/release"] = lambda _: {}
        session = await client.new_session(place)
        await client.prompt(session, "!echo there")
        live = _state(client.call())
        assert {"type": "terminal", "terminalId": "client-7"} in live["content"]
    async with agent(url, capabilities=capabilities) as client:
        await load(client, session, place)
        again = _state(client.call())
        assert "client-7" not in str(client.received)
        assert "from the client" in str(again["content"])
        assert {**again, "content": 0} == {**live, "content": 0}


async def test_a_long_history_streams_while_the_agent_answers_others(url: str, place: Path):
    history = History(url)
    log = history.session("sess_long", cwd=str(place))
    for number in range(3000):
        log.say("user", f"msg_{number}", [{"type": "text", "text": f"{number} " + "x" * 500}])
    await history.close()
    async with agent(url) as client:
        loading = client.begin(
            "session/load", {"sessionId": "sess_long", "cwd": str(place), "mcpServers": []}
        )
        await client.until(lambda: client.updates_of("user_message_chunk"))
        other = await client.new_session(place)
        assert not loading.done(), "the other session did not wait for it"
        await loading
        assert await client.prompt(other, "/read notes.txt") == "end_turn"
        said = [u["content"]["text"].split()[0] for u in client.updates_of("user_message_chunk")]
        assert said == [str(number) for number in range(3000)]


async def test_two_loads_at_once_make_one_session_that_replays_everything_once(
    url: str, place: Path
):
    async with agent(url) as client:
        session = await client.new_session(place)
        await client.prompt(session, "/read notes.txt")
    async with agent(url) as client:
        params = {"sessionId": session, "cwd": str(place), "mcpServers": []}
        loads = [client.begin("session/load", params) for _ in range(3)]
        await client.notify("$/cancel_request", {"requestId": client.sent[-3]["id"]})
        done = await asyncio.gather(*loads, return_exceptions=True)
        assert [type(one) for one in done[1:]] == [dict, dict], "who was first may take it back"
        before = len(client.updates_of("tool_call"))
        await client.prompt(session, "/read notes.txt")
        assert len(client.updates_of("tool_call")) == before + 1
        deleted = client.begin("session/delete", {"sessionId": session})
        with pytest.raises(Refused, match="there is no session"):
            await client.request("session/load", params)
        await deleted


async def test_a_handler_can_read_the_past(url: str, place: Path):
    seen, session = list[Any](), ""

    async def turn(prompt: Prompt, turn: Turn) -> None:
        seen.append([_short(entry) async for entry in turn.past()])
        await turn.say(f"You said {prompt.text}")
        await turn.run("read", {"path": "notes.txt"})

    for text in ("first", "second"):
        async with play(handler=doing(turn), history=lambda: History(url)) as client:
            if seen:
                await load(client, session, place)
            else:
                session = await client.new_session(place)
            await client.prompt(session, text)
    assert seen == [[], [("user", "first"), ("agent", "You said first"), "read"]]


async def test_a_session_whose_turn_runs_is_not_loaded(url: str, place: Path):
    async with agent(url) as client:
        session = await client.new_session(place)
        turn = client.start_prompt(session, "!sleep 30")
        await client.until(lambda: client.calls)
        with pytest.raises(Refused, match="a turn of this session is running"):
            await load(client, session, place)
        client.send_cancel(session)
        assert await turn == "cancelled"
        await load(client, session, place)


def test_a_url_that_names_nothing_is_refused_at_the_start():
    done = subprocess.run(
        [sys.executable, "-m", "callsheet", "agent", "--history", "mysql://x/y"],
        input="", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "the scheme 'mysql' is not known; expected sqlite:///PATH" in done.stderr


async def test_a_history_that_is_locked_holds_nothing_up_and_is_caught_up(
    url: str, place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    async with agent(url) as client:
        session = await client.new_session(place)
        await client.prompt(session, "/read notes.txt")
        lock = sqlite3.connect(tmp_path / "kept/history.sqlite", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        try:
            for _ in range(3):
                assert await client.prompt(session, "/read notes.txt") == "end_turn"
        finally:
            lock.execute("ROLLBACK")
            lock.close()
        for _ in range(200):
            kept = await read(url, lambda store: store.heads(Query(session_id=session)))
            if len(kept) == 4:
                break
            await asyncio.sleep(0.1)
    said = capfd.readouterr().err
    assert len(kept) == 4
    assert said.count("database is locked") == 1, "it is said once"
    assert said.count("is written again") == 1


@pytest.mark.skipif(os.name == "nt", reason="a directory in place of a file")
async def test_a_history_that_can_never_be_written_is_reported_once(
    tmp_path: Path, place: Path, capfd: pytest.CaptureFixture[str]
):
    (tmp_path / "file").write_text("no directory")
    async with agent(f"sqlite:///{tmp_path}/file/history.sqlite") as client:
        session = await client.new_session(place)
        for _ in range(3):
            assert await client.prompt(session, "/read notes.txt") == "end_turn"
        with pytest.raises(Refused, match="the history can't be read"):
            await load(client, "sess_other", place)
    said = capfd.readouterr().err
    assert said.count("can't be made") == 1
    assert "The work goes on" in said
