"""The tool `glob`: which paths are found, in which order, and that nothing outside is."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session, ToolResult
from callsheet.testing import check_tool
from callsheet.tools.globs import compile_glob


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    async with Session("s", cwd=tmp_path, strict=True) as session:
        yield session


def make(top: Path, *names: str) -> None:
    for age, name in enumerate(names):
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        os.utime(path, (1e9 - age, 1e9 - age))


async def glob(session: Session, pattern: str, **arguments: Any) -> ToolResult:
    return await session.run("glob", {"pattern": pattern, **arguments})


def paths(result: ToolResult) -> list[str]:
    """Return the paths, in their order, after holding that as many were found as is said."""
    assert result.success, result.output
    lines = result.output.splitlines()
    found = lines[:-2] if result.metadata["results_count"] else []
    assert len(found) == result.metadata["shown"]
    return found


NAMES = [
    "a.py", "b.txt", "src/c.py", "src/d.ts", "src/deep/e.tsx", "src/deep/er/f.py", "test_1.py",
    "test_x.py", ".github/ci.yml", "x[1].py", "src/c*d.py",
]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", ["a.py", "test_1.py", "test_x.py", "x[1].py"]),
        ("**/*.py", ["a.py", "src/c.py", "src/deep/er/f.py", "test_1.py", "test_x.py", "x[1].py", "src/c*d.py"]),
        ("src/**/*.{ts,tsx}", ["src/d.ts", "src/deep/e.tsx"]),
        ("src/**", ["src/c.py", "src/d.ts", "src/deep/e.tsx", "src/deep/er/f.py", "src/c*d.py"]),
        ("src/*", ["src/c.py", "src/d.ts", "src/c*d.py"]),
        ("**/deep/**/*.py", ["src/deep/er/f.py"]),
        ("test_[0-9].py", ["test_1.py"]),
        ("test_[!0-9].py", ["test_x.py"]),
        ("?.py", ["a.py"]),
        ("{a,test_?}.py", ["a.py", "test_1.py", "test_x.py"]),
        ("{src/{c,d},b}.*", ["b.txt", "src/c.py", "src/d.ts"]),
        ("x[[]1].py", ["x[1].py"]),
        (r"x\[1\].py", ["x[1].py"]),
        (r"src/c\*d.py", ["src/c*d.py"]),
        ("**/*.yml", [".github/ci.yml"]),
        ("./a.py", ["a.py"]),
        ("**/{c,d}.*", ["src/c.py", "src/d.ts"]),
        ("{src/deep/**,a.*}", ["a.py", "src/deep/e.tsx", "src/deep/er/f.py"]),
        ("{**/f,b}.*", ["b.txt", "src/deep/er/f.py"]),
        ("src", []),
        ("src/", ["src/"]),
        ("src/**/", ["src/deep/", "src/deep/er/"]),
        ("A.PY", []),
    ],
)  # fmt: skip
async def test_a_pattern_finds_just_what_it_says(
    session: Session, tmp_path: Path, pattern: str, found: list[str]
) -> None:
    make(tmp_path, *NAMES)
    for age, name in enumerate(("src", "src/deep", "src/deep/er")):
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    result = await glob(session, pattern)
    assert paths(result) == found
    assert result.metadata["results_count"] == len(found)


async def test_what_was_changed_last_comes_first_then_the_order_of_paths(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, "old", "z", "a")
    for name, when in (("old", 1), ("z", 2), ("a", 2)):
        os.utime(tmp_path / name, (when, when))
    assert paths(await glob(session, "*")) == ["a", "z", "old"]


async def test_paths_are_given_from_the_session_s_directory(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, "src/deep/a.py", "a.py")
    result = await glob(session, "**/*.py", path="src")
    assert paths(result) == ["src/deep/a.py"]
    assert result.output == "src/deep/a.py\n\n1 file."
    assert result.metadata["search_path"] == str(tmp_path / "src")
    assert paths(await glob(session, f"{tmp_path}/src/**/*.py")) == ["src/deep/a.py"]


async def test_what_is_ignored_is_not_found(session: Session, tmp_path: Path) -> None:
    make(tmp_path, ".git/a.py", "build/a.py", "a.pyc", "src/a.py")
    (tmp_path / ".gitignore").write_text("build/\n*.pyc\n")
    assert paths(await glob(session, "**/a.*")) == ["src/a.py"]
    assert paths(await glob(session, "build/*")) == []
    assert paths(await glob(session, ".git/*")) == []
    assert paths(await glob(session, "*", path="build")) == ["build/a.py"]


@pytest.mark.parametrize(
    "pattern", ["../*", "a/../../*", "{a,..}/*", "/etc/*", "/", "", "./", ".."]
)
async def test_a_pattern_cannot_lead_out(session: Session, pattern: str) -> None:
    result = await glob(session, pattern)
    assert result.metadata["error_code"] == "invalid_arguments"


async def test_ignore_files_count_from_the_root_of_the_repository_down(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, "repo/.git/HEAD", "repo/sub/a.log", "repo/sub/b", "repo/sub/c.tmp")
    (tmp_path / ".gitignore").write_text("b\n")
    (tmp_path / "repo" / ".gitignore").write_text("*.log\n")
    (tmp_path / "repo" / "sub" / ".ignore").write_text("*.tmp\n.ignore\n")
    assert paths(await glob(session, "*", path="repo/sub")) == ["repo/sub/b"]


async def test_without_a_repository_ignore_files_count_from_the_directory_down(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, "sub/a.log", "sub/b.tmp", "sub/c")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "sub" / ".gitignore").write_text("*.tmp\n.gitignore\n")
    assert paths(await glob(session, "*", path="sub")) == ["sub/a.log", "sub/c"]
    assert paths(await glob(session, "sub/*")) == ["sub/c"]


async def test_links_are_neither_found_nor_followed(session: Session, tmp_path: Path) -> None:
    make(tmp_path, "real/a.py")
    (tmp_path / "real" / "again").symlink_to("..")
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "link.py").symlink_to("real/a.py")
    (tmp_path / "gone.py").symlink_to("nowhere")
    found = paths(await glob(session, "**/*"))
    assert found == ["real/a.py"]
    assert paths(await glob(session, "away/*")) == []


async def test_totals_are_exact_however_little_is_shown(session: Session, tmp_path: Path) -> None:
    make(tmp_path, *(f"d{n % 7}/f{n}" for n in range(700)))
    result = await glob(session, "**/f*")
    expected = {"results_count": 700, "shown": 500, "truncated": True}
    assert expected.items() <= result.metadata.items()
    assert result.output.endswith("d2/f499\n\n700 files; the 500 that were changed last are shown.")


async def test_nothing_found_says_what_would_be_found_further_down(
    session: Session, tmp_path: Path
) -> None:
    make(tmp_path, "src/a.py", "src/b.py")
    result = await glob(session, "*.py")
    assert result.success
    assert result.output == "No files match '*.py'. 2 files further down: '**/*.py'."
    result = await glob(session, "*.ts", path="src")
    assert result.output == "No files match '*.ts' in src."
    assert result.metadata["results_count"] == 0


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("a[b", "'[' is never closed"),
        ("x{a,b", "'{' is never closed"),
        ("a\\", "escapes nothing"),
        ("[z-a]", "bad character range z-a"),
        ("?" * 1_000_000, "too complicated"),
    ],
)
async def test_a_pattern_that_makes_no_sense_is_refused_with_what_is_wrong(
    session: Session, pattern: str, what: str
) -> None:
    result = await glob(session, pattern)
    assert result.metadata["error_code"] == "invalid_arguments"
    assert what in result.output


def test_no_glob_takes_for_ever() -> None:
    begun = time.monotonic()
    for glob in (
        "*a" * 100 + "b",
        "**/" * 30 + "*a*a*a*b",
        "{*a,*b}" * 6 + "c",
        "**/a/" * 20 + "b",
    ):
        assert not compile_glob(glob)("a/" * 100 + "a" * 200)
    assert time.monotonic() - begun < 1


async def test_missing_and_unfit_directories_are_refused(session: Session, tmp_path: Path) -> None:
    make(tmp_path, "a")
    assert (await glob(session, "*", path="b")).metadata["error_code"] == "not_found"
    assert (await glob(session, "*", path="a")).metadata["error_code"] == "invalid_arguments"
    assert (await glob(session, "*", path="/etc")).metadata["error_code"] == "permission_denied"


async def test_the_standard_is_kept(tmp_path: Path) -> None:
    make(tmp_path, "a.txt")
    failing = {"pattern": "*", "path": "missing"}
    await check_tool("glob", good={"pattern": "*.txt"}, failing=failing, cwd=tmp_path)
