"""What people read on the card of another agent's call."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest

from callsheet.describe import Describer
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.drafts import CWD, Told, diff, text
from tests.support.made_recordings import (
    OURS,
    SHARED,
    announced,
    asked,
    decided,
    name_of,
    recording_of,
    updated,
)
from tests.support.sizes import sized
from tests.support.tap_harness import Tapped, updates

RECORDINGS = [*OURS, *SHARED]
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
        ("Edit app.py", {"rawInput": FILE}),
        ("Note: make", {"name": "bash", "rawInput": {"command": "make"}}),
        ("make", {"kind": "execute", "rawInput": {"command": "make"}}),
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


def test_a_title_of_ours_gives_way_to_one_of_the_agent_that_says_what_is_done() -> None:
    told = Told().call(title="read", kind="read", rawInput=FILE)
    assert title(told) == "Reading src/app.py"
    assert title(told.update(title="Read the app", status="completed")) == "Read the app"
    assert not told.draft().has_own_title


@pytest.mark.parametrize(
    ("bare", "fields", "better"),
    [
        ("src/app.py", {"kind": "read", "rawInput": FILE}, "Reading src/app.py"),
        ("/code/src/app.py", {"kind": "edit", "rawInput": FILE}, "Editing src/app.py"),
        ("app.py", {"name": "write", "rawInput": FILE}, "Writing to src/app.py"),
        ("TODO", {"name": "grep", "rawInput": {"pattern": "TODO"}}, "Searching for 'TODO'"),
        ("'TODO'", {"name": "grep", "rawInput": {"pattern": "TODO"}}, "Searching for 'TODO'"),
        ("Editing files", {"kind": "edit", "rawInput": FILE}, "Editing src/app.py"),
        ("Edit a file", {"kind": "edit", "rawInput": FILE}, "Editing src/app.py"),
        ("Run a shell command", {"rawInput": {"command": "make"}}, "Running `make`"),
    ],
)
def test_a_title_says_what_is_done_and_to_what(
    bare: str, fields: dict[str, Any], better: str
) -> None:
    assert title(Told().call(title=bare, **fields)) == better


def test_a_title_names_the_file_of_a_diff_where_the_input_is_not_reported() -> None:
    told = Told().call(title="Editing files", kind="edit", content=[diff("/code/src/app.py", "x")])
    assert title(told) == "Editing src/app.py"
    both = [diff("/code/src/app.py", "x"), diff("/code/b.py", "y")]
    assert title(Told().call(title="Editing files", kind="edit", content=both)) == "Editing 2 files"


def test_whatever_titles_an_agent_reports_a_good_one_stays() -> None:
    random = Random(17)
    poor = ("read", "Read File", "src/app.py", "/code/src/app.py", "app.py", "Reading file…", "")
    for _ in range(sized(2000, 50)):
        tap = Tapped()
        begun = announced(title=random.choice(poor), kind="read", rawInput={}, locations=[])
        tap.agent(begun).wait(random.random())
        for _ in range(random.randrange(6)):
            fields: dict[str, Any] = {"title": random.choice((*poor, "Read src/app.py"))}
            if random.random() < 0.5:
                fields["rawInput"] = {"path": "/code/src/app.py"}
            tap.agent(updated(**fields)).wait(random.random())
        tap.agent(updated(status="completed", rawInput={"path": "/code/src/app.py"})).wait(5)
        shown = titles_of(tap.heard())["c1"]
        assert len(set(shown)) == len(shown) <= 4, shown
        assert shown[-1] in ("Reading src/app.py", "Read src/app.py"), shown


@pytest.mark.parametrize("path", RECORDINGS[:: sized(1, 3)], ids=name_of)
def test_titles_of_real_agents_change_at_most_once_and_for_the_better(path: Path) -> None:
    data = path.read_bytes()
    repairs = Repairs(TapSettings(locale="en"), spill=False)
    messages = [json.loads(line).get("msg", {}) for line in repairs.repaired(BytesIO(data))]
    for key, shown in titles_of(messages).items():
        assert len(set(shown)) == len(shown) <= 2, (key, shown)
        assert not any(" · " in title or "`'" in title for title in shown), (key, shown)
        assert not any(_is_only_a_path(title) for title in shown[1:]), (key, shown)


def _is_only_a_path(title: str) -> bool:
    return " " not in title and ("/" in title or "." in title)


def titles_of(messages: list[Any]) -> dict[str, list[str]]:
    """Return the titles that a client is told of each call, one after another, without repetitions."""
    found: dict[str, list[str]] = {}
    for message in messages:
        params = message.get("params") or {}
        told = params.get("update") or params.get("toolCall") or {}
        if "toolCallId" in told and isinstance(title := told.get("title"), str):
            titles = found.setdefault(told["toolCallId"], [])
            titles += [title] if titles[-1:] != [title] else []
    return found


@pytest.mark.parametrize("says_it_runs", [True, False])
def test_a_denied_call_has_not_run(says_it_runs: bool) -> None:
    tap = Tapped()
    tap.agent(announced(status="in_progress" if says_it_runs else "pending")).wait(1)
    tap.agent(asked()).wait(2).client(decided("no")).wait(1)
    tap.agent(updated(status="failed")).wait(5)
    ends = [one for one in updates(tap.heard()) if one.get("status") == "failed"]
    notes = ends[-1]["_meta"]["callsheet"]
    assert notes["reason"] == "denied"
    assert not {"durationMs", "startedAt"} & notes.keys()


def test_the_title_of_a_permission_request_is_better_than_one_of_ours() -> None:
    told = (
        Told()
        .call(title="bash", kind="execute")
        .ask(title="touch a.txt", rawInput={"command": "touch a.txt"})
    )
    assert title(told) == "touch a.txt"
    assert not told.draft().has_own_title


def test_a_permission_request_under_a_programs_word_gets_a_title_of_ours() -> None:
    told = Told().call(title="WriteFile", rawInput=FILE).ask(title="WriteFile: src/app.py")
    assert title(told) == "Writing to src/app.py"


def test_titles_are_in_the_users_language() -> None:
    told = Told(locale="de").call(title="read_file", rawInput=FILE)
    assert title(told) == Describer(CWD, locale="de")("read_file", FILE).title
    assert title(told) != "Reading src/app.py"


def test_arguments_that_stream_make_a_title_as_soon_as_they_report_something() -> None:
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
