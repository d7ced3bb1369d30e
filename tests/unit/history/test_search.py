"""The search: what is found, what never raises, and that the index follows what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.history import Query, Retention
from callsheet.history.search_text import MOST_INDEXED, phrases, words
from callsheet.history.store import Store
from callsheet.report.content import DiffContent, FileChange, TerminalContent
from callsheet.report.fields import ToolCallLocation
from callsheet.report.terminal import CallRecord, TerminalRecord
from tests.support.stores import (
    NOW,
    call,
    check_whole,
    count,
    examples,
    keep,
    pruned,
    raw,
    report,
    store_in,
)

CALLS = [
    call("title", title="Reading the Straße of the red fox"),
    call("name", name="mcp__git_server__log", title="Log"),
    call("command", raw_input={"command": "grep -rn 'TODO' src/callsheet/app.py | wc -l"}),
    call("place", locations=(ToolCallLocation("/home/me/src/app.py", 3),)),
    call("output", text="Traceback: KeyError in module_x\nred herring"),
    call("cjk", text="東京タワーは高いです", title="日本語の検索"),
    call(
        "diff", content=(DiffContent((FileChange.of_texts("/etc/hosts.conf", "a", "needle b"),)),)
    ),
    call(
        "terminal",
        record=CallRecord(
            report("terminal", content=(TerminalContent("t"),)),
            (TerminalRecord("t", tail=b"compiled 42 crates\xff"),),
        ),
    ),
    call("raw", raw_output={"deep": [{"answer": "hidden treasure"}]}),
    call("open", status="in_progress", title="still running fox"),
    call("accents", title="Überprüfung des Éléphant"),
]
FOUND = {
    "fox": {"title"}, "FOX": {"title"}, "fo": {"title"}, "red": {"title", "output"},
    "red fox": {"title"}, '"red fox"': {"title"}, '"fox red"': set(), "fox red": {"title"},
    "the red fo": {"title"}, "re fox": set(), "straße": {"title"},
    "git_server": {"name"}, "mcp__git": {"name"},
    "src/app.py": {"place"}, "app.py": {"place", "command"}, "src/callsheet": {"command"},
    "TODO": {"command"}, "-rn": {"command"}, "/home/me": {"place"},
    "KeyError": {"output"}, "module_x": {"output"}, "keyerr": {"output"},
    "タワー": {"cjk"}, "東京": {"cjk"}, "高い": {"cjk"}, "京東": set(), "日本語": {"cjk"},
    "needle": {"diff"}, "hosts.conf": {"diff"}, "42 crates": {"terminal"}, "treasure": {"raw"},
    "running": set(), "uberprufung": {"accents"}, "elephant": {"accents"}, "Éléph": {"accents"},
    "AND": set(), "fox AND": set(), "fox AND red": set(), "fox OR red": set(), "NOT fox": set(),
    "fox*": {"title"}, "title:fox": set(), "^fox": {"title"}, "(fox)": {"title"}, "fox -red": {"title"},
}  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with store_in(tmp_path_factory.mktemp("search")) as store:
        keep(store, *CALLS)
        yield store


@pytest.mark.parametrize("asked", FOUND)
def test_what_is_asked_for_is_found(store: Store, asked: str) -> None:
    assert {head.call_id for head in store.heads(Query(search=asked))} == FOUND[asked]


@pytest.mark.parametrize("asked", [
    "", " ", '"', '""', '"""', '"red', 'red"', "*", "**", "fox * red", "NEAR(fox red)", "NEAR", "OR",
    "+", "fox +", "{title}: fox", "\0", "' OR 1=1 --", "; DROP TABLE calls", "-", "^", "(", ")", "🙂", "½ ²",
    "a" * 5000, "\u0301", "İ", "ﬁ", "ſ", "_", "__", "%", "x'", "\\", "fox\0red", "\ud83d"[:0], "हिन्दी",
])  # fmt: skip
def test_no_question_is_too_odd(store: Store, asked: str) -> None:
    store.heads(Query(search=asked))
    store.stats(Query(search=asked))


