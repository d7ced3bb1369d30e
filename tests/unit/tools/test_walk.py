"""Ignore files: what is left out is what ripgrep leaves out, and what git does."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from callsheet.tools.search.ripgrep import LineQuery
from callsheet.tools.search.walk import Walk, scope_of
from tests.support.files import Trees
from tests.support.needs import needs
from tests.support.sizes import fewer

FILES = [".gitignore", ".gitignore", ".ignore", ".rgignore"]
FEWER = fewer(3)


def walked(base: Path, *, hidden: bool = False) -> set[str]:
    with Walk(str(base), hidden=hidden) as walk:
        return {found.path for found in walk if found.entry.is_file(follow_symlinks=False)}


def listed_by_rg(base: Path) -> set[str]:
    """Ask ripgrep for the files that it would search, in just the way it is asked to search."""
    command = LineQuery("").count_tree(scope_of(str(base)))
    command = [part for part in command if part not in ("--count", "--regexp=")]
    done = subprocess.run(
        [command[0], "--files", *command[1:]],
        cwd=base, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    found = {os.fsdecode(path).removeprefix("./") for path in done.stdout.split(b"\0") if path}
    with Walk(
        str(base), hidden=False
    ) as walk:  # as grep does, because ripgrep forgets rules from above
        return {path for path in found if not walk.passes_by(path)} if walk.scope.prefix else found


@FEWER
@given(st.integers(0, 1 << 32))
def test_the_same_files_are_left_out_as_by_ripgrep(seed: int) -> None:
    trees = Trees(seed)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        trees.fill(top, FILES)
        if trees.chance.random() < 0.6:
            trees.repository(top)
        directories = [Path(path) for path, _, _ in os.walk(top) if "/.git" not in path]
        if trees.chance.random() < 0.3:
            trees.repository(trees.chance.choice(directories))
        base = top if trees.chance.random() < 0.5 else trees.chance.choice(directories)
        # Below an inner repository, ripgrep honours .ignore files above it, too.
        is_inner = any((above / ".git").exists() for above in base.parents if above != top)
        assume(not is_inner)
        assert walked(base) == listed_by_rg(base)


@needs("git")
@FEWER
@given(st.integers(0, 1 << 32))
def test_the_same_files_are_left_out_as_by_git(seed: int) -> None:
    trees = Trees(seed, like_git=True)
    with tempfile.TemporaryDirectory() as name:
        top = Path(name).resolve()
        trees.fill(top, [".gitignore"])
        make(top, {".git/HEAD": "ref: refs/heads/main\n"})
        for needed in ("objects", "refs"):
            (top / ".git" / needed).mkdir()
        asked = ("ls-files", "-z", "--others", "--exclude-standard")
        names = git("-c", "core.excludesFile=/dev/null", *asked, cwd=top).split(b"\0")
        links = {path for path in map(os.fsdecode, names) if (top / path).is_symlink()}
        files = {os.fsdecode(path) for path in names if path} - links
        assert walked(top, hidden=True) == files


def git(*arguments: str, cwd: Path) -> bytes:
    return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, check=True).stdout


def make(top: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text, "utf-8")
    return top.resolve()


def test_a_nearer_file_decides_and_within_a_file_the_last_line(tmp_path: Path) -> None:
    top = make(tmp_path, {
        ".gitignore": "*.log\n!keep.log\n",
        "a.log": "", "keep.log": "", "sub/.gitignore": "!a.log\nkeep.log\n", "sub/a.log": "", "sub/keep.log": "",
    })  # fmt: skip
    assert walked(top) == {"keep.log", "sub/a.log"}


def test_rgignore_beats_ignore_beats_gitignore_beats_exclude(tmp_path: Path) -> None:
    names = ["four", "one", "three", "two"]
    top = make(tmp_path, {
        ".git/info/exclude": "one\ntwo\nthree\nfour\n",
        ".gitignore": "!two\nthree\nfour\n", ".ignore": "!three\nfour\n", ".rgignore": "!four\n",
        **dict.fromkeys(names, ""),
    })  # fmt: skip
    assert walked(top) == {"two", "three", "four"}


def test_rules_above_count_up_to_the_root_of_the_repository(tmp_path: Path) -> None:
    top = make(tmp_path, {
        ".gitignore": "outside\n",
        "repo/.git/HEAD": "", "repo/.gitignore": "/sub/deep/x\ny\n", "repo/sub/deep/x": "",
        "repo/sub/x": "", "repo/sub/y": "", "repo/sub/outside": "",
    })  # fmt: skip
    assert walked(top / "repo" / "sub") == {"x", "outside"}


def test_without_a_repository_rules_count_from_the_directory_down(tmp_path: Path) -> None:
    top = make(tmp_path, {
        ".gitignore": "*", "work/.gitignore": "/sub/x\n", "work/sub/x": "", "work/sub/z": "",
    })  # fmt: skip
    assert walked(top / "work") == {"sub/z"}
    assert walked(top / "work" / "sub") == {"x", "z"}


RULES = {".gitignore": "*", ".ignore": "*", ".git/info/exclude": "*", "work/sub/z": ""}


def test_a_stray_git_directory_above_is_no_repository(tmp_path: Path) -> None:
    top = make(tmp_path, RULES)
    assert walked(top / "work" / "sub") == {"z"}
    assert walked(top / "work") == {"sub/z"}


@pytest.mark.parametrize("rule", ["*", "work/", "/work", "wo*", "**"])
def test_a_repository_that_ignores_a_directory_has_no_say_in_it(tmp_path: Path, rule: str) -> None:
    top = make(tmp_path, {".git/HEAD": "", ".gitignore": f"{rule}\nz\n", "work/a/z": "", "b/z": ""})
    assert walked(top / "work" / "a") == {"z"}
    assert walked(top / "b") == ({"z"} if rule in ("*", "**") else set())


def test_a_repository_is_not_looked_for_above_git_s_ceiling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = make(tmp_path, {".git/HEAD": "", ".gitignore": "z\n", "work/z": ""})
    assert walked(top / "work") == set()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", f"/elsewhere{os.pathsep}{top}")
    assert walked(top / "work") == {"z"}


def test_a_repository_in_a_repository_has_its_own_rules(tmp_path: Path) -> None:
    top = make(tmp_path, {
        ".git/HEAD": "", ".gitignore": "x\n", "x": "", "inner/.git/HEAD": "", "inner/x": "",
    })  # fmt: skip
    assert walked(top) == {"inner/x"}


@needs("git")
def test_a_linked_worktree_has_the_excludes_of_the_main_one(tmp_path: Path) -> None:
    main = make(tmp_path / "main", {"a": ""})
    git("init", "-q", cwd=main)
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    git(*who, "commit", "-q", "--allow-empty", "-m", "x", cwd=main)
    git("worktree", "add", "-q", "../linked", cwd=main)
    (main / ".git" / "info" / "exclude").write_text("secret\n")
    linked = make(tmp_path / "linked", {"secret": "", "open": ""})
    assert walked(linked) == {"open"}


def test_git_directories_are_never_entered_whatever_the_rules_say(tmp_path: Path) -> None:
    top = make(tmp_path, {".ignore": "!.git\n!.*\n", ".git/config": "", ".shown": ""})
    assert walked(top) == {".ignore", ".shown"}


def test_links_are_not_followed_so_cycles_end(tmp_path: Path) -> None:
    top = make(tmp_path, {"a/b": ""})
    (top / "a" / "again").symlink_to("..")
    assert walked(top) == {"a/b"}


def test_what_is_no_ignore_file_hinders_nothing(tmp_path: Path) -> None:
    top = make(tmp_path, {"a": "", ".ignore/b": "", ".git/HEAD": ""})
    os.mkfifo(top / ".gitignore")
    (top / ".rgignore").symlink_to("missing")
    assert walked(top) == {"a"}


def test_a_rule_with_many_stars_takes_no_time(tmp_path: Path) -> None:
    top = make(tmp_path, {".ignore": "*a" * 60 + "b\n" + "**/a/" * 30 + "b\n", "a" * 200: ""})
    assert walked(top) == {"a" * 200}
