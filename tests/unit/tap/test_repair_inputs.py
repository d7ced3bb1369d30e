"""What another agent's tool was given."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.drafts import Told, diff, text

LS = {"command": "ls -l"}


def given(told: Told) -> Any:
    return told.draft().raw_input


def test_an_input_that_was_reported_stays_as_it_is() -> None:
    told = Told().call(title="bash", kind="execute", rawInput=LS)
    assert given(told) == LS
    assert "input" not in told.draft().repaired


def test_an_input_that_comes_later_is_taken_over() -> None:
    told = Told().call(title="bash", rawInput={}).update(rawInput={"command": "l"})
    assert given(told.update(rawInput=LS)) == LS


def test_an_empty_input_does_not_take_away_one_that_was_reported() -> None:
    told = Told().call(title="bash", rawInput=LS).update(status="completed", rawInput={})
    assert given(told) == LS
    assert "input" in told.draft().repaired


@pytest.mark.parametrize("raw", [json.dumps(LS), f" {json.dumps(LS)}\n"])
def test_an_object_written_as_a_text_becomes_an_object(raw: str) -> None:
    assert given(Told().call(title="bash", rawInput=raw)) == LS


@pytest.mark.parametrize("raw", ["ls -l", "{broken", "[1, 2]", ["ls", "-l"], 7, True, "{} {}"])
def test_an_input_that_is_no_object_stays_as_it_is(raw: Any) -> None:
    assert given(Told().call(title="bash", rawInput=raw)) == raw


# Questions


def test_a_permission_request_reports_the_input() -> None:
    told = Told().call(title="bash", kind="execute").ask(title="bash", rawInput=LS)
    assert given(told) == LS
    assert given(told.allow().update(status="completed", content=text("a"))) == LS


def test_a_permission_request_reports_what_the_announcement_lacks() -> None:
    told = Told().call(title="bash", rawInput={"cwd": "/code"}).ask(rawInput=LS)
    assert given(told) == {"cwd": "/code", **LS}


def test_a_permission_request_does_not_take_away_from_an_input_that_is_whole() -> None:
    whole = {"path": "/code/a.py", "content": "x"}
    told = Told().call(title="write_file", rawInput=whole)
    asked = {"path": "/code/a.py", "content_length": 1}
    assert given(told.ask(rawInput=asked)) == {**whole, **asked}


# Arguments in the content


def streamed(*pieces: str, title: str = "Shell", agent: str = "somebody", **fields: Any) -> Told:
    """Stream arguments as Kimi does: a bare title, and a text that grows."""
    told = Told(agent).call(title=title, content=text(""), **fields)
    for piece in pieces:
        told.update(content=text(piece), status="in_progress")
    return told


def test_arguments_that_stream_in_the_content_are_the_input() -> None:
    told = streamed('{"command', '{"command": "ls', '{"command": "ls -l"}')
    draft = told.draft()
    assert draft.raw_input == LS
    assert draft.content == []
    assert {"input", "content"} <= draft.repaired


def test_arguments_stay_the_input_when_the_output_takes_their_place() -> None:
    told = streamed('{"command": "ls -l"}').update(status="completed", content=text("a\nb"))
    assert given(told) == LS
    assert told.draft().content == text("a\nb")


def test_arguments_that_are_not_whole_are_neither_output_nor_made_up() -> None:
    told = streamed('{"command": "ls')
    assert told.draft().raw_input is None
    assert told.draft().content == []


def test_members_that_are_whole_are_reported_while_others_stream() -> None:
    told = streamed('{"path": "/code/a \\"b\\".py", "limit": 3, "content": "im', title="write_file")
    assert given(told) == {"path": '/code/a "b".py', "limit": 3}
    assert told.draft().locations[0]["path"] == '/code/a "b".py'


def test_arguments_that_were_never_closed_are_reported_as_they_were_sent() -> None:
    told = streamed('{"command": "echo trunc').update(status="failed", content=text("Bad JSON"))
    assert given(told) == '{"command": "echo trunc'
    assert told.draft().content == text("Bad JSON")
    left = streamed('{"command": "echo trunc').stop()
    assert given(left) == '{"command": "echo trunc'


def test_empty_arguments_are_known_to_be_empty() -> None:
    told = streamed("{}", title="ReadFile").update(status="failed", content=text("no path"))
    assert given(told) == {}


def test_a_call_that_ends_with_its_arguments_as_content_does_not_show_them_twice() -> None:
    told = streamed('{"command": "ls -l"}').update(status="failed")
    assert given(told) == LS
    assert told.draft().call.fields["content"][0] not in told.draft().content


def test_a_permission_request_is_shown_in_the_place_of_arguments_until_it_is_answered() -> None:
    told = streamed('{"path": "a.py", "content": "x"}', title="WriteFile")
    told.ask(title="WriteFile: a.py", content=text("Is this fine?"))
    assert told.draft().content == text("Is this fine?")
    assert told.allow().draft().content == []


def test_arguments_of_an_unknown_tool_are_known_by_the_skeleton() -> None:
    assert given(streamed('{"x": 1}', title="frobnicate_widget")) == {"x": 1}


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("bash", '{"a": 1}'),  # a shell is given a command
        ("fetch", '{"status": 200, "body": "x"}'),
        ("frobnicate_widget", '{"success": true, "path": "/code/a"}'),
        ("Asking the server", '{"path": "/code/a.py"}'),  # that is no skeleton
        ("read_file", "{not json}"),
        ("read_file", "[1, 2]"),
    ],
)
def test_output_that_is_json_is_not_taken_for_arguments(title: str, said: str) -> None:
    told = streamed(said, title=title)
    assert given(told) is None
    assert told.draft().content == text(said)


def test_output_of_a_call_with_an_input_is_not_taken_for_arguments() -> None:
    told = streamed('{"command": "ls"}', rawInput={"command": "cat x.json"})
    assert given(told) == {"command": "cat x.json"}
    assert told.draft().content == text('{"command": "ls"}')


def test_the_result_of_a_call_is_not_taken_for_arguments() -> None:
    told = Told().call(title="read_file").update(status="completed", content=text('{"path": "x"}'))
    assert given(told) is None
    assert told.draft().content == text('{"path": "x"}')


def test_an_empty_object_that_is_written_as_a_text_is_one() -> None:
    assert given(Told().call(title="bash", kind="execute", rawInput="{}")) == {}


def test_an_input_that_only_a_permission_request_reports_as_empty_is_not_repaired() -> None:
    told = Told().call(title="bash", kind="execute").ask(title="bash", rawInput={})
    assert "input" not in told.draft().repaired


def test_a_blank_text_is_nothing_to_see_and_all_else_stays_while_the_call_runs() -> None:
    assert Told().call(title="bash", content=text(" ")).draft().content == []
    terminal = {"type": "terminal", "terminalId": "t1"}
    for content in ([terminal], [*text("one"), *text("two")], [*text(""), terminal], text("one")):
        told = Told().call(title="bash", kind="execute", rawInput=LS, content=content)
        assert told.update(status="in_progress").draft().content == content


# Elsewhere


def test_a_read_file_is_known_by_its_location() -> None:
    places = [{"path": "/code/a.py", "line": 3}]
    assert given(Told().call(title="a.py", kind="read", locations=places)) == {"path": "/code/a.py"}
    places.append({"path": "/code/b.py"})
    assert given(Told().call(title="two", kind="read", locations=places)) == {
        "paths": ["/code/a.py", "/code/b.py"]
    }


def test_a_command_is_known_by_what_stands_after_a_prompt() -> None:
    told = Told().call(title="terminal: ls", kind="execute", content=text("$ ls -l"))
    assert given(told) == LS
    assert given(told.update(content=text("$ 5 is what it costs"), status="completed")) == LS
    output = Told().call(title="Working", kind="execute")
    assert given(output.update(content=text("$ ls -l"), status="in_progress")) is None


def test_a_search_is_known_by_a_title_that_says_what_is_sought() -> None:
    assert given(Told().call(title="search: TODO", kind="search")) == {"pattern": "TODO"}
    assert given(Told().call(title="search: a long one...", kind="search")) is None


def test_places_that_a_search_found_are_not_its_input() -> None:
    assert given(Told().call(title="Found", kind="search", locations=[{"path": "/code/a"}])) is None


def test_an_edit_is_known_by_its_diff() -> None:
    new = Told().call(title="Write a.py", kind="edit", content=[diff("/code/a.py", "x")])
    assert given(new) == {"path": "/code/a.py", "content": "x"}
    change = [diff("/code/a.py", "x", "y")]
    edit = Told().call(title="Edit a.py", kind="edit", content=change)
    assert given(edit) == {"path": "/code/a.py", "old_text": "y", "new_text": "x"}
    big = Told().call(title="Edit a.py", kind="edit", content=[diff("/code/a.py", "x" * 9000)])
    assert given(big) == {"path": "/code/a.py"}


def test_what_a_permission_request_showed_is_not_forgotten_when_the_call_fails() -> None:
    told = Told().ask(title="Write a.py", kind="edit", content=[diff("/code/a.py", "x")])
    told.update(status="failed", kind="edit", content=text("No such directory"))
    assert given(told) == {"path": "/code/a.py", "content": "x"}


@pytest.mark.parametrize(
    ("title", "command"),
    [
        ("ls -la", "ls -la"),
        ("echo one; echo two", "echo one; echo two"),
        ("nonexistent-command-xyz --flag", "nonexistent-command-xyz --flag"),
        ("`make test`", "make test"),
        ("Run `ls`", "ls"),
        ("Running command: `npm test -- -u`", "npm test -- -u"),
        ("$ git status", "git status"),
        ("See what changed: $ git diff | head", "git diff | head"),
        ("FOO=1 ./run.sh", "FOO=1 ./run.sh"),
        ("git status", "git status"),
        ("Run the tests", None),
        ("running tests", None),
        ("Execute command", None),
        ("Terminal", None),
        ("bash", None),
        ("make test…", None),
        ("Run `ls` and `cat`", None),
    ],
)
def test_a_command_is_known_by_a_title_that_is_it(title: str, command: str | None) -> None:
    expected = None if command is None else {"command": command}
    assert given(Told().call(title=title, kind="execute")) == expected


@pytest.mark.parametrize(
    ("title", "pattern"),
    [("'TODO'", "TODO"), ("`a|b`", "a|b"), ("Search TODO", None), ("''", None)],
)
def test_a_search_is_known_by_a_title_in_quotes(title: str, pattern: str | None) -> None:
    expected = None if pattern is None else {"pattern": pattern}
    assert given(Told().call(title=title, kind="search")) == expected


def test_a_fetch_is_known_by_the_address_in_its_title() -> None:
    told = Told().call(title="Fetching https://example.org/a?b=c.", kind="fetch")
    assert given(told) == {"url": "https://example.org/a?b=c"}
    two = Told().call(title="Comparing http://a.org and http://b.org", kind="fetch")
    assert given(two) is None


def test_an_input_reported_to_be_empty_is_believed_if_it_may_be_true() -> None:
    places = [{"path": "/code/a.py"}]
    listed = Told().call(name="list_issues", title="Listing", kind="read", rawInput={})
    assert given(listed.update(locations=places)) == {}
    read = Told().call(name="read_file", title="a.py", kind="read", rawInput={}, locations=places)
    assert given(read) == {"path": "/code/a.py"}


def test_what_was_reported_wins_over_what_was_known_from_elsewhere() -> None:
    told = Told().call(title="ls -l", kind="execute")
    assert given(told) == LS
    assert given(told.update(rawInput={"command": "ls -l", "timeout": 3}))["timeout"] == 3


def test_gemini_reports_inputs_by_its_titles() -> None:
    def of(key: str, title: str, kind: str = "search") -> Any:
        return given(Told("gemini-cli", key=f"{key}__call_1").call(title=title, kind=kind))

    assert of("run_shell_command", "Deploy It", "execute") == {"command": "Deploy It"}
    assert of("grep_search", "'it's' in *.py within src") == {
        "pattern": "it's",
        "include": "*.py",
        "path": "src",
    }
    assert of("glob", "'*.py' within /home/.../src") == {"pattern": "*.py"}
    assert of("list_directory", "src") == {"path": "src"}
    assert of("write_todos", "Set 2 todo(s)", "other") is None


def test_an_input_that_v2_clears_is_gone() -> None:
    told = Told(version=2).update(title="Working", rawInput=LS).update(rawInput=None)
    assert given(told) is None


AGENTS = ("somebody", "codex-acp", "gemini-cli", "Kimi Code CLI", "OpenCode", "goose", "fast-agent")


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("odd", [7, True, "x", [1, [2]], {"a": {"b": [None]}}, 1.5, [], {}, ""])
def test_odd_values_break_nothing(odd: Any, agent: str) -> None:
    names = ("title", "kind", "name", "content", "locations", "rawInput", "rawOutput", "_meta")
    for field in names:
        told = Told(agent, key="bash__1").call(**{"title": "bash", field: odd})
        told.ask(**{field: odd}).update(**{field: odd}).draft()
        told.update(content=[odd, {"type": "diff", "path": odd, "changes": odd}]).draft()
        told.update(locations=[odd, {"path": odd, "line": odd}], rawInput={"path": odd}).draft()
