"""A report: every ACP field, the contract's methods, and bad input that leaves it as it was."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import callsheet
from callsheet import (
    CallsheetError,
    ToolCallContent,
    ToolCallLocation,
    ToolCallReport,
    ToolCallStatus,
    ToolKind,
)
from callsheet.acp import v1
from callsheet.acp.codec import UpdateFrames
from callsheet.report.content import FileChange, UnknownContent
from callsheet.report.errors import (
    InvalidContent,
    InvalidKind,
    InvalidLocation,
    InvalidStatus,
    InvalidValue,
    ReportError,
)
from callsheet.report.events import CallChanged, ExitStatus, TerminalChanged
from callsheet.report.fields import CustomKind
from callsheet.report.ledger import Ledger
from callsheet.runtime.clock import new_call_id
from tests.unit.report.test_values import NOT_JSON


def a_report() -> ToolCallReport:
    return ToolCallReport(
        tool_call_id="call_1",
        name="read",
        title="Reading a.py",
        kind=ToolKind.READ,
        content=(ToolCallContent.text("hello"),),
        locations=(ToolCallLocation("/a.py", 3),),
        raw_input={"path": "/a.py"},
        meta={"vendor": 1},
    )


def test_a_report_has_every_acp_field() -> None:
    assert ToolCallReport.__struct_fields__[:10] == (
        "tool_call_id", "name", "title", "kind", "status",
        "content", "locations", "raw_input", "raw_output", "meta",
    )  # fmt: skip


def test_the_public_names_are_there() -> None:
    for name in callsheet.__all__:
        assert getattr(callsheet, name) is not None


def test_the_methods_of_the_contract() -> None:
    report = ToolCallReport("call_1", title="Reading a.py")
    report.set_raw_input({"path": "/a.py"})
    report.add_location("/a.py", line=3)
    report.add_location(ToolCallLocation("/b.py"))
    report.update_status("in_progress")
    report.add_content("hello")
    report.add_content(ToolCallContent.diff("/a.py", None, "new"))
    report.set_raw_output({"content": "hello"})
    report.update_status(ToolCallStatus.COMPLETED)
    assert report.raw_input == {"path": "/a.py"}
    assert report.raw_output == {"content": "hello"}
    assert [place.path for place in report.locations] == ["/a.py", "/b.py"]
    assert report.content[0] == ToolCallContent.text("hello")
    assert report.is_final


BAD: dict[str, tuple[type[ReportError], Callable[[ToolCallReport], None]]] = {
    "status": (InvalidStatus, lambda r: r.update(status="finished", title="new")),
    "kind": (InvalidKind, lambda r: r.update(title="new", kind="reading")),
    "custom kind without a name": (InvalidKind, lambda r: r.update(kind="_")),
    "custom kind with a lone surrogate": (
        InvalidKind,
        lambda r: r.update(kind=CustomKind("_\ud800")),
    ),
    "kind of another type": (InvalidKind, lambda r: r.update(kind=3)),
    "relative path": (InvalidLocation, lambda r: r.add_location("src/a.py")),
    "empty path": (InvalidLocation, lambda r: r.add_location("")),
    "home path": (InvalidLocation, lambda r: r.add_location("~/a.py")),
    "drive-relative path": (InvalidLocation, lambda r: r.add_location("C:a.py")),
    "path with NUL": (InvalidLocation, lambda r: r.add_location("/a\0b")),
    "path with a lone surrogate": (InvalidLocation, lambda r: r.add_location("/a\ud800")),
    "path that is bytes": (InvalidLocation, lambda r: r.update(locations=[b"/a"])),
    "line 0": (InvalidLocation, lambda r: r.add_location("/a.py", line=0)),
    "negative line": (InvalidLocation, lambda r: r.add_location("/a.py", line=-1)),
    "line beyond 32 bits": (InvalidLocation, lambda r: r.add_location("/a.py", line=2**32)),
    "line that is a bool": (InvalidLocation, lambda r: r.add_location("/a.py", line=True)),
    "one bad place among good": (InvalidLocation, lambda r: r.update(locations=["/a", "b"])),
    "content of another type": (InvalidContent, lambda r: r.update(content=["ok", 3])),
    "title that is no text": (InvalidValue, lambda r: r.update(title=3)),
    "title with a lone surrogate": (InvalidValue, lambda r: r.update(title="\ud800")),
    "unknown field": (InvalidValue, lambda r: r.update(titel="x")),
    "content that is no list": (InvalidValue, lambda r: r.update(content=3)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_typed_error_and_the_report_stays_as_it_was(name: str) -> None:
    report = a_report()
    error, action = BAD[name]
    with pytest.raises(error) as caught:
        action(report)
    assert report == a_report()
    assert len(str(caught.value)) > 10


@pytest.mark.parametrize("field", ["raw_input", "raw_output"])
@pytest.mark.parametrize("name", NOT_JSON)
def test_a_raw_value_that_is_not_json_leaves_the_report_as_it_was(name: str, field: str) -> None:
    report = a_report()
    with pytest.raises(InvalidValue, match=field):
        report.update(title="new", **{field: NOT_JSON[name]})
    assert report == a_report()


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"kind": "reading"}, InvalidKind),
        ({"status": "finished"}, InvalidStatus),
        ({"raw_input": {1}}, InvalidValue),
        ({"meta": {"callsheet": 3}}, InvalidValue),
        ({"meta": []}, InvalidValue),
        ({"locations": ["a"]}, InvalidLocation),
    ],
)
def test_a_report_can_not_be_born_wrong(fields: dict[str, Any], error: type[ReportError]) -> None:
    with pytest.raises(error):
        ToolCallReport("call_1", **fields)


def test_nobody_assigns_to_a_field_by_mistake() -> None:
    with pytest.raises(AttributeError):
        a_report().status = ToolCallStatus.COMPLETED  # type: ignore[misc]


def test_a_snapshot_stays_what_it_was() -> None:
    report = a_report()
    snapshot = report.snapshot()
    report.update_status("in_progress")
    report.add_content("more")
    assert snapshot == a_report()


def test_values_given_in_can_not_be_changed_from_outside() -> None:
    given: dict[str, Any] = {"args": ["a"]}
    meta: dict[str, Any] = {"vendor": {"a": 1}}
    report = ToolCallReport("call_1", title="x", raw_input=given, meta=meta)
    given["args"].append("b")
    meta["vendor"]["a"] = 2
    assert report.raw_input == {"args": ["a"]}
    assert report.meta == {"vendor": {"a": 1}}


def test_custom_kinds_are_taken() -> None:
    assert ToolCallReport("call_1", title="x", kind="_deploy").kind == "_deploy"


def test_every_error_of_ours_has_one_base() -> None:
    with pytest.raises(CallsheetError):
        a_report().update(kind="reading")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ToolCallContent.text("\ud800"),
        lambda: ToolCallContent.text(None),
        lambda: ToolCallContent.image("not base64!", "image/png"),
        lambda: ToolCallContent.image(b"x", "png"),
        lambda: ToolCallContent.link("file:///a", "a", size=-1),
        lambda: ToolCallContent.diff("/a", None, None),
        ToolCallContent.diffs,
        lambda: ToolCallContent.diffs(FileChange(path="/a", operation="move")),
        lambda: ToolCallContent.diffs(FileChange(path="/a", operation="add", old_path="/b")),
        lambda: ToolCallContent.diffs(FileChange(path="/a", old_text="only one side")),
        lambda: ToolCallContent.diffs(FileChange(path="/a", operation="add", old_text="x")),
        lambda: ToolCallContent.diffs(FileChange(path="/a", operation="")),
    ],
)
def test_malformed_content_is_refused_when_it_is_made(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidContent):
        make()


@pytest.mark.parametrize("make", [lambda: ToolCallContent.diff("a.py", "x", "y")])
def test_a_diff_of_a_relative_path_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidLocation, match="not absolute"):
        make()


def test_a_diff_says_by_its_texts_what_happened() -> None:
    make = ToolCallContent.diff
    assert make("/a", None, "x").changes[0].operation == "add"
    assert make("/a", "x", None).changes[0].operation == "delete"
    assert make("/a", "x", "y").changes[0].operation == "modify"
    assert make("/a", "", "y").changes[0].operation == "modify"
    assert make("/b", "x", "y", old_path="/a").changes[0].operation == "move"


def test_bytes_become_base64() -> None:
    assert ToolCallContent.image(b"\x89PNG", "image/png").data == "iVBORw=="
    assert ToolCallContent.resource("file:///a", b"\x00").blob == "AA=="
    assert ToolCallContent.resource("file:///a", "text").text == "text"


def test_an_event_is_sealed_when_it_is_made() -> None:
    fields: dict[str, Any] = {"title": "one"}
    event = CallChanged(tool_call_id="c", fields=fields)
    fields["status"] = "bogus"
    assert event.fields == {"title": "one"}
    for bad in ([1], {"kind": "x", "title": "y"}):
        with pytest.raises(ReportError):
            CallChanged(tool_call_id="c", fields=bad)  # type: ignore[arg-type]


def test_the_shared_empty_object_can_not_be_changed() -> None:
    report = ToolCallReport("c", title="x")
    with pytest.raises(TypeError, match="replaced, never changed"):
        report.meta["oops"] = 1
    assert copy.deepcopy(report) == report
    assert pickle.loads(pickle.dumps(report)) == report


def test_a_report_of_a_ledger_is_no_way_around_the_checks() -> None:
    owned = Ledger("s", new_call_id).open("x")
    with pytest.raises(InvalidStatus):
        ToolCallReport("c", status="nope", extra=owned.extra)  # type: ignore[arg-type]
    with pytest.raises(InvalidStatus):
        replace(owned, status="nope")


def test_subclasses_of_str_become_plain_text() -> None:
    class Text(str):
        __slots__ = ()

    report = ToolCallReport(
        Text("c"),
        title=Text("t"),
        content=(
            ToolCallContent.text(Text("x")),
            ToolCallContent.link(Text("file:///a"), Text("n"), title=Text("t")),
            ToolCallContent.diff(Text("/a"), Text("x"), Text("y")),
        ),
    )
    assert b"file:///a" in UpdateFrames("s").line(v1.announce(report))


@pytest.mark.parametrize(
    "annotations",
    [
        {"audience": 3},
        {"audience": [3]},
        {"priority": "x"},
        {"lastModified": 3},
        {"_meta": 3},
        0,
        [],
    ],
)
def test_malformed_annotations_are_refused(annotations: Any) -> None:
    with pytest.raises(ReportError):
        ToolCallContent.text("x", annotations=annotations)


@pytest.mark.parametrize(
    "raw",
    [{"type": "diff"}, {"type": "terminal"}, {"type": "content"}, {"type": 3}, {},
     {"type": "content", "content": {"type": "text"}}, {"type": "content", "content": {"type": []}}],
)  # fmt: skip
def test_a_malformed_item_is_not_an_unknown_one(raw: dict[str, Any]) -> None:
    with pytest.raises(InvalidContent):
        UnknownContent(raw)


@pytest.mark.parametrize(
    "fields",
    [{"command": 3}, {"cwd": 3}, {"cwd": "x"}, {"output": "text"}, {"exit_status": 5}, {"meta": 3}],
)
def test_a_malformed_terminal_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ReportError):
        TerminalChanged(terminal_id="t", **fields)
    with pytest.raises(ReportError):
        ExitStatus(extra={"a": {1}})
