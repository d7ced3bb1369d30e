"""The tool `edit`: what is replaced, what stays, and what is said when a text is not found."""

from __future__ import annotations

import argparse
import inspect
import os
import stat
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from callsheet import Session, ToolResult
from callsheet.report.content import DiffContent
from callsheet.tools.files.edits import Finder, replace
from callsheet.tools.files.fuzzy_match import near_misses, not_found
from tests.support.sizes import sized


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session("s", cwd=tmp_path, strict=True) as session:
        yield session


async def edit(session: Session, old: str, new: str, **more: bool) -> ToolResult:
    return await session.run("edit", {"path": "a.txt", "old_text": old, "new_text": new, **more})


# Replacing


async def test_a_text_is_replaced_and_the_rest_stays(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    result = await edit(session, "two\n", "2\n2a\n")
    assert (tmp_path / "a.txt").read_text() == "one\n2\n2a\nthree\n"
    assert result.output == "Edited a.txt: at line 2 (+2 −1)"
    told = {"replacements": 1, "first_changed_line": 2, "lines_added": 2, "lines_removed": 1}
    assert (told | {"file_path": str(tmp_path / "a.txt")}).items() <= result.metadata.items()


async def test_the_change_is_shown_with_its_first_line(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    await edit(session, "one\ntwo", "one\n2")
    report = session.reports[-1]
    (diff,) = [item for item in report.content if isinstance(item, DiffContent)]
    (change,) = diff.changes
    assert (change.old_text, change.new_text) == ("one\ntwo\nthree\n", "one\n2\nthree\n")
    assert [(place.path, place.line) for place in report.locations] == [
        (str(tmp_path / "a.txt"), 2)
    ]
    assert (report.title, report.kind.value) == ("Editing a.txt", "edit")


async def test_all_are_replaced_if_that_is_asked_for(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a a\nb\na\n")
    result = await edit(session, "a", "xx", replace_all=True)
    assert (tmp_path / "a.txt").read_text() == "xx xx\nb\nxx\n"
    told = {"replacements": 3, "first_changed_line": 1, "lines_added": 2, "lines_removed": 2}
    assert told.items() <= result.metadata.items()
    assert result.output == "Edited a.txt: 3 replacements, the first at line 1 (+2 −2)"


@pytest.mark.parametrize(
    ("old", "wanted", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\nb\nc\n", "a\r\nb", "x\ny", b"x\ny\nc\n"),
        (b"a\r\nb\r\nc\nd\n", "c\nd", "x\ny", b"a\r\nb\r\nx\ny\n"),
        (b"a\nb\nc\r\nd\r\n", "c\nd", "x\ny", b"a\nb\nx\r\ny\r\n"),
        (b"a\r\n\r\nb\r\n", "\n\n", "\n", b"a\r\nb\r\n"),
        (b"a\r\nb", "\nb", "", b"a"),
    ],
)
async def test_line_endings_don_t_matter_and_stay(
    session: Session, tmp_path: Path, old: bytes, wanted: str, new: str, after: bytes
) -> None:
    (tmp_path / "a.txt").write_bytes(old)
    assert (await edit(session, wanted, new)).success
    assert (tmp_path / "a.txt").read_bytes() == after


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252", "latin-1"]
)
async def test_encoding_byte_order_mark_and_mode_are_kept(
    session: Session, tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("Grüße\nan alle\n".encode(encoding))
    path.chmod(0o751)
    await edit(session, "Grüße", "Küsse")
    assert path.read_bytes() == "Küsse\nan alle\n".encode(encoding)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751


async def test_bytes_that_are_no_text_survive(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("überall Grüße\n".encode() + b"\xff\xfe\n\x80 tail\n")
    assert (await edit(session, "Grüße", "Küsse")).success
    assert (
        tmp_path / "a.txt"
    ).read_bytes() == "überall Küsse\n".encode() + b"\xff\xfe\n\x80 tail\n"


@given(
    st.lists(
        st.sampled_from(["a", "b", "cd", "", " e", "f\t"]), min_size=2, max_size=12, unique=True
    ),
    st.data(),
    st.text(st.sampled_from("abx\n"), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n"]),
)
def test_an_edit_taken_back_gives_the_same_bytes(
    lines: list[str], data: st.DataObject, new: str, newline: str
) -> None:
    flat = "\n".join(lines)
    begin = data.draw(st.integers(0, len(flat) - 1))
    old = flat[begin : data.draw(st.integers(begin + 1, len(flat)))]
    text = flat.replace("\n", newline)
    spans = list(Finder(text).spans(old, overlapping=True))
    assume(len(spans) == 1 and "\n" in text and old != new)
    change = replace(text, spans, new)
    assert change.text.replace("\r\n", "\n") == flat.replace(old, new, 1)
    assume("\n" in change.text)
    back = list(Finder(change.text).spans(new, overlapping=True))
    assume(len(back) == 1)
    undone = replace(change.text, back, old)
    assert undone.text == text


@given(
    st.text(st.sampled_from("ab\r\n"), max_size=30), st.text(st.sampled_from("ab\n"), min_size=1)
)
def test_every_place_is_found_whatever_the_line_endings(text: str, wanted: str) -> None:
    flat = text.replace("\r\n", "\n")
    spans = list(Finder(text).spans(wanted, overlapping=True))
    expected = [at for at in range(len(flat)) if flat.startswith(wanted, at)]
    assert len(spans) == len(expected)
    for span, at in zip(spans, expected, strict=True):
        assert text[slice(*span)].replace("\r\n", "\n") == wanted
        assert text[: span.begin].replace("\r\n", "\n") == flat[:at]


@given(
    st.text(st.sampled_from("ab\n"), max_size=40),
    st.text(st.sampled_from("ab\n"), min_size=1, max_size=3),
    st.text(st.sampled_from("abc\n"), max_size=4),
)
def test_lines_added_and_removed_balance(text: str, old: str, new: str) -> None:
    spans = list(Finder(text).spans(old))
    assume(spans)
    change = replace(text, spans, new)
    assert change.text == text.replace(old, new)
    before, after = text.count("\n") + 1, change.text.count("\n") + 1
    slack = (text.endswith("\n") or not text) - (change.text.endswith("\n") or not change.text)
    assert change.added - change.removed == after - before + slack
    assert 1 <= change.first_line <= max(1, after)
    same = change.text.split("\n")[: change.first_line - 1]
    assert same == text.split("\n")[: change.first_line - 1]


# What is refused


async def test_a_text_that_is_there_several_times_is_refused_with_all_places(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("x = 1\ny = 2\n  x = 1\n")
    result = await edit(session, "x = 1", "x = 3")
    assert result.output.endswith("It begins in these lines:\n1→x = 1\n3→  x = 1")
    assert "a.txt 2 times" in result.output
    assert result.metadata["occurrences"] == 2
    (tmp_path / "a.txt").write_text("aaa\n")
    assert "2 times" in (await edit(session, "aa", "b")).output


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [("", "x", "old_text: it is empty"), ("a", "a", "new_text: it is the same as old_text")],
)
async def test_an_edit_that_means_nothing_is_refused(
    session: Session, tmp_path: Path, old: str, new: str, what: str
) -> None:
    (tmp_path / "a.txt").write_text("a")
    result = await edit(session, old, new)
    assert (result.error or "").startswith(what)
    assert result.metadata["error_code"] == "invalid_arguments"


async def test_an_edit_that_would_only_change_line_endings_back_is_refused(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\r\nb\r\n")
    assert "the same as old_text" in (await edit(session, "a\nb", "a\r\nb")).output


async def test_a_file_that_was_changed_since_it_was_read_is_refused(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    await session.run("read", {"path": "a.txt"})
    (tmp_path / "a.txt").write_text("a\nb\n")
    result = await edit(session, "a", "c")
    assert "was changed since it was read" in result.output
    assert result.metadata["changed_since_read"] is True
    await session.run("read", {"path": "a.txt"})
    assert (await edit(session, "a", "c")).success
    assert (await edit(session, "c", "d")).success


async def test_what_an_encoding_has_not_is_refused(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Grüße".encode("cp1252"))
    result = await edit(session, "Grüße", "→")
    assert "the file is cp1252, and cp1252 has no '→' (U+2192)" in result.output
    assert (tmp_path / "a.txt").read_bytes() == "Grüße".encode("cp1252")


async def test_files_that_can_t_be_edited_are_refused(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    assert (await edit(session, "a", "b")).metadata["error_code"] == "not_found"
    path.write_bytes(b"a\0b")
    assert (
        await edit(session, "a", "b")
    ).error == "a.txt can't be edited: it is binary (3 bytes), not text"
    path.write_text("a")
    path.chmod(0o444)
    assert (await edit(session, "a", "b")).metadata["error_code"] == "permission_denied"
    path.unlink()
    with path.open("wb") as file:
        file.write(b"text\n" * 20_000)
        file.truncate(70_000_000)
    assert "it is 70 MB, and 67 MB is the most" in (await edit(session, "a", "b")).output
    path.unlink()
    path.mkdir()
    assert (await edit(session, "a", "b")).metadata["error_code"] == "invalid_arguments"
    path.rmdir()
    os.mkfifo(path)
    assert "named pipe" in (await edit(session, "a", "b")).output


# Near misses

CODE = """\
def one(x):
    return x + 1


def two(x):
\tname = "it’s"
\treturn [x,  x]   # twice
"""


@pytest.mark.parametrize(
    ("wanted", "lines", "differs"),
    [
        (
            "def one(x):\n\treturn x + 1\n",
            (1, 2),
            "indentation (old_text has tabs, the file has spaces)",
        ),
        ("def two(x):\n    name =", (5, 6), "indentation (the file has tabs, old_text has spaces)"),
        ("def one(x):\n  return x + 1\n", (1, 2), "indentation"),
        ("def one(x): \n    return x + 1\n", (1, 2), "white space at the ends of lines"),
        ("return [x, x]   # twice", (7, 7), "spaces within lines"),
        ('name = "it\'s"', (6, 6), "quotes, dashes or other look-alikes"),
        ("DEF one(X):", (1, 1), "upper and lower case"),
        ("return x + 1\n\ndef two", (2, 5), "blank lines"),
        ("def one(x): return x + 1", (1, 2), "line breaks"),
        (
            "1→def one(x):\n2→    return x + 1",
            (1, 2),
            "line numbers: leave out those that read shows",
        ),
        (r"def one(x):\n    return", (1, 2), "escapes"),
        ("return x &#43; 1", (2, 2), "entities"),
    ],
)
def test_it_is_said_in_what_a_near_miss_differs(
    wanted: str, lines: tuple[int, int], differs: str
) -> None:
    miss = near_misses(CODE, wanted)[0]
    assert (miss.first, miss.last) == lines
    assert len(miss.differs) == 1
    assert miss.differs[0].startswith(differs)


def test_several_differences_are_all_said() -> None:
    (miss,) = near_misses(CODE, 'def two(x):\n    Name = "it\'s"')
    assert len(miss.differs) == 3
    assert {what.split(" ")[0] for what in miss.differs} == {"indentation", "quotes,", "upper"}


def test_accents_that_are_composed_otherwise_are_found() -> None:
    (miss,) = near_misses("a\ncafe\u0301 au lait\n", "caf\u00e9 au lait")
    assert (miss.first, miss.found) == (2, "cafe\u0301 au lait")
    assert "Unicode" in miss.differs[0]


def test_the_nearest_lines_are_shown_with_what_differs() -> None:
    said = not_found(CODE, "def one(x):\n    return x + 2\n", "a.py")
    assert said == textwrap.dedent("""\
        old_text is not in a.py.
        The nearest is at lines 1–2 (96% alike).
        In old_text (-) and in the file (+):
          def one(x):
        -     return x + 2
        +     return x + 1""")


def test_white_space_that_differs_is_made_visible() -> None:
    said = not_found("a\n\tb = 1 \n", "    b = 1\n", "a.py")
    assert '- "    b = 1"\n+ "\\tb = 1 "' in said


def test_other_places_are_said_too() -> None:
    said = not_found(CODE + "\n" + CODE, "def one(x):\n\treturn x + 1\n", "a.py")
    assert said.endswith("Much the same: lines 9–10.")


def test_nothing_like_it_is_said_as_such() -> None:
    assert "nothing is much like it" in not_found(CODE, "SELECT * FROM users;", "a.py")
    assert "nothing is much like it" in not_found("", "x", "a.py")
    assert "nothing is much like it" in not_found(CODE, "\n\n\n\n", "a.py")


@given(
    st.text(st.sampled_from("ab \t\nÉ’ß\u200bİ1→\\"), max_size=60),
    st.text(max_size=30) | st.text(st.sampled_from("ab \t\nÉ’'ßİ"), max_size=12),
)
def test_any_text_has_its_near_misses_in_the_file(text: str, wanted: str) -> None:
    assume(wanted and wanted not in text)
    assert not_found(text, wanted, "a")
    for miss in near_misses(text, wanted):
        assert miss.found in text
        assert text.split("\n")[miss.first - 1 : miss.last]


LARGE = sized(1_000_000, 250_000)
"""Characters of a file. Work that grew with their square would take minutes."""


def test_near_misses_in_a_large_file_are_found_in_bounded_time() -> None:
    source = inspect.getsource(argparse)
    text = source * (LARGE // len(source) + 1)
    wanted = textwrap.indent(inspect.getsource(argparse.HelpFormatter), "\t")
    started = perf_counter()
    (miss, *_) = near_misses(text, wanted)
    assert miss.differs
    assert near_misses(text, wanted.replace("self", "this").replace("_", "-"))
    near_misses("self.x = foo(bar)\n" * (LARGE // 17), "self.x = foo(baz)\n" * 50)
    near_misses("a b c " * (LARGE // 5), "a b d " * 50)
    near_misses("\n" * LARGE, "x\n" * 1000)
    assert perf_counter() - started < 10
