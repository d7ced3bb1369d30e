"""The palette: what can be typed, what it runs, and what it says when it can't."""

from __future__ import annotations

import asyncio
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
from callsheet.agent.brains.arguments import BadCommand, arguments_of, usage_of
from callsheet.agent.brains.language import Ask, Talk, parse, tool_of
from callsheet.agent.brains.mentions import typed_text
from callsheet.agent.brains.palette import Palette, code
from callsheet.agent.brains.words import Unclosed, word_at
from callsheet.describe.locales import LOCALES
from callsheet.describe.messages import PHRASES
from callsheet.report.status import ToolCallStatus
from callsheet.tools.registry import Registry
from callsheet.tools.tool import Tool
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
def join(parts: list[str]) -> str:
    """Join some."""
    return " ".join(parts)


@tool(read_only=True)
def ping() -> str:
    """Take nothing."""
    return "pong"


def remote(name: str) -> Tool:
    schema = {"type": "object", "properties": {"message": {"type": "string"}}, "required": []}
    return Tool.from_schema(name, "Echo.", schema, lambda call, arguments: "", read_only=True)


TOOLS = Registry(
    [pick, tag, meet, join, ping, remote("mcp__a__echo"), remote("mcp__a__x"), remote("mcp__b__x")]
)


def typed(line: str) -> Any:
    """Read one line, and give the arguments that it stands for."""
    result = parse(line, TOOLS)
    assert not result.problems, [str(one) for one in result.problems]
    (step,) = result.steps
    assert not isinstance(step, Talk)
    (ask,) = step
    return ask.tool, ask.arguments


