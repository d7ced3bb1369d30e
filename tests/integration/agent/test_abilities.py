"""What a client lends: texts that are not saved, and terminals. Each test plays a client over real pipes."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from callsheet.agent import client_files, client_host
from callsheet.agent.handler import Turn
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Session
from tests.support.agent_client import Buffers, Client, Refused, choose, doing, play, play_process

FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
TERMINALS = {"terminal": True}


class Ran:
    """A handler that runs tools one after another, and keeps their results."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = list(calls)
        self.results: list[ToolResult] = []
        self.handler: Any = doing(self._turn)

    async def _turn(self, _: object, turn: Turn) -> None:
        for name, arguments in self.calls:
            self.results.append(await turn.run(name, arguments))


def playing(ran: Ran, capabilities: dict[str, Any], **more: Any) -> Any:
    return play(handler=ran.handler, capabilities=capabilities, **{"permission": "allow", **more})


async def once(ran: Ran, client: Client, cwd: Path) -> ToolResult:
    assert await client.prompt(await client.new_session(cwd)) == "end_turn"
    return ran.results[-1]


# Reading


async def test_unsaved_text_is_read_and_marked_as_unsaved(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("saved\n")
    ran = Ran(("read", {"path": "a.txt"}))
    async with playing(ran, FILES) as client:
        Buffers(client).texts[str(path)] = "typed\nbut not saved\n"
        result = await once(ran, client, tmp_path)
        (asked,) = client.asked("fs/read_text_file")
    assert asked["path"] == str(path)
    assert "1→typed\n2→but not saved" in result.output
    assert result.output.endswith(
        "(as it is in the editor, where it has changes that are not saved)"
    )
    assert path.read_text() == "saved\n"
    assert (result.metadata["unsaved"], result.metadata["total_lines"]) == (True, 2)
    assert result.metadata["size_bytes"] == len("typed\nbut not saved\n")


async def test_saved_text_reads_as_without_a_client(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\nthree")
    async with Session(cwd=tmp_path) as session:
        alone = await session.run("read", {"path": "a.txt", "limit": 2})
    ran = Ran(("read", {"path": "a.txt", "limit": 2}))
    async with playing(ran, FILES) as client:
        client.on["fs/read_text_file"] = lambda _: {"content": "one\ntwo\nthree"}
        result = await once(ran, client, tmp_path)
        call = client.call()
    assert result.output == alone.output
    assert "unsaved" not in result.metadata
    own = ("timestamp",)
    assert {k: v for k, v in result.metadata.items() if k not in own} == {
        k: v for k, v in alone.metadata.items() if k not in own
    }
    assert (call["kind"], call["locations"]) == ("read", [{"path": str(tmp_path / "a.txt")}])


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(lambda _: {"content": None}, id="no text"),
        pytest.param(lambda _: ["content"], id="no object"),
        pytest.param(None, id="an error"),
        pytest.param(lambda _: asyncio.sleep(60), id="too slow"),
    ],
)
async def test_without_a_good_answer_the_file_itself_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    monkeypatch.setattr(client_files, "READ_SECONDS", 0.2)
    (tmp_path / "a.txt").write_text("on disk\n")
    ran = Ran(("read", {"path": "a.txt"}))
    async with playing(ran, FILES) as client:
        if answer is not None:
            client.on["fs/read_text_file"] = answer
        result = await once(ran, client, tmp_path)
        assert len(client.asked("fs/read_text_file")) == 1
    assert result.success
    assert "1→on disk" in result.output


