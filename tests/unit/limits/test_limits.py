"""Reports within limits: fields, frames, images, diffs, and nothing said twice."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import ToolCallContent, ToolCallLocation, ToolCallReport
from callsheet.acp import v1, v2
from callsheet.acp.codec import UpdateFrames
from callsheet.limits.content import bound_content, content_size, item_size
from callsheet.limits.limits import ROOMY, SAFE, SMALLEST_FRAME, Limits, bound_report
from callsheet.limits.text import english, size_of
from callsheet.limits.truncation import LINK_ROOM, CutPlan, file_uri, truncated
from callsheet.report.content import (
    DiffContent,
    EmbeddedResource,
    FileChange,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from callsheet.report.errors import InvalidValue
from tests.support import strategies as some
from tests.support.sizes import fewer

TEXT = "".join(f"line {n}: some text\n" for n in range(5000))
PATH = "/home/me/.cache/callsheet/spill/spill-0123456789abcdef0123456789abcdef.txt"
PNG = b64encode(b"\x89PNG" + bytes(100_000)).decode()


def finished(plan: CutPlan, path: str | None = PATH) -> Any:
    return plan.finish([path] * len(plan.cuts))


# Limits


def test_default_limits_add_up_to_a_line_that_the_strictest_clients_take() -> None:
    fields = ("content", "raw_input", "raw_output", "title", "locations", "meta")
    assert sum(getattr(SAFE, name) for name in fields) + 4096 <= SAFE.frame < 64 * 1024
    assert sum(getattr(ROOMY, name) for name in fields) + 4096 <= ROOMY.frame < 10 * 1024 * 1024
    assert (SAFE.content, SAFE.raw_input, SAFE.raw_output) == (32 * 1024, 14 * 1024, 7 * 1024)


def test_fields_that_do_not_fit_into_the_frame_together_get_less() -> None:
    limits = Limits(content=10**6)
    assert limits.content == SAFE.content
    assert limits.raw_input == SAFE.raw_input
    small = Limits(frame=SMALLEST_FRAME)
    assert small.content == small.raw_input == small.raw_output < 1024
    assert Limits(frame=10**6).content == SAFE.content


@pytest.mark.parametrize("wrong", [{"frame": 100}, {"content": 10}, {"meta": 0}])
def test_limits_that_are_too_small_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidValue, match="at least"):
        Limits(**wrong)


# Small reports


def test_a_small_report_is_left_as_it_is() -> None:
    fields = {
        "title": "Reading a.py",
        "content": (TextContent("12 passed"),),
        "locations": (ToolCallLocation("/a.py", 3),),
        "raw_input": {"path": "/a.py"},
        "raw_output": {"exit_code": 0},
        "status": "completed",
        "notes": {"durationMs": 3},
        "meta": None,
    }
    plan = bound_report(fields)
    assert plan.fields is fields
    assert plan.cuts == ()
    assert plan.finish() == (fields, [])


# Cuts, links, notes


def test_cut_text_is_linked_from_the_content_and_named_in_the_notes() -> None:
    plan = bound_report({"content": (TextContent(TEXT),)})
    (cut,) = plan.cuts
    assert cut.spill.data == TEXT.encode()
    assert cut.total_bytes == len(TEXT)
    fields, records = finished(plan)
    text, link = fields["content"]
    assert "left out" in text.text
    assert link.uri == f"file://{PATH}"
    assert link.name == f"the whole content ({len(TEXT):,} bytes)"
    assert (link.mime_type, link.size) == ("text/plain", len(TEXT))
    assert records == [
        {"field": "content", "keptBytes": cut.kept_bytes, "totalBytes": len(TEXT), "spill": PATH}
    ]
    assert len(TEXT) - cut.kept_bytes == int(
        text.text.split("… ")[1].split(" bytes")[0].replace(",", "")
    )


def test_without_a_file_nothing_is_linked_or_named() -> None:
    plan = bound_report({"content": (TextContent(TEXT),), "raw_output": ["x" * 90_000]})
    for fields, records in (plan.finish(), finished(plan, None)):
        assert [type(item) for item in fields["content"]] == [TextContent]
        assert [record["field"] for record in records] == ["content", "rawOutput"]
        assert not any("spill" in record for record in records)


def test_a_cut_raw_output_is_linked_where_content_is_shown_anyway() -> None:
    raw = {"rows": ["x" * 1000] * 100}
    plan = bound_report({"content": (TextContent("100 rows"),), "raw_output": raw})
    fields, records = finished(plan)
    assert [type(item) for item in fields["content"]] == [TextContent, ResourceLink]
    assert records[0]["totalBytes"] == size_of(raw) == len(plan.cuts[0].spill.data)
    assert json.loads(plan.cuts[0].spill.data) == raw
    assert plan.cuts[0].spill.suffix == ".json"
    alone, _ = finished(bound_report({"raw_output": raw}))
    assert "content" not in alone  # an editor shows the raw output, since there is no content


@pytest.mark.parametrize(
    "item",
    [
        ToolCallContent.image(PNG, "image/png"),
        ToolCallContent.audio(PNG, "audio/wav"),
        ToolCallContent.resource("file:///x", bytes(100_000), "application/pdf"),
    ],
    ids=lambda item: type(item).__name__,
)
def test_images_over_the_limit_become_a_link_or_a_line_that_says_so(item: Any) -> None:
    plan = bound_report({"content": (TextContent("see:"), item)})
    (cut,) = plan.cuts
    assert cut.item == 1
    assert cut.total_bytes == len(cut.spill.data) > 90_000
    fields, records = finished(plan)
    before, link = fields["content"]
    assert before.text == "see:"
    assert isinstance(link, ResourceLink)
    assert link.uri == file_uri(PATH)
    assert link.mime_type == item.mime_type
    assert records[0]["item"] == 1
    without = plan.finish()[0]["content"][1]
    assert isinstance(without, TextContent) or without.uri == item.uri


def test_an_image_that_has_an_address_is_linked_there_when_it_can_not_be_kept() -> None:
    image = ImageContent(PNG, "image/png", "https://example.org/a.png")
    shown = bound_report({"content": (image,)}).finish()[0]["content"]
    assert [item.uri for item in shown] == ["https://example.org/a.png"]
    silent = bound_report({"content": (ToolCallContent.image(PNG, "image/png"),)}).finish()
    assert silent[0]["content"][0].text == english("data_cut", mime="image/png", bytes=100_004)


def test_a_diff_keeps_its_changed_lines() -> None:
    new = TEXT.replace("line 2500: some", "line 2500: another")
    plan = bound_report({"content": (ToolCallContent.diff("/a.py", TEXT, new),)})
    shown = finished(plan)[0]["content"][0].changes[0]
    assert shown.old_text.splitlines() == [f"line {n}: some text" for n in range(2497, 2504)]
    assert "line 2500: another text" in shown.new_text
    whole = json.loads(plan.cuts[0].spill.data)["changes"][0]
    assert (whole["old_text"], whole["new_text"]) == (TEXT, new)


def test_a_diff_of_a_large_new_file_keeps_head_and_tail() -> None:
    plan = bound_report({"content": (ToolCallContent.diff("/a.py", None, TEXT),)})
    shown = plan.fields["content"][0].changes[0]
    assert shown.old_text is None
    assert shown.operation == "add"
    assert shown.new_text.startswith("line 0:")
    assert "left out" in shown.new_text


def test_many_items_keep_the_first_and_the_last() -> None:
    items = tuple(TextContent(f"chunk {n}\n" + "x" * 100) for n in range(1000))
    plan = bound_report({"content": items})
    shown = plan.fields["content"]
    assert shown[0] == items[0]
    assert shown[-1] == items[-1]
    (cut,) = plan.cuts
    gone = len(items) - len(shown) + 1
    assert TextContent(english("items_cut", count=gone)) in shown
    assert cut.spill.data.decode().count("chunk") == gone
    mixed = bound_report({"content": (*items, ToolCallContent.terminal("t"), *items)})
    assert json.loads(mixed.cuts[0].spill.data)


def test_items_that_can_not_be_cut_are_named() -> None:
    for item in (
        UnknownContent({"type": "_chart", "points": ["x" * 100] * 1000}),
        ResourceLink("data:text/plain," + "x" * 90_000, "inline"),
        TextContent("short", meta={"big": "x" * 90_000}),
        DiffContent(tuple(FileChange(path=f"/{n}") for n in range(3000))),
    ):
        plan = bound_report({"content": (item,)})
        shown = plan.fields["content"][0]
        assert shown.text.startswith("application/json: ")
        assert json.loads(plan.cuts[0].spill.data)


def test_the_text_of_a_resource_is_cut_in_place() -> None:
    item = ToolCallContent.resource("file:///log", TEXT, "text/x-log")
    plan = bound_report({"content": (item,)})
    shown = plan.fields["content"][0]
    assert isinstance(shown, EmbeddedResource)
    assert (shown.uri, shown.mime_type) == ("file:///log", "text/x-log")
    assert plan.cuts[0].spill.data == TEXT.encode()


def test_titles_names_and_places_are_bounded_too() -> None:
    places = tuple(ToolCallLocation(f"/home/me/file_{n}.py", 1) for n in range(1000))
    fields = {"title": "x" * 9000, "name": "n" * 9000, "locations": places}
    plan = bound_report({**fields, "meta": {"trace": "x" * 9000}, "notes": {"custom": {"a": TEXT}}})
    assert size_of(plan.fields["title"]) <= SAFE.title
    assert size_of(plan.fields["name"]) <= 512
    assert plan.fields["locations"] == places[-len(plan.fields["locations"]) :]
    assert 5 < len(plan.fields["locations"]) < 100
    assert [cut.field for cut in plan.cuts] == ["_meta", "_meta", "locations"]
    assert size_of(plan.fields["meta"]) + size_of(plan.fields["notes"]) <= SAFE.meta


def test_the_note_names_every_cut_and_keeps_those_of_other_fields() -> None:
    first = {"field": "rawInput", "keptBytes": 1, "totalBytes": 2, "spill": "/a"}
    content = {"field": "content", "keptBytes": 3, "totalBytes": 4}
    output = {"field": "rawOutput", "keptBytes": 5, "totalBytes": 6}
    note = truncated([first])
    assert note == first
    note = truncated([content, output], note)
    assert note == {**content, "others": [output, first]}
    assert truncated([], note, ["content", "rawOutput"]) == first
    assert truncated([], first, ["rawInput"]) is None
    assert truncated([]) is None
    many = [{"field": "content", "item": n, "keptBytes": 0, "totalBytes": 1} for n in range(50)]
    assert len(truncated(many)["others"]) == 4  # type: ignore[index]


def test_links_that_would_be_too_long_are_left_out_and_still_named() -> None:
    plan = bound_report({"content": (TextContent(TEXT),)})
    fields, records = finished(plan, "/" + "é" * 300)
    assert len(fields["content"]) == 1
    assert "spill" in records[0]


def test_uris_of_files() -> None:
    assert file_uri("/a b/ü#?.txt") == "file:///a%20b/%C3%BC%23%3F.txt"
    assert file_uri("C:\\Users\\me\\a.txt") == "file:///C:/Users/me/a.txt"


# Any report, any limits, on the real wires


large = st.builds(lambda text, n: text * n, some.code | some.unicode_text, st.integers(1, 400))
large_items = st.one_of(
    some.items,
    large.map(TextContent),
    st.builds(lambda text, uri: EmbeddedResource(uri, text), large, some.uris),
    st.binary(min_size=1, max_size=20).map(
        lambda data: ToolCallContent.image(data * 300, "image/png")
    ),
    st.builds(lambda old, new: ToolCallContent.diff("/é/漢.py", old + "x", new), large, large),
    st.builds(lambda path, new: ToolCallContent.diff(path, None, new), some.paths, large),
    st.builds(lambda item: UnknownContent({"type": "_x", "v": item}), large),
)
contents = st.lists(large_items, max_size=6).map(tuple) | st.builds(
    lambda item, n: (item,) * n, large_items, st.integers(0, 60)
)
some_limits = st.builds(
    Limits,
    content=st.integers(256, 9000),
    raw_input=st.integers(256, 5000),
    raw_output=st.integers(256, 5000),
    title=st.integers(256, 400),
    frame=st.integers(SMALLEST_FRAME, 30_000),
)
large_values = some.json_values | large | st.dictionaries(some.unicode_text, large, max_size=5)


@fewer()
@given(contents, large_values, large_values, large, some_limits, st.booleans())
def test_any_report_is_within_its_limits_and_bounding_twice_changes_nothing(
    content: Any, raw_input: Any, raw_output: Any, title: str, limits: Limits, spilled: bool
) -> None:
    fields = {
        "content": content,
        "raw_input": raw_input,
        "raw_output": raw_output,
        "title": title,
        "locations": (ToolCallLocation("/" + title[:50].replace("\0", "")),) * 40,
    }
    plan = bound_report(fields, limits)
    out, records = finished(plan, PATH if spilled else None)
    assert content_size(out["content"]) <= limits.content or not content
    assert size_of(out["raw_input"]) <= limits.raw_input
    assert size_of(out["raw_output"]) <= limits.raw_output
    again = bound_report(out, limits)
    assert again.fields == out
    assert again.cuts == ()
    assert len(records) == len(plan.cuts)
    note = truncated(records)
    report = ToolCallReport("call_1", kind="edit", meta={"callsheet": {"truncated": note}}, **out)
    for wire in (v1, v2):
        for update in wire.encode(report):
            UpdateFrames("sess_1", budget=limits.frame).line(update)


@fewer()
@given(large_items)
def test_an_items_size_is_at_least_what_the_wires_need(item: Any) -> None:
    for wire in (v1, v2):
        encoded = msgspec.json.encode(wire.encode_items([item]))
        assert len(encoded) - 2 <= item_size(item)


def test_a_diff_of_empty_lines_is_not_larger_than_it_is_taken_for() -> None:
    item = ToolCallContent.diff("/a", None, "\n" * 5000)
    assert len(msgspec.json.encode(v2.encode_items([item]))) - 2 <= item_size(item)


@fewer()
@given(contents, st.integers(256, 8000))
def test_any_content_is_cut_within_the_limit_with_its_links(content: Any, limit: int) -> None:
    shown, cuts = bound_content(content, limit)
    assert not cuts or content_size(shown) <= limit
    assert content_size(shown) + sum(
        LINK_ROOM - item_size(shown[cut.at]) * cut.instead for cut in cuts if cut.at is not None
    ) <= max(limit, content_size(content) if not cuts else 0)
    for cut in cuts:
        assert cut.kept_bytes < max(cut.total_bytes, 1)
        assert cut.total_bytes == len(cut.spill.data)
