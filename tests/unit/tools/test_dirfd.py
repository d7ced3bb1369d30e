"""Opening files beneath a root: links in the way are refused, and said to be what they are."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from callsheet.tools.errors import InvalidArguments, NotPermitted
from callsheet.tools.fs.dirfd import open_beneath, parent_of, remove_made, root_of


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


def read(root: Path, path: str) -> bytes:
    fd = open_beneath(root, root / path, os.O_RDONLY)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def test_a_file_is_opened(root: Path) -> None:
    assert read(root, "dir/file") == b"inside"


def test_the_root_itself_is_opened(root: Path) -> None:
    fd = open_beneath(root, root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert sorted(os.listdir(fd)) == ["dir", "link"]  # noqa: PTH208
    finally:
        os.close(fd)


@pytest.mark.parametrize("path", ["link/file", "dir/link", "dir/inner", "link"])
def test_no_link_is_followed_wherever_it_leads(root: Path, path: str) -> None:
    with pytest.raises(NotPermitted, match="become a link"):
        read(root, path)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing", FileNotFoundError),
        ("missing/file", FileNotFoundError),
        ("dir/file/x", NotADirectoryError),
        ("../outside/file", InvalidArguments),
        ("dir/../../outside/file", InvalidArguments),
        ("/outside", NotPermitted),
    ],
)
def test_what_else_is_wrong_is_said_with_the_whole_path(
    root: Path, path: str, problem: type[Exception]
) -> None:
    with pytest.raises(problem) as caught:
        read(root, path)
    assert path.split("/")[0] in str(caught.value)
    if isinstance(caught.value, OSError):
        assert str(caught.value.filename).startswith(str(root))


def test_a_new_file_is_made_only_beneath(root: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT
    os.close(open_beneath(root, root / "dir/new", flags, 0o600))
    assert (root / "dir/new").stat().st_mode & 0o777 == 0o600
    with pytest.raises(NotPermitted):
        open_beneath(root, root / "link/new", flags)
    with pytest.raises(NotPermitted):
        open_beneath(root, root / "dir/link", flags | os.O_TRUNC)
    assert (root / "../outside/file").read_text() == "outside"


def test_missing_directories_are_made_noted_and_removed_again(root: Path) -> None:
    made: list[Path] = []
    with parent_of(root, root / "dir/a/b/file", made) as (fd, name):
        assert name == "file"
        assert os.path.samestat(os.fstat(fd), (root / "dir/a/b").stat())
    assert made == [root / "dir/a", root / "dir/a/b"]
    (root / "dir/a/kept").write_text("k")
    remove_made(root, made)
    assert not (root / "dir/a/b").exists()
    assert (root / "dir/a/kept").read_text() == "k"


def test_no_directory_is_made_through_a_link(root: Path) -> None:
    with pytest.raises(NotPermitted), parent_of(root, root / "link/a/b", []):
        pass
    assert [path.name for path in (root / "../outside").iterdir()] == ["file"]


def test_no_descriptor_is_left_open(root: Path) -> None:
    first = os.dup(0)
    os.close(first)
    for path in ("dir/file", "link/file", "dir/link", "missing/x", "dir/file/x"):
        with suppress(OSError, NotPermitted):
            read(root, path)
    again = os.dup(0)
    os.close(again)
    assert again == first


def test_the_innermost_root_is_taken(root: Path) -> None:
    roots = [root, root / "dir"]
    assert root_of(root / "dir/sub/x", roots) == root / "dir"
    assert root_of(root / "x", roots) == root
    assert root_of(root / "dir", roots) == root / "dir"
    assert root_of(root.parent / "outside", roots) == Path("/")