def problem(text: str) -> str:
    result = parse(text, TOOLS)
    (one,) = result.problems
    return str(one)


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
        (r"/read my\ file.txt", "read", {"path": "my file.txt"}),
        ("/read path='my file.txt'", "read", {"path": "my file.txt"}),
        ("/read 5", "read", {"path": "5"}),
        ("/grep TODO src", "grep", {"pattern": "TODO", "path": "src"}),
        (r"/grep \bfoo\b", "grep", {"pattern": r"\bfoo\b"}),
        (
            r'/grep "two words" ignore_case=true',
            "grep",
            {"pattern": "two words", "ignore_case": True},
        ),
        ("/grep {foo}", "grep", {"pattern": "{foo}"}),
        ("/grep a=b", "grep", {"pattern": "a=b"}),
        ("/list", "list", {}),
        ("/bash ls -la | wc", "bash", {"command": "ls -la | wc"}),
        ('/bash "my program" x', "bash", {"command": '"my program" x'}),
        ("/bash FOO=1 make it's", "bash", {"command": "FOO=1 make it's"}),
        ("/bash timeout=5 make test", "bash", {"command": "make test", "timeout": 5}),
        ('/bash {"command": "ls"}', "bash", {"command": "ls"}),
        ("!pytest -q 'a b'", "bash", {"command": "pytest -q 'a b'"}),
        ("  ! ls", "bash", {"command": "ls"}),
        ("/think it don't matter", "think", {"thought": "it don't matter"}),
        ('/think "so so"', "think", {"thought": "so so"}),
        ("/write a.txt hello  there", "write", {"path": "a.txt", "content": "hello  there"}),
        (
            '/edit a.py "x = 1" "x = 2" replace_all=true',
            "edit",
            {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2", "replace_all": True},
        ),
        (
            '/edit path=a.py old_text="a b" new_text=""',
            "edit",
            {"path": "a.py", "old_text": "a b", "new_text": ""},
        ),
        (
            "/edit a.py foo bar baz",
            "edit",
            {"path": "a.py", "old_text": "foo", "new_text": "bar baz"},
        ),
        ("/move a b", "move", {"source": "a", "destination": "b"}),
        ("/pick a", "pick", {"names": ["a"]}),
        ("/join a b c", "join", {"parts": ["a", "b", "c"]}),
        ('/pick ["a","b"] true', "pick", {"names": ["a", "b"], "deep": True}),
        ("/pick names=a names=b deep=true", "pick", {"names": ["a", "b"], "deep": True}),
        ("/tag so it is", "tag", {"label": "so it is"}),
        ("/tag times=3 mode=b so", "tag", {"label": "so", "times": 3, "mode": "b"}),
        ("/ping", "ping", {}),
        ("/echo hello you", "mcp__a__echo", {"message": "hello you"}),
        ("/mcp__b__x hi", "mcp__b__x", {"message": "hi"}),
    ],
)
def test_a_line_is_a_call(line: str, name: str, arguments: dict[str, Any]) -> None:
    assert typed(line) == (name, arguments)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/read", "/read: missing path; it is /read path [offset] [limit]"),
        ("/move a", "/move: missing destination; it is /move source destination"),
        ("/read a 1 2 3", "/read: '3' is too much; it is /read path [offset] [limit]"),
        ("/ping x", "/ping: 'x' is too much; it is /ping"),
        ("/read pth=a", "/read has no argument 'pth'; did you mean path?"),
        ("/read path=a path=b", "/read: path is given twice"),
        ('/read "a b', '/read: the quote " at character 1 is not closed'),
        ('/bash {"command": }', "/bash: not JSON: Expecting value at line 1 column 13"),
        ('/bash {"timeout": NaN}', "/bash: not JSON: NaN is no JSON"),
        ("/x hi", "/x could be /mcp__a__x or /mcp__b__x; type the whole name"),
        ("/parallel", "/parallel needs commands behind it, or in the lines under it"),
        ("/parallel /help; /ping", "/help can't be run in /parallel"),
        ("/parallel /parallel /ping", "/parallel can't be run in /parallel"),
        ("!", "/bash: missing command; it is /bash command [timeout] [cwd] [env]"),
        ("/write a.txt\n```\nno end", "the block that ``` opens is not closed by ```"),
        ("/meet\n```\na\n```\n```\nb\n```\n```\nc\n```", "/meet needs no more than one and other; 3 blocks of lines follow it"),
        ("/ping\n```\na\n```", "/ping needs no more text; 1 blocks of lines follow it"),
        ("/etc/hosts", "there is no command /etc/hosts"),
        ("/raed a", "there is no command /raed"),
        ("hello", "hello"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_says_what_can(line: str, said: str) -> None:
    assert problem(line) == said


def test_words_are_split_like_a_shell_but_for_patterns_and_prose() -> None:
    line = """a"b 'it'"'"'s' key="x \\" y" \\d \\\\ \\ z"""
    words = []
    place = 0
    while place < len(line):
        word = word_at(line, place)
        words.append((word.key, word.text))
        place = word.end + 1
    assert words == [
        (None, 'a"b'),
        (None, "it's"),
        ("key", 'x " y'),
        (None, "\\d"),
        (None, "\\"),
        (None, " z"),
    ]
    with pytest.raises(Unclosed, match="character 3"):
        word_at("a 'b", 2)


def test_lines_are_calls_one_after_another() -> None:
    result = parse("/ping\n\n  /read a\n!ls \\\n  -la\n/help read\n", TOOLS)
    assert result.problems == []
    assert result.steps == [
        (Ask("ping", {}, "/ping"),),
        (Ask("read", {"path": "a"}, "/read a"),),
        (Ask("bash", {"command": "ls \\\n  -la"}, "!ls \\"),),
        Talk("help", "read"),
    ]


def test_lines_under_a_command_are_the_text_that_it_lacks() -> None:
    result = parse("/write notes.txt\nfirst\n\n  /second\n\n/read notes.txt", TOOLS)
    first, second = result.steps
    assert first == (
        Ask("write", {"path": "notes.txt", "content": "first\n\n  /second\n"}, "/write notes.txt"),
    )
    assert isinstance(second, tuple)
    assert second[0].tool == "read"


def test_fenced_blocks_are_taken_to_the_letter_and_fill_texts_in_order() -> None:
    text = "/edit a.py\n```python\n/x\n\n!y\n```\n\n~~~\nnew\n~~~\n!\n```\ncat <<E\n/a\nE\n```"
    edit, shell = parse(text, TOOLS).steps
    assert edit == (
        Ask("edit", {"path": "a.py", "old_text": "/x\n\n!y", "new_text": "new"}, "/edit a.py"),
    )
    assert isinstance(shell, tuple)
    assert shell[0].arguments == {"command": "cat <<E\n/a\nE"}


def test_json_may_have_several_lines() -> None:
    assert typed('/write {\n  "path": "a",\n  "content": ""\n}') == (
        "write",
        {"path": "a", "content": ""},
    )


def test_parallel_takes_the_commands_behind_it_and_those_up_to_an_empty_line() -> None:
    text = "/parallel /ping; !echo a; echo b\n/write a\n```\nx\n\ny\n```\n\n/ping"
    result = parse(text, TOOLS)
    assert result.problems == []
    group, last = result.steps
    assert isinstance(group, tuple)
    assert [ask.arguments for ask in group] == [
        {},
        {"command": "echo a; echo b"},
        {"path": "a", "content": "x\n\ny\n"},
    ]
    assert last == (Ask("ping", {}, "/ping"),)


def test_a_tool_takes_the_place_of_a_command_of_the_same_name() -> None:
    @tool(read_only=True, name="help")
    def own(topic: str) -> str:
        """Help."""
        return topic

    tools = Registry([own])
    assert parse("/help me", tools).steps == [(Ask("help", {"topic": "me"}, "/help me"),)]
    names = [one.name for one in Palette().commands(list(tools))]
    assert names.count("help") == 1


def test_short_names_are_for_tools_of_servers_only() -> None:
    assert tool_of("echo", TOOLS).name == "mcp__a__echo"
    with pytest.raises(BadCommand):
        tool_of("a__nothing", TOOLS)


def test_arguments_can_be_read_without_a_line() -> None:
    assert arguments_of(meet, "", ["a", "b"]) == {"one": "a", "other": "b"}
    assert usage_of(tag) == "label [times] [mode]"


@given(
    st.text()
    | st.text("/!`~ =\"'\\\\{}[]ab;\n", max_size=60)
    | st.text().map("/write a\n{}".format)
)
@example("/parallel " * 10_000)
@example("/bash {" + '"a":[' * 10_000)
def test_whatever_is_typed_is_either_read_or_a_problem(text: str) -> None:
    result = parse(text, TOOLS)
    if text.strip():
        assert result.steps or result.problems
    for one in result.problems:
        assert str(one)


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1))
def test_a_quoted_word_means_what_is_in_it(text: str) -> None:
    arguments = arguments_of(meet, f"{shlex.quote(text)} other={shlex.quote(text)}")
    assert arguments == {"one": text, "other": text}


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), min_size=1))
def test_a_fenced_text_is_taken_to_the_letter(text: str) -> None:
    assert typed(f"/think\n~~~~~~\n{text}\n~~~~~~") == ("think", {"thought": text})


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


