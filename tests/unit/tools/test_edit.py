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
from callsheet.tools.files.edits import find_nearest, find_spans, not_found, replace
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
    expected = {"replacements": 1, "first_changed_line": 2, "lines_added": 2, "lines_removed": 1}
    assert (expected | {"file_path": str(tmp_path / "a.txt")}).items() <= result.metadata.items()


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
    expected = {"replacements": 3, "first_changed_line": 1, "lines_added": 2, "lines_removed": 2}
    assert expected.items() <= result.metadata.items()
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


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1"])
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
    spans = find_spans(text, old, replace_all=False)
    assume(len(spans) == 1 and "\n" in text and old != new)
    change = replace(text, spans, new)
    assert change.text.replace("\r\n", "\n") == flat.replace(old, new, 1)
    assume("\n" in change.text)
    back = find_spans(change.text, new, replace_all=False)
    assume(len(back) == 1)
    undone = replace(change.text, back, old)
    assert undone.text == text


@given(
    st.text(st.sampled_from("ab\r\n"), max_size=30), st.text(st.sampled_from("ab\n"), min_size=1)
)
def test_every_place_is_found_whatever_the_line_endings(text: str, wanted: str) -> None:
    flat = text.replace("\r\n", "\n")
    spans = find_spans(text, wanted, replace_all=True)
    assert len(spans) == flat.count(wanted)
    for begin, end in spans:
        assert text[begin:end].replace("\r\n", "\n") == wanted
    assert len(find_spans(text, wanted, replace_all=False)) > 1 or all(
        flat.find(wanted, at + 1) < 0 for at in [flat.find(wanted)] if at >= 0
    )


@given(
    st.text(st.sampled_from("ab\n"), max_size=40),
    st.text(st.sampled_from("ab\n"), min_size=1, max_size=3),
    st.text(st.sampled_from("abc\n"), max_size=4),
)
def test_lines_added_and_removed_balance(text: str, old: str, new: str) -> None:
    spans = find_spans(text, old, replace_all=True)
    assume(spans)
    change = replace(text, spans, new)
    assert change.text == text.replace(old, new)
    before, after = text.count("\n") + 1, change.text.count("\n") + 1
    slack = (text.endswith("\n") or not text) - (change.text.endswith("\n") or not change.text)
    assert change.lines.added - change.lines.removed == after - before + slack
    assert 1 <= change.lines.first <= max(1, after)
    same = change.text.split("\n")[: change.lines.first - 1]
    assert same == text.split("\n")[: change.lines.first - 1]


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
    ).error == "a.txt can't be edited: it is binary (3 B), not text"
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


# The nearest text

CODE = """\
def one(x):
    return x + 1


def two(x):
\tname = "its"
\treturn [x,  x]   # twice
"""


@pytest.mark.parametrize(
    ("wanted", "first", "found"),
    [
        ("def one(x):\n\treturn x + 1\n", 1, "def one(x):\n    return x + 1"),
        ("return [x, x]   # twice", 7, "\treturn [x,  x]   # twice"),
        ("def one(x): \n    return x + 1\n", 1, "def one(x):\n    return x + 1"),
    ],
)
def test_a_text_with_other_white_space_is_found_as_the_nearest(
    wanted: str, first: int, found: str
) -> None:
    assert find_nearest(CODE, wanted) == (first, found, 1)
    assert "(only white space differs)" in not_found(CODE, wanted, "a.py")


def test_the_nearest_lines_are_shown_with_what_differs() -> None:
    message = not_found(CODE, "def one(x):\n    return x + 2\n", "a.py")
    assert message == textwrap.dedent("""\
        old_text is not in a.py. The nearest is at lines 1–2 (90% alike).
        In old_text (-) and in the file (+):
          def one(x):
        -     return x + 2
        +     return x + 1""")


def test_white_space_that_differs_is_made_visible() -> None:
    message = not_found("a\n\tb = 1 \n", "    b = 1\n", "a.py")
    assert '- "    b = 1"\n+ "\\tb = 1 "' in message


def test_line_numbers_that_were_copied_are_recognized() -> None:
    message = not_found(CODE, "1→def one(x):\n2→    return x + 1", "a.py")
    assert message.endswith("leave out the line numbers that read shows")


@pytest.mark.parametrize("wanted", ["SELECT * FROM users;", "\n\n\n\n", "+++"])
def test_nothing_like_it_is_reported_as_such(wanted: str) -> None:
    assert "nothing is much like it" in not_found(CODE, wanted, "a.py")
    assert "nothing is much like it" in not_found("", wanted, "a.py")


@given(
    st.text(st.sampled_from("ab \t\nÉ’ß\u200bİ1→\\"), max_size=60),
    st.text(max_size=30) | st.text(st.sampled_from("ab \t\nÉ’'ßİ"), max_size=12),
)
def test_the_nearest_text_is_in_the_file(text: str, wanted: str) -> None:
    assume(wanted and wanted not in text)
    assert not_found(text, wanted, "a")
    nearest = find_nearest(text, wanted)
    if nearest is not None:
        assert "\n".join(text.split("\n")[nearest.first - 1 :]).startswith(nearest.text)


LARGE = sized(1_000_000, 250_000)
"""Characters of a file. Work that grew with their square would take minutes."""


def test_the_nearest_text_in_a_large_file_is_found_in_bounded_time() -> None:
    source = inspect.getsource(argparse)
    text = source * (LARGE // len(source) + 1)
    wanted = textwrap.indent(inspect.getsource(argparse.HelpFormatter), "\t")
    started = perf_counter()
    assert find_nearest(text, wanted)
    assert find_nearest(text, wanted.replace("self", "this"))
    not_found("self.x = foo(bar)\n" * (LARGE // 17), "self.x = foo(baz)\n" * 50, "a.py")
    not_found("a b c " * (LARGE // 5), "a b d " * 50, "a.py")
    not_found("\n" * LARGE, "x\n" * 1000, "a.py")
    assert perf_counter() - started < 10
