"""The palette: what can be typed, what it runs, and what it says when it can't."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callsheet import tool
from callsheet.agent.palette import (
    Line,
    Palette,
    arguments_of,
    code,
    parse,
    typed_text,
    usage_of,
)
from callsheet.describe.i18n import LOCALES, PHRASES
from callsheet.report.status import ToolCallStatus
from callsheet.tools.tool import Registry, Tool
from tests.support import ROOT, SUPPORT
from tests.support.stage import Stage


@tool(read_only=True)
def pick(names: list[str], deep: bool = False) -> str:
    """Pick some."""
    return f"{names} {deep}"


@tool(read_only=True)
def tag(label: str, times: int | None = None, mode: Literal["a", "b"] = "a") -> str:
    """Tag it."""
    return f"{label} {times} {mode}"


@tool(read_only=True)
def meet(one: str, other: str) -> str:
    """Say two things."""
    return f"{one} and {other}"


@tool(read_only=True)
def ping() -> str:
    """Take nothing."""
    return "pong"


def remote(name: str) -> Tool:
    schema = {"type": "object", "properties": {"message": {"type": "string"}}, "required": []}
    return Tool.from_schema(name, "Echo.", schema, lambda call, arguments: "", read_only=True)


TOOLS = Registry([pick, tag, meet, ping, remote("mcp__a__echo")])


def phrase(key: str, **words: str) -> str:
    return PHRASES[key].format(**words)


def typed(line: str) -> Any:
    """Read one line, and return the tool and the arguments that it stands for."""
    (parsed,), problems = parse(line, TOOLS, phrase)
    assert not problems
    return parsed.command, parsed.arguments


def problem(text: str) -> str:
    _, (problem,) = parse(text, TOOLS, phrase)
    return str(problem)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path, Palette(), tools=[pick, tag, meet, ping], permission="allow")
    async with made.session:
        yield made


# Lines


@pytest.mark.parametrize(
    ("line", "name", "arguments"),
    [
        ("/read README.md", "read", {"path": "README.md"}),
        ("/read README.md 10 20", "read", {"path": "README.md", "offset": 10, "limit": 20}),
        ("/read  limit=5   README.md", "read", {"path": "README.md", "limit": 5}),
        ("/read path=README.md limit=5", "read", {"path": "README.md", "limit": 5}),
        ('/read "my file.txt" 2', "read", {"path": "my file.txt", "offset": 2}),
        ("/read path='my file.txt'", "read", {"path": "my file.txt"}),
        ("/read 5", "read", {"path": "5"}),
        ("/grep TODO src", "grep", {"pattern": "TODO", "path": "src"}),
        (r"/grep \bfoo\b", "grep", {"pattern": r"\bfoo\b"}),
        (
            r'/grep "two words" ignore_case=true',
            "grep",
            {"pattern": "two words", "ignore_case": True},
        ),
        ("/grep pattern=a=b", "grep", {"pattern": "a=b"}),
        ("/grep -x=b", "grep", {"pattern": "-x=b"}),
        ("/grep #x", "grep", {"pattern": "#x"}),
        ("/list", "list", {}),
        ("/bash timeout=5 'make test'", "bash", {"command": "make test", "timeout": 5}),
        ("!pytest -q 'a b'", "bash", {"command": "pytest -q 'a b'"}),
        ("  ! ls", "bash", {"command": "ls"}),
        ('/think "so so"', "think", {"thought": "so so"}),
        (
            '/edit path=a.py old_text="a b" new_text=""',
            "edit",
            {"path": "a.py", "old_text": "a b", "new_text": ""},
        ),
        ('/edit a.py "x = 1" x', "edit", {"path": "a.py", "old_text": "x = 1", "new_text": "x"}),
        ("/move a b", "move", {"source": "a", "destination": "b"}),
        ("""/pick '["a","b"]' true""", "pick", {"names": ["a", "b"], "deep": True}),
        ("/tag times=3 mode=b so", "tag", {"label": "so", "times": 3, "mode": "b"}),
        ("/ping", "ping", {}),
        ("/mcp__a__echo hi", "mcp__a__echo", {"message": "hi"}),
    ],
)
def test_a_line_is_a_call(line: str, name: str, arguments: dict[str, Any]) -> None:
    assert typed(line) == (name, arguments)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/read a 1 2 3", "/read: '3' is too much; it is /read path [offset] [limit]"),
        ("/ping x", "/ping: 'x' is too much; it is /ping"),
        ('/read "a b', "/read: No closing quotation; put it in the other kind of quotes"),
        ("!", "! needs a shell command behind it, such as !make test"),
        ("/etc/hosts", "There is no command `/etc/hosts`."),
        ("/raed a", "There is no command `/raed`. Did you mean `/read`?"),
        ("hello", "This is not a command: `hello`"),
    ],
)
def test_an_error_explains_what_can_be_run(line: str, message: str) -> None:
    assert problem(line) == message


def test_lines_are_calls_one_after_another() -> None:
    lines, problems = parse("/ping\n\n  /read a\r\n!ls\n/help\n", TOOLS, phrase)
    assert problems == []
    assert lines == [
        Line("/ping", "ping", {}),
        Line("/read a", "read", {"path": "a"}),
        Line("!ls", "bash", {"command": "ls"}),
        Line("/help", "help", None),
    ]


def test_a_tool_takes_the_place_of_a_command_of_the_same_name() -> None:
    @tool(read_only=True, name="help")
    def own(topic: str) -> str:
        """Help."""
        return topic

    tools = Registry([own])
    assert parse("/help me", tools, phrase)[0] == [Line("/help me", "help", {"topic": "me"})]
    names = [one.name for one in Palette().commands(list(tools))]
    assert names.count("help") == 1


def test_usage_names_the_required_arguments_first() -> None:
    assert usage_of(tag) == "label [times] [mode]"


@given(st.text() | st.text("/!`~ =\"'\\\\{}[]ab;\n", max_size=60))
@example("/ping\n" * 1_000)
def test_whatever_is_typed_is_either_read_or_a_problem(text: str) -> None:
    lines, problems = parse(text, TOOLS, phrase)
    if text.strip():
        assert lines or problems
    for one in problems:
        assert str(one)


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1))
def test_a_quoted_word_means_what_is_in_it(text: str) -> None:
    arguments = arguments_of(meet, f"one={shlex.quote(text)} other={shlex.quote(text)}")
    assert arguments == {"one": text, "other": text}


# Mentions


def link(uri: str) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": "x"}


def test_a_mentioned_file_stands_where_its_path_would() -> None:
    cwd = "/home/me/project"
    blocks: list[Any] = [
        {"type": "text", "text": "/read "},
        link("file:///home/me/project/my%20file.txt#L10:20"),
        {"type": "text", "text": "10 20\n!wc -l\n"},
        {"type": "resource", "resource": {"uri": "file:///etc/hosts", "text": "127.0.0.1"}},
        {"type": "text", "text": "\n/fetch"},
        link("https://example.org/a"),
    ]
    assert (
        typed_text(blocks, cwd)
        == "/read 'my file.txt' 10 20\n!wc -l /etc/hosts\n/fetch https://example.org/a"
    )


def test_blocks_without_text_are_ignored() -> None:
    blocks: list[Any] = [
        {"type": "image"},
        {"type": "resource", "resource": 5},
        {"type": "text", "text": 5},
        link(""),
    ]
    assert typed_text(blocks, "/") == ""


async def test_a_mention_is_read(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "it's here.txt").write_text("found\n")
    await stage.prompt("/read", link((tmp_path / "it's here.txt").as_uri()))
    assert stage.calls == [("read", {"path": "it's here.txt"})]
    assert stage.session.reports[0].status is ToolCallStatus.COMPLETED
    assert stage.said == []


# Turns


async def test_calls_are_run_in_order(stage: Stage, tmp_path: Path) -> None:
    await stage.prompt("/write a.txt hello\n/edit a.txt hello bye\n!cat a.txt")
    assert (tmp_path / "a.txt").read_text() == "bye"
    assert [name for name, _ in stage.calls] == ["write", "edit", "bash"]
    assert stage.said == []


async def test_a_failure_is_reported_and_the_next_call_is_run(stage: Stage) -> None:
    await stage.prompt("/read nothing.txt\n!exit 3\n/ping")
    assert [name for name, _ in stage.calls] == ["read", "bash", "ping"]
    first, second = stage.words.strip().split("\n\n")
    assert first.startswith("`/read nothing.txt`: ")
    assert "nothing.txt" in first.partition(": ")[2]
    assert second.startswith("`!exit 3`: ")
    assert "3" in second.partition(": ")[2]


async def test_the_tool_explains_what_is_wrong_with_its_arguments(stage: Stage) -> None:
    await stage.prompt("/read\n/read pth=a")
    missing, unknown = stage.words.strip().split("\n\n")
    assert missing.startswith("`/read`: read: missing argument: path")
    assert "unknown argument pth (did you mean 'path'?)" in unknown


async def test_nothing_is_run_if_a_line_is_wrong(stage: Stage) -> None:
    await stage.prompt("/ping\n/raed a\n/ping x\nso what")
    assert stage.calls == []
    assert stage.words.splitlines() == [
        "- There is no command `/raed`. Did you mean `/read`?",
        "- /ping: 'x' is too much; it is /ping",
        "- This is not a command: `so what`",
        "- Nothing was run.",
    ]


async def test_an_unknown_command_without_neighbours_is_named(stage: Stage) -> None:
    await stage.prompt("/qqqq")
    assert stage.words == "- There is no command `/qqqq`.\n- Nothing was run."


async def test_text_among_commands_is_pointed_out(stage: Stage) -> None:
    await stage.prompt("please do this\n/ping")
    assert stage.words == "- This is not a command: `please do this`\n- Nothing was run."
    assert stage.calls == []


@pytest.mark.parametrize("text", ["hello there", "", "what is\nthis?"])
async def test_plain_text_gets_a_short_answer(stage: Stage, text: str) -> None:
    await stage.prompt(text)
    assert stage.words == PHRASES["typed_nothing"]


async def test_help_tells_what_can_be_typed_and_lists_the_tools(stage: Stage) -> None:
    await stage.prompt("/help")
    lines = stage.words.splitlines()
    assert lines[0].startswith("- `/read README.md 10 20`")
    assert "- `/ping`: Take nothing." in lines
    assert "- `/read path [offset] [limit]`: Read a file." in lines
    assert len(lines) == 4 + len(stage.session.tools)


@pytest.mark.parametrize("locale", LOCALES)
async def test_help_is_in_the_users_language_and_its_examples_are_right(
    tmp_path: Path, locale: str
) -> None:
    stage = Stage(tmp_path, Palette(), locale=locale)
    async with stage.session:
        await stage.prompt("/help")
        for example in ("`/read README.md 10 20`", "`!make test`"):
            assert example in stage.words
        english = [PHRASES[key] for key in PHRASES if key.startswith("help_")]
        assert any(line in stage.words for line in english) is (locale == "en")


async def test_tools_of_servers_are_commands_and_a_server_that_is_gone_is_reported_once(
    tmp_path: Path,
) -> None:
    real: Any = {
        "name": "real",
        "command": sys.executable,
        "args": [str(SUPPORT / "mcp_real.py"), "stdio"],
    }
    gone: Any = {"name": "gone", "command": "no-such-program", "args": []}
    stage = Stage(tmp_path, Palette(), mcp_servers=[real, gone], strict=False)
    async with stage.session:
        await stage.prompt("/mcp__real__add 2 3")
        assert stage.words.startswith("MCP server 'gone' can't be started")
        assert [name for name, _ in stage.calls] == ["mcp__real__add"]
        assert stage.session.reports[0].status is ToolCallStatus.COMPLETED
        await stage.prompt("/mcp__real__add 2 3")
        assert stage.words == ""


def test_every_tool_has_a_command_with_a_hint() -> None:
    by_name = {one.name: one for one in Palette().commands(list(TOOLS))}
    assert set(by_name) == {*TOOLS.names(), "help"}
    assert by_name["read"].hint == "path [offset] [limit]"
    assert by_name["read"].description == "Read a file."
    assert by_name["ping"].hint is None
    assert all(one.description and "\n" not in one.description for one in by_name.values())


def test_code_is_code_whatever_is_in_it() -> None:
    assert code("a") == "`a`"
    assert code("a`b") == "``a`b``"
    assert code("`a`") == "`` `a` ``"


# The document


def test_everything_that_the_document_types_can_be_typed() -> None:
    document = ROOT / "docs" / "quickstart" / "agent.md"
    blocks = re.findall(
        r"^(`{3,})palette\n(.*?)^\1$", document.read_text(encoding="utf-8"), re.M | re.S
    )
    parsed = [parse(body, Registry(), phrase) for _, body in blocks]
    assert [problem for _, problems in parsed for problem in problems] == []
    assert [len(lines) for lines, _ in parsed] == [5]
    edit = {"path": "src/app.py", "old_text": "x = 1", "new_text": "x = 2"}
    assert edit in [line.arguments for line in parsed[0][0]]


TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize("before", [1, 70])
@pytest.mark.parametrize("start", ["!exit 1; :", "just words"])
async def test_a_secret_that_was_typed_is_not_repeated(
    stage: Stage, start: str, before: int
) -> None:
    line = f"{start} {'x' * before} {TOKEN}"
    await stage.prompt(f"{line}\n{line}\n/ping")
    shown = stage.session.guard.clean(stage.words)
    assert start in shown
    assert "abcdef" not in shown


def test_a_mention_that_is_no_address_is_taken_as_it_is() -> None:
    block = {"type": "resource_link", "uri": "file://[x", "name": "x"}
    assert typed_text([block], "/") == "'file://[x'"