def test_blocks_that_say_nothing_are_passed_over() -> None:
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


async def test_calls_are_run_in_order_and_the_plan_moves_along(
    stage: Stage, tmp_path: Path
) -> None:
    await stage.prompt("/write a.txt\nhello\n/edit a.txt hello bye\n!cat a.txt")
    assert (tmp_path / "a.txt").read_text() == "bye\n"
    assert [name for name, _ in stage.calls] == ["write", "edit", "bash"]
    assert stage.said == []
    assert stage.plan_lines == ["/write a.txt", "/edit a.txt hello bye", "!cat a.txt"]
    waits, runs, done = "pending", "in_progress", "completed"
    assert stage.plans == [
        [runs, waits, waits],
        [done, waits, waits],
        [done, runs, waits],
        [done, done, waits],
        [done, done, runs],
        [done, done, done],
    ]


async def test_one_call_needs_no_plan(stage: Stage) -> None:
    await stage.prompt("/ping")
    assert stage.plans == []
    assert stage.calls == [("ping", {})]


async def test_parallel_calls_run_at_the_same_time(stage: Stage, tmp_path: Path) -> None:
    meet_up = "while [ ! -e {other} ]; do sleep 0.01; done"
    text = "\n".join(
        f"!touch {own}; " + meet_up.format(other=other) for own, other in [("a", "b"), ("b", "a")]
    )
    async with asyncio.timeout(10):
        await stage.prompt("/parallel\n" + text)
    assert [report.status for report in stage.session.reports] == [ToolCallStatus.COMPLETED] * 2
    assert stage.plans == [["in_progress"] * 2, ["completed"] * 2]
    batches = {report.notes.get("batchId") for report in stage.session.reports}
    assert len(batches) == 1
    assert None not in batches


async def test_a_failure_is_told_and_the_next_call_is_run(stage: Stage) -> None:
    await stage.prompt("/read nothing.txt\n!exit 3\n/ping")
    assert [name for name, _ in stage.calls] == ["read", "bash", "ping"]
    first, second = stage.words.split("\n\n")
    assert first.startswith("`/read nothing.txt`: ")
    assert "nothing.txt" in first.partition(": ")[2]
    assert second.startswith("`!exit 3`: ")
    assert "3" in second.partition(": ")[2]


async def test_nothing_is_run_if_a_line_is_wrong(stage: Stage) -> None:
    await stage.prompt("/ping\n/raed a\n/read\nso what")
    assert stage.calls == []
    assert stage.words.splitlines() == [
        "- There is no command `/raed`. Did you mean `/read`?",
        "- /read: missing path; it is /read path [offset] [limit]",
        "- Nothing was run.",
    ]


