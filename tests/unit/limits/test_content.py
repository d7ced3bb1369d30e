"""Raw output doesn't carry again what content has."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from callsheet import ToolCallContent
from callsheet.limits.content import IN_CONTENT, without_repeats
from callsheet.limits.limits import ROOMY, bound_report
from callsheet.report.content import TextContent

TEXT = "".join(f"line {n}: some text\n" for n in range(5000))
PNG = b64encode(b"\x89PNG" + bytes(100_000)).decode()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (TEXT, IN_CONTENT),
        ({"output": TEXT, "exit_code": 0}, {"output": IN_CONTENT, "exit_code": 0}),
        ({"stdout": TEXT.strip() + "\n\n"}, {"stdout": IN_CONTENT}),
        ({"unusual": TEXT}, {"unusual": IN_CONTENT}),
        (
            {"content": [{"type": "text", "text": TEXT}], "isError": False},
            {"content": [{"type": "text", "text": IN_CONTENT}], "isError": False},
        ),
        ({"result": {"message": TEXT, "n": [1]}}, {"result": {"message": IN_CONTENT, "n": [1]}}),
        ({"lines": TEXT.splitlines()[:3]}, {"lines": TEXT.splitlines()[:3]}),
        ({"output": list(TEXT.encode())}, {"output": IN_CONTENT}),
        ({"output": list(range(100))}, {"output": list(range(100))}),
        ({"output": "line 1"}, {"output": "line 1"}),
        ({"output": "x" * 500}, {"output": "x" * 500}),
        (7, 7),
        ([TEXT, 1], [IN_CONTENT, 1]),
    ],
)
def test_raw_output_does_not_carry_again_what_content_has(raw: Any, expected: Any) -> None:
    fields = {"content": (TextContent(TEXT),), "raw_output": raw}
    plan = bound_report(fields, ROOMY)
    assert plan.fields["raw_output"] == expected
    assert fields["raw_output"] is raw
    assert plan.cuts == ()
    again = bound_report(plan.fields, ROOMY)
    assert again.fields is plan.fields
    if raw == expected:
        assert plan.fields is fields


def test_what_content_contains_counts_under_the_keys_of_printed_text_only() -> None:
    out, err = "o" * 80, "e" * 80
    content = (TextContent(f"```console\n{out}\n{err}\n```"),)
    raw = {"stdout": out, "stderr": err, "path": out}
    assert without_repeats(raw, content) == {
        "stdout": IN_CONTENT,
        "stderr": IN_CONTENT,
        "path": out,
    }


def test_data_and_texts_of_other_items_are_not_repeated_either() -> None:
    content = (
        ToolCallContent.image(PNG, "image/png"),
        ToolCallContent.diff("/a", "old\n" * 50, "new\n" * 50),
        ToolCallContent.resource("file:///x", "resource\n" * 20),
        TextContent("a" * 100),
        TextContent("b" * 100),
    )
    raw = {
        "data": PNG,
        "after": "new\n" * 50,
        "body": "resource\n" * 20,
        "output": "a" * 100 + "b" * 100,
        "kept": 1,
    }
    assert without_repeats(raw, content) == {
        **dict.fromkeys(["data", "after", "body", "output"], IN_CONTENT),
        "kept": 1,
    }


def test_content_that_the_call_has_already_counts_too() -> None:
    plan = bound_report({"raw_output": {"output": TEXT}}, shown=(TextContent(TEXT),))
    assert plan.fields == {"raw_output": {"output": IN_CONTENT}}


def test_what_is_cut_in_content_is_spilled_once() -> None:
    plan = bound_report({"content": (TextContent(TEXT),), "raw_output": {"output": TEXT}})
    assert [cut.field for cut in plan.cuts] == ["content"]
    assert plan.fields["raw_output"] == {"output": IN_CONTENT}
