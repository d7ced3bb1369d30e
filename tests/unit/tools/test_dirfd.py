"""Opening files one name at a time: links in the way are refused, and said to be what they are."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from callsheet.tools.errors import InvalidArguments, NotPermitted
from callsheet.tools.files.dirfd import open_directory, open_regular, parent_of, remove_made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/dir/sub").mkdir(parents=True)
    (tmp_path / "root/dir/file").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("outside")
    (tmp_path / "root/link").symlink_to("../outside")
    (tmp_path / "root/dir/link").symlink_to("../../outside/file")
    (tmp_path / "root/dir/inner").symlink_to("file")
    return tmp_path / "root"


def read(path: Path) -> bytes:
    with open_regular(path, str(path)) as file:
        return file.read()


def test_a_file_and_a_directory_are_opened(root: Path) -> None:
    assert read(root / "dir/file") == b"inside"
    fd = open_directory(root)
    try:
        assert os.path.samestat(os.fstat(fd), root.stat())
    finally:
        os.close(fd)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("link/file", NotPermitted),
        ("dir/link", InvalidArguments),
        ("dir/inner", InvalidArguments),
        ("link", InvalidArguments),
    ],
)
def test_no_link_is_followed_wherever_it_leads(
    root: Path, path: str, problem: type[Exception]
) -> None:
    with pytest.raises(problem, match="link"):
        read(root / path)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing", FileNotFoundError),
        ("missing/file", FileNotFoundError),
        ("dir/file/x", NotADirectoryError),
        ("dir/../../outside/file", InvalidArguments),
        ("dir/..", InvalidArguments),
    ],
)
def test_what_else_is_wrong_is_said_with_the_whole_path(
    root: Path, path: str, problem: type[Exception]
) -> None:
    with pytest.raises(problem) as caught:
        read(root / path)
    assert str(root) in str(caught.value)


def test_missing_directories_are_made_noted_and_removed_again(root: Path) -> None:
    made: list[Path] = []
    with parent_of(root / "dir/a/b/file", made) as (fd, name):
        assert name == "file"
        assert os.path.samestat(os.fstat(fd), (root / "dir/a/b").stat())
    assert made == [root / "dir/a", root / "dir/a/b"]
    (root / "dir/a/kept").write_text("k")
    remove_made(made)
    assert not (root / "dir/a/b").exists()
    assert (root / "dir/a/kept").read_text() == "k"


def test_no_directory_is_made_through_a_link(root: Path) -> None:
    with pytest.raises(NotPermitted), parent_of(root / "link/a/b", []):
        pass
    assert [path.name for path in (root / "../outside").iterdir()] == ["file"]


def test_no_descriptor_is_left_open(root: Path) -> None:
    first = os.dup(0)
    os.close(first)
    for path in ("dir/file", "link/file", "dir/link", "missing/x", "dir/file/x"):
        with suppress(OSError, NotPermitted, InvalidArguments):
            read(root / path)
    again = os.dup(0)
    os.close(again)
    assert again == first
