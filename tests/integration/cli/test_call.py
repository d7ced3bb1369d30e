"""`callsheet call`: into pipes, on terminals, interrupted, with wrong arguments."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import click
import pytest
from click.testing import CliRunner

from callsheet.cli.app import app
from callsheet.cli.call import arguments_from, json_arguments
from callsheet.testing import assert_every_call_ended, updates_in
from callsheet.tools.arguments import value_of
from tests.integration.cli.conftest import Command
from tests.support import schemas
from tests.support.shells import CALLSHEET, Terminal, without_escapes

TOOLS = '''
"""Tools for tests."""
import asyncio, os, subprocess, sys, time
from pathlib import Path
from typing import Literal
from callsheet import Call, ToolCallContent, ToolError, ToolResult, tool

@tool(kind="read", title="Showing {path}")
def show(call: Call, path: Path, limit: int = 0, mode: Literal["text", "hex"] = "text") -> ToolResult:
    """Show a file."""
    return call.success(path.read_text()).with_metadata("limit", limit).with_metadata("mode", mode)

@tool(kind="edit", title="Changing {path}")
def change(call: Call, path: Path, old: str, new: str) -> str:
    """Change a file."""
    before = path.read_text()
    path.write_text(after := before.replace(old, new))
    call.diff(path, before, after)
    return "Changed"

@tool(kind="execute", title="Counting")
async def count(call: Call, n: int, delay: float = 0.0):
    """Count."""
    for number in range(n):
        yield f"number {number}\\n"
        await asyncio.sleep(delay)

@tool
def say(words: str, times: int | None = None) -> str:
    """Say it."""
    return f"{words!r} {times!r}"

@tool
async def stuck(call: Call) -> str:
    """Keep the event loop from turning."""
    print("stuck now", flush=True)
    sys.stderr.write("really stuck\\n")
    time.sleep(30)

@tool
def noisy() -> str:
    """Write to every stream there is."""
    print("printed")
    os.write(1, b"to descriptor 1\\n")
    subprocess.run(["sh", "-c", "echo from a child; read line; echo got $line"])
    sys.stderr.write("to stderr\\n")
    return "done"

@tool
def fall(how: Literal["exception", "error"]) -> str:
    """Fail."""
    if how == "error":
        raise ToolError("not today")
    raise LookupError("no ghp_" + "1a2B3c4D5e" * 3 + "6F7g8H")
'''


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("tools") / "some_tools.py"
    file.write_text(TOOLS)
    return str(file)


@pytest.fixture
def call(
    tools: str, tmp_path: Path, command: Command
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `callsheet call`: with options, such as an input, as a process of its own."""

    def run(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        if not options:
            return command("call", *args, "--tools", tools, cwd=tmp_path)
        return subprocess.run(
            [*CALLSHEET, "call", *args, "--tools", tools],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd=tmp_path,
            **options,
        )

    return run


@pytest.fixture
def on_terminal(tools: str, tmp_path: Path) -> Callable[..., Terminal]:
    def start(*args: str, **options: Any) -> Terminal:
        return Terminal(["call", *args, "--tools", tools], tmp_path, **options)

    return start


# Into a pipe


def test_into_a_pipe_go_title_output_and_end_without_escapes(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    done = call(
        "show", "path=a.txt", env={**os.environ, "FORCE_COLOR": "1"}, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:-1] == ["Showing a.txt", "one", "two"]
    assert re.fullmatch(r"completed · \d+ ms · a\.txt", lines[-1])
    assert "\x1b" not in done.stdout


def test_a_result_is_the_tool_s_own_as_json(call: Any, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    (tmp_path / "a.txt").write_text(secret)
    done = call("show", "path=a.txt", "limit=5", "--format", "result")
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["success"] is True
    assert result["output"] == secret
    assert result["tool_name"] == "show"
    assert (result["metadata"]["limit"], result["metadata"]["mode"]) == (5, "text")
    assert {"timestamp", "working_directory"} <= set(result["metadata"])
    assert secret not in call("show", "path=a.txt").stdout


@pytest.mark.parametrize("protocol", [1, 2])
def test_acp_returns_valid_lines_of_a_call_that_ends(call: Any, protocol: int) -> None:
    done = call("count", "n=3", "--format", "acp", "--protocol", str(protocol))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for line in lines:
        name = "SessionNotification" if protocol == 1 else "UpdateSessionNotification"
        schemas.check(protocol, name, json.loads(line)["params"])
    assert_every_call_ended(lines)
    first = next(updates_in(lines))
    assert first["sessionUpdate"] == ("tool_call" if protocol == 1 else "tool_call_update")


def test_a_tool_that_fails_exits_with_1_and_shows_why(call: Any) -> None:
    done = call("show", "path=missing.txt")
    assert (done.returncode, done.stderr) == (1, "")
    assert "missing.txt: No such file or directory" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("failed · ")


def test_titles_are_in_the_language_that_was_asked_for(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    done = call("read", "path=a.txt", "--locale", "de_AT")
    assert done.stdout.splitlines()[0] == "a.txt wird gelesen"


def test_a_tool_that_takes_too_long_is_stopped(call: Any) -> None:
    done = call("count", "n=100", "delay=0.05", "--timeout", "1")
    assert done.returncode == 1
    assert "number 0" in done.stdout
    assert "number 99" not in done.stdout
    assert "Timed out after 1 s" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("timed out · ")


def test_stdout_carries_only_the_answer_whatever_a_tool_writes(call: Any) -> None:
    done = call("noisy", "--format", "result", input="for nobody\n")
    assert json.loads(done.stdout)["output"] == "done"
    assert done.stderr == "to descriptor 1\nfrom a child\ngot\nto stderr\n"


def test_arguments_come_from_json_or_stdin_and_key_value_wins(call: Any) -> None:
    given = '{"words": "as typed", "times": 1}'
    done = call("say", "times=7", "--json", given, "--format", "result")
    assert json.loads(done.stdout)["output"] == "'as typed' 7"
    given = '{"words": "of stdin"}'
    done = call("say", "--json", "-", "--format", "result", input=given)
    assert json.loads(done.stdout)["output"] == "'of stdin' None"


def test_what_is_outside_the_directory_is_refused(call: Any, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "a.txt").write_text("secret")
    done = call("show", "path=../a.txt", "--cwd", "inside")
    assert done.returncode == 1
    assert "is outside the workspace" in done.stdout
    assert "secret" not in done.stdout
    assert "--cwd" in done.stderr
    done = call("fetch", "url=http://127.0.0.1:9/")
    assert "--allow-host" in done.stdout
    assert "--cwd" not in done.stderr


# Readers and writers that go away


def test_an_exception_has_its_traceback_on_stderr_and_an_error_has_none(
    call: Callable[..., subprocess.CompletedProcess[str]], tools: str
) -> None:
    done = call("fall", "how=exception", "--format", "result")
    assert json.loads(done.stdout)["error"].startswith("LookupError: no ")
    assert f'File "{tools}", line ' in done.stderr
    assert "LookupError: no [redacted:" in done.stderr
    done = call("fall", "how=error")
    assert (done.returncode, done.stderr) == (1, "")


def test_a_reader_that_has_enough_ends_it_quietly(tools: str, tmp_path: Path) -> None:
    for style in ("pretty", "acp"):
        command = [*CALLSHEET, "call", "count", "n=1000000", "delay=0.001", "--format", style]
        with subprocess.Popen(
            [*command, "--tools", tools],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
        ) as child:
            assert child.stdout is not None
            assert child.stderr is not None
            assert child.stdout.readline()
            child.stdout.close()
            assert child.stderr.read() == b""
            assert child.wait(timeout=20) == 1


@pytest.mark.parametrize("style", ["pretty", "acp"])
def test_a_full_disk_is_reported_in_one_line(tools: str, tmp_path: Path, style: str) -> None:
    command = [*CALLSHEET, "call", "say", "words=x", "--format", style, "--tools", tools]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=30,
            check=False,
            cwd=tmp_path,
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_closed_streams_are_no_reason_to_fail(tools: str, tmp_path: Path) -> None:
    line = " ".join([*CALLSHEET, "call", "say", "words=x", "--tools", tools, "<&-", "2>&-"])
    done = subprocess.run(
        ["sh", "-c", line], stdout=subprocess.PIPE, text=True, timeout=30, check=False, cwd=tmp_path
    )
    assert done.returncode == 0
    assert "'x' None" in done.stdout


# Interrupting


def start(tools: str, cwd: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*CALLSHEET, "call", *args, "--tools", tools],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
    )


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_call_and_its_output_is_shown(
    tools: str, tmp_path: Path, sign: signal.Signals, code: int
) -> None:
    with start(tools, tmp_path, "count", "n=1000", "delay=0.01") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "Counting\n"
        assert child.stdout.readline() == "number 0\n"
        child.send_signal(sign)
        out, err = child.communicate(timeout=20)
    assert (child.returncode, err) == (code, "")
    assert out.splitlines()[-1].startswith("cancelled · ")


def test_an_interrupted_command_leaves_no_process_behind(tools: str, tmp_path: Path) -> None:
    command = "echo begun; sleep 61.25 & sleep 61.25"
    with start(tools, tmp_path, "bash", f"command={command}") as child:
        assert child.stdout is not None
        assert "begun\n" in iter(child.stdout.readline, "")
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    assert child.returncode == 130
    assert "cancelled · " in out
    assert (
        subprocess.run(["pgrep", "-f", "sleep 61.25"], check=False, stdout=subprocess.PIPE).stdout
        == b""
    )


def test_the_second_interrupt_ends_it_at_once_even_if_the_tool_holds_everything_up(
    tools: str, tmp_path: Path
) -> None:
    with start(tools, tmp_path, "stuck") as child:
        assert child.stderr is not None
        assert child.stderr.readline() == "really stuck\n"
        child.send_signal(signal.SIGINT)
        time.sleep(0.1)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=2) == 130


# On a terminal


def test_a_call_is_drawn_live_and_stays_as_a_card(on_terminal: Any) -> None:
    shown = on_terminal("count", "n=12", "delay=0.05")
    assert shown.end() == 0
    live, _, card = without_escapes(shown.text).rpartition("✓")
    assert not set("⠙⠹⠸⠼⠴⠦⠧⠇⠏").isdisjoint(live)  # a busy machine skips some
    assert "│ number 0 " in live
    rows = [row.rstrip() for row in card.strip().splitlines()]
    assert rows[0].startswith("❯ Counting ──")
    assert rows[1:-1] == [f"│ number {n}" for n in range(12)]
    assert rows[-1].startswith("╰─ completed · ")


def test_a_diff_is_coloured_and_numbered_and_its_place_is_a_link(
    on_terminal: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 21)))
    shown = on_terminal("change", "path=a.txt", "old=line 9\n", "new=line nine\n")
    assert shown.end() == 0
    assert "\x1b[31m 9 − line 9\x1b[0m" in shown.text
    assert "\x1b[32m 9 + line nine\x1b[0m" in shown.text
    assert " 6   line 6" in shown.text
    assert "line 5" not in shown.text


