"""`callsheet agent` as an editor starts it: a real process, driven over its pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT, schemas
from tests.support.raw_agent import COMMAND, RawAgent

CALLSHEET = [sys.executable, "-m", "callsheet"]

TOOLS = '''
from callsheet import tool

print("noise that must not reach the client")

@tool(kind="read", title="Greeting {name}")
def greet(name: str, times: int = 1) -> str:
    """Greet somebody.

    Args:
        name: Who is greeted.
    """
    return f"hello {name}! " * times

@tool(kind="read")
def broken() -> str:
    """Fail."""
    return [][0]
'''

HANDLER = """
class MyHandler:
    async def turn(self, prompt, turn):
        result = await turn.run("list", {"path": "."})
        await turn.say(f"{prompt.text} {result.success}")
        return "max_tokens"

class Failing:
    async def turn(self, prompt, turn):
        raise ConnectionError("the model is out")

class Mute:
    pass

class Short:
    async def turn(self, prompt):
        pass

class Broken(MyHandler):
    def __init__(self):
        raise ValueError("no key")

number = 5
"""


class Editor(RawAgent):
    """Plays the client's part: checks every update, and answers every request for permission."""

    def __init__(self, *options: str, version: int) -> None:
        self.version: int = version
        self.asked: list[Any] = []
        self.choice: str = "allow_once"
        super().__init__([*COMMAND, *options], Path.cwd())

    def receive(self, line: bytes) -> None:
        super().receive(line)
        message = json.loads(line)
        if message.get("method") == "session/update":
            schemas.check_update(self.version, message["params"]["update"])
        elif message.get("method") == "session/request_permission":
            self.asked.append(message["params"])
            kinds = {one["kind"]: one["optionId"] for one in message["params"]["options"]}
            chosen = {"outcome": "selected", "optionId": kinds[self.choice]}
            self.send({"id": message["id"], "result": {"outcome": chosen}})

    def open(self, cwd: Path) -> str:
        """Initialize the agent, and return the id of a session."""
        self.cwd = cwd
        assert self.initialize(self.version)["result"]["protocolVersion"] == self.version
        return self.new_session()

    def turn(self, session: str, text: str) -> Any:
        """Run a turn, and return why it stopped."""
        self.lines.clear()
        answer = self.answer(self.prompt(session, text))
        if self.version == 1:
            return answer["result"]["stopReason"]
        ends = self.until(lambda: [u for u in self.updates() if u.get("state") == "idle"])
        return ends[0]["stopReason"]

    @property
    def words(self) -> str:
        return "".join(one["content"]["text"] for one in self.updates("agent_message_chunk"))

    @property
    def statuses(self) -> dict[str, str]:
        """What each call is at the end."""
        reported = [u for u in self.updates() if "toolCallId" in u and "status" in u]
        return {update["toolCallId"]: update["status"] for update in reported}


@contextmanager
def editor(*options: str, version: int = 1, complains: bytes = b"") -> Iterator[Editor]:
    """Start the agent. It ends when its stdin does, with 0, and without a word unless it complains."""
    client = Editor(*options, version=version)
    try:
        yield client
        client.close_stdin()
        assert client.wait(10) == 0
    finally:
        client.end()
    errors = client.stderr.replace(b"noise that must not reach the client\n", b"")
    assert complains in errors if complains else errors == b""


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_typed_is_run_in_both_versions(tmp_path: Path, version: int) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    with editor("--protocol", str(version), version=version) as client:
        session = client.open(tmp_path)
        assert client.turn(session, "/read a.txt\n/edit a.txt hello bye\n!cat a.txt") == "end_turn"
        assert list(client.statuses.values()) == ["completed"] * 3
        assert len(client.asked) == 2
        assert (tmp_path / "a.txt").read_text() == "bye\n"
        assert client.words == ""
        assert client.turn(session, "hello?") == "end_turn"
        assert client.words.startswith("Type a command")


def test_the_commands_are_reported_with_hints(tmp_path: Path) -> None:
    with editor() as client:
        client.open(tmp_path)
        reported = client.until(lambda: client.updates("available_commands_update"))
        by_name = {one["name"]: one for one in reported[0]["availableCommands"]}
        assert by_name["read"]["input"] == {"hint": "path [offset] [limit]"}
        assert {"bash", "grep", "help"} <= set(by_name)


