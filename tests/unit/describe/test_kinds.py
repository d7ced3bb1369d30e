"""The steps that decide a kind, in their order, and what each of them says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.describe import Describer
from callsheet.describe.classify import known_names
from callsheet.describe.titles import squash
from callsheet.report.fields import CustomKind, ToolKind

describe = Describer("/w")


def test_each_step_decides_where_the_ones_before_it_say_nothing() -> None:
    hints = {"destructiveHint": True}
    assert describe("read", {"command": "ls"}, kind="think", annotations=hints).kind == "think"
    assert describe("read", {"command": "ls"}, annotations=hints).kind == "execute"
    assert describe("read", annotations=hints).kind == "delete"
    assert describe("read").kind == "read"
    assert describe("str_replace_editor", {"command": "view", "path": "a"}).kind == "read"
    assert describe("fs_delete_target").kind == "delete"
    assert describe("delete_target").kind == "delete"
    assert describe("frobnicate").kind == "other"


def test_what_is_declared_always_wins() -> None:
    described = describe(
        "delete_file", {"path": "a"}, kind="read", annotations={"destructiveHint": True}
    )
    assert described.kind is ToolKind.READ
    assert describe("read", {"path": "a"}, kind=ToolKind.THINK).kind is ToolKind.THINK
    assert describe("read", kind="_deploy").kind == CustomKind("_deploy")


def test_a_declared_kind_that_is_none_is_as_good_as_not_declared() -> None:
    assert describe("delete_file", kind="deleet").kind == "delete"


@pytest.mark.parametrize(
    ("name", "annotations", "kind"),
    [
        ("mcp__x__frobnicate", {"readOnlyHint": True}, "other"),
        ("mcp__x__search_things", {"readOnlyHint": True}, "other"),
        ("mcp__x__fetch_page", {"readOnlyHint": True}, "other"),
        ("read_file", {"readOnlyHint": True}, "other"),
        ("mcp__x__delete_cache_entry", {"readOnlyHint": True}, "delete"),
        ("mcp__x__frobnicate", {"readOnlyHint": False, "destructiveHint": True}, "delete"),
        ("mcp__x__get_thing", {"destructiveHint": True}, "delete"),
        ("mcp__x__write_file", {"destructiveHint": True}, "edit"),
        ("mcp__x__run_job", {"destructiveHint": True}, "execute"),
        ("mcp__x__frobnicate", {"readOnlyHint": True, "destructiveHint": True}, "delete"),
        ("mcp__x__frobnicate", {"readOnlyHint": False}, "other"),
        ("mcp__x__frobnicate", {"readOnlyHint": "yes", "destructiveHint": 1}, "other"),
        ("mcp__x__create_thing", {"destructiveHint": False}, "edit"),
        ("mcp__x__frobnicate", {}, "other"),
    ],
)
def test_annotations_only_make_a_kind_stricter(
    name: str, annotations: dict[str, object], kind: str
) -> None:
    assert describe(name, {}, annotations=annotations).kind == kind


def test_names_are_the_same_in_any_case_and_style() -> None:
    for name in ("read_file", "ReadFile", "readFile", "read-file", "READ_FILE", "readfile"):
        assert describe(name, {"path": "a.py"}).title == "Reading a.py"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("delete_target", "delete"),
        ("getUserAndDelete", "delete"),
        ("mcp__fs__move_file", "move"),
        ("get_or_create_user", "edit"),
        ("read_and_execute", "execute"),
        ("listAndRun", "execute"),
        ("search_then_replace", "edit"),
        ("get_commit", "other"),
        ("get_test_run", "other"),
        ("list_commands", "other"),
        ("get_deleted_items", "other"),
        ("target", "other"),
        ("gadget", "other"),
        ("moved", "other"),
        ("removal", "other"),
        ("researcher", "other"),
        ("thread", "other"),
        ("prefetch", "other"),
        ("workflow_run", "execute"),
        ("issue_write", "edit"),
        ("HTTPGet", "other"),
        ("switch_to_dark_mode", "switch_mode"),
        ("web", "other"),
        ("", "other"),
        ("___", "other"),
        ("mcp__", "other"),
        ("mcp____x", "other"),
        ("get_payment_and_send", "execute"),
        ("mcp__k8s__get_apply", "edit"),
        ("list_kill", "execute"),
        ("fetch_push", "edit"),
        ("search_index_rebuild", "execute"),
        ("terminate_instance", "execute"),
        ("get_invite", "edit"),
        ("list_prune", "delete"),
        ("read_flush", "delete"),
        ("get_upload", "edit"),
        ("http_post", "edit"),
        ("mcp__db__query", "execute"),
        ("mcp__db__query_database", "execute"),
        ("mcp__db__get_sql", "execute"),
    ],
)
def test_only_whole_words_count_and_the_destructive_first(name: str, kind: str) -> None:
    assert describe(name).kind == kind


@pytest.mark.parametrize(
    "verb",
    [
        "archive",
        "send",
        "apply",
        "scale",
        "click",
        "kill",
        "upload",
        "transfer",
        "publish",
        "restore",
        "disable",
        "rotate",
        "commit",
        "flush",
        "prune",
        "expire",
        "cancel",
        "stop",
        "push",
        "add",
        "rebuild",
        "terminate",
        "shutdown",
        "unsubscribe",
        "subscribe",
        "pay",
        "purchase",
        "merge",
        "approve",
        "invite",
        "revoke",
        "reset",
        "restart",
        "reboot",
    ],
)
@pytest.mark.parametrize("reader", ["get", "list", "search", "fetch", "read"])
def test_a_verb_that_does_more_wins_over_a_reader(verb: str, reader: str) -> None:
    changing = ("edit", "delete", "execute")
    assert describe(f"{reader}_thing_{verb}").kind in changing
    assert describe(f"mcp__x__{verb}_{reader}", {"command": "cat a"}).kind in changing
    assert describe(f"{reader}_and_{verb}").kind in changing


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("bash", {"command": "cat a"}),
        ("read_file", {"path": "a", "command": "cat a"}),
        ("search", {"query": "x", "steps": [{"run": {"cmd": ["cat", "a"]}}]}),
        ("fetch", {"url": "https://x", "Command_Line": "ls"}),
        ("think", {"script": "ls"}),
        ("edit", {"path": "a", "commands": ["ls"]}),
        ("mcp__x__run_shell_command", {"command": "cat a"}),
        ("mcp__x__get_thing", {"command": "cat a"}),
        ("frobnicate", {"command": "view"}),
        ("", {"command": "ls"}),
    ],
)
def test_what_is_given_a_command_is_execute(name: str, given: dict[str, object]) -> None:
    assert describe(name, given).kind == "execute"


def test_the_verb_of_an_editor_is_no_command() -> None:
    assert describe("str_replace_editor", {"command": "view", "path": "a"}).kind == "read"
    assert describe("str_replace_editor", {"command": "rm a", "path": "a"}).kind == "execute"


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"url": "https://x"}, "fetch"),
        ({"url": "https://x", "method": "get"}, "fetch"),
        ({"url": "https://x", "method": "POST"}, "execute"),
        ({"url": "https://x", "method": ["DELETE"]}, "execute"),
        ({"action": "type", "text": "x"}, "execute"),
    ],
)
def test_a_request_that_sends_is_more_than_a_fetch(arguments: dict[str, object], kind: str) -> None:
    assert describe("http_request", arguments).kind == kind


@given(
    st.sampled_from(["delete", "remove", "destroy", "drop", "purge"]),
    st.lists(
        st.sampled_from(
            [
                "get",
                "read",
                "search",
                "write",
                "run",
                "fetch",
                "list",
                "user",
                "move",
                "and",
                "mode",
            ]
        ),
        max_size=4,
    ),
    st.randoms(),
)
def test_a_destructive_word_wins_wherever_it_stands(word, others, random) -> None:
    words = [word, *others]
    random.shuffle(words)
    if words[0] != "set":
        assert describe("x_" + "_".join(words)).kind == "delete"


def test_the_families_are_known_by_their_first_word() -> None:
    assert describe("fs_read_text_file").kind == "other"
    assert describe("fs_remove").kind == "delete"
    assert describe("fs_move").kind == "move"
    assert describe("fs_search").kind == "other"
    assert describe("fs_whatever").kind == "other"
    assert describe("terminal_whatever").kind == "execute"


def test_every_name_of_the_table_is_found_by_its_own_squashed_form() -> None:
    assert all(squash(name) == name for name in known_names())
    assert len(known_names()) > 250
