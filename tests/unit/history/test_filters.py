"""The filter language, on both engines, by the table of examples that the web page is tested with, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from callsheet.history import Query, Store
from callsheet.history.call_records import WaitingCall, to_rows
from callsheet.history.filters import LONGEST, MOST_WORDS, parse_filter
from callsheet.history.rows import CallRow, Origin, SessionRow, name_and_version
from callsheet.report.content import TextContent
from callsheet.report.fields import ToolCallLocation, foreign_kind
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import CallRecord
from tests.support.engines import database, engine, postgres, store, url

__all__ = ["database", "engine", "postgres", "store", "url"]

TABLE = json.loads((Path(__file__).parents[2] / "data" / "filters.json").read_text())
NOW = float(TABLE["now"])


def waiting(given: dict[str, Any]) -> WaitingCall:
    notes = {"reason": given["reason"], "durationMs": given["durationMs"]}
    notes |= {"parentId": given["parent"], "repaired": given["repaired"]}
    notes |= {"permission": given["permission"]}
    report = ToolCallReport(
        given["id"],
        given["name"],
        given["title"],
        given["kind"],
        given["status"],
        (TextContent(given["output"]),) if given["output"] else (),
        tuple(ToolCallLocation(path) for path in given["paths"]),
        raw_input={"value": given["input"]},
        meta={"callsheet": {name: value for name, value in notes.items() if value}},
    )
    agent, version = name_and_version(given["agent"])
    origin = Origin(agent=agent, agent_version=version, **given.get("who", {}))
    cwd = TABLE["workspaces"][given["session"]]
    session = SessionRow(session_id=given["session"], cwd=cwd, origin=origin)
    return WaitingCall(session, 0, float(given["at"]), given["at"] + 1, CallRecord(report))


def fill(store: Store) -> None:
    rows = to_rows([waiting(given) for given in TABLE["calls"]], store.codec)
    sizes = {given["id"]: given["size"] for given in TABLE["calls"]}
    store.write(
        [
            (session, replace(row, size=sizes[row.call_id], position=place, key=str(place)))
            for place, (session, row) in enumerate(rows)
            if isinstance(row, CallRow)
        ]
    )


def test_each_example_selects_its_calls(store: Store) -> None:
    fill(store)
    found, expected = {}, {}
    for example in TABLE["examples"]:
        terms, wrong = parse_filter(example["filter"], NOW)
        window = store.window(Query(terms=terms), 0, 10)
        assert window.total == len(window.heads)
        found[example["filter"]] = [head.call_id for head in window.heads]
        expected[example["filter"]] = example["ids"]
        said = [text.partition(": ")[0] for text in wrong]
        assert said == example.get("wrong", []), wrong
    assert found == expected


def test_a_window_is_where_it_says_from_either_end(store: Store) -> None:
    fill(store)
    ids = [head.call_id for head in store.window(Query(), 0, 10).heads]
    assert ids == TABLE["examples"][0]["ids"]
    for offset in range(-7, 8):
        for limit in range(6):
            window = store.window(Query(), offset, limit)
            begin = min(5, max(0, 5 + offset if offset < 0 else offset))
            assert (window.total, window.offset) == (5, begin)
            assert [head.call_id for head in window.heads] == ids[begin : begin + limit]


def test_the_same_filter_restricts_lists_figures_and_exports(store: Store) -> None:
    fill(store)
    query = Query(terms=parse_filter("tool:bash -status:denied", NOW)[0])
    assert [head.call_id for head in store.heads(query)] == ["call_a1"]
    assert store.stats(query).calls == 1
    assert [call.record.report.title for call in store.calls(query)] == ["Running make test"]
    session = store.session("sess_two")
    assert session is not None
    assert session.origin.agent_name == "kimi-cli 1.51.0"


def test_the_version_changes_when_another_process_writes(store: Store, url: str) -> None:
    from callsheet.history import store_at

    reader = store_at(url)
    reader.open(write=False)
    try:
        before = reader.version()
        assert reader.version() == before
        fill(store)
        assert reader.version() != before
    finally:
        reader.close()


@given(st.text(max_size=60) | st.text('ab:<>"\\ -1skdur', max_size=60))
def test_any_text_is_a_filter_or_is_explained(text: str) -> None:
    terms, wrong = parse_filter(text, NOW)
    assert bool(terms or wrong) == bool(text.strip())


def test_a_filter_may_not_be_long() -> None:
    assert parse_filter("x " * LONGEST, NOW)[0] == ()


@pytest.mark.parametrize("part", ["x ", "-tool:x ", "is:open ", "so:what ", "\u8a9e"])
def test_a_filter_of_too_many_words_is_refused_and_one_of_the_most_is_not(
    store: Store, part: str
) -> None:
    terms, wrong = parse_filter(part * MOST_WORDS, NOW)
    assert terms or "there is no so" in wrong[0]
    store.window(Query(terms=terms), 0, 1)
    terms, (wrong,) = parse_filter(part * (MOST_WORDS + 1), NOW)
    assert (terms, wrong.partition(": ")[2]) == ((), f"a filter has at most {MOST_WORDS} words")


def test_marks_are_what_they_should_be_whatever_the_notes_are(store: Store) -> None:
    odd: dict[str, Any] = {"toString": 1, "by": "user"}
    permission = {"by": odd, "outcome": "allowed", "option": [odd], "waitedMs": 7, "x": odd}
    given = {**TABLE["calls"][0], "repaired": "abc", "parent": odd, "permission": permission}
    more = {**given, "id": "call_x", "repaired": [odd, "title", 1], "permission": "by"}
    store.write(to_rows([waiting(given), replace(waiting(more), position=1)], store.codec))
    marks = [json.loads(head.marks or "") for head in store.window(Query(), 0, 9).heads]
    assert marks == [
        {"permission": {"outcome": "allowed", "waitedMs": 7}},
        {"repaired": ["title"]},
    ]


def test_a_kind_of_any_length_is_cut_in_the_list(store: Store) -> None:
    given = {**TABLE["calls"][0], "kind": foreign_kind("k" * 100_000)}
    store.write(to_rows([waiting(given)], store.codec))
    assert len(store.heads(Query())[0].kind) == 1000
    assert len(str(store.calls(Query())[0].record.report.kind)) == 100_000


@pytest.mark.parametrize("text", ["'; DROP TABLE calls; --", "% _ \\", '"" OR "x"*', "NEAR(a b)"])
def test_no_filter_is_sql_or_a_query_of_the_index(store: Store, text: str) -> None:
    fill(store)
    terms, _ = parse_filter(f'text:"{text}" tool:"{text}" agent:"{text}"', NOW)
    assert store.window(Query(terms=terms), 0, 10).total == 0
    assert store.window(Query(), 0, 0).total == 5
