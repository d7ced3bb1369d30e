"""`callsheet agent --prompt`: a turn with the agent on a terminal, or in a pipe, without an editor."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import linux, new_token, wait_until_gone
from tests.support.shells import CALLSHEET, Terminal, without_escapes

AGENT = """
from callsheet import Call, ToolResult, tool

@tool(kind="read")
def count_words(call: Call, text: str) -> ToolResult:
    "Count the words of a text."
    return call.success(f"{len(text.split())} words")

class Agent:
    async def turn(self, prompt, turn):
        result = await turn.run("count_words", {"text": prompt.text})
        await turn.say(f"That was\\n{result.output}.")

class Broken:
    async def turn(self, prompt, turn):
        raise ValueError("my model is down")
"""


def prompted(cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CALLSHEET, "agent", *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


@pytest.mark.parametrize("protocol", ["1", "2"])
def test_a_turn_shows_its_calls_and_messages(project: Path, protocol: str) -> None:
    options = ("--tools", "agent.py", "--handler", "agent.py:Agent", "--protocol", protocol)
    done = prompted(project, *options, "--prompt", "one two three")
    assert (done.returncode, done.stderr) == (0, "")
    assert "3 words\ncompleted" in done.stdout
    assert done.stdout.endswith("That was\n3 words.\n")


def test_without_a_terminal_nobody_approves(project: Path) -> None:
    done = prompted(project, "--prompt=!touch made")
    assert done.returncode == 1
    assert "Nobody can be asked here: rejected. See --permission." in done.stdout
    assert not (project / "made").exists()
    done = prompted(project, "--prompt", "!touch made", "--permission", "allow")
    assert "completed" in done.stdout
    assert (project / "made").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--tools", "nope.py"], 2, "Error: --tools: nope.py: there is no such file\n"),
        (["--handler", "agent.py:Broken"], 1, "Internal error: ValueError: my model is down"),
    ],
)
def test_what_goes_wrong_is_named(
    project: Path, options: list[str], code: int, message: str
) -> None:
    done = prompted(project, *options, "--prompt", "hi")
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr


def test_the_user_is_asked_until_there_is_an_answer(project: Path) -> None:
    terminal = Terminal(["agent", "--prompt", "!echo made > made"], project)
    terminal.until("May it? 1 Allow once")
    terminal.type("yes\n")
    terminal.until("yes")
    terminal.type("1\n")
    assert terminal.end() == 0
    assert "completed" in without_escapes(terminal.text)
    assert (project / "made").exists()


def test_no_answer_at_all_is_no(project: Path) -> None:
    terminal = Terminal(["agent", "--prompt", "!echo made > made"], project)
    terminal.until("May it?")
    terminal.type("\x04")
    assert terminal.end() == 0
    assert "denied" in without_escapes(terminal.text)
    assert not (project / "made").exists()


@linux
def test_ctrl_c_cancels_the_turn_and_leaves_nothing_behind(project: Path) -> None:
    token = new_token()
    options = ["agent", "--permission", "allow", "--prompt", f"!echo begun; sleep {token}"]
    terminal = Terminal(options, project)
    terminal.until(re.compile(r"\[2mbegun"))  # its output, not its title
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "cancelled" in without_escapes(terminal.text)
    assert wait_until_gone(token) == []