def test_a_question_without_words_finds_nothing(store: Store) -> None:
    for asked in ("", "  ", '""', "*", "-"):
        assert store.heads(Query(search=asked)) == []


@examples(60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_can_be_asked_for(store: Store, asked: str) -> None:
    store.heads(Query(search=asked))


@examples(12)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12))
def test_a_call_is_found_by_every_word_of_its_title(
    tmp_path_factory: pytest.TempPathFactory, title: str
) -> None:
    with store_in(tmp_path_factory.mktemp("t"), quick=True) as store:
        keep(store, call("c1", title=title, name="n"))
        for word in words(title):
            if phrases(word) and word.isascii():
                assert store.heads(Query(search=word)), word


def test_of_a_long_output_the_beginning_and_the_end_are_searched(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        text = "beginning " + "x " * MOST_INDEXED + "middle " + "x " * MOST_INDEXED + " theend"
        keep(store, call("c1", text=text))
        assert store.heads(Query(search="beginning"))
        assert store.heads(Query(search="theend"))
        assert not store.heads(Query(search="middle"))


# The index


def found(store: Store, asked: str) -> list[str]:
    return sorted(head.call_id for head in store.heads(Query(search=asked, limit=1000)))


def test_the_index_is_made_in_steps_and_passes_no_open_call_by(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(
            store,
            *(
                call(f"c{n:02}", title="word", status="pending" if n % 5 == 0 else "completed")
                for n in range(25)
            ),
        )
        steps = []
        while step := store.index(4):
            steps.append(step)
        assert sum(steps) == 20
        assert max(steps) <= 4
        assert count(store, "calls_text_docsize") == 20
        assert store.index(4) == 0
        keep(store, call("c05", title="other"), call("c30", title="word"))
        assert store.index() == 2
        assert found(store, "other") == ["c05"]
        assert len(found(store, "word")) == 21
        check_whole(store)


def test_nothing_is_written_where_nothing_is_to_be_indexed(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(store, call("c1"))
        store.index()
        before = raw(store).total_changes
        assert store.index() == 0
        assert raw(store).total_changes == before


def test_a_call_that_gets_its_true_end_is_found_by_that(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        keep(
            store,
            call("c1", title="wrong", status="failed", reason="abandoned", text="guess " * 2000),
        )
        keep(store, *(call(f"x{n}", title="others") for n in range(5)))
        assert found(store, "wrong") == ["c1"]
        keep(store, call("c1", title="right", text="truth " * 2000))
        assert found(store, "wrong") == []
        assert found(store, "right") == found(store, "truth") == ["c1"]
        assert found(store, "guess") == []
        assert len(found(store, "others")) == 5
        keep(store, call("c2", title="wrong", status="failed", reason="abandoned"))
        store.index()
        keep(store, call("c2", title="right"))  # and is removed before the index has looked again
        pruned(store, Retention(max_calls=0), now=NOW)
        assert found(store, "wrong") == found(store, "right") == []
        check_whole(store)


def test_the_index_follows_what_is_removed_and_what_comes_after_it(tmp_path: Path) -> None:
    with store_in(tmp_path, quick=True) as store:
        for session in "ab":
            keep(
                store,
                *(
                    call(f"{session}{n}", session=session, at=NOW + n, title="fox")
                    for n in range(5)
                ),
            )
        assert len(found(store, "fox")) == 10
        store.forget("b")  # the last: their numbers are given again
        assert found(store, "fox") == [f"a{n}" for n in range(5)]
        keep(store, *(call(f"n{n}", session="new", at=NOW + 9, title="fox") for n in range(5)))
        assert len(found(store, "fox")) == 10
        pruned(store, Retention(max_calls=3), now=NOW)
        assert len(found(store, "fox")) == 3
        check_whole(store)
