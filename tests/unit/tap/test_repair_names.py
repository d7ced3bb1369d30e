"""Which tool another agent's call is of."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.tap.repair.names import in_id
from tests.support.drafts import Told


def name(told: Told) -> str:
    return told.draft().name


def test_a_declared_name_wins_over_all_others() -> None:
    told = Told().call(name="Read", title="read_file", _meta={"tool_name": "cat_file"})
    assert name(told) == "Read"
    assert "name" not in told.draft().repaired


@pytest.mark.parametrize(
    "meta",
    [
        {"tool_name": "deploy"},
        {"toolName": "deploy"},
        {"claudeCode": {"toolName": "deploy"}},
        {"somebody.dev": {"tool_name": "deploy", "x": 1}},
    ],
)
def test_a_name_is_found_in_any_corner_of_meta(meta: dict[str, Any]) -> None:
    told = Told().call(title="Deploying", _meta=meta)
    assert name(told) == "deploy"
    assert "name" in told.draft().repaired


def test_meta_of_a_permission_request_counts_too() -> None:
    assert name(Told().ask(title="Deploying", _meta={"tool_name": "deploy"})) == "deploy"


@pytest.mark.parametrize(
    ("title", "found"),
    [
        ("read_file", "read_file"),
        ("ReadFile", "ReadFile"),
        ("bash", "bash"),
        ("frobnicate_widget", "frobnicate_widget"),
        ("mcp__github__create_issue", "mcp__github__create_issue"),
        ("environment/read_text_file", "environment/read_text_file"),
        ("github.create_issue", "github.create_issue"),
        ("files.read", "files.read"),
        ("Calling read_file…", "read_file"),
        ("Tool: github/create_issue", "github/create_issue"),
        ("write_file (streaming: 25)", "write_file"),
        ("read_file: src/app.py", "read_file"),
        ("Shell: echo one", "Shell"),
        ("run_commands: ls, pwd", "run_commands"),
        ("grep_search(pattern='x')", "grep_search"),
    ],
)
def test_the_bare_title_of_an_announcement_is_the_name(title: str, found: str) -> None:
    assert name(Told().call(title=title)) == found


@pytest.mark.parametrize(
    "title",
    [
        "README.md",
        "test_app.py",
        "src/test_app.py",
        "run.sh",
        "fix.patch",
        "Read src/app.py",
        "ls",
        "make test",
        "Think",
        "Search: foo",
        "Note: my_file",
        "Tool call",
        "",
        "python",
        "https://example.org/read_file",
    ],
)
def test_a_title_that_may_be_a_file_or_a_command_is_no_name(title: str) -> None:
    assert name(Told().call(title=title)) == ""


def test_a_title_that_is_an_argument_is_no_name() -> None:
    assert name(Told().call(title="my_branch", rawInput={"branch": "my_branch"})) == ""
    assert name(Told().call(title="bash", rawInput={"command": "bash"})) == ""
    assert name(Told().call(title="bash", rawInput={"command": ["sh", "-c", "bash"]})) == ""


def test_the_announcements_title_counts_when_a_later_one_says_more() -> None:
    told = Told().call(title="read_file", kind="read").update(title="Reading src/app.py")
    assert name(told) == "read_file"


def test_the_name_is_found_in_an_input_that_is_a_whole_call() -> None:
    given = {"name": "read_file", "arguments": '{"path": "a.py"}'}
    told = Told().call(title="Working", rawInput=given)
    assert name(told) == "read_file"
    assert [place["path"] for place in told.draft().locations] == ["/code/a.py"]
    mcp = {"server": "github", "tool": "create_issue", "arguments": {"title": "x"}}
    assert name(Told().call(title="Working", rawInput=mcp)) == "mcp__github__create_issue"


def test_an_input_that_only_has_a_name_in_it_is_no_whole_call() -> None:
    assert name(Told().call(title="Working", rawInput={"name": "pdf", "args": "a.pdf"})) == ""
    assert name(Told().call(title="Working", rawInput={"name": "read_file", "x": {}})) == ""


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("bash:0", "bash"),
        ("functions.grep:12", "grep"),
        ("turn/read:1", "read"),
        ("read_file", "read_file"),
        ("call_0", ""),
        ("toolu_01ABC", ""),
        ("task_123", ""),
        ("terminal_1", ""),
        ("read-1", ""),
        ("chatcmpl-tool-9", ""),
        ("", ""),
    ],
)
def test_a_name_is_found_in_the_id_only_if_it_is_surely_one(key: str, found: str) -> None:
    assert in_id(key) == found


def test_names_that_are_no_texts_are_passed_over() -> None:
    told = Told().call(name=7, title=["x"], _meta={"tool_name": {}, "a": [1], "b": {"toolName": 3}})
    assert name(told) == ""


# Agents that are known


def test_kimi_names_tools_that_nobody_knows() -> None:
    assert name(Told("Kimi Code CLI").call(title="SendDMail")) == "SendDMail"
    assert name(Told("Kimi Code CLI").call(title="Think: hard")) == "Think"


def test_codex_is_known_by_its_events() -> None:
    def of(**fields: Any) -> str:
        return name(Told("codex-acp").call(**fields))

    started = {"command": ["bash", "-lc", "bash"], "source": "unified_exec_startup"}
    assert of(title="bash", kind="execute", rawInput=started) == "exec_command"
    assert of(title="Edit a.py", rawInput={"changes": {"/code/a.py": {}}}) == "apply_patch"
    tool = {"server": "gh", "tool": "search", "arguments": {}}
    assert of(title="Tool: gh/search", rawInput=tool) == "mcp__gh__search"


def test_gemini_has_the_name_in_the_id() -> None:
    def of(key: str) -> str:
        return name(Told("gemini-cli", key=key).call(title="x y"))

    assert of("read_file__call_1") == "read_file"
    assert of("mcp_gh_create_issue__call_1") == "mcp_gh_create_issue"
    assert of("save_memory-1748392011123") == "save_memory"
    assert of("abc") == ""


def test_goose_writes_names_for_people() -> None:
    assert name(Told("goose").call(title="Developer: Text Editor")) == "developer__text_editor"
    assert name(Told("goose").call(title="Reading a.py now")) == ""


def test_a_history_is_not_announced_by_names() -> None:
    told = Told("OpenCode").call(title="TODO", kind="search")
    assert name(told) == "TODO"
    draft = told.draft()
    draft.call.is_replayed = True
    assert draft.profile.name_of is not None
    assert draft.profile.name_of(draft.call) is None


def test_hermes_has_words_for_its_tools() -> None:
    assert name(Told("hermes-agent").call(title="terminal: ls", kind="execute")) == "terminal"
    assert name(Told("hermes-agent").call(title="patch (replace): /code/a")) == "patch"
    assert name(Told("hermes-agent").call(title="web search: cats")) == "web_search"
    assert name(Told("hermes-agent").call(title="process poll: 7")) == "process"
    assert name(Told("hermes-agent").call(title="todo (2 items)")) == "todo"
    assert name(Told("hermes-agent").call(title="Approve edit: /code/a")) == ""


def test_a_name_is_found_in_what_an_agents_corner_has_on_the_call() -> None:
    meta = {"goose": {"toolCall": {"toolName": "edit", "extensionName": "developer"}}}
    assert name(Told("goose").call(title="edit · /code/a.py", _meta=meta)) == "edit"


def test_words_for_people_are_no_name() -> None:
    assert name(Told().call(title="Running command", kind="execute", rawInput={})) == ""
    assert name(Told().call(title="Running bash", kind="execute")) == "bash"
    assert name(Told().call(title="Calling read_file…")) == "read_file"
