"""`callsheet tools`: what it tells of tools, to people and to machines."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import click
import jsonschema_rs
import pytest
from click.testing import CliRunner, Result

from callsheet import tool
from callsheet.cli.app import app
from callsheet.cli.output import Page
from callsheet.cli.tools import permission_of, show_list, show_tool, to_dict, usage
from callsheet.tools.builtin import BUILTIN

CONTRACT = {
    "read": "path, offset?, limit?",
    "write": "path, content",
    "edit": "path, old_text, new_text, replace_all?",
    "list": "path?",
    "glob": "pattern, path?",
    "grep": "pattern, path?, glob?, ignore_case?, context?, limit?",
    "bash": "command, timeout?, cwd?, env?",
    "move": "source, destination",
    "delete": "path, recursive?",
    "fetch": "url, method?, headers?, body?",
    "think": "thought",
}


def run(*args: str, **options: Any) -> Result:
    return CliRunner().invoke(app, ["tools", *args], **options)


def taken(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    return ", ".join(name + "?" * (name not in required) for name in schema["properties"])


def test_json_has_every_tool_with_a_schema_that_is_one() -> None:
    done = run("--format", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    reported = {one["name"]: one for one in json.loads(done.stdout)}
    assert {name: taken(one["input_schema"]) for name, one in reported.items()} == CONTRACT
    for one in reported.values():
        jsonschema_rs.validator_for(one["input_schema"])
        assert one["description"]
        assert one["kind"] in (
            "read",
            "edit",
            "search",
            "execute",
            "move",
            "delete",
            "fetch",
            "think",
        )
        assert isinstance(one["read_only"], bool)
        assert one["permission"] in ("ask", "never", "depends")
    assert reported["read"]["read_only"]
    assert not reported["write"]["read_only"]


def test_json_of_one_tool_is_that_tool() -> None:
    one = json.loads(run("grep", "--format", "json").stdout)
    assert one["name"] == "grep"


def test_the_table_names_every_tool_and_every_argument() -> None:
    done = run()
    assert done.exit_code == 0
    words = " ".join(done.stdout.split())
    for name, arguments in CONTRACT.items():
        assert any(line.startswith(f"{name} ") for line in done.stdout.splitlines())
        for argument in arguments.split(", "):
            assert argument in words
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("name", list(BUILTIN))
def test_the_usage_of_each_tool_names_all_that_it_needs(name: str) -> None:
    text = run(name).stdout
    line = next(line for line in text.splitlines() if line.startswith(f"callsheet call {name}"))
    for argument in CONTRACT[name].split(", "):
        assert (f" {argument}=" in line) is (not argument.endswith("?"))


def test_an_unknown_tool_is_reported_with_the_nearest() -> None:
    done = run("reed")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no tool 'reed'; did you mean read?" in done.stderr


def test_tools_of_a_file_stand_beside_the_built_in_ones_or_in_their_place(tmp_path: Path) -> None:
    file = tmp_path / "more_tools.py"
    file.write_text(
        "from callsheet import tool\n"
        "import beside\n"
        "print('imported')\n"
        "@tool(kind='fetch')\ndef deploy(where: str) -> str:\n    'Deploy it.'\n"
        "@tool(name='read')\ndef mine() -> str:\n    'Read my way.'\n"
    )
    (tmp_path / "beside.py").write_text("x = 1")
    done = run("--format", "json", "--tools", str(file))
    reported = {one["name"]: one for one in json.loads(done.stdout)}
    assert done.stderr == "imported\n"
    assert reported["deploy"]["kind"] == "fetch"
    assert reported["read"]["description"] == "Read my way."
    assert "bash" in reported


# What is told of a tool


@tool(kind="other", timeout=5)
def odd(
    level: Literal[1, 2],
    names: list[str],
    any_: Any = None,
    count: int | None = None,
    both: int | str = 3,
    many: Literal["a", "b", "c", "d", "e"] = "a",
) -> str:
    """Do something odd.

    - first
    - second

    It has a second paragraph that
    is broken by hand.

    Args:
        level: How odd.
    """
    return f"{level}{names}{any_}{count}{both}{many}"


@tool(permission=lambda arguments: "danger" in arguments, read_only=True)
def nothing() -> str:
    """Take nothing."""
    return ""


def test_types_defaults_and_needs_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    show_list(Page(), [odd, nothing])
    text = capsys.readouterr().out
    assert "level, names, any_?, count?, both?, many?" in text
    assert "no arguments" in text
    show_tool(Page(), odd)
    full = capsys.readouterr().out
    assert "timeout: 5 s" in full
    assert "- first\n- second" in full
    assert "It has a second paragraph that is broken by hand." in full
    assert "  How odd." in full
    assert "required" in full
    assert "default 3" in full


def test_the_usage_names_what_is_needed() -> None:
    assert usage(odd) == "callsheet call odd level=LEVEL names=NAMES"
    assert (
        usage(nothing, ["--tools", "my tools.py"]) == "callsheet call nothing --tools 'my tools.py'"
    )


def test_permission_is_reported_in_a_word() -> None:
    assert [permission_of(one) for one in (odd, nothing)] == ["ask", "depends"]
    assert to_dict(nothing)["read_only"] is True


@pytest.mark.parametrize("width", [30, 40, 60, 100])
def test_no_row_is_wider_than_the_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_list(Page(), [odd, nothing])
    show_tool(Page(), nothing)
    rows = click.unstyle(capsys.readouterr().out).splitlines()
    assert max(map(len, rows)) <= max(width, 33)  # the usage is never wrapped


# As a process


def test_on_a_terminal_there_are_colours_unless_they_are_unwanted() -> None:
    for env, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        controller, end = pty.openpty()
        known = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
        child = subprocess.Popen(
            [sys.executable, "-m", "callsheet", "tools"],
            stdout=end,
            env={**known, "TERM": "xterm", **env},
        )
        os.close(end)
        shown = b""
        try:
            while chunk := os.read(controller, 65536):
                shown += chunk
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(controller)
        assert child.wait(timeout=20) == 0
        assert (b"\x1b[36m" in shown) is coloured
        assert bool(re.search(rb"\x1b\[[0-9;]*3[0-7]", shown)) is coloured
        assert b"bash" in shown


def test_listing_tools_brings_nothing_that_is_slow() -> None:
    code = (
        "import sys; from callsheet.cli.app import app; app(['tools'], standalone_mode=False); "
        "print(*sorted(m for m in sys.modules if '.' not in m), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    assert loaded.isdisjoint({"httpx2", "mcp", "jsonschema_rs", "re2", "pydantic"})
