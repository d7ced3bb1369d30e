"""`callsheet view` on a terminal and into a pipe: recordings, stored sessions, and what is neither."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from callsheet.testing import AgentClient
from tests.support import ROOT
from tests.support.shells import CALLSHEET, Terminal, without_escapes

KIMI = ROOT / "tests" / "recordings" / "kimi-cli-1.51.0.mixed-none.jsonl"


def view(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CALLSHEET, "view", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **env},
    )


def test_a_recording_is_shown_as_a_timeline_and_cards() -> None:
    done = view(str(KIMI))
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert "Kimi Code CLI 1.51.0 · ACP 1 · 11 calls" in first
    assert sum("━" in line for line in rest) == 11
    assert "def greet" in done.stdout
    listed = [line.split("━")[0].split("┄")[0].split()[-2:] for line in rest if "━" in line]
    cards = [line.split()[-3:-1] for line in rest if line.startswith("╰")]
    assert cards == listed, "a call takes as long in the list as on its card"


def test_a_call_that_was_left_open_is_open_in_the_list_and_on_its_card(tmp_path: Path) -> None:
    cut = tmp_path / "cut.jsonl"
    lines = KIMI.read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(lines) if b'"in_progress"' in line)
    cut.write_bytes(b"".join(lines[: first + 1]))
    done = view(str(cut))
    assert "1 call · 1 open" in done.stdout
    assert done.stdout.count("⠋") == 2
    assert "╰─ has not ended: the agent left it in progress ─" in done.stdout
    assert "Interrupted" not in done.stdout


def test_before_and_after_stand_side_by_side() -> None:
    done = view(str(KIMI), "--before")
    (line,) = (line for line in done.stdout.splitlines() if "WriteFile" in line)
    assert line.split()[:4] == ["✓", "WriteFile:", "NOTES.md", "8"]
    assert "✓ Writing to NOTES.md" in line


def test_a_terminal_gets_colours_and_no_line_is_too_long() -> None:
    for columns in (80, 120):
        for options in ([], ["--before", "--locale", "de"]):
            arguments = ["view", str(KIMI), *options]
            terminal = Terminal(arguments, Path.cwd(), columns=columns, PAGER="cat")
            assert terminal.end() == 0
            assert "\x1b[" in terminal.text
            rows = [without_escapes(row) for row in terminal.text.splitlines()]
            assert max(map(cell_len, rows)) < columns
            assert sum("README.md" in row for row in rows) >= 2


def test_the_pager_is_left_by_q_and_control_c_says_nothing() -> None:
    terminal = Terminal(["view", str(KIMI)], Path.cwd(), PAGER="less", LESS="-R")
    terminal.until("CALL")
    terminal.type("\x03")
    terminal.type("q")
    assert terminal.end() in (0, 130)
    assert "Abort" not in terminal.text
    assert "Traceback" not in terminal.text


def test_a_stored_session_is_shown_with_its_times(tmp_path: Path) -> None:
    history = f"sqlite:///{tmp_path}/history.db"

    async def play() -> None:
        command = [*CALLSHEET, "agent", "--history", history, "--permission", "allow"]
        async with AgentClient(command, cwd=str(tmp_path)) as client:
            session = await client.new_session(str(tmp_path))
            await client.prompt(session, "!sleep 0.2; echo done")

    asyncio.run(play())
    done = view("last", "--history", history)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Running `sleep 0.2; echo done`" in done.stdout
    assert " ms" in done.stdout
    page = tmp_path / "page.html"
    assert view("last", "--history", history, "-o", str(page)).returncode == 0
    assert page.read_bytes().startswith(b"<!doctype html>")


def test_what_is_no_recording_is_named(tmp_path: Path) -> None:
    other = tmp_path / "notes.jsonl"
    other.write_text("hello\n")
    empty, binary = tmp_path / "empty.jsonl", tmp_path / "program"
    empty.touch()
    binary.write_bytes(b"\x7fELF\0\0" * 100)
    for source, reason in {
        str(other): "not a recording",
        str(tmp_path / "gone.jsonl"): "No such file or directory",
        str(tmp_path): "is a directory: name one of its recordings",
        str(empty): "is empty",
        str(binary): "not a recording",
    }.items():
        done = view(source)
        assert done.returncode == 2
        assert reason in done.stderr
        assert "Traceback" not in done.stderr
    done = view("nosuchsession", "--history", f"sqlite:///{tmp_path}/none.db")
    assert done.returncode == 1
    assert "there is no file 'nosuchsession', and there is no history at" in done.stderr


def test_a_recording_may_have_any_name_and_is_not_replaced_by_its_page(tmp_path: Path) -> None:
    recording = tmp_path / os.fsdecode(b"\xff<b>\n.jsonl")
    recording.write_bytes(KIMI.read_bytes())
    assert view(str(recording)).returncode == 0
    page = view(str(recording), "-o", "-").stdout
    assert page.startswith("<!doctype html>")
    assert "\ufffd&lt;b&gt;" in page.partition("<style>")[0]
    link = tmp_path / "link.html"
    link.symlink_to(recording)
    done = view(str(recording), "-o", str(link))
    assert (done.returncode, "would replace the recording" in done.stderr) == (2, True)
    assert recording.read_bytes() == KIMI.read_bytes()


def test_a_recording_is_no_session_and_replay_says_what_shows_it() -> None:
    done = subprocess.run(
        [*CALLSHEET, "replay", str(KIMI)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"is a recording, not a session: callsheet view {KIMI}" in done.stderr


def test_messages_without_times_are_shown_in_order(tmp_path: Path) -> None:
    messages = [json.loads(line)["msg"] for line in KIMI.read_text().splitlines()]
    bare = tmp_path / "acpx.ndjson"
    bare.write_text("".join(json.dumps(message) + "\n" for message in messages))
    zed = tmp_path / "zed.json"
    zed.write_text(json.dumps(list(zed_log(messages)), indent=2))
    for file in (bare, zed):
        done = view(str(file))
        assert (done.returncode, done.stderr) == (0, "")
        assert "Kimi Code CLI 1.51.0 · ACP 1 · 11 calls" in done.stdout
        assert "no times were recorded" in done.stdout
        assert " 0 ms" not in done.stdout
    zed.write_text(zed.read_text()[:-2000])
    done = view(str(zed))
    assert done.returncode == 0
    assert "not read: line " in done.stdout
    assert "it breaks off in the middle of a message" in done.stdout


def zed_log(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield messages as Zed's log has them."""
    asked: dict[Any, str] = {}
    for message in messages:
        method, key = message.get("method"), message.get("id")
        is_of_client = method in ("initialize", "session/new", "session/prompt")
        if method is None:
            is_of_client = asked[key] == "session/request_permission"
        elif key is not None:
            asked[key] = method
        response = message.get("result", message.get("error"))
        yield {
            "_direction": "outgoing" if is_of_client else "incoming",
            "_type": "response" if method is None else "request" if key else "notification",
            "id": key,
            "method": method or asked[key],
            "params": response if method is None else message.get("params"),
        }


def test_pauses_are_shortened_and_counted(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in KIMI.read_text().splitlines()]
    begins = [n for n, line in enumerate(lines) if '"tool_call"' in json.dumps(line)]
    for line in lines[begins[4] :]:
        line["t"] += 3600
    file = tmp_path / "long.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = view(str(file))
    assert "idle left out" in done.stdout
