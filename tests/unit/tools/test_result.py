"""The one format in which every tool answers."""

from __future__ import annotations

import copy
import pickle

import msgspec
import pytest

from callsheet import Session, ToolCallContent, ToolError, ToolResult
from callsheet.report.errors import InvalidValue
from callsheet.tools.errors import (
    Cancelled,
    ExecutionFailed,
    InvalidArguments,
    IOFailed,
    NotFound,
    NotPermitted,
    TimedOut,
)
from callsheet.tools.result import ByHand


def test_a_result_cannot_be_built_by_hand():
    with pytest.raises(ByHand, match=r"ToolResult\.success"):
        ToolResult(call_id="1", tool_name="t", success=True, output="x")
    with pytest.raises(TypeError):
        ToolResult()


def test_success_has_every_field_of_the_contract():
    result = ToolResult.success("call_1", "read", "3 lines")
    assert result.to_dict() == {
        "call_id": "call_1",
        "tool_name": "read",
        "success": True,
        "output": "3 lines",
        "error": None,
        "exit_code": None,
        "execution_time_ms": None,
        "metadata": {},
    }
    assert result.success is True
    assert result.error is None
    assert result.for_model() == "3 lines"


def test_an_errors_output_carries_its_details():
    result = ToolResult.error("call_1", "read", "No such file: a.txt")
    assert result.success is False
    assert result.error == result.output == result.for_model() == "No such file: a.txt"


def test_an_error_keeps_what_there_is_besides():
    result = ToolResult.error("1", "bash", "Exit code 2", output="make: *** [all] Error 2\n")
    assert result.output == "make: *** [all] Error 2\n\nExit code 2"


def test_an_errors_message_is_not_repeated():
    result = ToolResult.error("1", "bash", "Exit code 2", output="Oh no. Exit code 2")
    assert result.output == "Oh no. Exit code 2"


@pytest.mark.parametrize("output", ["", None])
def test_a_model_never_sees_an_empty_string(output: str | None):
    made = ToolResult.error("1", "t", output or "")
    assert made.for_model().strip()
    assert ToolResult.success("1", "t", "").for_model().strip()


def test_enriching_gives_a_new_result_and_leaves_the_old_one():
    bare = ToolResult.success("1", "t", "x")
    rich = bare.with_metadata("n", 3).with_execution_time(1.5).with_exit_code(0)
    assert (rich.metadata["n"], rich.execution_time_ms, rich.exit_code) == (3, 1.5, 0)
    assert (dict(bare.metadata), bare.execution_time_ms, bare.exit_code) == ({}, None, None)


def test_a_result_never_changes():
    given = {"deep": [1]}
    result = ToolResult.success("1", "t", "x").with_metadata("given", given)
    given["deep"].append(2)
    assert result.metadata["given"] == {"deep": [1]}
    for change in ("output", "success", "anything"):
        with pytest.raises(ByHand):
            setattr(result, change, "y")
    with pytest.raises(ByHand):
        del result.output
    with pytest.raises(TypeError):
        result.metadata["n"] = 1


def test_a_failure_cannot_be_turned_into_a_success():
    result = ToolResult.error("1", "t", "no")
    with pytest.raises(ByHand):
        result.success = True
    assert not result.success


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ToolResult.success("1", "t", 5), "output is text, got int"),
        (lambda: ToolResult.success(None, "t", "x"), "call_id is text"),
        (lambda: ToolResult.error("1", "t", None), "error is text"),
        (lambda: ToolResult.success("1", "t", "x").with_execution_time(-1), "from 0 on, got -1"),
        (lambda: ToolResult.success("1", "t", "x").with_execution_time(float("nan")), "got nan"),
        (lambda: ToolResult.success("1", "t", "x").with_exit_code(True), "whole number, got True"),
        (lambda: ToolResult.success("1", "t", "x").with_metadata("", 1), "a key is a name"),
    ],
)
def test_a_bad_value_is_refused_by_name(make, named):
    with pytest.raises(InvalidValue, match=named):
        make()


def test_metadata_of_any_kind_becomes_json():
    result = ToolResult.success("1", "t", "x").with_metadata("odd", {1: {2}, "b": b"\xff"})
    msgspec.json.encode(result.to_dict())


def test_lone_surrogates_do_not_break_the_output():
    result = ToolResult.success("1", "t", "a\ud800b")
    msgspec.json.encode(result.to_dict())


def test_content_besides_the_text_is_given_only_if_there_is_some():
    image = ToolCallContent.image(b"\x89PNG\r\n\x1a\n", "image/png")
    data = ToolResult.success("1", "t", "a picture").with_content(image, "and text").to_dict()
    kinds = [item["content"]["type"] for item in data["content"]]
    assert kinds == ["image", "text"]


def test_a_result_can_be_copied_compared_and_pickled():
    result = ToolResult.error("1", "t", "no").with_metadata("n", [1])
    assert pickle.loads(pickle.dumps(result)) == result == copy.copy(result)
    assert result != ToolResult.error("2", "t", "no")
    assert "no" in repr(result)


ERRORS = [
    (ToolError, "execution_failed", "changed"),
    (InvalidArguments, "invalid_arguments", "changed"),
    (NotFound, "not_found", "changed"),
    (NotPermitted, "permission_denied", "no"),
    (TimedOut, "timeout", "later"),
    (Cancelled, "cancelled", "later"),
    (ExecutionFailed, "execution_failed", "changed"),
    (IOFailed, "io_error", "later"),
]


@pytest.mark.parametrize(("kind", "code", "retry"), ERRORS)
def test_each_error_has_a_code_and_a_word_on_trying_again(kind, code, retry):
    result = ToolResult.error("1", "t", kind("went wrong", output="so far", place="here"))
    assert result.metadata == {"error_code": code, "retry": retry, "place": "here"}
    assert result.output == "so far\n\nwent wrong"


def test_an_errors_exit_code_is_the_results():
    assert ToolResult.error("1", "bash", ExecutionFailed("no", exit_code=3)).exit_code == 3


async def test_a_calls_helpers_know_the_call():
    async with Session("s", strict=True) as session, session.call("mine", {}) as call:
        made = call.success("x")
        assert (made.call_id, made.tool_name) == (call.id, "mine")
        assert call.error("no").call_id == call.id
        call.succeed("x")