def test_a_narrow_terminal_is_never_written_past_its_edge(on_terminal: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("日本語テキスト" * 20 + "\n" + "z" * 300)
    shown = on_terminal("show", "path=a.txt", columns=40)
    assert shown.end() == 0
    from rich.cells import cell_len

    rows = [without_escapes(row) for row in re.split(r"[\r\n]", shown.text)]
    assert max(cell_len(row) for row in rows) < 40
    assert "".join(row[2:] for row in rows).count("z") == 300


def test_no_colour_is_sent_to_whom_wants_none_and_no_escape_to_a_dumb_terminal(
    on_terminal: Any,
) -> None:
    shown = on_terminal("say", "words=x", NO_COLOR="1")
    assert shown.end() == 0
    assert "✓" in shown.text
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", shown.text)
    shown = on_terminal("say", "words=x", TERM="dumb")
    assert shown.end() == 0
    assert "\x1b" not in shown.text


def test_what_a_tool_logs_to_the_terminal_stands_above_the_card(on_terminal: Any) -> None:
    shown = on_terminal("noisy")
    assert shown.end() == 0
    plain = without_escapes(shown.text)
    card = plain[plain.index("✓") :]
    assert "to stderr\n" in plain
    assert "to stderr" not in card
    assert "│ printed " in card


def test_an_interrupted_terminal_gets_its_cursor_back(on_terminal: Any) -> None:
    shown = on_terminal("stuck")
    shown.until("Stuck")
    time.sleep(0.3)
    for _ in range(2):
        shown.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert shown.end() == 130
    assert shown.text.rfind("\x1b[?25h") > shown.text.rfind("\x1b[?25l")


# Wrong usage, which runs nothing


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["shwo", "path=a"], "there is no tool 'shwo'; did you mean show?"),
        (["zzzzzz"], "there are: read, write"),
        (["show", "path"], "'path' is not an argument; expected key=value"),
        (["show", "=x"], "'=x' is not an argument"),
        (["show", "path=a", "path=b"], "path is given twice"),
        (["show"], "missing argument: path"),
        (["show", "pth=a"], "did you mean 'path'?"),
        (["show", "path=a", "limit=five"], 'limit: expected a whole number, got "five"'),
        (["show", "path=a", "mode=bin"], 'mode: expected one of "hex", "text", got "bin"'),
        (["show", "--json", '{"path": }'], "--json: not JSON: Expecting value: line 1 column 10"),
        (["show", "--json", "[1]"], "expected an object of arguments"),
        (["show", "--json", '{"path": NaN}'], "NaN is no JSON"),
        (["show", "path=a", "--cwd", "no-such-dir"], "Directory 'no-such-dir' does not exist"),
        (["show", "path=a", "--timeout", "0"], "0.0 is not in the range x>0"),
        (["show", "path=a", "--format", "xml"], "'xml' is not one of"),
        (["show", "path=a", "--protocol", "3"], "'3' is not one of"),
        (["show", "path=a", "--locale", "xx"], "'xx': expected one of en, de"),
        (["show", "path=a", "--color"], "No such option '--color'"),
    ],
)
def test_bad_usage_is_named_and_exits_with_2(tools: str, args: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["call", *args, "--tools", tools])
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (\n", "t.py:1: '(' was never closed"),
        ("import os\nimport no_such_module\n", "t.py:2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("raise SystemExit(3)", "t.py:1: SystemExit: 3"),
        ("x = 1", "t.py has no tools"),
        ("from callsheet import tool\n@tool\ndef f(x): ...", "'x'"),
        ("from callsheet import tool\n@tool(name='a')\ndef f(): ...\n@tool(name='a')\ndef g(): ...", "two tools named 'a'"),
    ],
)  # fmt: skip
def test_a_file_of_tools_that_can_t_be_used_is_reported_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "t", raising=False)
    Path("t.py").write_text(text)
    done = CliRunner().invoke(app, ["call", "show", "--tools", "t.py"])
    monkeypatch.delitem(sys.modules, "t", raising=False)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--tools" in done.stderr
    assert message in done.stderr


