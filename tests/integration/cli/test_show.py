"""`callsheet show` and `callsheet replay`: one call with all that is known of it, and a session told again."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from collections import deque
from pathlib import Path

import pytest

from callsheet import Session, ToolCallReport
from callsheet.acp.peer import Peer
from callsheet.cli.show import facts_about
from callsheet.history import Head, History, StoredCall
from callsheet.history.rows import UNKNOWN
from callsheet.report.ledger import Ledger
from callsheet.report.terminal import CallRecord
from callsheet.testing import Recorder, assert_every_call_ended, fold, updates_in
from tests.support import schemas
from tests.support.shells import CALLSHEET, Terminal, without_escapes
from tests.support.stores import ONE, TWO, Cli, Done, cli_in_process, fill, fill_with_spill

PEERS = {"text": Peer(), "v2": Peer(version=2)}
LIVE = {name: Recorder(peer) for name, peer in PEERS.items()}


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("stored")
    url = f"sqlite:///{directory}/h.sqlite"
    asyncio.run(fill(url, directory, *LIVE.values()))
    return url


@pytest.fixture
def cli(stored: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return cli_in_process(capsys, monkeypatch, stored)


@pytest.fixture
def own(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    return cli_in_process(capsys, monkeypatch, f"sqlite:///{tmp_path}/h.sqlite")


def ids(cli: Cli, *filters: str) -> list[str]:
    listed = json.loads(cli("history", "--format", "json", *filters).out)
    return [one["id"] for one in listed]


# One call


def test_a_call_is_shown_with_all_that_is_known_of_it(cli: Cli) -> None:
    (key,) = ids(cli, "--status", "exit_code")
    done = cli("show", key)
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:2] == ["Running `echo needle in the hay; exit 3`", "needle in the hay"]
    assert lines[2].startswith("failed: exit code 3 · ")
    facts = [" ".join(line.split()) for line in lines[4:]]
    assert f"id {key}" in facts
    assert f"session {ONE} Fix the parser" in facts
    assert "tool bash, execute" in facts
    assert "status failed, exit_code" in facts
    assert '"command": "echo needle in the hay; exit 3"' in facts
    for name in ("directory", "when", "took", "used", "input", "output"):
        assert any(line.startswith(f"{name}  ") for line in lines), name
    assert "\x1b" not in done.out


def test_notes_on_a_call_are_shown_in_words() -> None:
    notes = {
        "usage": {"cpuMs": 1500, "maxRssKb": 2000}, "parentId": "call_1", "batchId": "batch_1",
        "dependsOn": ["call_2", "call_3"], "progress": {"done": 3, "total": 12, "message": "x.py"},
        "redactions": 2, "repaired": ["kind", "title"], "custom": {"model": "m", "tries": 2},
    }  # fmt: skip
    report = ToolCallReport("c1", "Bash", meta={"callsheet": notes})
    head = Head(
        session_id="s1", call_id="c1", position=0, name="bash", title="Bash", kind="execute",
        status="pending", reason=None, at=0.0, updated_at=0.0, duration_ms=None, size=0,
    )  # fmt: skip
    facts = list(facts_about(StoredCall(head, CallRecord(report)), None, UNKNOWN, 0.0))
    assert facts[-9:] == [
        ("used", "1.5 s of CPU time, 2.0 MB of memory at most"), ("part of", "call_1"),
        ("batch", "batch_1"), ("waited for", "call_2, call_3"), ("progress", "3 of 12, x.py"),
        ("redacted", "2 secrets"), ("repaired", "kind, title"), ("model", "m"), ("tries", "2"),
    ]  # fmt: skip


def test_a_call_is_found_by_its_beginning_its_end_and_as_the_last(cli: Cli) -> None:
    newest = ids(cli)[0]
    parts = (newest, newest[-8:], newest[:-2], "last")
    outs = {cli("show", text).out for text in parts}
    assert len(outs) == 1
    assert re.search(r"^also called +toolu_1$", outs.pop(), re.MULTILINE)
    assert cli("show", "last", "--session", ONE).out.startswith("Writing to b.txt\n")


def test_json_is_the_tool_call_that_a_client_was_reported(cli: Cli) -> None:
    (key,) = ids(cli, "--tool", "write")
    done = cli("show", key, "--format", "json")
    reported = json.loads(done.out)
    schemas.check_update(1, {name: reported[name] for name in reported if name not in BESIDE})
    last = [one for one in updates_in(LIVE["text"].lines) if one["toolCallId"] == key][-1]
    assert reported["status"] == last["status"] == "completed"
    assert reported["content"] == last["content"]
    assert reported["sessionId"] == ONE
    (ran,) = ids(cli, "--status", "exit_code")
    (terminal,) = json.loads(cli("show", ran, "--format", "json").out)["terminals"]
    assert (terminal["tail"], terminal["exit"]) == ("needle in the hay\n", {"exitCode": 3})


BESIDE = ("sessionId", "at", "cwd", "terminals")


@pytest.mark.parametrize("text", ["zzz", ""])
def test_a_call_that_is_not_there_is_named_with_the_way_to_find_one(cli: Cli, text: str) -> None:
    done = cli("show", text)
    assert (done.code, done.out) == (1, "")
    assert f"there is no call '{text}'" in done.err
    assert "`callsheet history` lists the calls" in done.err


def test_a_part_that_several_calls_have_lists_them(cli: Cli) -> None:
    done = cli("show", "call_")
    assert (done.code, done.out) == (1, "")
    lines = done.err.splitlines()
    assert "may be any of these; type more of its id" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ids(cli)


def test_the_same_id_in_two_sessions_asks_for_the_session(own: Cli, tmp_path: Path) -> None:
    async def twice() -> None:  # as agents do that number their calls
        history = History(f"sqlite:///{tmp_path}/h.sqlite")
        for key in (ONE, TWO):
            report = ToolCallReport("same", "t", title=f"in {key}", status="completed")
            history.session(key).send(deque([CallRecord(report)]))
        await history.close()

    asyncio.run(twice())
    done = own("show", "same")
    assert done.code == 1
    assert "choose by --session" in done.err
    assert f"in {TWO}" in own("show", "same", "--session", TWO).out


def test_it_shows_where_the_whole_is_and_whether_it_is_still_there(
    own: Cli, tmp_path: Path
) -> None:
    spill = asyncio.run(fill_with_spill(f"sqlite:///{tmp_path}/h.sqlite", tmp_path))
    assert f"whole in   {spill}\n" in own("show", "last").out
    spill.unlink()
    assert f"whole in   {spill}, which no longer exists" in own("show", "last").out


def test_on_a_terminal_a_call_is_a_card_and_nothing_is_left_out(tmp_path: Path, own: Cli) -> None:
    url = f"sqlite:///{tmp_path}/h.sqlite"
    assert own("call", "bash", "command=seq 1 400").code == 0
    terminal = Terminal(["show", "last"], tmp_path, CALLSHEET_HISTORY=url)
    assert terminal.end() == 0
    text = without_escapes(terminal.text)
    assert "✓ ❯ Running `seq 1 400` ──" in text
    assert "lines left out" not in text
    assert "│ 200 " in text
    assert "│ 400 " in text
    assert [line for line in text.splitlines() if len(line) >= 80] == []


# A session


@pytest.mark.parametrize("name", PEERS)
def test_replay_shows_a_client_just_what_it_saw_live(cli: Cli, name: str) -> None:
    peer = PEERS[name]
    done = cli("replay", ONE, "--protocol", str(peer.version))
    assert (done.code, done.err) == (0, "")
    lines = [line.encode() + b"\n" for line in done.out.splitlines()]
    for line in lines:
        kind = "SessionNotification" if peer.version == 1 else "UpdateSessionNotification"
        schemas.check(peer.version, kind, json.loads(line)["params"])
    assert_every_call_ended(lines)
    live, again = fold(LIVE[name]), fold(lines, version=peer.version)
    assert calls(again) == calls(live)
    message = [json.loads(line)["params"]["update"]["sessionUpdate"] for line in lines]
    assert message[0] == ("user_message" if peer.version == 2 else "user_message_chunk")
    assert message[-1] == "agent_message_chunk"


def calls(ledger: Ledger) -> dict[str, object]:
    return {report.tool_call_id: report for report in ledger}


def test_replay_finds_a_session_by_a_part_or_as_the_last(cli: Cli) -> None:
    whole = cli("replay", TWO).out
    assert whole
    assert {cli("replay", text).out for text in ("last", "BBBBBB", TWO[:14])} == {whole}
    many = cli("replay", "sess_")
    assert (many.code, many.out) == (1, "")
    assert ONE in many.err
    assert TWO in many.err
    none = cli("replay", "nope")
    assert (none.code, none.out) == (1, "")
    assert "there is no session 'nope'" in none.err


def test_replay_shows_people_what_was_reported_and_done(cli: Cli) -> None:
    done = cli("replay", ONE, "--format", "pretty")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[:2] == ["> Fix the parser", "Reading a.txt"]
    assert "needle in the hay" in lines
    assert lines[-1] == "It is done."


def test_a_reader_that_has_enough_ends_a_replay_quietly(stored: str) -> None:
    line = f"{shlex.join([*CALLSHEET, 'replay', ONE, '--history', stored])} | head -c 10"
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=30, check=True
    )
    assert (done.stdout, done.stderr) == ('{"jsonrpc"', "")


def test_a_long_session_is_reported_in_pages(own: Cli, tmp_path: Path) -> None:
    async def many() -> None:
        history = History(f"sqlite:///{tmp_path}/h.sqlite")
        log = history.session(ONE)
        async with Session(ONE, sinks=[log]) as session:
            for index in range(130):
                log.say("user", f"msg_{index}", [{"type": "text", "text": f"say {index}"}])
                async with session.call("t", {"n": index}) as call:
                    call.start()
                    call.succeed(f"did {index}")
                await session.flush()
        await history.close()

    asyncio.run(many())
    done: Done = own("replay", "last")
    reported = [json.loads(line)["params"]["update"] for line in done.out.splitlines()]
    assert [one["rawInput"]["n"] for one in reported[1::2]] == list(range(130))
    assert [one["content"]["text"] for one in reported[::2]] == [f"say {n}" for n in range(130)]