async def test_an_unknown_command_without_neighbours_points_to_help(stage: Stage) -> None:
    await stage.prompt("/qqqq")
    assert (
        stage.words
        == "There is no command `/qqqq`. `/tools` lists the tools, `/help read` tells of one"
    )


async def test_text_among_commands_is_pointed_out(stage: Stage) -> None:
    await stage.prompt("please do this\n/ping")
    assert stage.words == "- This is no command: `please do this`\n- Nothing was run."
    assert stage.calls == []


@pytest.mark.parametrize("text", ["hello there", "", "what is\nthis?"])
async def test_plain_text_gets_a_short_answer(stage: Stage, text: str) -> None:
    await stage.prompt(text)
    assert stage.words == PHRASES["typed_nothing"]


async def test_help_tools_and_help_of_a_tool(stage: Stage) -> None:
    await stage.prompt("/help")
    assert stage.words.splitlines()[0].startswith("- `/read README.md 10 20`")
    assert len(stage.words.splitlines()) == 7
    await stage.prompt("/tools")
    assert "- `/ping`: Take nothing." in stage.words.splitlines()
    assert len(stage.words.splitlines()) == len(stage.session.tools)
    await stage.prompt("/help /read")
    assert stage.words.startswith("`/read path [offset] [limit]`: Read a file.")
    assert "- `path`: " in stage.words
    await stage.prompt("/help raed")
    assert stage.words == "There is no command `/raed`. Did you mean `/read`?"


@pytest.mark.parametrize("locale", LOCALES)
async def test_help_is_in_the_users_language_and_its_examples_are_right(
    tmp_path: Path, locale: str
) -> None:
    stage = Stage(tmp_path, Palette(), locale=locale)
    async with stage.session:
        await stage.prompt("/help")
        for example in ("`/read README.md 10 20`", "`!make test`", "`/parallel`", "`/tools`"):
            assert example in stage.words
        english = [PHRASES[key] for key in PHRASES if key.startswith("help_")]
        assert any(line in stage.words for line in english) is (locale == "en")


async def test_tools_of_servers_have_short_names_and_a_server_that_is_gone_is_told_once(
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
        await stage.prompt("/add 2 3")
        assert stage.words.startswith("MCP server 'gone' can't be started")
        assert [name for name, _ in stage.calls] == ["mcp__real__add"]
        assert stage.session.reports[0].status is ToolCallStatus.COMPLETED
        await stage.prompt("/mcp__real__add 2 3")
        assert stage.words == ""


def test_every_tool_has_a_command_with_a_hint() -> None:
    by_name = {one.name: one for one in Palette().commands(list(TOOLS))}
    assert set(by_name) == {*TOOLS.names(), "help", "tools", "parallel"}
    assert by_name["read"].hint == "path [offset] [limit]"
    assert by_name["read"].description == "Read a file."
    assert by_name["ping"].hint is None
    assert all(one.description and "\n" not in one.description for one in by_name.values())


def test_code_is_code_whatever_is_in_it() -> None:
    assert code("a") == "`a`"
    assert code("a`b") == "``a`b``"
    assert code("`a`") == "`` `a` ``"
    assert len(code("a" * 500)) == 102


# The document


def test_everything_that_the_document_types_can_be_typed() -> None:
    document = ROOT / "docs" / "agent.md"
    blocks = re.findall(
        r"^(`{3,})palette\n(.*?)^\1$", document.read_text(encoding="utf-8"), re.M | re.S
    )
    assert len(blocks) == 3
    builtin = Registry()
    steps = [step for _, body in blocks for step in parse(body, builtin).steps]
    problems = [str(one) for _, body in blocks for one in parse(body, builtin).problems]
    assert problems == []
    assert [len(step) for step in steps if not isinstance(step, Talk)] == [1] * 11 + [3, 2, 1]
    assert Ask(
        "edit", {"path": "src/app.py", "old_text": "x = 1", "new_text": "x = 2"}, "/edit src/app.py"
    ) in [ask for step in steps if not isinstance(step, Talk) for ask in step]


TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


@pytest.mark.parametrize("before", [1, 70])
@pytest.mark.parametrize("start", ["!exit 1; :", "just words"])
async def test_a_secret_that_was_typed_is_not_told_again(
    stage: Stage, start: str, before: int
) -> None:
    line = f"{start} {'x' * before} {TOKEN}"
    await stage.prompt(f"{line}\n{line}\n/ping")
    told = stage.session.desk.guard.clean(" ".join([*stage.plan_lines, stage.words]))
    assert start in told
    assert "abcdef" not in told