# Values


SCHEMA = {
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer"},
        "ratio": {"type": "number"},
        "on": {"type": "boolean"},
        "env": {"type": "object"},
        "names": {"type": "array"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "both": {"type": ["string", "integer"]},
        "mode": {"enum": ["1", "text"]},
        "level": {"enum": [1, 2]},
        "deep": {"$ref": "#/$defs/Deep"},
        "loop": {"$ref": "#/$defs/Loop"},
    },
    "$defs": {"Deep": {"type": "object"}, "Loop": {"$ref": "#/$defs/Loop"}},
}


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("path=5", "5"), ("path=true", "true"), ("path=", ""), ("path=a=b", "a=b"), ("path=[1]", "[1]"),
        ('path="a\\nb"', "a\nb"), ('path="', '"'),
        ("limit=5", 5), ("limit=-5", -5), ("limit=5.5", "5.5"), ("limit=five", "five"), ("limit=true", "true"),
        ("ratio=5", 5), ("ratio=1e3", 1000.0), ("ratio=NaN", "NaN"),
        ("on=true", True), ("on=1", "1"), ("on=yes", "yes"),
        ('env={"A":"1"}', {"A": "1"}), ("env=A", "A"), ("names=[1,2]", [1, 2]), ("names=1", "1"),
        ("maybe=null", None), ("maybe=3", 3), ("maybe=x", "x"),
        ("both=3", 3), ("both=x", "x"), ("mode=1", "1"), ("mode=text", "text"), ("level=1", 1),
        ('deep={"a":[]}', {"a": []}), ("loop=1", 1),
        ("unknown=5", 5), ("unknown=x", "x"),
    ],
)  # fmt: skip
def test_a_value_is_json_where_that_is_what_the_schema_asks_for(pair: str, value: Any) -> None:
    found = arguments_from([pair], {}, SCHEMA)
    assert found == {pair.partition("=")[0]: value}
    assert type(next(iter(found.values()))) is type(value)


