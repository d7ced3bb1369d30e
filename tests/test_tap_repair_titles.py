"""What people read on the card of another agent's call."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from callsheet.check.recording.examples import recording_of
from callsheet.describe import Describer
from callsheet.tap.offline import Repairs
from callsheet.tap.settings import TapSettings

from .drafts import CWD, Told, text

FILE = {"path": "/code/src/app.py"}


def title(told: Told) -> str:
    return told.draft().title


@pytest.mark.parametrize(
    ("bare", "fields", "better"),
    [
        ("read_file", {"rawInput": FILE}, "Reading src/app.py"),
        ("ReadFile", {}, "Reading a file"),
        ("environment/read_text_file", {"rawInput": FILE}, "Reading src/app.py"),
        ("bash", {"rawInput": {"command": "make"}}, "Running `make`"),
        ("Tool call", {"name": "bash", "rawInput": {"command": "make"}}, "Running `make`"),
        ("", {"kind": "read", "rawInput": FILE}, "Reading src/app.py"),
        ("", {"rawInput": {"cmd": "make"}}, "Running `make`"),
        ("Calling read_file…", {"rawInput": FILE}, "Reading src/app.py"),
        ("write_file (streaming: 25)", {"rawInput": FILE}, "Writing to src/app.py"),
        ("frobnicate_widget", {"rawInput": {"x": 1}}, "Frobnicate widget"),
        ("ReadFile: app.py", {"rawInput": FILE}, "Reading src/app.py"),
        ("mcp__github__create_issue", {}, "Create issue (github)"),
    ],
)
def test_a_bare_title_becomes_one_that_says_what_is_done(
    bare: str, fields: dict[str, Any], better: str
) -> None:
    draft = Told().call(title=bare, **fields).draft()
    assert draft.title == better
    assert draft.has_own_title
    assert "title" in draft.repaired


@pytest.mark.parametrize(
    ("vague", "fields"),
    [
        ("Read File", {"rawInput": FILE}),
        ("Read Text File", {"name": "read_text_file", "rawInput": FILE}),
        ("Preparing file…", {"name": "read", "rawInput": FILE}),
        ("Reading file...", {"name": "read", "rawInput": FILE}),
        ("Developer: Text Editor", {"rawInput": {**FILE, "command": "view"}}),
    ],
)
def test_a_tools_name_in_words_becomes_more_when_the_input_says_more(
    vague: str, fields: dict[str, Any]
) -> None:
    draft = Told().call(kind="read", title=vague, **fields).draft()
    assert draft.title == "Reading src/app.py"
    assert draft.has_own_title


@pytest.mark.parametrize(
    ("good", "fields"),
    [
        ("Read src/app.py", {"rawInput": FILE}),
        ("Reading src/app.py…", {"rawInput": FILE}),
        ("app.py", {"rawInput": FILE}),
        ("Note: make", {"name": "bash", "rawInput": {"command": "make"}}),
        ("TODO", {"kind": "search", "rawInput": {"pattern": "TODO"}}),
        ("ls", {"kind": "execute"}),
        ("Run the tests", {"kind": "execute", "rawInput": {"command": "make test"}}),
        ("Read File", {}),  # there is nothing better
        ("Think", {"kind": "think"}),
        ("Waiting for the build…", {"name": "bash"}),
        ("bash", {"rawInput": {"command": "bash"}, "kind": "execute"}),
        ("my_branch", {"kind": "other", "rawInput": {"branch": "my_branch"}}),
    ],
)
def test_a_title_that_says_something_stays(good: str, fields: dict[str, Any]) -> None:
    draft = Told().call(title=good, **fields).draft()
    assert draft.title == good
    assert not draft.has_own_title
    assert "title" not in draft.repaired


def test_a_title_that_says_something_comes_back_as_soon_as_the_agent_has_one() -> None:
    told = Told().call(title="read", kind="read", rawInput=FILE)
    assert title(told) == "Reading src/app.py"
    assert title(told.update(title="src/app.py", status="completed")) == "src/app.py"
    assert not told.draft().has_own_title


def test_the_title_of_a_question_is_better_than_one_of_ours() -> None:
    told = (
        Told()
        .call(title="bash", kind="execute")
        .ask(title="touch a.txt", rawInput={"command": "touch a.txt"})
    )
    assert title(told) == "touch a.txt"
    assert not told.draft().has_own_title


def test_a_question_under_a_programs_word_gets_a_title_of_ours() -> None:
    told = Told().call(title="WriteFile", rawInput=FILE).ask(title="WriteFile: src/app.py")
    assert title(told) == "Writing to src/app.py"


def test_titles_are_in_the_users_language() -> None:
    told = Told(locale="de").call(title="read_file", rawInput=FILE)
    assert title(told) == Describer(CWD, locale="de")("read_file", FILE).title
    assert title(told) != "Reading src/app.py"


def test_arguments_that_stream_make_a_title_as_soon_as_they_tell_something() -> None:
    told = Told().call(title="write_file", kind="edit")
    told.update(content=text('{"path": "/code/a.py", "content": "import'))
    assert title(told) == "Writing to a.py"


def test_a_title_is_never_made_worse() -> None:
    assert title(Told().call(title="Unknown tool")) == "Unknown tool"
    assert title(Told().call(title="", kind="other")) == ""


def test_a_title_of_ours_never_has_half_a_secret() -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    for pad in range(4, 60, 7):
        command = f"echo {'x' * pad} {secret} {'y' * 60}"
        call = {"tool_call": "c1", "title": "bash", "rawInput": {"command": command}}
        repairs = Repairs(TapSettings(locale="en"), spill=False)
        data = b"".join(repairs.repaired(BytesIO(recording_of(json.dumps(call)))))
        assert b"Running `echo" in data
        assert secret[:12].encode() not in data


@pytest.mark.parametrize(
    ("good", "given"),
    [
        ("search_codebase: TODO", {"queries": ["TODO"]}),
        ("bash: " + "echo one; " * 12 + "ls", {"command": "echo one; " * 12 + "ls"}),
    ],
)
def test_a_title_of_ours_that_says_less_is_not_taken(good: str, given: dict[str, Any]) -> None:
    kind = "search" if "queries" in given else "execute"
    assert title(Told().call(title=good, kind=kind, rawInput=given)) == good
