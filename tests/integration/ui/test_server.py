"""The web inspector's server, a real process, by raw requests: who is refused, what is shown, what recovers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from callsheet import ToolCallReport
from callsheet.history import History, store_at
from callsheet.history.rows import Origin
from callsheet.history.sqlite import VERSION
from callsheet.report.terminal import CallRecord
from callsheet.report.usage import TokenUsage
from tests.support import ROOT
from tests.support.engines import batch, call, database, engine, message, postgres, url
from tests.support.inspector import InspectorProcess, inspector
from tests.support.raw_agent import COMMAND
from tests.support.shells import CALLSHEET

__all__ = ["database", "engine", "postgres", "url"]


def write(url: str | Path, *items: Any) -> None:
    store = store_at(str(url))
    store.open()
    store.write(batch(items))
    store.close()


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InspectorProcess]:
    """An inspector of a history that nobody changes."""
    folder = tmp_path_factory.mktemp("ui")
    odd = {"repaired": ["title"], "parentId": "call_s1_0", "permission": {"by": "user"}}
    calls = [call(n, session=f"s{n % 2 + 1}", command=f"make part{n}") for n in range(10)]
    write(folder / "h.sqlite", *calls, call(10, status="failed", notes={"reason": "denied", **odd}))
    write(folder / "h.sqlite", message(11, "Hello"))
    with inspector(folder / "h.sqlite", XDG_DATA_HOME=str(folder)) as running:
        yield running


# Who is refused


NOBODY = {"user": "", "host": "", "agent": "", "client": "", "source": ""}
DATA = ("calls", "call", "sessions", "session", "events", "export", "filters", "nothing")


def error_of(body: bytes) -> str:
    return json.loads(body)["error"]


@pytest.mark.parametrize("path", DATA)
def test_data_needs_the_token(ui: InspectorProcess, path: str) -> None:
    for wrong in (None, "", "Bearer", "Bearer x", f"Basic {ui.token}", f"Bearer {ui.token}x"):
        status, _, body = ui.ask(f"/api/{path}", authorization=wrong)
        assert (status, "token" in error_of(body)) == (401, True)
    assert ui.ask(f"/api/calls?token={ui.token}", authorization=None)[0] == 401
    assert ui.ask("/api/calls", authorization=b"Bearer \xff\xfe".decode("latin-1"))[0] == 401


def test_the_page_has_no_data_and_needs_no_token(ui: InspectorProcess) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/app.js", "text/javascript"),
        ("/style.css", "text/css"),
    ):
        status, headers, body = ui.ask(path, authorization=None)
        assert status == 200
        assert headers["content-type"].startswith(kind)
        assert b"make part" not in body
        assert ui.token.encode() not in body


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/calls"])
def test_another_host_or_origin_is_refused(ui: InspectorProcess, path: str) -> None:
    port = ui.port
    for host in (None, "", "evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1",
                 f"127.0.0.1.evil.example:{port}", f"192.168.0.1:{port}", f"127.0.0.1:{port}@evil"):  # fmt: skip
        assert ui.ask(path, host=host)[0] in (400, 403)
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", f"LOCALHOST:{port}"):
        assert ui.ask(path, host=host)[0] == 200
    own = f"http://127.0.0.1:{port}"
    for origin in ("null", "http://evil.example", f"https://127.0.0.1:{port}", "http://127.0.0.1:1",
                   f"http://localhost:{port}", f"{own}.evil.example", f"{own}/"):  # fmt: skip
        status, headers, _ = ui.ask(path, origin=origin)
        assert status == 403
        assert not any(name.startswith("access-control") for name in headers)
    assert ui.ask(path, origin=own)[0] == 200


def test_all_responses_have_the_headers_that_protect(ui: InspectorProcess) -> None:
    for path, given in (
        ("/", {}),
        ("/api/calls", {}),
        ("/api/calls", {"authorization": None}),
        ("/", {"host": "evil.example"}),
        ("/nothing", {}),
    ):
        _, headers, _ = ui.ask(path, **given)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["x-dns-prefetch-control"] == "off"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in headers
        assert "access-control-allow-origin" not in headers


def test_other_methods_and_paths_lead_nowhere(ui: InspectorProcess) -> None:
    for method in ("POST", "DELETE", "OPTIONS", "HEAD", "TRACE", "PATCH", "BREW"):
        assert ui.ask("/api/calls", method)[0] == 405
    assert ui.ask("/api/calls", "PUT", b"{}")[0] == 405
    for path in ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/static/app.js",
                 "/app.js/../server.py", "/%2e%2e/server.py", "/app.py", "/api", "/api/", "/%00"):  # fmt: skip
        status, _, body = ui.ask(path)
        assert status in (400, 404)
        assert b"root:" not in body


def test_bytes_that_are_no_request_do_no_harm(ui: InspectorProcess) -> None:
    for data in (
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00" * 100,
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"PUT /api/filters HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ):
        with socket.create_connection((ui.host, ui.port), timeout=20) as raw:
            try:
                raw.sendall(data)
                assert raw.recv(100).split()[1] in (b"400", b"403", b"431")
            except (ConnectionError, IndexError):
                pass  # it has hung up
    assert ui.get("calls")["total"] == 11


# What is shown


def test_calls_come_in_windows_oldest_first(ui: InspectorProcess) -> None:
    last = ui.get("calls", offset=-2, limit=60)
    assert (last["total"], last["offset"], len(last["calls"])) == (11, 9, 2)
    row = last["calls"][-1]
    assert row == {
        "session": "s1", "cwd": "/code", "id": "call_s1_10", "at": 1750000010.0, "status": "failed", "reason": "denied",
        "title": "Running make 10", "name": "bash", "kind": "execute", "durationMs": 10.0,
        "size": row["size"], "who": NOBODY, "parent": "call_s1_0", "repaired": ["title"],
        "permission": {"by": "user"},
    }  # fmt: skip
    found = ui.get("calls", filter="part3 dur>1ms kind:food", limit=5)
    assert [one["id"] for one in found["calls"]] == ["call_s2_3"]
    assert found["wrong"][0].startswith("kind:food: expected one of read, edit")
    assert len(ui.get("calls", limit=100_000)["calls"]) == 11
    for wrong in ("limit=x", "offset=1.5", "offset=99999999999999999999999"):
        assert ui.ask(f"/api/calls?{wrong}")[0] == 400


def test_a_call_and_a_session_come_as_traces(ui: InspectorProcess) -> None:
    found = ui.get("call", session="s1", id="call_s1_10")
    assert found["call"]["title"] == "Running make 10"
    assert (found["call"]["status"], found["hasTimes"], found["cwd"]) == ("failed", True, "/code")
    assert found["call"]["frames"]
    trace = ui.get("session", id="s1")["trace"]
    assert [one["id"] for one in trace["calls"]] == [f"call_s1_{n}" for n in (0, 2, 4, 6, 8, 10)]
    assert trace["messages"][0]["text"] == "Hello"
    assert trace["sessions"] == {"s1": "/code"}
    for path in ("call?session=s1&id=x", "call?session=x&id=call_s1_0", "session?id=x"):
        assert ui.ask(f"/api/{path}")[0] == 404
    for path in ("call", "call?session=s1", "session", "session?id="):
        assert ui.ask(f"/api/{path}")[0] == 400


def test_findings_are_counted_for_the_list(tmp_path: Path) -> None:
    kimi = ROOT / "tests" / "recordings" / "kimi-cli-1.51.0.mixed-none.jsonl"
    store = f"sqlite:///{tmp_path}/h.sqlite"
    bare = [*CALLSHEET, "history", "import", str(kimi), "--no-repair", "--history", store]
    subprocess.run(bare, capture_output=True, timeout=60, check=True)
    write(tmp_path / "h.sqlite", call(1, session="own", status="in_progress"))
    with inspector(tmp_path / "h.sqlite", XDG_DATA_HOME=str(tmp_path)) as ui:
        found = ui.get("findings", offset=0, limit=60)["findings"]
        counts = {one["id"]: one["count"] for one in found}
        rows = [one for one in ui.get("calls", limit=60)["calls"] if one["session"] != "own"]
        assert set(counts) == {row["id"] for row in rows}
        for row in rows[:3]:
            whole = ui.get("call", session=row["session"], id=row["id"])["call"]
            assert counts[row["id"]] == len(whole["findings"]) > 0
        assert len(ui.get("findings", filter="kind:edit", limit=1)["findings"]) <= 1
        assert ui.ask("/api/findings?limit=x")[0] == 400


def test_sessions_come_page_by_page(ui: InspectorProcess) -> None:
    first = ui.get("sessions", limit=1)
    second = ui.get("sessions", limit=1, before=first["next"])
    assert [one["id"] for one in first["sessions"] + second["sessions"]] == ["s1", "s2"]
    assert second["sessions"][0]["calls"] == 5
    assert ui.get("sessions", limit=1, before=second["next"]) == {"sessions": [], "next": None}
    assert ui.ask("/api/sessions?before=x")[0] == 400


def test_what_is_filtered_is_exported_whole(ui: InspectorProcess) -> None:
    status, headers, body = ui.ask("/api/export?filter=session:s2")
    lines = [json.loads(line) for line in body.splitlines()]
    assert status == 200
    assert "attachment" in headers["content-disposition"]
    assert [line["toolCallId"] for line in lines] == [f"call_s2_{n}" for n in (9, 7, 5, 3, 1)]
    assert lines[0]["rawInput"] == {"command": "make part9"}
    assert ui.ask("/api/export?filter=kind:food")[0] == 400


def test_filters_are_saved_for_the_next_start(ui: InspectorProcess) -> None:
    saved = {"filters": [{"name": "slow", "filter": "dur>2s"}]}
    status, _, body = ui.ask("/api/filters", "PUT", json.dumps(saved).encode())
    assert (status, json.loads(body)) == (200, saved)
    assert ui.get("filters") == saved
    for wrong in (
        b"",
        b"{",
        b"[]",
        b'{"filters": [1]}',
        b"{}",
        b'{"filters": [{"name": "\\ud800", "filter": ""}]}',
        b"[" * 60_000,
        b"[" * 70_000,
        b'{"filters": {}}',
        b"\xff",
    ):
        assert ui.ask("/api/filters", "PUT", wrong)[0] == 400
    assert ui.ask("/api/filters", "PUT", b"{}", authorization=None)[0] == 401
    assert ui.get("filters") == saved


# What changes, and what goes wrong


def test_calls_are_announced_when_they_come(url: str) -> None:
    with inspector(url) as ui, ui.events() as wait_for:
        assert "no history" in wait_for(lambda state: state["problem"])["problem"]
        assert ui.ask("/api/calls")[0] == 503
        write(url, call(1))
        first = wait_for(lambda state: state["total"] == 1)
        assert first["problem"] is None
        write(url, call(2), call(3))
        assert wait_for(lambda state: state["total"] == 3)["version"] != first["version"]


def test_a_call_that_runs_is_shown_while_it_does(url: str) -> None:
    store = store_at(url)
    store.open()
    store.write(batch([call(1, status="in_progress")]))
    with inspector(url) as ui, ui.events() as wait_for:
        wait_for(lambda state: state["total"] == 1)
        assert ui.get("calls", filter="is:open")["calls"][0]["status"] == "in_progress"
        assert ui.get("call", session="s1", id="call_s1_1")["call"]["status"] == "in_progress"
        assert ui.get("session", id="s1")["trace"]["calls"][0]["ended"] is None
        store.write(batch([call(1)]))
        wait_for(lambda _: ui.get("calls", filter="is:open")["total"] == 0)
    store.close()


def test_a_store_that_is_locked_gone_replaced_or_newer_comes_back(tmp_path: Path) -> None:
    file, other = tmp_path / "h.sqlite", tmp_path / "other.sqlite"
    write(file, call(1))
    write(other, call(1), call(2))
    locking = sqlite3.connect(file, isolation_level=None)
    locking.execute("PRAGMA locking_mode = EXCLUSIVE")
    locking.execute("BEGIN IMMEDIATE")
    with inspector(file) as ui, ui.events() as wait_for:
        assert "locked" in wait_for(lambda state: state["problem"])["problem"]
        assert "locked" in error_of(ui.ask("/api/calls")[2])
        locking.close()
        assert wait_for(lambda state: state["problem"] is None)["total"] == 1
        with sqlite3.connect(file) as newer:
            newer.execute(f"PRAGMA user_version = {VERSION + 1}")
        assert "newer callsheet" in wait_for(lambda state: state["problem"])["problem"]
        with newer:
            newer.execute(f"PRAGMA user_version = {VERSION}")
        newer.close()
        assert wait_for(lambda state: state["problem"] is None)["total"] == 1
        file.unlink()
        assert "no history" in wait_for(lambda state: state["problem"])["problem"]
        for left in tmp_path.glob("h.sqlite-*"):
            left.unlink()
        other.rename(file)
        assert wait_for(lambda state: state["problem"] is None)["total"] == 2
        assert ui.get("calls")["total"] == 2


def test_a_session_with_very_many_calls_shows_the_newest(tmp_path: Path) -> None:
    write(tmp_path / "h.sqlite", *(call(n) for n in range(2100)))
    with inspector(tmp_path / "h.sqlite") as ui:
        trace = ui.get("session", id="s1")["trace"]
        assert len(trace["calls"]) == 2000
        assert trace["calls"][-1]["id"] == "call_s1_2099"
        assert trace["unreadable"][0] == "The oldest 100 of 2,100 calls are not shown."


def test_agents_and_taps_that_run_are_listed_until_they_end_or_are_killed(tmp_path: Path) -> None:
    history = f"sqlite:///{tmp_path}/h.sqlite"
    env = {**os.environ, "CALLSHEET_HISTORY": history, "XDG_STATE_HOME": str(tmp_path / "state")}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": env}
    secret = "sk-ant-api03-" + "Zx9" * 31
    tapped = [sys.executable, "-c", "input()", "--api-key", secret]
    with (
        inspector(history, XDG_STATE_HOME=env["XDG_STATE_HOME"]) as ui,
        subprocess.Popen(COMMAND, **pipes) as agent,
        subprocess.Popen([*COMMAND[:3], "tap", "--history", "off", "--", *tapped], **pipes) as tap,
        ui.events() as wait_for,
    ):
        running = wait_for(lambda state: len(state["running"]) == 2)["running"]
        found = {one["kind"]: one for one in running}
        assert (found["agent"]["pid"], found["tap"]["pid"]) == (agent.pid, tap.pid)
        assert (found["agent"]["history"], found["tap"]["history"]) == (history, "off")
        assert secret not in json.dumps(running)
        assert "input()" in found["tap"]["command"]
        folder = tmp_path / "state" / "callsheet" / "running"
        assert [folder.stat().st_mode & 0o777, *{file.stat().st_mode & 0o777 for file in folder.iterdir()}] == [0o700, 0o600]  # fmt: skip
        agent.send_signal(signal.SIGKILL)
        assert [
            one["pid"] for one in wait_for(lambda state: len(state["running"]) == 1)["running"]
        ] == [tap.pid]
        assert tap.stdin is not None
        tap.stdin.close()
        wait_for(lambda state: not state["running"])
        assert list(folder.iterdir()) == []


def test_it_is_known_who_made_the_calls_of_a_session(tmp_path: Path) -> None:
    ada = Origin(user="ada", host="build7", agent="kimi-cli", agent_version="1.51.0", source="tap")
    known = {**NOBODY, "user": "ada", "host": "build7", "agent": "kimi-cli 1.51.0", "source": "tap"}

    async def store() -> None:
        async with History(str(tmp_path / "h.sqlite")) as history:
            log = history.session("s", origin=ada, cwd="/w")
            log.say("user", "m", [{"type": "text", "text": "Hello"}])
            report = ToolCallReport("c1", "bash", status="completed")
            log.send(deque([CallRecord(report)]))
            others = history.session("s", origin=replace(ada, user="grace"), position=9)
            others.send(deque([CallRecord(replace(report, tool_call_id="c2"))]))

    asyncio.run(store())
    with inspector(tmp_path / "h.sqlite") as ui:
        ones = [row["who"] for row in ui.get("calls")["calls"]]
        assert ones == [known, {**known, "user": "grace"}]
        (session,) = ui.get("sessions")["sessions"]
        trace = ui.get("session", id="s")["trace"]
        whose = session["who"]
        assert whose in ones
        assert (trace["agent"], trace["who"]) == ("kimi-cli 1.51.0", whose)
        assert [call["who"] or whose for call in trace["calls"]] == ones
        for key, one in zip(("c1", "c2"), ones, strict=True):
            shown = ui.get("call", session="s", id=key)
            assert (shown["call"]["who"] or shown["who"]) == one
        assert [one["id"] for one in ui.get("calls", filter="user:grace")["calls"]] == ["c2"]


# Starting


def start(*options: str) -> tuple[int, str]:
    command = [
        sys.executable,
        "-m",
        "callsheet",
        "ui",
        "--no-open",
        "--history",
        "h.sqlite",
        *options,
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.returncode, done.stderr


def test_an_address_that_others_reach_needs_a_token_of_ones_own(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    code, said = start("--host", "0.0.0.0")
    assert (code, "--token-file" in said) == (2, True)
    for token, mode, expected in (("x" * 31, 0o600, "32"), ("x" * 40, 0o644, "chmod 600"), ("x y" * 20, 0o600, "one word")):  # fmt: skip
        secret.write_text(token)
        secret.chmod(mode)
        code, said = start("--host", "0.0.0.0", "--token-file", str(secret))
        assert (code, expected in said) == (2, True)
    secret.write_text("t" * 40 + "\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code, said = start("--port", str(taken.getsockname()[1]))
    assert (code, "in use" in said, said.count("\n")) == (1, True, 1)
    history = tmp_path / "nowhere" / "h"
    ui = InspectorProcess(str(history), "--host", "0.0.0.0", "--token-file", str(secret))
    try:
        ui.host = "127.0.0.1"
        assert ui.token == "t" * 40
        assert ui.ask("/", host=f"10.1.2.3:{ui.port}")[0] == 200
        assert ui.ask("/", host=f"evil.example:{ui.port}")[0] == 403
    finally:
        code, said = ui.end()
    assert (code, "can read every stored call" in said) == (0, True)
    assert f"Ctrl-C ends it\ncallsheet: {history} does not exist yet: waiting for it\n" in said


def test_saved_filters_may_be_anything_and_unwritable(tmp_path: Path) -> None:
    saved = tmp_path / "callsheet" / "filters.json"
    saved.parent.mkdir()
    one = {"name": "slow", "filter": "dur>2s"}
    with inspector(tmp_path / "h.sqlite", XDG_DATA_HOME=str(tmp_path)) as ui:
        for odd in ("{}", "[]", "[" * 100_000, '{"filters": {}}', "\xff"):
            saved.write_text(odd, encoding="latin-1")
            assert ui.get("filters") == {"filters": []}
        saved.write_text(json.dumps({"filters": [1, one, {"name": []}, {"filter": ""}]}))
        assert ui.get("filters") == {"filters": [one]}
        saved.unlink()
        os.mkfifo(saved)
        assert ui.get("filters") == {"filters": []}
        saved.unlink()
        saved.mkdir()
        status, _, body = ui.ask("/api/filters", "PUT", json.dumps({"filters": [one]}).encode())
        assert (status, "can't be written" in error_of(body)) == (503, True)
        assert list(saved.parent.iterdir()) == [saved]
        saved.rmdir()
        assert ui.ask("/api/filters", "PUT", json.dumps({"filters": [one]}).encode())[0] == 200
        assert saved.stat().st_mode & 0o777 == 0o600


def test_notes_of_any_shape_do_no_harm_to_the_list(tmp_path: Path) -> None:
    odd = {"toString": 1, "valueOf": 1}
    notes = {"repaired": "abc", "permission": {"by": odd, "outcome": "allowed"}, "parentId": odd}
    write(tmp_path / "h.sqlite", call(1, notes=notes))
    with sqlite3.connect(tmp_path / "h.sqlite") as db:  # as a version before may have stored it
        db.execute("UPDATE calls SET marks = ?", (json.dumps(notes),))
    db.close()
    with inspector(tmp_path / "h.sqlite") as ui:
        (row,) = ui.get("calls")["calls"]
    shown = (row["parent"], row["repaired"], row["permission"])
    assert shown == (None, [], {"outcome": "allowed"})


def test_a_token_may_have_any_character_and_is_no_pipe(tmp_path: Path) -> None:
    secret, pipe = tmp_path / "token", tmp_path / "pipe"
    secret.write_text("a+b&c%d#e=" * 4)
    secret.chmod(0o600)
    with inspector(tmp_path / "h.sqlite", "--token-file", str(secret)) as ui:
        assert "#token=a%2Bb%26c%25d%23e%3D" in ui.url
        assert ui.ask("/api/filters")[0] == 200
    os.mkfifo(pipe, 0o600)
    assert "no regular file" in start("--token-file", str(pipe))[1]


@pytest.mark.parametrize("host", ["", "0", "127.1"])
def test_a_shortened_address_is_refused(host: str) -> None:
    code, said = start("--host", host)
    assert (code, "whole address" in said) == (2, True)


def test_the_browser_is_not_told_the_token_on_its_command_line(tmp_path: Path) -> None:
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(f'#!/bin/sh\n(echo "$1"; cat "${{1#file://}}") > {told}\n')
    browser.chmod(0o700)
    ours, its = os.openpty()
    env = {**os.environ, "BROWSER": f"{browser} %s", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "callsheet", "ui", "--history", str(tmp_path / "h.sqlite")]
    with (
        subprocess.Popen(command, stdout=its, env=env) as process,
        os.fdopen(ours, "rb") as terminal,
    ):
        os.close(its)
        url = terminal.readline().decode().strip()
        while not (told.exists() and url in told.read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        (page,) = tmp_path.glob("callsheet-*.html")
        assert page.stat().st_mode & 0o777 == 0o600
        assert f"{page.as_uri()}\n" in told.read_text()
        process.terminate()
        process.wait()
        assert not page.exists()


def test_without_its_packages_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from callsheet.cli import main; main()"
    command = [sys.executable, "-c", code, "ui", "--history", "h.sqlite"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs uvicorn: pip install 'callsheet[ui]'" in done.stderr


def test_a_call_whose_process_is_gone_is_shown_as_abandoned(tmp_path: Path) -> None:
    write(tmp_path / "h.sqlite", call(1, status="in_progress"))
    with inspector(tmp_path / "h.sqlite") as ui, ui.events() as wait_for:
        wait_for(lambda _: ui.get("calls", filter="status:abandoned")["total"] == 1)
        assert ui.get("calls", filter="is:open")["total"] == 0


def test_what_a_session_has_used_is_shown(tmp_path: Path) -> None:
    async def store() -> None:
        async with History(f"sqlite:///{tmp_path / 'h.sqlite'}") as history:
            for name in ("s1", "s2"):
                log = history.session(name, cwd="/code")
                log.say("user", "m", [{"type": "text", "text": "go"}])
                log.begin_turn()
                paid = TokenUsage(total_tokens=1200, cost=0.5, currency="USD", cost_source="agent")
                log.end_turn("end_turn", paid if name == "s1" else None)

    asyncio.run(store())
    with inspector(tmp_path / "h.sqlite") as ui:
        listed = {one["id"]: one["usage"] for one in ui.get("sessions")["sessions"]}
        assert listed == {"s1": "1,200 tokens, $0.50", "s2": ""}
        usage = ui.get("session", id="s1")["trace"]["usage"]
        cost = {"amount": 0.5, "currency": "USD", "estimated": 0.0, "turns": 1}
        assert usage == {"totalTokens": 1200, "cost": cost}
        assert ui.get("session", id="s2")["trace"]["usage"] is None