def test_a_denied_call_ends_and_is_reported_and_the_next_is_run(tmp_path: Path) -> None:
    with editor() as client:
        client.choice = "reject_once"
        session = client.open(tmp_path)
        client.turn(session, "!touch x\n/list")
        assert list(client.statuses.values()) == ["failed", "completed"]
        assert not (tmp_path / "x").exists()
        assert client.words.startswith("`!touch x`: ")


def test_permission_allow_asks_nobody(tmp_path: Path) -> None:
    with editor("--permission=allow") as client:
        client.turn(client.open(tmp_path), "!touch x")
        assert (tmp_path / "x").exists()
        assert client.asked == []


def test_permission_deny_runs_nothing_that_changes_anything(tmp_path: Path) -> None:
    with editor("--permission", "deny") as client:
        client.turn(client.open(tmp_path), "!touch x\n/list")
        assert list(client.statuses.values()) == ["failed", "completed"]
        assert client.asked == []


def test_own_tools_are_commands(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(TOOLS)
    with editor("--tools", str(tmp_path / "own.py")) as client:
        session = client.open(tmp_path)
        client.turn(session, "/greet times=2 'dear all'")
        (announced,) = client.updates("tool_call")
        assert announced["title"] == "Greeting dear all"
        assert announced["rawInput"] == {"name": "dear all", "times": 2}
        client.turn(session, "/help")
        assert "- `/greet name [times]`: Greet somebody." in client.words


def test_a_handler_of_a_module_needs_one_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(str(Path(p).absolute()) for p in sys.path if p)
    )
    monkeypatch.chdir(tmp_path)
    with editor("--handler", "handler:MyHandler") as client:
        session = client.open(tmp_path)
        assert client.turn(session, "so?") == "max_tokens"
        assert client.words == "so? True"


@pytest.mark.parametrize("version", [1, 2])
def test_what_goes_wrong_in_a_handler_is_reported_and_the_session_goes_on(
    tmp_path: Path, version: int
) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    options = ("--handler", f"{tmp_path / 'handler.py'}:Failing", "--protocol", str(version))
    with editor(*options, version=version, complains=b"Traceback") as client:
        session = client.open(tmp_path)
        for _ in range(2):
            if version == 1:
                failed = client.answer(client.prompt(session, "hello"))["error"]
                assert "ConnectionError: the model is out" in failed["message"]
            else:
                assert client.turn(session, "hello") == "error"
                assert "the model is out" in client.updates()[-1]["error"]["message"]


def test_the_traceback_of_a_tool_is_on_stderr_only(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TOOLS)
    with editor("--tools", str(tmp_path / "mine.py"), complains=b"mine.py") as client:
        client.turn(client.open(tmp_path), "/broken")
        assert list(client.statuses.values()) == ["failed"]
        assert b"Traceback" not in b"".join(client.lines)
    assert b"return [][0]" in client.stderr


def test_a_handler_that_cannot_be_made_is_reported_to_the_editor(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(HANDLER)
    with editor("--handler", f"{tmp_path / 'handler.py'}:Broken") as client:
        client.initialize()
        for _ in range(2):  # the agent lives
            failed = client.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})["error"]
            assert "no key" in failed["message"]


def example(language: str, holding: str) -> str:
    """Return an example of the document."""
    text = (ROOT / "docs" / "how-to" / "handler.md").read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if holding in block]
    return found