def test_a_huge_number_and_a_deep_nest_are_text_where_they_can_t_be_read() -> None:
    assert arguments_from(["limit=" + "9" * 5000], {}, SCHEMA) == {"limit": "9" * 5000}
    deep = "[" * 100_000
    assert arguments_from([f"names={deep}"], {}, SCHEMA) == {"names": deep}
    with pytest.raises(click.UsageError, match="not JSON"):
        json_arguments(deep)


def test_a_schema_that_allows_everything_takes_json() -> None:
    assert value_of("5", "n", {}) == 5
    assert value_of("5", "n", {"properties": {"n": {"allOf": [{"type": "string"}]}}}) == "5"
    assert value_of("-5", "n", {"properties": {"n": {"type": "integer", "minimum": 0}}}) == -5


def test_a_host_that_is_not_public_is_fetched_where_it_is_allowed(
    command: Command, tmp_path: Path
) -> None:
    (tmp_path / "page.txt").write_text("hello from here")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"url=http://127.0.0.1:{server.server_port}/page.txt"
        refused = command("call", "fetch", url, cwd=tmp_path)
        allowed = command("call", "fetch", url, "--allow-host", "127.0.0.1", cwd=tmp_path)
        mistaken = command("call", "fetch", url, "--allow-host", url[4:], cwd=tmp_path)
        server.shutdown()
    assert (refused.returncode, allowed.returncode, mistaken.returncode) == (1, 0, 2)
    assert "expected a host such as localhost" in mistaken.stderr
    assert "--allow-host" in refused.stdout
    assert "hello from here" in allowed.stdout