async def test_binary_large_missing_and_foreign_files_are_not_asked_for(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out.txt"
    inside.mkdir()
    outside.write_text("outside\n")
    (inside / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(40))
    (inside / "large.txt").write_text("line\n" * 300_000)
    (inside / "latin.txt").write_bytes("é\n".encode("latin-1"))
    names = ["x.png", "large.txt", "latin.txt", "missing.txt", str(outside)]
    ran = Ran(*[("read", {"path": name, "limit": 1}) for name in names])
    async with playing(ran, FILES) as client:
        client.on["session/request_permission"] = choose("allow_once")
        Buffers(client)
        await once(ran, client, inside)
        assert client.asked("fs/read_text_file") == []
    assert [result.success for result in ran.results] == [True, True, True, False, True]


async def test_a_client_that_reads_only_is_read_from_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old\n")
    edit = ("edit", {"path": "a.txt", "old_text": "old", "new_text": "new"})
    ran = Ran(edit)
    async with playing(ran, {"fs": {"readTextFile": True}}) as client:
        buffers = Buffers(client)
        session = await client.new_session(tmp_path)
        await client.prompt(session)
        assert ran.results[-1].success
        assert path.read_text() == "new\n"  # nothing was unsaved, so the disk will do
        buffers.texts[str(path)] = "old, and typed\n"
        ran.calls = [("read", {"path": "a.txt"}), edit]
        await client.prompt(session)
        assert client.asked("fs/write_text_file") == []
    assert "let the user save it first" in str(ran.results[-1].error)
    assert path.read_text() == "new\n"


async def test_a_client_that_knows_the_project_by_a_link_is_asked_by_that_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("x\n")
    (tmp_path / "link").symlink_to("real")
    ran = Ran(("read", {"path": "a.txt"}), ("write", {"path": "b/c.txt", "content": "new\n"}))
    async with playing(ran, FILES) as client:
        Buffers(client)
        await once(ran, client, tmp_path / "link")
        asked = client.asked("fs/read_text_file") + client.asked("fs/write_text_file")
    assert [one["path"] for one in asked] == [
        str(tmp_path / "link" / "a.txt"),
        str(tmp_path / "link" / "b" / "c.txt"),
    ]
    assert (tmp_path / "real" / "b" / "c.txt").read_text() == "new\n"


async def test_a_client_that_knows_the_project_by_a_link_receives_paths_by_that_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("one\n")
    (tmp_path / "link").symlink_to("real")
    ran = Ran(
        ("read", {"path": "a.txt"}),
        ("grep", {"pattern": "one"}),
        ("edit", {"path": "a.txt", "old_text": "one", "new_text": "two"}),
        ("write", {"path": "a.txt", "content": "three\n"}),
        ("delete", {"path": "a.txt"}),
    )
    async with playing(ran, {}) as client:
        await once(ran, client, tmp_path / "link")
    for call in client.calls.values():
        diffs = [item for item in call["content"] if item["type"] == "diff"]
        named = {place["path"] for place in call["locations"] + diffs}
        assert named == {str(tmp_path / "link" / "a.txt")}, call
        assert len(diffs) == (call["name"] not in ("read", "grep"))


# Changing


async def test_an_edit_preserves_unsaved_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    ran = Ran(
        ("read", {"path": "a.txt"}),
        ("edit", {"path": "a.txt", "old_text": "two", "new_text": "2"}),
    )
    async with playing(ran, FILES) as client:
        buffers = Buffers(client)
        buffers.texts[str(path)] = "typed\none\ntwo\n"
        result = await once(ran, client, tmp_path)
        call = client.call()
    assert result.success, result.error
    assert buffers.texts[str(path)] == path.read_text() == "typed\none\n2\n"
    assert [item for item in call["content"] if item["type"] == "diff"] == [
        {
            "type": "diff",
            "path": str(path),
            "oldText": "typed\none\ntwo\n",
            "newText": "typed\none\n2\n",
        }
    ]
    assert result.metadata["first_changed_line"] == 3
    assert result.output == "Edited a.txt: at line 3 (+1 −1)"


async def test_a_buffer_that_was_changed_since_it_was_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    ran = Ran(("read", {"path": "a.txt"}))
    async with playing(ran, FILES) as client:
        buffers = Buffers(client)
        session = await client.new_session(tmp_path)
        await client.prompt(session)
        buffers.texts[str(path)] = "one, and more\ntwo\n"  # the file on disk stays as it is
        for change in (
            ("edit", {"path": "a.txt", "old_text": "two", "new_text": "2"}),
            ("write", {"path": "a.txt", "content": "all new"}),
        ):
            ran.calls = [change]
            await client.prompt(session)
            assert "was changed since it was read" in str(ran.results[-1].error)
            assert ran.results[-1].metadata["changed_since_read"] is True
        path.write_text(buffers.texts[str(path)])  # saved: another state of the file, the same text
        ran.calls = [("read", {"path": "a.txt"})]
        await client.prompt(session)
        os.utime(path, ns=(1, 1))
        ran.calls = [("edit", {"path": "a.txt", "old_text": "two", "new_text": "2"})]
        await client.prompt(session)
    assert ran.results[-1].success, ran.results[-1].error
    assert path.read_text() == "one, and more\n2\n"


async def test_line_endings_go_to_the_client_as_it_sent_them(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\ntwo\r\n")
    ran = Ran(("edit", {"path": "a.txt", "old_text": "two", "new_text": "2\n3"}))
    taken: list[str] = []
    async with playing(ran, FILES) as client:
        client.on["fs/read_text_file"] = lambda _: {"content": "zero\none\ntwo\n"}
        client.on["fs/write_text_file"] = lambda params: taken.append(params["content"])
        result = await once(ran, client, tmp_path)
    assert result.success, result.error
    assert taken == ["zero\none\n2\n3\n"]


async def test_a_new_file_is_made_by_the_client_in_a_new_directory(tmp_path: Path) -> None:
    ran = Ran(("write", {"path": "new/deep/a.txt", "content": "hello\n"}))
    async with playing(ran, FILES) as client:
        Buffers(client)
        result = await once(ran, client, tmp_path)
        assert len(client.asked("fs/write_text_file")) == 1
    assert (tmp_path / "new" / "deep" / "a.txt").read_text() == "hello\n"
    assert result.output == "Created new/deep/a.txt: 1 line, 6 B"
    assert result.metadata["created"] is True


async def test_what_the_client_refuses_to_write_is_not_written_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    ran = Ran(("write", {"path": "a.txt", "content": "two\n"}))

    def refuse(_: object) -> None:
        raise Refused("the disk is full")

    async with playing(ran, FILES) as client:
        Buffers(client)
        client.on["fs/write_text_file"] = refuse
        result = await once(ran, client, tmp_path)
        assert client.call()["status"] == "failed"
    assert result.error == "a.txt can't be written: the editor refused: the disk is full"
    assert result.metadata["error_code"] == "io_error"
    assert path.read_text() == "one\n"


async def test_a_write_without_a_response_ends_as_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_files, "WRITE_SECONDS", 0.2)
    ran = Ran(("write", {"path": "a.txt", "content": "two\n"}))
    async with playing(ran, FILES) as client:
        client.on["fs/write_text_file"] = lambda _: asyncio.sleep(60)
        result = await once(ran, client, tmp_path)
    assert "it is not known whether it was written" in str(result.error)
    assert not (tmp_path / "a.txt").exists()


async def test_cancelling_a_write_that_is_not_answered_ends_the_turn_soon(
    tmp_path: Path,
) -> None:
    ran = Ran(("write", {"path": "a.txt", "content": "two\n"}))
    async with playing(ran, FILES) as client:
        client.on["fs/write_text_file"] = lambda _: asyncio.sleep(60)
        session = await client.new_session(tmp_path)
        turn = client.start_prompt(session)
        await client.until(lambda: client.asked("fs/write_text_file"))
        client.send_cancel(session)
        assert await asyncio.wait_for(turn, 3) == "cancelled"
        call = client.call()
    assert call["_meta"]["callsheet"]["reason"] == "cancelled"
    assert "It is not known whether the editor has written a.txt" in str(call)


async def test_a_second_version_of_acp_has_no_such_abilities(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("on disk\n")
    ran = Ran(("read", {"path": "a.txt"}), ("bash", {"command": "echo hi"}))
    async with playing(ran, {}, version=2) as client:
        await once(ran, client, tmp_path)
    assert [result.success for result in ran.results] == [True, True]


# Terminals


class Terminals:
    """A client's terminals: real processes."""

    def __init__(self, client: Client) -> None:
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.outputs: dict[str, bytearray] = {}
        self.done: dict[str, asyncio.Task[None]] = {}
        self.created: list[dict[str, Any]] = []
        self.released: list[str] = []
        self.killed: list[str] = []
        for name in ("create", "output", "wait_for_exit", "kill", "release"):
            client.on[f"terminal/{name}"] = getattr(self, name)

    async def create(self, params: dict[str, Any]) -> dict[str, Any]:
        self.created.append(params)
        key = f"term-{len(self.created)}"
        process = await asyncio.create_subprocess_exec(
            params["command"],
            *params["args"],
            cwd=params["cwd"],
            env={**os.environ, **{one["name"]: one["value"] for one in params["env"]}},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self.processes[key], self.outputs[key] = process, bytearray()
        self.done[key] = asyncio.ensure_future(self._collect(key))
        return {"terminalId": key}

    async def _collect(self, key: str) -> None:
        process = self.processes[key]
        assert process.stdout is not None
        while piece := await process.stdout.read(4096):
            self.outputs[key] += piece
        await process.wait()

    def _status(self, key: str) -> dict[str, Any] | None:
        code = self.processes[key].returncode
        if code is None:
            return None
        return {"exitCode": None, "signal": "SIGKILL"} if code < 0 else {"exitCode": code}

    def output(self, params: dict[str, Any]) -> dict[str, Any]:
        key = params["terminalId"]
        data = bytes(self.outputs[key])
        limit = self.created[-1]["outputByteLimit"]
        kept = data[-limit:].decode(errors="replace")
        return {"output": kept, "truncated": len(data) > limit, "exitStatus": self._status(key)}

    async def wait_for_exit(self, params: dict[str, Any]) -> dict[str, Any]:
        await asyncio.shield(self.done[params["terminalId"]])
        return self._status(params["terminalId"]) or {}

    def kill(self, params: dict[str, Any]) -> None:
        self.killed.append(params["terminalId"])
        with suppress(ProcessLookupError):
            self.processes[params["terminalId"]].kill()

    async def release(self, params: dict[str, Any]) -> None:
        self.released.append(params["terminalId"])
        await asyncio.wait_for(
            self.done[params["terminalId"]], 5
        )  # it is let go of when it has ended


def place_of(client: Client, holds: Any) -> int:
    """Return where in the traffic a message is."""
    return next(i for i, (_, message) in enumerate(client.messages) if holds(message))


async def test_a_command_runs_in_the_clients_terminal_which_the_call_shows(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    asked = {"command": "pwd; echo $GREETING $PAGER", "cwd": "sub", "env": {"GREETING": "hi"}}
    ran = Ran(("bash", asked))
    async with playing(ran, TERMINALS) as client:
        terminals = Terminals(client)
        result = await once(ran, client, tmp_path)
        call = client.call()
        released = place_of(client, lambda m: m.get("method") == "terminal/release")
        ended = place_of(
            client,
            lambda m: m.get("params", {}).get("update", {}).get("status") == "completed",
        )
        answered = place_of(client, lambda m: "stopReason" in (m.get("result") or {}))
    assert result.output == f"{tmp_path / 'sub'}\nhi cat\n"
    assert (result.exit_code, result.metadata["exit_code"]) == (0, 0)
    assert result.metadata["working_directory"] == str(tmp_path / "sub")
    assert call["content"] == [{"type": "terminal", "terminalId": "term-1"}]
    assert terminals.released == ["term-1"]
    assert terminals.killed == []
    assert ended < released < answered
    (created,) = terminals.created
    assert created["args"][0] == "-c"
    assert "TERM" not in [one["name"] for one in created["env"]]


@pytest.mark.parametrize(
    ("command", "said", "code", "signal"),
    [
        ("echo no; exit 3", "Exit code 3", 3, None),
        ("kill -9 $$", "signal SIGKILL", None, "SIGKILL"),
    ],
)
async def test_the_clients_exit_status_is_reported(
    tmp_path: Path, command: str, said: str, code: int | None, signal: str | None
) -> None:
    ran = Ran(("bash", {"command": command}))
    async with playing(ran, TERMINALS) as client:
        Terminals(client)
        result = await once(ran, client, tmp_path)
        call = client.call()
    assert said in str(result.error)
    assert (result.metadata["exit_code"], result.metadata["signal"]) == (code, signal)
    assert call["status"] == "failed"
    assert call["content"][0] == {"type": "terminal", "terminalId": "term-1"}


async def test_an_end_that_the_client_does_not_know_is_no_success(tmp_path: Path) -> None:
    ran = Ran(("bash", {"command": "echo hi"}))
    async with playing(ran, TERMINALS) as client:
        terminals = Terminals(client)
        client.on["terminal/wait_for_exit"] = lambda _: {}
        client.on["terminal/output"] = lambda _: {"output": "hi\n", "truncated": False}
        client.on["terminal/release"] = terminals.released.append
        result = await once(ran, client, tmp_path)
        await asyncio.wait_for(terminals.done["term-1"], 5)
    assert not result.success
    assert result.exit_code is None
    assert "hi" in result.output


async def test_a_command_that_takes_too_long_is_killed_and_its_output_reported(
    tmp_path: Path,
) -> None:
    ran = Ran(("bash", {"command": "echo before; exec sleep 60", "timeout": 0.5}))
    async with playing(ran, TERMINALS) as client:
        terminals = Terminals(client)
        result = await once(ran, client, tmp_path)
    assert result.metadata["timed_out"] is True
    assert result.metadata["error_code"] == "timeout"
    assert "before" in result.output
    assert terminals.killed == terminals.released == ["term-1"]


async def test_cancelling_kills_the_command_reports_its_output_and_releases(tmp_path: Path) -> None:
    ran = Ran(("bash", {"command": "echo before; exec sleep 60"}))
    async with playing(ran, TERMINALS) as client:
        terminals = Terminals(client)
        session = await client.new_session(tmp_path)
        turn = client.start_prompt(session)
        await client.until(lambda: client.asked("terminal/wait_for_exit"))
        while not terminals.outputs["term-1"]:
            await asyncio.sleep(0.01)
        client.send_cancel(session)
        assert await asyncio.wait_for(turn, 5) == "cancelled"
        call = client.call()
    assert terminals.killed == terminals.released == ["term-1"]
    assert terminals.processes["term-1"].returncode is not None
    assert call["_meta"]["callsheet"]["reason"] == "cancelled"
    assert call["content"][0] == {"type": "terminal", "terminalId": "term-1"}
    assert call["rawOutput"]["metadata"]["output_bytes"] == len("before\n")


async def test_a_client_that_makes_no_terminal_has_the_command_run_here_once(
    tmp_path: Path,
) -> None:
    ran = Ran(("bash", {"command": "echo x >> ran; cat ran"}))
    async with playing(ran, TERMINALS) as client:
        result = await once(ran, client, tmp_path)  # it answers that it doesn't know the method
        assert len(client.asked("terminal/create")) == 1
        assert client.asked("terminal/release") == []
    assert result.output == "x\n"
    assert (tmp_path / "ran").read_text() == "x\n"


async def test_a_command_whose_terminal_comes_too_late_is_ended_and_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_host, "CREATE_SECONDS", 0.2)
    ran = Ran(("bash", {"command": "echo x >> ran; exec sleep 60"}))
    async with playing(ran, TERMINALS) as client:
        terminals = Terminals(client)

        async def late(params: dict[str, Any]) -> dict[str, Any]:
            made = await terminals.create(params)
            await asyncio.sleep(0.5)
            return made

        async def kill(params: dict[str, Any]) -> None:
            terminals.kill(params)
            await terminals.done[params["terminalId"]]

        client.on["terminal/create"] = late
        client.on["terminal/kill"] = kill
        result = await once(ran, client, tmp_path)
        assert "it is not run again" in str(result.error)
        await client.until(lambda: client.asked("terminal/release"))
        assert terminals.killed == ["term-1"]
    assert (tmp_path / "ran").read_text() == "x\n"


async def test_a_terminal_that_fails_is_let_go_of_and_its_command_not_run_again(
    tmp_path: Path,
) -> None:
    ran = Ran(("bash", {"command": "echo x >> ran"}))

    async with playing(ran, TERMINALS) as client:
        terminals = Terminals(client)

        async def fail(params: dict[str, Any]) -> None:
            await terminals.wait_for_exit(params)
            raise Refused("lost it")

        client.on["terminal/wait_for_exit"] = fail
        result = await once(ran, client, tmp_path)
    assert "The editor's terminal has failed" in str(result.error)
    assert "lost it" in str(result.error)
    assert terminals.released == ["term-1"]
    assert (tmp_path / "ran").read_text() == "x\n"


async def test_output_that_the_client_has_cut_is_marked_as_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_host, "OUTPUT_LIMIT", 100)
    ran = Ran(("bash", {"command": "seq 1 1000"}))
    async with playing(ran, TERMINALS) as client:
        Terminals(client)
        result = await once(ran, client, tmp_path)
    assert result.output.startswith("[The client has kept only the end of the output.]")
    assert result.output.endswith("999\n1000\n")
    assert result.metadata["truncated"] is True


async def test_a_variable_can_be_taken_out_of_a_clients_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNWANTED", "there")
    ran = Ran(("bash", {"command": "echo [${UNWANTED-none}]", "env": {"UNWANTED": None}}))
    async with playing(ran, TERMINALS) as client:
        Terminals(client)
        result = await once(ran, client, tmp_path)
    assert result.output == "[none]\n"


async def test_a_client_that_goes_while_its_terminal_runs_ends_the_call(tmp_path: Path) -> None:
    ran = Ran(("bash", {"command": "exec sleep 60"}))
    async with playing(ran, TERMINALS) as client:
        terminals = Terminals(client)
        session = await client.new_session(tmp_path)
        turn = client.start_prompt(session)
        await client.until(lambda: client.asked("terminal/wait_for_exit"))
        client.hang_up()
        await asyncio.wait_for(client.is_over.wait(), 10)
        with suppress(Refused):
            await turn
        terminals.processes["term-1"].kill()
        await terminals.done["term-1"]
    assert client.call()["status"] == "failed"


async def test_the_real_agent_uses_both_over_stdio(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("saved\n")
    async with play_process("--permission", "allow", capabilities=FILES | TERMINALS) as client:
        Buffers(client).texts[str(path)] = "typed\n"
        terminals = Terminals(client)
        session = await client.new_session(tmp_path)
        assert await client.prompt(session, "/read a.txt\n!printf 'hi\\r\\nho\\r\\n'") == "end_turn"
        read, ran = client.call(0), client.call(1)
    assert "1→typed" in str(read["content"])
    assert ran["content"] == [{"type": "terminal", "terminalId": "term-1"}]
    assert ran["rawOutput"]["output"] == "hi\nho\n"
    assert terminals.released == ["term-1"]