def test_the_handler_of_the_document_works(tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(example("python", 'class MyHandler:\n    """Asks'))
    with editor("--handler", f"{tmp_path / 'handler.py'}:MyHandler") as client:
        session = client.open(tmp_path)
        assert client.turn(session, "what is here?") == "end_turn"
        assert client.words.startswith("I'll have a look.")
        assert "handler.py" in client.words
        (announced,) = client.updates("tool_call")
        assert announced["_meta"]["callsheet"]["alias"] == "toolu_01"


def test_titles_and_help_are_in_the_language_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    with editor("--locale", "de") as client:
        session = client.open(tmp_path)
        client.turn(session, "/read a.txt\n/help")
        assert (
            client.updates("tool_call")[0]["title"] == "Liest a.txt"
            or "a.txt" in client.updates("tool_call")[0]["title"]
        )
        assert "führt einen Shell-Befehl aus" in client.words


BAD: list[tuple[list[str], str]] = [
    (["--protocol", "3"], "'3' is not one of '1', '2'"),
    (["--permission", "maybe"], "'maybe' is not one of 'ask', 'allow', 'deny'"),
    (["--locale", "xx"], "'xx': expected one of en, de"),
    (["--tools", "none.py"], "--tools: none.py: there is no such file"),
    (["--tools", "empty.py"], "--tools: empty.py has no tools"),
    (["--tools", "twice.py"], "--tools: there are two tools named 'a'"),
    (["--handler", "handler.py"], "--handler: handler.py: expected MODULE:NAME or FILE.py:NAME"),
    (["--handler", "handler.py:Nobody"], "--handler: handler.py has no Nobody"),
    (
        ["--handler", "handler.py:Mute"],
        "--handler: handler.py:Mute has no method turn; expected `async def turn(self, prompt, turn)`",
    ),
    (
        ["--handler", "handler.py:Short"],
        "Short.turn: too many positional arguments; expected `async def turn(self, prompt, turn)`",
    ),
    (["--handler", "handler.py:number"], "--handler: handler.py:number is no class, but int"),
    (
        ["--handler", "no_such_module_here:MyHandler"],
        "--handler: no_such_module_here: ModuleNotFoundError",
    ),
    (["--histroy", "x"], "No such option"),
    (["extra"], "unexpected extra argument"),
]


@pytest.mark.parametrize(
    ("options", "message"),
    BAD,
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_with_the_options_is_reported_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    from click.testing import CliRunner

    from callsheet.cli.app import app

    (tmp_path / "handler.py").write_text(HANDLER)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "twice.py").write_text(
        "from callsheet import tool\n@tool\ndef a(): ...\nb, c = a, tool(name='a')(lambda: 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["agent", *options])
    assert result.exit_code == 2
    assert message in result.output


def test_a_mistake_ends_the_process_with_2_and_leaves_stdout_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        [*CALLSHEET, "agent", "--tools", str(tmp_path / "none.py")],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"there is no such file" in done.stderr


def test_the_help_shows_of_every_option() -> None:
    done = subprocess.run(
        [*CALLSHEET, "agent", "--help"], capture_output=True, text=True, check=True
    )
    reported = set(re.findall(r"--([\w-]+)", done.stdout))
    assert reported == {
        "allow-host",
        "budget",
        "mcp",
        "protocol",
        "permission",
        "prompt",
        "history",
        "locale",
        "tools",
        "handler",
        "help",
    }


PROGRAM = """
from callsheet.agent.agent import AgentSettings, serve
serve(AgentSettings(handler=object))
"""


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["-m", "callsheet", "agent"], b"callsheet setup zed prints"),
        (
            ["-m", "callsheet", "agent", "--permission", "deny"],
            b"callsheet setup zed -- --permission deny prints",
        ),
        (["program.py", "--x"], b"/program.py --x."),
    ],
)
def test_somebody_at_a_terminal_is_reported_what_this_is(
    tmp_path: Path, command: list[str], hint: bytes
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *command],
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    os.close(slave)
    assert process.stderr is not None
    assert b"speaks ACP" in process.stderr.readline()
    assert hint in process.stderr.readline()
    os.write(master, b"\x04")
    stdout, _ = process.communicate(timeout=10)
    os.close(master)
    assert (process.returncode, stdout) == (0, b"")


# The start


def imported_until_initialized(*options: str) -> set[str]:
    """Return the modules that are imported before `initialize` is answered."""
    program = (
        "import os, sys; sys.argv = ['callsheet', 'agent', *sys.argv[1:]];"
        "import callsheet.agent.agent as agent;"
        "agent._warm_up = lambda: (print(*sys.modules, file=sys.stderr, flush=True), os._exit(0));"
        "from callsheet.cli import main; main()"
    )
    asked = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    process = subprocess.Popen(
        [sys.executable, "-c", program, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(asked)
    process.stdin.flush()
    assert b'"protocolVersion":1' in process.stdout.readline()
    _, names = process.communicate(timeout=10)
    return set(names.decode().split())


def test_initialize_is_answered_before_anything_heavy_is_imported() -> None:
    names = imported_until_initialized()
    heavy = {
        "click",
        "rich",
        "jsonschema_rs",
        "httpx2",
        "mcp",
        "re2",
        "zstandard",
        "urllib.request",
    }
    own = {
        "callsheet.describe",
        "callsheet.redaction",
        "callsheet.tools.session",
        "callsheet.runtime.session",
    }
    assert not names & (heavy | own)
