"""Live output: promptly, whole, in linear bytes and bounded memory, as each peer understands it."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import Peer, Session
from callsheet.acp.resend_budget import PAUSES
from callsheet.acp.terminal_text import TEXT_LIMIT, render_text
from callsheet.report.terminal import TerminalState
from callsheet.testing import FakeClock, Recorder, assert_every_call_ended
from tests.support.sizes import sized

PEERS = {"v2": Peer(version=2), "meta": Peer(terminals="meta"), "text": Peer()}
LINE = b"2026-11-15 12:00:00 INFO  compiling module number 12345 of the app\n"


def terminal_output(recorder: Recorder) -> bytes:
    """What a client that shows terminals has on its screen."""
    ledger = recorder.fold()
    (report,) = ledger
    state = ledger.terminal(report.content[0].terminal_id)  # type: ignore[attr-defined]
    assert state is not None
    return state.output


def shown_text(recorder: Recorder) -> str:
    (report,) = recorder.fold()
    return report.content[0].text if report.content else ""  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", ["v2", "meta"])
@given(
    data=st.binary(max_size=200) | st.text(max_size=100).map(str.encode),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_output_arrives_whole_however_it_is_cut(mode: str, data: bytes, cuts: list[int]) -> None:
    recorder = Recorder(PEERS[mode])

    async def run() -> None:
        async with Session(sinks=[recorder]) as session, session.call("bash", {}) as call:
            call.start()
            edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
            for begin, end in itertools.pairwise(edges):
                call.write(data[begin:end])
                await session.flush()
            call.write(b"")
            call.succeed()

    asyncio.run(run())
    if not data:
        assert all(report.is_final for report in recorder.fold())
        return
    expected = data if mode == "v2" else data.decode(errors="replace").encode()
    assert terminal_output(recorder) == expected


@given(text=st.text(min_size=1, max_size=60), cut=st.integers(1, 200))
def test_a_code_point_split_over_two_writes_is_never_broken_in_text(text: str, cut: int) -> None:
    recorder, data = Recorder(), ("Zeile: " + text).encode()

    async def run() -> None:
        async with Session(sinks=[recorder]) as session, session.call("bash", {}) as call:
            call.write(data[:cut])
            await session.flush()
            call.write(data[cut:])
            await session.flush()
            call.succeed()

    asyncio.run(run())
    assert not any("\ufffd" in line.decode() for line in recorder.lines) or "\ufffd" in text


@pytest.mark.parametrize("mode", PEERS)
async def test_the_first_output_comes_within_100_ms_and_a_pause_is_flushed_within_250(
    mode: str,
) -> None:
    clock, recorder = FakeClock(), Recorder(PEERS[mode])
    async with Session(sinks=[recorder], clock=clock) as session:
        async with session.call("bash", {"command": "make"}) as call:
            call.start()
            await clock.advance(5)
            for number in range(30):
                call.write(f"line {number}\n")
                await clock.advance(0.1 if number == 0 else 0.25)
                seen = (
                    shown_text(recorder) if mode == "text" else terminal_output(recorder).decode()
                )
                if mode != "text" or number < 9:
                    assert f"line {number}\n" in seen
                else:  # what is sent again has to be paid for
                    assert f"line {max(0, number - 12)}\n" in seen
            call.succeed()


@pytest.mark.parametrize("mode", PEERS)
@pytest.mark.parametrize("way", ["loop", "yielding", "thread"])
async def test_bytes_on_the_wire_are_linear(mode: str, way: str) -> None:
    """In 47-byte writes: at most 4 bytes for each byte of output as text, 1.5 as terminal chunks."""
    recorder, data = Recorder(PEERS[mode]), LINE * 8000
    pieces = [data[begin : begin + 47] for begin in range(0, len(data), 47)]
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {"command": "make"}) as call:
            call.start()
            if way == "thread":
                await asyncio.to_thread(lambda: [call.write(piece) for piece in pieces])
            else:
                for number, piece in enumerate(pieces):
                    call.write(piece)
                    if way == "yielding" and number % 100 == 0:
                        await asyncio.sleep(0)
            call.succeed()
    spent = sum(map(len, recorder.lines))
    if mode == "text":
        assert spent <= 4 * len(data) + 2 * PAUSES
    else:
        assert spent <= 1.5 * len(data) + 4096
        if (
            way != "thread"
        ):  # a thread may be faster than the loop; then it is said what was left out
            assert terminal_output(recorder) == data[-(1 << 18) :]
            assert session.health.is_good
    assert max(map(len, recorder.lines)) < 64 * 1024
    assert_every_call_ended(recorder)


@pytest.mark.parametrize("every", [0.01, 0.3])
async def test_a_dribble_stays_linear_as_text_and_goes_on_being_shown(every: float) -> None:
    clock, recorder = FakeClock(), Recorder()
    total = 0
    async with Session(sinks=[recorder], clock=clock) as session:
        async with session.call("bash", {"command": "make"}) as call:
            call.start()
            for number in range(3000):
                line = f"step {number:05} of the build is done, on to the next one\n".encode()
                total += len(line)
                call.write(line)
                await clock.advance(every)
                if number % 500 == 499:
                    latest = max(map(int, re.findall(r"step (\d+)", shown_text(recorder))))
                    assert latest > number - 40, (
                        "the end of the output is still shown while it grows"
                    )
            call.succeed()
    assert sum(map(len, recorder.lines)) <= 4 * total + 2 * PAUSES


@pytest.mark.parametrize("mode", PEERS)
async def test_memory_is_bounded_whatever_is_written(mode: str) -> None:
    import tracemalloc

    sink = Recorder(PEERS[mode])
    sink.send = lambda items: items.clear()  # type: ignore[method-assign,assignment]
    async with Session(sinks=[sink]) as session:
        async with session.call("bash", {"command": "yes"}) as call:
            call.start()
            block = b"y\n" * 32_000
            call.write(block)
            tracemalloc.start()
            for number in range(sized(1500, 200)):  # 96 or 13 MB
                call.write(block)
                if number % 50 == 0:
                    await asyncio.sleep(0)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            call.succeed()
    assert peak < 4_000_000


async def test_one_huge_write_is_kept_in_part() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {}) as call:
            call.write(b"first\n" + b"x" * 3_000_000 + b"\nlast\n")
            call.succeed()
    text = shown_text(recorder)
    assert text.startswith("```\nfirst\n[… ")
    assert text.endswith("\nlast\n```")
    assert len(text) < TEXT_LIMIT + 200


async def test_output_that_came_too_fast_is_said_to_be_left_out() -> None:
    recorder = Recorder(Peer(version=2))
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {}) as call:
            call.start()
            consumer = session.consumers[0]
            consumer._busy = True  # as if the peer were taking its time
            for _ in range(500):
                call.write(b"x" * 10_000)
            consumer._busy = False
            call.succeed()
    chunks = [base64.b64decode(u["data"]) for u in recorder.updates if "data" in u]
    output = b"".join(chunks)
    (left_out,) = re.findall("\r\n\\[… (\\d+) bytes left out …\\]\r\n".encode(), output)
    assert int(left_out) + output.count(b"x") == 5_000_000
    assert session.health.cut == 1


async def test_a_clients_own_terminal_is_shown_by_its_id_and_gets_no_output() -> None:
    owner, other = Recorder(Peer(owns_terminals=True, terminals="meta")), Recorder()
    async with Session(sinks=[owner, other]) as session:
        async with session.call("bash", {"command": "ls"}) as call:
            call.terminal("client_7")
            call.start()
            call.write(b"a.py\n")
            call.succeed(raw={"exit_code": 0})
    (report,) = owner.fold()
    assert [item.terminal_id for item in report.content] == ["client_7"]  # type: ignore[attr-defined]
    assert not any(b"terminal_output" in line or b"a.py" in line for line in owner.lines)
    assert shown_text(other) == "```\na.py\n```"


@pytest.mark.parametrize("mode", ["v2", "meta"])
async def test_a_terminal_is_opened_with_its_command_and_exits_with_its_code(mode: str) -> None:
    recorder = Recorder(PEERS[mode])
    async with Session(cwd="/home/me", sinks=[recorder]) as session:
        async with session.call("bash", {"command": "make"}) as call:
            call.start()
            call.write(b"no rule\n")
            call.exit(2)
            call.fail("make failed", reason="exit_code")
        async with session.call("bash", {"command": "make"}) as signalled:
            signalled.write(b"...")
            signalled.exit(signal="SIGKILL")
            signalled.fail("killed", reason="exit_code")
    ledger = recorder.fold()
    states = [ledger.terminal(r.content[0].terminal_id) for r in ledger]  # type: ignore[attr-defined]
    assert [(s.command, s.cwd) for s in states if s] == [("make", "/home/me")] * 2
    assert [
        (s.exit_status.exit_code, s.exit_status.signal) for s in states if s and s.exit_status
    ] == [
        (2, None),
        (None, "SIGKILL"),
    ]


async def test_colours_are_kept_for_terminals_and_stripped_for_text() -> None:
    text, terminal = Recorder(), Recorder(Peer(terminals="meta"))
    async with Session(sinks=[text, terminal]) as session:
        async with session.call("bash", {}) as call:
            call.write(b"\x1b[31mred\x1b[0m \x1b]0;title\x07plain\r\n10%\r20%\r100%\n")
            call.succeed()
    assert shown_text(text) == "```\nred plain\n100%\n```"
    assert b"\x1b[31mred\x1b[0m" in terminal_output(terminal)


async def test_the_fence_holds_whatever_is_written() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {}) as call:
            call.write(b"```\ninjected\n````\n")
            call.succeed()
    assert shown_text(recorder) == "`````\n```\ninjected\n````\n`````"


async def test_a_result_that_repeats_the_output_is_not_shown_twice() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("bash", {}) as call:
            call.write(b"12 passed\n")
            call.succeed("12 passed")
        async with session.call("bash", {}) as call:
            call.write(b"12 passed\n")
            call.succeed("All is well")
    assert [len(report.content) for report in recorder.fold()] == [1, 2]


@given(
    data=st.lists(
        st.sampled_from(
            [b"\x1b[31m", "é".encode(), "😀".encode(), b"\n", b"abc", b"```", b"\r", b"\xff"]
        ),
        min_size=0,
        max_size=400,
    ).map(b"".join),
    limit=st.integers(64, 600),
)
def test_text_of_a_terminal_is_cut_between_characters_and_says_how_much(
    data: bytes, limit: int
) -> None:
    state = TerminalState("t")
    state.write(data)
    text = render_text(state, limit)
    fence = text.split("\n", 1)[0]
    assert set(fence) == {"`"}
    assert text.count(fence) == 2
    assert "\x1b" not in text
    assert "[31m" not in text
    if b"\xff" not in data:
        assert "\ufffd" not in text
    left_out = re.search(r"\[… (\d+) bytes? left out · (\d+) lines? left out …\]", text)
    assert (left_out is not None) == (len(data) > limit)
    if left_out:
        assert 0 < int(left_out[1]) <= len(data)
        assert 0 <= int(left_out[2]) <= data.count(b"\n")


async def test_a_thousand_terminals_live_at_once() -> None:
    recorder = Recorder(Peer(terminals="meta"))
    async with Session(sinks=[recorder]) as session:
        calls = [session.call("bash", {"n": n}).__enter__() for n in range(1000)]
        for turn in range(3):
            for number, call in enumerate(calls):
                call.write(f"{number}:{turn}\n")
            await session.flush()
        for call in calls:
            call.succeed()
        await session.flush()
        assert len(session.terminals) == 0, "what was sent is let go"
    outputs: dict[str, str] = {}
    opened = 0
    for update in recorder.updates:
        meta: dict[str, Any] = update.get("_meta", {})
        opened += "terminal_info" in meta
        if "terminal_output" in meta:
            key = update["toolCallId"]
            outputs[key] = outputs.get(key, "") + meta["terminal_output"]["data"]
    assert opened == 1000
    assert [outputs[call.id] for call in calls] == [f"{n}:0\n{n}:1\n{n}:2\n" for n in range(1000)]


async def test_lines_are_json_whatever_bytes_come() -> None:
    recorders = [Recorder(peer) for peer in PEERS.values()]
    async with Session(sinks=recorders) as session:
        async with session.call("cat", {}) as call:
            call.write(bytes(range(256)) * 50)
            call.write(memoryview(b"\xf0\x9f"))
            call.write(bytearray(b"\x00"))
            call.write("lone \ud800 surrogate")
            call.succeed()
    for recorder in recorders:
        for line in recorder.lines:
            json.loads(line)
