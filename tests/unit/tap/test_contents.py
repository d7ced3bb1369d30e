"""What another agent's calls show: their result, their diffs, why they failed; each item in ACP's form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callsheet.tap.repair import repaired
from callsheet.tap.repair.card_content import in_form
from tests.support.sizes import fewer
from tests.support.strategies import json_values
from tests.support.tap_ends import draft_of, shown, turn, words

DIFF = {"type": "diff", "path": "/code/a.py", "oldText": "a", "newText": "b"}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}

# The result


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        ({"rawOutput": "one"}, ["one"]),
        ({"rawOutput": {"stdout": "one"}, "kind": "execute"}, ["```\none\n```"]),
        ({"rawOutput": {"stdout": "one\n", "stderr": "two\n"}}, ["one\ntwo\n"]),
        ({"rawOutput": {"stdout": "", "aggregated_output": "both"}}, ["both"]),
        ({"rawOutput": {"content": [{"type": "text", "text": "x"}, IMAGE]}}, ["x", "content"]),
        ({"rawOutput": {"result": {"content": [{"type": "text", "text": "x"}]}}}, ["x"]),
        ({"rawOutput": [{"type": "text", "text": "x"}]}, ["x"]),
        ({"rawOutput": [{"path": "a", "result": "x"}, {"path": "b", "error": "y"}]}, ["x", "y"]),
        ({"rawOutput": ["one", "two"]}, ["one"]),
        ({"rawOutput": "one", "content": words("  ")}, ["one"]),
        ({"rawOutput": {"exit_code": 0, "stdout": ""}}, []),
        ({"rawOutput": None}, ["No result was reported"]),
        ({"rawOutput": ""}, []),
        ({"rawOutput": None, "kind": "think"}, []),
        ({"rawOutput": 7}, []),
    ],
)
def test_a_result_that_is_in_the_raw_output_only_is_shown(
    told: dict[str, Any], texts: list[str]
) -> None:
    draft = draft_of(turn().call("a", "completed", **told))
    assert shown(draft) == texts
    assert ("content" in draft.repaired) == bool(texts)


GO = {"type": "content", "content": {"type": "text"}}


@pytest.mark.parametrize("status", ["in_progress", "completed", "failed"])
@pytest.mark.parametrize("content", [[GO], [GO, *words("one")], [GO, DIFF], [{"type": "text"}]])
def test_a_block_without_its_text_is_an_empty_one(status: str, content: list[Any]) -> None:
    """As encoders of Go leave out what is empty."""
    draft = draft_of(turn().call("a", status, kind="edit", content=content, rawOutput="x"))
    assert "type" not in "".join(shown(draft))
    assert "{" not in "".join(shown(draft))


@pytest.mark.parametrize(
    "given",
    [
        {"old_string": "a", "new_string": "b"},
        {"oldString": "a", "newString": "b", "replaceAll": True},
        {"old_str": "a", "new_str": "b"},
        {"oldText": "a", "newText": "b"},
        {"search": "a", "replace": "b"},
        {"edits": [{"old_string": "a", "new_string": "b"}]},
        {"edits": [{"oldText": "a", "newText": "b"}], "dry_run": False},
        {"replacements": [{"find": "a", "replace": "b"}]},
    ],
)
def test_a_diff_is_shown_where_the_input_has_both_texts(given: dict[str, Any]) -> None:
    told = {"kind": "edit", "rawInput": {"path": "/code/a.py", **given}}
    for status in ("pending", "in_progress", "completed"):
        draft = draft_of(turn().call("a", status, **told, content=words("ok")))
        assert draft.content == [*words("ok"), DIFF]
    assert DIFF not in draft_of(turn().call("a", "failed", **told, content=words("no"))).content


def test_several_edits_are_several_diffs() -> None:
    edits = [{"old_str": "a", "new_str": "b"}, {"old_str": "c", "new_str": ""}]
    draft = draft_of(turn().call("a", kind="edit", rawInput={"path": "/code/a.py", "edits": edits}))
    assert [(one["oldText"], one["newText"]) for one in draft.content] == [("a", "b"), ("c", "")]


@pytest.mark.parametrize(
    "told",
    [
        {"rawInput": {"path": "/code/a.py", "content": "b"}},
        {"rawInput": {"path": "/code/a.py", "new_string": "b"}},
        {"rawInput": {"old_string": "a", "new_string": "b"}},
        {"rawInput": {"path": "/code/a.py", "edits": [{"old_str": "a", "new_str": "b"}, {"x": 1}]}},
        {
            "rawInput": {"path": "/code/a.py", "old_string": "a", "new_string": "b"},
            "kind": "search",
        },
    ],
)
def test_no_diff_is_made_up(told: dict[str, Any]) -> None:
    """What a file is overwritten with says nothing of what stood there."""
    draft = draft_of(turn().call("a", "completed", **{"kind": "edit", **told}, content=words("ok")))
    assert draft.content == words("ok")


def test_the_agents_own_diff_stands_alone() -> None:
    given = {"path": "/code/a.py", "old_string": "x", "new_string": "y"}
    draft = draft_of(turn().call("a", "completed", kind="edit", rawInput=given, content=[DIFF]))
    assert draft.content == [DIFF]


def test_what_is_shown_is_not_shown_again() -> None:
    draft = draft_of(
        turn().call("a", "completed", content=words("one"), rawOutput={"stdout": "two"})
    )
    assert shown(draft) == ["one"]
    assert "content" not in draft.repaired


def test_a_result_is_shown_at_the_end_only() -> None:
    assert shown(draft_of(turn().call("a", "in_progress", rawOutput="half"))) == []


def test_what_a_terminal_shows_is_not_shown_again() -> None:
    talk = turn().call("a", "in_progress", content=[{"type": "terminal", "terminalId": "t"}])
    talk.call("a", "completed", rawOutput="one")
    assert shown(draft_of(talk)) == ["terminal"]


def test_the_words_of_a_permission_request_make_room_for_the_result() -> None:
    talk = turn().question("a", title="ls", content=words("May I?")).decide()
    talk.call("a", "in_progress", title="ls")
    assert shown(draft_of(talk)) == ["May I?"]
    assert shown(draft_of(talk.call("a", "completed", rawOutput="a.py"))) == ["a.py"]


# Why it failed


@pytest.mark.parametrize(
    ("told", "texts"),
    [
        ({"rawOutput": {"error": "no such file"}}, ["no such file"]),
        ({"rawOutput": {"error": {"message": "no"}}, "content": words("half")}, ["half", "no"]),
        ({"rawOutput": {"error": "no"}, "content": words("```\nno\n```")}, ["```\nno\n```"]),
        ({"rawOutput": {"error": "[see content]"}, "content": words("no")}, ["no"]),
        ({"rawOutput": {"exit_code": 3, "stdout": ""}}, ["Exit code 3"]),
        ({"rawOutput": {"code": 7}}, ['```\n{"code":7}\n```']),
        ({"rawOutput": "no match", "content": [DIFF]}, ["diff", "no match"]),
        ({"content": []}, []),
    ],
)
def test_a_failed_call_says_why_if_anything_does(told: dict[str, Any], texts: list[str]) -> None:
    assert shown(draft_of(turn().call("a", "failed", **told))) == texts


@pytest.mark.parametrize(
    ("word", "said"),
    [("rejected", "Denied"), ("timeout", "Timed out"), ("canceled", "Cancelled")],
)
def test_a_reason_that_only_the_status_reports_is_said(word: str, said: str) -> None:
    assert shown(draft_of(turn().call("a", word))) == [said]


def test_a_failure_that_was_reported_as_completed_says_its_exit_code() -> None:
    told = {"content": words("oops"), "rawOutput": {"exit_code": 3, "output": "oops"}}
    assert shown(draft_of(turn().call("a", "completed", **told))) == ["oops", "Exit code 3"]


def test_an_exit_code_that_the_output_says_is_not_said_again() -> None:
    said = "oops\n[exit code: 3]"
    draft = draft_of(turn().call("a", "completed", kind="execute", content=words(said)))
    assert shown(draft) == [said]


# Diffs


def test_a_diff_of_the_permission_request_is_kept_to_the_end() -> None:
    talk = turn().call("a", "pending", kind="edit").question("a", content=[DIFF]).decide()
    draft = draft_of(talk.call("a", "completed", content=words("Wrote the file.")))
    assert draft.content == [*words("Wrote the file."), DIFF]
    assert "content" in draft.repaired


def test_a_diff_of_the_announcement_is_kept_to_the_end() -> None:
    talk = (
        turn().call("a", "pending", content=[DIFF]).call("a", "completed", content=words("Done."))
    )
    assert shown(draft_of(talk)) == ["Done.", "diff"]


def test_a_diff_that_was_shown_in_between_is_kept_to_the_end() -> None:
    draft = draft_of(turn().call("a", "pending").call("a", "completed", content=[]))
    assert repaired(replace(draft, content=[DIFF])).content == [DIFF]


def test_the_diff_of_the_end_is_the_one_that_is_shown() -> None:
    whole = {**DIFF, "newText": "b\n"}
    talk = turn().call("a", "pending").question("a", content=[DIFF]).decide()
    assert draft_of(talk.call("a", "completed", content=[whole])).content == [whole]


def test_a_diff_of_what_was_not_done_is_not_kept() -> None:
    talk = turn().call("a", "pending").question("a", content=[DIFF]).decide("no")
    assert shown(draft_of(talk.call("a", "failed", content=words("Refused.")))) == ["Refused."]


def test_a_diff_of_a_new_file_says_that_there_was_none() -> None:
    bare = {"type": "diff", "path": "/code/a.py", "newText": "b"}
    assert draft_of(turn().call("a", "completed", content=[bare])).content == [
        {**bare, "oldText": None}
    ]


def test_a_diff_of_v2_is_left_as_it_is() -> None:
    diff = {"type": "diff", "changes": [{"operation": "add", "path": "/code/a.py"}]}
    draft = draft_of(turn(2).call("a", "completed", content=[diff]))
    assert draft.content == [diff]
    assert "content" not in draft.repaired


# Items in other forms


@pytest.mark.parametrize(
    ("item", "made"),
    [
        ("one", words("one")),
        ({"type": "text", "text": "one"}, words("one")),
        ({"text": "one"}, words("one")),
        ({"type": "content", "content": "one"}, words("one")),
        ({"type": "content", "text": "one"}, words("one")),
        (IMAGE, [{"type": "content", "content": IMAGE}]),
        ({**IMAGE, "data": 1}, words('```\n{"type":"image","data":1,"mimeType":"image/png"}\n```')),
        ({"type": "diff", "path": "/a", "oldText": "a"}, [{**DIFF, "path": "/a", "newText": ""}]),
        ({"type": "diff", "path": "", "newText": "b"}, None),
        ({"a": 1}, words('```\n{"a":1}\n```')),
        (3, words("```\n3\n```")),
        (None, []),
        ([], []),
        ({}, []),
    ],
)
def test_items_are_put_into_acps_form(item: Any, made: list[Any] | None) -> None:
    found = in_form([item], is_v2=False)
    assert found == made if made is not None else len(found) == 1


@pytest.mark.parametrize(
    "item",
    [
        words("one")[0],
        {**words("one")[0], "_meta": {"x": 1}},
        {"type": "content", "content": IMAGE},
        {"type": "content", "content": {"type": "hologram"}},
        {"type": "terminal", "terminalId": "t"},
        {"type": "widget", "data": 1},
        DIFF,
    ],
)
def test_items_in_acps_form_are_left_alone(item: Any) -> None:
    given = [item]
    assert in_form(given, is_v2=False) is given


def test_content_that_is_no_list_is_shown() -> None:
    assert shown(draft_of(turn().call("a", "completed", content="one"))) == ["one"]
    one = {"type": "text", "text": "one"}
    assert shown(draft_of(turn().call("a", "completed", content=one))) == ["one"]


def test_of_a_long_content_that_grows_only_the_end_is_looked_at() -> None:
    many = words("one") * 1000
    assert in_form(many, is_v2=True, is_growing=True) is many
    assert in_form([*many, "two"], is_v2=True, is_growing=True)[-1] == words("two")[0]


# Whatever comes


@fewer(2)
@given(
    st.sampled_from(["pending", "completed", "failed", "success", "odd"]),
    st.sampled_from([1, 2]),
    st.sampled_from(["", "gemini-cli", "OpenCode", "codex-acp", "Kimi Code CLI", "claude"]),
    st.fixed_dictionaries(
        {},
        optional={
            "content": json_values | st.lists(json_values),
            "rawOutput": json_values,
            "rawInput": json_values,
            "kind": json_values,
            "_meta": json_values,
        },
    ),
)
def test_no_value_is_too_odd(status: str, version: int, agent: str, told: dict[str, Any]) -> None:
    talk = turn(version, agent).call("a", "pending").question("a", **told).call("a", status, **told)
    first, again = draft_of(talk), draft_of(talk)
    assert first.content == again.content
    assert first.status in ("pending", "in_progress", "completed", "failed", "cancelled")
    assert all(isinstance(item, dict) for item in first.content)


def test_a_raw_output_that_is_nested_too_deep_is_no_reason_to_stop() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"result": deep}
    draft = draft_of(turn().call("a", "failed"))
    draft.call.fields["rawOutput"] = deep
    assert repaired(draft).status == "failed"
