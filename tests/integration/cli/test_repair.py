"""`callsheet repair` on the command line: where it writes, what it says, exit codes."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import pytest

from callsheet.cli import main
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support import RECORDINGS
from tests.support.processes import linux

RECORDING = RECORDINGS / "kimi-cli-1.51.0.mixed-none.jsonl"


class Done(NamedTuple):
    """What a command line gave."""

    code: int
    out: str
    err: str


Repair = Callable[..., Done]


@pytest.fixture
def repair(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Repair:
    """Run a command line in this process, as the program does."""

    def run(*args: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["callsheet", "repair", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(cast("int", ended.value.code), out, err)

    return run


def test_a_file_gets_what_stdout_would_and_only_its_owner_can_read_it(
    repair: Repair, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    reported = repair(RECORDING)
    assert repair(RECORDING, "-o", out) == (0, "", reported.err)
    assert out.read_text() == reported.out == repair(RECORDING, "-o", "-").out
    assert out.stat().st_mode & 0o777 == 0o600
    assert reported.err.startswith("callsheet repair: 11 calls\n")


def test_a_recording_is_never_replaced_by_its_repair(repair: Repair, tmp_path: Path) -> None:
    file, link, hard = (tmp_path / f"{name}.jsonl" for name in ("traffic", "link", "hard"))
    file.write_bytes(RECORDING.read_bytes())
    link.symlink_to(file)
    hard.hardlink_to(file)
    for output in (file, link, hard):
        code, out, err = repair(file, "-o", output)
        assert (code, out) == (2, "")
        assert "name another file, such as -o repaired.jsonl" in err
        assert file.read_bytes() == RECORDING.read_bytes()


def test_a_recording_that_is_cut_off_is_repaired_and_that_is_reported(
    repair: Repair, tmp_path: Path
) -> None:
    file = tmp_path / "cut.jsonl"
    file.write_bytes(RECORDING.read_bytes()[:-20])
    code, out, err = repair(file)
    assert code == 0
    assert out
    assert f"line {RECORDING.read_bytes().count(10)}, the last one, is cut off" in err


def test_what_is_no_plain_file_is_written_to_and_stays_what_it_is(
    repair: Repair, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    few = tmp_path / "few.jsonl"
    few.write_bytes(b"".join(RECORDING.read_bytes().splitlines(keepends=True)[:2]))
    try:
        assert repair(few, "-o", pipe).code == 0
        assert os.read(reader, 1 << 16) == few.read_bytes()
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("output", ["nowhere/out.jsonl", "."])
def test_where_nothing_can_be_written_the_name_that_was_passed_is_reported(
    output: str, repair: Repair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = repair(RECORDING, "-o", output)
    assert (code, out) == (2, "")
    assert err.startswith(f"callsheet repair: {output}: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("data", [b"", b"\n", b"\x00\xff\x00", b"hello\n", b"[]\n", b'{"a":1}\n'])
def test_a_file_without_a_message_is_no_recording(
    data: bytes, repair: Repair, tmp_path: Path
) -> None:
    file, out = tmp_path / "file.jsonl", tmp_path / "out.jsonl"
    file.write_bytes(data)
    out.write_text("of before")
    message = f"callsheet repair: {file}: not a recording: it "
    for code, printed, err in (repair(file, "-o", out), repair(file)):
        assert (code, printed) == (2, "")
        assert err.startswith(message)
    assert out.read_text() == "of before"


def test_without_repair_calls_are_shown_as_the_agent_reports_them(repair: Repair) -> None:
    code, out, err = repair(RECORDING, "--no-repair", "--no-redact", "--no-bound")
    assert code == 0
    titles = r'"toolCallId":"([^"]+)".*?"title":"([^"]*)"'
    announced = [line for line in RECORDING.read_text().splitlines() if '"tool_call"' in line]
    shown = dict(re.findall(titles, out))
    for key, title in (found for line in announced for found in re.findall(titles, line)):
        assert shown[key] == title
    assert err.startswith("callsheet repair: 11 calls\n")
    assert "titles replaced" not in err


def test_bytes_are_reported_of_all_that_is_about_calls_also_of_requests_for_permission(
    repair: Repair,
) -> None:
    lines = [json.loads(line) for line in repair(RECORDING).out.splitlines()]
    reported = [
        line["msg"] for line in lines if line["dir"] == "agent->client" and _is_about_calls(line)
    ]
    assert any(message["method"] == "session/request_permission" for message in reported)
    account = _repaired().account
    assert account.sent == sum(len(msgspec.json.encode(message)) + 1 for message in reported)


def _is_about_calls(line: dict[str, Any]) -> bool:
    message = line["msg"]
    update = message.get("params", {}).get("update", {})
    return message.get("method") == "session/request_permission" or "tool_call" in update.get(
        "sessionUpdate", ""
    )


def _repaired() -> Repairs:
    repairs = Repairs(TapSettings())
    with RECORDING.open("rb") as stream:
        assert list(repairs.repaired(stream))
    return repairs


def test_a_repaired_recording_has_no_secrets_where_one_side_needed_them(
    repair: Repair, tmp_path: Path
) -> None:
    secret = "ghp_" + "a1B2" * 9
    file = tmp_path / "traffic.jsonl"
    asked = {"sessionId": "s", "path": "/code/.env", "content": f"TOKEN={secret}"}
    write = {"jsonrpc": "2.0", "id": 7, "method": "fs/write_text_file", "params": asked}
    read = {"jsonrpc": "2.0", "id": 7, "result": {"content": f"TOKEN={secret}"}}
    lines = [
        {"t": 1, "dir": "agent->client", "msg": write},
        {"t": 2, "dir": "client->agent", "msg": read},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = repair(file)
    assert (code, secret in out) == (0, False)
    assert json.loads(out.splitlines()[0])["msg"]["params"]["path"] == "/code/.env"
    assert repair(file, "--no-redact").out == file.read_text()


def test_what_is_asked_for_wrongly_is_reported(repair: Repair) -> None:
    for arguments, message in (
        (["nothing.jsonl"], "callsheet repair: nothing.jsonl: No such file or directory\n"),
        ([RECORDING, "--locale", "klingon"], "'klingon': expected one of en, de, "),
    ):
        code, out, err = repair(*arguments)
        assert (code, out, message in err) == (2, "", True), err


@linux
def test_a_full_disk_is_the_outputs_fault(repair: Repair) -> None:
    code, _, err = repair(RECORDING, "-o", "/dev/full")
    assert (code, err) == (2, "callsheet repair: /dev/full: No space left on device\n")


def test_a_recording_without_calls_is_reported_to_have_none(repair: Repair, tmp_path: Path) -> None:
    file = tmp_path / "few.jsonl"
    file.write_text('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}\n')
    assert repair(file).err == "callsheet repair: no calls\n"


def test_a_directory_is_no_recording(repair: Repair, tmp_path: Path) -> None:
    message = f"callsheet repair: {tmp_path} is a directory: name one of its recordings\n"
    assert repair(tmp_path) == (2, "", message)
