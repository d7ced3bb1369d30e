"""Patches: read back to the letter, understood by git itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.acp import git_patch
from callsheet.report.content import FileChange
from tests.support import strategies as some
from tests.support.needs import needs

long_code = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c", "+\n", "- x\n"]), max_size=60).map(
    "".join
)


@given(some.paths, some.code, some.code)
def test_both_texts_of_a_small_file_can_be_read_back(path: str, old: str, new: str) -> None:
    patch = git_patch.write([FileChange(path=path, old_text=old, new_text=new)])
    if old == new:
        assert patch == ""
    else:
        assert git_patch.read(patch) == {path: git_patch.Texts(old, new)}


@given(long_code, long_code)
def test_a_large_file_gets_three_lines_of_context(old: str, new: str) -> None:
    padding = "".join(f"line {n}\n" for n in range(2000))
    change = FileChange(
        path="/a", old_text=padding + old + "\n" + padding, new_text=padding + new + "\n" + padding
    )
    patch = git_patch.write([change])
    if change.old_text is None:
        return
    assert len(patch) < 4000
    texts = git_patch.read(patch)["/a"]
    assert texts.old in change.old_text or patch.count("\n@@ ") > 1
    if patch.count("\n@@ ") == 1:
        again = FileChange(path="/a", old_text=texts.old, new_text=texts.new)
        assert git_patch.read(git_patch.write([again]))["/a"] == texts


def test_two_very_different_large_files_are_not_matched_for_ever() -> None:
    old = "".join(f"a{n}\n" for n in range(20_000))
    new = "".join(f"b{n}\n" for n in range(20_000))
    patch = git_patch.write([FileChange(path="/a", old_text=old, new_text=new)])
    assert patch.count("\n-a") == patch.count("\n+b") == 20_000


@needs("git")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("no end", "no end either"),
        ("a\n", "a"),
        ("", "new\n"),
        ("gone\n", ""),
        ("".join(f"{n}\n" for n in range(3000)), "".join(f"{n}\n" for n in range(3000) if n % 700)),
        ("\r\n\x0c\u2028\n", "\r\n\x0c\u2028 \n"),
        ("--- a\n+++ b\n@@ -1 +1 @@\n", "--- a\n+++ c\n@@ -1 +1 @@\n\\ No newline\n"),
    ],
)
@pytest.mark.parametrize("name", ["plain.txt", "with space.txt", 'quo"te\\.txt', "ünï\t.txt"])
def test_git_applies_what_we_write(tmp_path: Path, old: str, new: str, name: str) -> None:
    git_applies(tmp_path, name, old, new)


def test_changes_far_apart_in_a_large_file_are_small_hunks() -> None:
    old = "".join(f"line {n}\n" for n in range(20_000))
    new = old.replace("line 100\n", "line one hundred\n").replace("line 19000\n", "")
    patch = git_patch.write([FileChange.of_texts("/a.txt", old, new)])
    changed = [
        line for line in patch.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert changed == ["-line 100", "+line one hundred", "-line 19000"]


@given(old=st.lists(st.sampled_from("abcdefgh")), new=st.lists(st.sampled_from("abcdefgh")))
def test_what_is_too_large_to_be_matched_at_once_is_still_matched_truly(
    old: list[str], new: list[str]
) -> None:
    with mock.patch.object(git_patch, "MATCH_UP_TO", 4):
        opcodes = git_patch._Matcher(None, old, new, autojunk=False).get_opcodes()
    made: list[str] = []
    seen = 0
    for tag, i, j, k, m in opcodes:
        assert (i, k) == (seen, len(made))
        assert tag != "equal" or old[i:j] == new[k:m]
        made += old[i:j] if tag == "equal" else new[k:m]
        seen = j
    assert (made, seen) == (new, len(old))


@needs("git")
def test_git_creates_deletes_and_renames_by_our_patches(tmp_path: Path) -> None:
    git_applies(tmp_path, "new.txt", None, "x\ny")
    git_applies(tmp_path, "gone.txt", "x\ny\n", None)
    (tmp_path / "from.txt").write_text("a\nb\n")
    change = FileChange(
        path="/to.txt", operation="move", old_path="/from.txt", old_text="a\nb\n", new_text="a\nc\n"
    )
    patch = git_patch.write([change])
    assert "rename from /from.txt\nrename to /to.txt\n" in patch
    git_apply(
        tmp_path, patch.replace(" from /", " from ").replace(" to /", " to ")
    )  # git never strips these
    assert (tmp_path / "to.txt").read_text() == "a\nc\n"
    assert not (tmp_path / "from.txt").exists()


def git_applies(folder: Path, name: str, old: str | None, new: str | None) -> None:
    file = folder / name
    if old is not None:
        file.write_bytes(old.encode())
    git_apply(folder, git_patch.write([FileChange.of_texts(f"/{name}", old, new)]))
    if new is None:
        assert not file.exists()
    else:
        assert file.read_bytes() == new.encode()


def git_apply(folder: Path, patch: str) -> None:
    """Apply a patch with git; `-p1` takes the leading slash off, which lands the file in `folder`."""
    git = shutil.which("git")
    assert git is not None
    done = subprocess.run(
        [git, "apply", "-p1", "--whitespace=nowarn", "-"],
        cwd=folder, input=patch.encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode() + patch[:500]
