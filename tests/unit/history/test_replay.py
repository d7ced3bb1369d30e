"""Replay: a client that is told a session again sees what it saw live."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import Session, ToolCallContent, ToolCallReport
from callsheet.acp.codec import UpdateFrames
from callsheet.acp.peer import Peer
from callsheet.acp.views import view_for
from callsheet.history import History, Query, Replay
from callsheet.history.replay import LINE, PIECE
from callsheet.history.rows import Head, StoredCall, StoredMessage
from callsheet.report.content import TerminalContent
from callsheet.report.events import CallChanged, CallOpened, Event
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import CallRecord, TerminalRecord, TerminalState
from callsheet.runtime.clock import new_call_id
from callsheet.testing import Recorder, assert_every_call_ended, fold, updates_in
from tests.support import schemas
from tests.support import strategies as some
from tests.support.stores import NOW, examples, report
from tests.support.terminals import facts_of

PEERS = {
    "v1 text": Peer(),
    "v1 terminals": Peer(terminals="meta"),
    "v1 own terminals": Peer(owns_terminals=True),
    "v1 markdown": Peer(titles="markdown", progress="content"),
    "v1 nested": Peer(parent_keys=("parentToolCallId", "claudeCode"), progress="meta"),
    "v2": Peer(version=2),
    "v2 that cancels": Peer(version=2, cancels=True, titles="markdown"),
}
each_peer = pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)


def live(events: Sequence[Event], peer: Peer) -> tuple[Ledger, list[bytes]]:
    """Return the calls of an agent, and the lines that its client is sent."""
    ledger, frames, lines = Ledger("s", new_call_id), UpdateFrames("s"), list[bytes]()
    view = view_for(peer, ledger.terminal)
    for event in events:
        state = ledger.apply(event)
        told = view.call(state) if isinstance(state, ToolCallReport) else view.terminal(state)
        lines += [frames.line(update) for update in told]
    lines += [frames.line(update) for update in view.insist(whatever_it_costs=True)]
    return ledger, lines


def stored(ledger: Ledger, call_id: str = "call_1") -> StoredCall:
    state = ledger.get(call_id)
    assert isinstance(state, ToolCallReport)
    found = [
        ledger.terminal(item.terminal_id) for item in state.content if type(item) is TerminalContent
    ]
    return kept(state, tuple(TerminalRecord.of(one) for one in found if one))


def kept(
    state: ToolCallReport, terminals: tuple[TerminalRecord, ...] = (), position: int = 0
) -> StoredCall:
    head = Head(
        session_id="s", call_id=state.tool_call_id, position=position, name=state.name, title=state.title,
        kind=str(state.kind), status=state.status.value, reason=None, at=NOW, updated_at=NOW + 1,
        duration_ms=None, size=0,
    )  # fmt: skip
    return StoredCall(head, CallRecord(state, terminals))


def replayed(peer: Peer, *entries: Any, **options: Any) -> list[bytes]:
    replay = Replay("s", peer, **options)
    lines = [line for entry in entries for line in replay.lines(entry)]
    check(lines, peer)
    return lines


def check(lines: list[bytes], peer: Peer) -> None:
    """Hold what holds of every replay."""
    opened: set[str] = set()
    for line in lines:
        message = json.loads(line)
        schemas.check(peer.version, schemas.NOTIFICATION[peer.version], message["params"])
        update = message["params"]["update"]
        info = (update.get("_meta") or {}).get("terminal_info")
        if info:
            opened.add(info["terminal_id"])
        if update["sessionUpdate"] == "terminal_update":
            opened.add(update["terminalId"])
        named = {
            item["terminalId"]
            for item in update.get("content") or []
            if type(item) is dict and item.get("type") == "terminal"
        }
        assert named <= opened, "a terminal that was not opened in this replay"


def assert_same(one: list[bytes], other: list[bytes], version: int) -> None:
    a, b = fold(one, version=version), fold(other, version=version)
    assert {call.tool_call_id: call for call in b} == {call.tool_call_id: call for call in a}
    for call in a:
        for item in call.content:
            if type(item) is TerminalContent:
                left, right = a.terminal(item.terminal_id), b.terminal(item.terminal_id)
                assert isinstance(left, TerminalState)
                assert isinstance(right, TerminalState)
                assert facts_of(left) == facts_of(right)


# Any call


@each_peer
@examples(20)
@given(life=some.lives())
def test_any_call_is_replayed_as_it_was_seen(peer: Peer, life: list[Event]) -> None:
    ledger, lines = live(life, peer)
    again = replayed(peer, stored(ledger), alive=("call_1",))
    assert_same(lines, again, peer.version)


@each_peer
@examples(12)
@given(shown=some.terminal_lives(), exit_first=st.booleans())
def test_any_live_output_is_replayed_as_it_was_seen(
    peer: Peer, shown: list[Event], exit_first: bool
) -> None:
    opening = CallOpened(
        report("call_1", "bash", status="in_progress", content=(some.terminal_item,))
    )
    end = CallChanged(
        tool_call_id="call_1", fields={"status": "completed", "raw_output": {"exit": 0}}
    )
    first, rest = shown[:1], shown[1:]
    ledger, lines = live([*first, opening, *rest, end], peer)
    assert_same(lines, replayed(peer, stored(ledger)), peer.version)


# Sessions with real tools

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6300010000000500010d0a2db40000000049454e44ae426082"
)


async def busy_session(folder: Path, history: History, sinks: list[Recorder]) -> None:
    (folder / "a.py").write_text("one\ntwo\nthree\n" * 40)
    (folder / "p.png").write_bytes(PICTURE)
    log = history.session("s", cwd=str(folder))
    async with Session(
        "s", cwd=str(folder), builtin=True, permission="allow", sinks=[log, *sinks]
    ) as session:
        log.say("user", "m1", [{"type": "text", "text": "do it"}])
        await session.run("read", {"path": "a.py"})
        await session.run("read", {"path": "p.png"})
        await session.run("edit", {"path": "a.py", "old": "two\nthree\none\ntwo", "new": "zwei"})
        await session.run("write", {"path": "new.py", "content": "x = 1\n"})
        await session.run(
            "bash", {"command": "for i in 1 2 3; do echo line $i; sleep 0.02; done; exit 3"}
        )
        await session.run("bash", {"command": "seq 1 20000"})
        await session.run("bash", {"command": "printf '\\303\\244\\377 \\033[31mred\\033[0m\\n'"})
        await session.run("read", {"path": "none.py"})
        await asyncio.gather(
            *(session.run("bash", {"command": f"echo {n}; sleep 0.02; echo {n}"}) for n in range(4))
        )
        async with session.call("deploy", {"to": "prod"}, kind="_deploy") as parent:
            parent.progress(3, 12)
            async with parent.call("step", {"n": 1}) as child:
                child.show("a *step*", ToolCallContent.link("file:///x", "x"))
                child.succeed()
            parent.write("live output\n")
            parent.succeed("done")
        await session.flush()
        log.say("agent", "m2", [{"type": "text", "text": "done"}])


async def test_a_session_of_real_tools_is_replayed_as_it_was_seen(tmp_path: Path) -> None:
    history = History(f"sqlite:///{tmp_path}/history.sqlite")
    sinks = {name: Recorder(peer) for name, peer in PEERS.items()}
    (tmp_path / "work").mkdir()
    await busy_session(tmp_path / "work", history, list(sinks.values()))
    entries = await history.ask(lambda store: store.timeline("s", limit=1000))
    await history.close()
    assert len(entries) == 16
    for name, sink in sinks.items():
        again = replayed(sink.peer, *entries)
        assert_same(sink.lines, again, sink.peer.version)
        if sink.peer.version == 1:
            assert_every_call_ended(again, at_least=14)
        assert max(len(line) for line in again) <= 64 * 1024, name


# Size


@each_peer
def test_a_large_call_is_reported_in_lines_that_no_client_dies_of(peer: Peer) -> None:
    state = report(
        "call_1",
        raw_input={"text": "i" * 28_000},
        raw_output={"text": "o" * 20_000},
        content=(
            ToolCallContent.text("c" * 15_000),
            ToolCallContent.diff("/a", "x" * 5000, "y" * 5000),
        ),
        status="failed",
        meta={"callsheet": {"reason": "timeout", "durationMs": 5, "parentId": "call_0"}},
    )
    lines = replayed(peer, kept(state))
    assert len(lines) == 2
    assert all(len(line) < 64 * 1024 for line in lines)
    _, once = live([CallOpened(state)], peer)
    assert_same(once, lines, peer.version)
    first = next(iter(updates_in(lines)))
    assert first["status"] == "in_progress"
    assert "reason" not in first["_meta"]["callsheet"]


def test_a_large_call_with_a_terminal_is_reported_in_such_lines_too() -> None:
    for peer in (PEERS["v1 terminals"], PEERS["v2"], PEERS["v1 text"]):
        shown = TerminalRecord(
            "term_1", "seq", "/", None, 300_000, 9, b"ab" * 2048, b"ab" * 100_000
        )
        state = report(
            "call_1",
            raw_input={"text": "i" * 30_000},
            raw_output={"text": "o" * 34_000},
            content=(ToolCallContent.terminal("term_1"), ToolCallContent.text("t" * 4000)),
        )
        lines = replayed(peer, kept(state, (shown,)))
        assert all(len(line) < 64 * 1024 for line in lines), [len(line) for line in lines]
        calls = fold(lines, version=peer.version)
        (call,) = calls
        assert call.raw_output == state.raw_output
        assert call.status == "completed"
        if peer != PEERS["v1 text"]:
            assert call.content == state.content
            terminal = calls.terminal("term_1")
            assert isinstance(terminal, TerminalState)
            assert terminal.output.endswith(b"ab" * 100_000)


@each_peer
def test_a_call_too_large_for_any_line_is_cut_and_ends_all_the_same(peer: Peer) -> None:
    state = report("call_1", raw_output={"text": "o" * (9 << 20)}, text="small")
    lines = replayed(peer, kept(state), kept(report("call_2"), position=1))
    assert all(len(line) <= 8 << 20 for line in lines)
    ledger = fold(lines, version=peer.version)
    assert {call.tool_call_id: call.status.value for call in ledger} == {
        "call_1": "completed",
        "call_2": "completed",
    }


# What can't be as it was


@each_peer
@pytest.mark.parametrize("status", ["pending", "in_progress", "paused"])
def test_a_call_that_goes_on_elsewhere_is_reported_as_abandoned(peer: Peer, status: str) -> None:
    state = report("call_1", status=status, title="elsewhere")
    (found,) = fold(replayed(peer, kept(state)), version=peer.version)
    assert (found.status, found.notes["reason"]) == ("failed", "abandoned")
    (here,) = fold(replayed(peer, kept(state), alive={"call_1"}), version=peer.version)
    assert here.status == status


@each_peer
def test_a_terminal_that_is_known_no_more_is_not_spoken_of(peer: Peer) -> None:
    state = report(
        "call_1", content=(ToolCallContent.terminal("client_7"), ToolCallContent.text("x"))
    )
    lines = replayed(peer, kept(state))
    assert b"client_7" not in b"".join(lines)
    assert len(next(iter(fold(lines, version=peer.version))).content) == 1


# What was said


def folded(*replays: list[bytes]) -> dict[tuple[str, str], list[Any]]:
    """Return what a client of v2 has of each message: whole ones replace, chunks are added."""
    has: dict[tuple[str, str], list[Any]] = {}
    for update in (one for lines in replays for one in updates_in(lines)):
        kind = update["sessionUpdate"].removesuffix("_chunk")
        if kind == update["sessionUpdate"]:
            has[kind, update["messageId"]] = list(update["content"])
        else:
            has.setdefault((kind, update["messageId"]), []).append(update["content"])
    return has


def test_a_client_that_receives_a_session_twice_has_each_message_once() -> None:
    def said(position: int, kind: str, key: str, text: str) -> StoredMessage:
        return StoredMessage(position, kind, key, NOW, [{"type": "text", "text": text}])

    entries = [
        said(0, "user", "m1", "hi"),
        said(1, "thought", "m1", "hm"),
        said(2, "agent", "m1", "one, "),
        said(3, "thought", "m2", "hm"),
        said(4, "agent", "m1", "two"),  # the same message goes on
    ]
    once = replayed(Peer(version=2), *entries)
    assert folded(once) == folded(once, replayed(Peer(version=2), *entries))
    assert [one["text"] for one in folded(once)["agent_message", "m1"]] == ["one, ", "two"]


@each_peer
def test_messages_and_plans_are_reported_in_their_order(peer: Peer) -> None:
    entries = [
        StoredMessage(
            0,
            "user",
            "m1",
            NOW,
            [
                {"type": "text", "text": "hi"},
                {"type": "image", "data": "", "mimeType": "image/png"},
            ],
        ),
        StoredMessage(1, "thought", "m2", NOW, [{"type": "text", "text": "hm"}]),
        kept(report("call_1"), position=2),
        StoredMessage(3, "agent", "m3", NOW, [{"type": "text", "text": "x" * (2 * PIECE + 5)}]),
        StoredMessage(
            4, "plan", "p", NOW, [{"content": "a", "priority": "high", "status": "pending"}]
        ),
        StoredMessage(5, "agent", "m4", NOW, []),
    ]
    lines = replayed(peer, *entries)
    updates = list(updates_in(lines))
    kinds = [update["sessionUpdate"] for update in updates]
    if peer.version == 1:
        assert kinds == ["user_message_chunk"] * 2 + ["agent_thought_chunk", "tool_call"] + [
            "agent_message_chunk"
        ] * 3 + ["plan"]
    said = [update for update in updates if update.get("messageId") == "m3"]
    if peer.version == 2:  # what the client had of it is replaced
        assert said.pop(0) == {"sessionUpdate": "agent_message", "messageId": "m3", "content": []}
    assert "".join(update["content"]["text"] for update in said) == "x" * (2 * PIECE + 5)
    assert all(len(line) < LINE for line in lines)


async def test_the_replay_of_a_long_session_holds_one_page_at_a_time(tmp_path: Path) -> None:
    history = History(f"sqlite:///{tmp_path}/history.sqlite")
    log = history.session("s")
    async with Session("s", sinks=[log]) as session:
        for number in range(250):
            async with session.call("read", {"n": number}) as call:
                call.succeed(f"number {number}")
        await session.flush()
    replay, after, seen = Replay("s", Peer()), -1, list[str]()
    while page := await history.ask(
        lambda store, after=after: store.timeline("s", after=after, limit=40)
    ):
        assert len(page) <= 40
        after = page[-1].position
        for entry in page:
            seen += [update["rawInput"]["n"] for update in updates_in(replay.lines(entry))]
    assert seen == list(range(250))
    assert len(await history.ask(lambda store: store.heads(Query(limit=999)))) == 250
    await history.close()
