"""Files that make other programs run something are asked about, also where edits are allowed.

Generated changes: any tool that writes, names in any case, deep in the tree, through links, by the directories
that they are in. The list of names is one of our own, not the one that the code reads.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from callsheet import Session
from callsheet.runtime.permission import Question
from callsheet.tools.triggers import groups, is_trigger_name
from tests.support.sizes import sized

SEED = 17_004
CASES = sized(2_000, 150)

FILES = (
    *(".git/config", ".git/hooks/pre-commit", ".git", ".gitmodules", ".gitconfig", ".git/info/x"),
    *(".vscode/settings.json", ".vscode/tasks.json", ".idea/workspace.xml", ".zed/tasks.json"),
    *(".envrc", ".bashrc", ".bash_profile", ".zshenv", ".profile", ".nvim.lua", ".exrc", ".vimrc"),
    *(".dir-locals.el", "x.code-workspace", ".devcontainer/devcontainer.json", ".ssh/config"),
    *(".npmrc", ".yarnrc.yml", ".yarn/releases/y.cjs", ".pnpmfile.cjs", ".cargo/config.toml"),
    *(".husky/pre-push", ".pre-commit-config.yaml", "lefthook.yml", ".mise.toml", "mise.toml"),
    *(".github/workflows/ci.yml", ".gitlab-ci.yml", ".circleci/config.yml", "Jenkinsfile"),
    *("azure-pipelines.yml", ".travis.yml", ".claude/settings.json", ".cursor/mcp.json"),
    *(".mcp.json", "callsheet.toml", ".config/fish/config.fish", "sitecustomize.py", "a.pth"),
    *(".tool-versions", ".gdbinit", ".mvn/extensions.xml", ".eslintrc.js", "eslint.config.mjs"),
)
PLAIN = (
    *("a.py", "src/app.ts", "README.md", "package.json", "pyproject.toml", "Makefile", "setup.py"),
    *("conftest.py", ".gitignore", ".editorconfig", "git/config", "vscode.json", "AGENTS.md"),
    *("docs/github.md", "env", ".env", "bashrc", "hooks/pre-commit", "Cargo.toml", "digit.txt"),
)


def cased(rng: random.Random, path: str) -> str:
    """Return a path as a file system that does not mind case would take it."""
    return "".join(rng.choice((sign.upper(), sign.lower(), sign)) for sign in path)


def strange(rng: random.Random, path: str) -> str:
    """Return a path whose first name has something at its end, or in it, that some file systems ignore."""
    first, slash, rest = path.partition("/")
    way = rng.choice((".", " ", "...", "\u200b", "\u200d", "::$INDEX_ALLOCATION"))
    return f"{first}{way}{slash}{rest}"


class Place:
    """A workspace, and what was asked in it."""

    def __init__(self, root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        self.root: Path = root
        self.asked: int = 0

    def answer(self, question: Question) -> str:
        self.asked += 1
        del question
        return "reject_once"

    def make(self, path: str) -> Path:
        """Make a file, and return its path."""
        made = self.root / path
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("one\n")
        return made


def change(rng: random.Random, place: Place, path: str) -> tuple[str, dict[str, Any]]:
    """Return a call that changes a file, which is made if it has to be there."""
    deep = "/".join(rng.sample(("x", "y", "z"), rng.randrange(3)))
    path = f"{deep}/{path}" if deep else path
    way = rng.randrange(7)
    if way == 0:
        return "write", {"path": path, "content": "two\n"}
    if way == 1:
        place.make(path)
        return "edit", {"path": path, "old_text": "one", "new_text": "two"}
    if way == 2:
        place.make("plain.txt")
        return "move", {"source": "plain.txt", "destination": path}
    if way == 3:
        place.make(path)
        return "move", {"source": path, "destination": "elsewhere.txt"}
    if way == 4:
        place.make(path)
        return "delete", {"path": path}
    above = f"above/{path}"
    place.make(above)
    if way == 5:
        return "delete", {"path": "above", "recursive": True}
    return "move", {"source": "above", "destination": "below"}


def through_link(place: Place, path: str) -> str:
    """Return another path of a file in a directory, by a link to that."""
    head, _, tail = path.rpartition("/")
    (place.root / head).mkdir(parents=True, exist_ok=True)
    (place.root / "notes").symlink_to(head)
    return f"notes/{tail}"


def snapshot(root: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in root.rglob("*") if path.is_file()}


async def test_edits_never_cover_what_makes_programs_run(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for number in range(CASES):
        place = Place(tmp_path / "w")
        path = rng.choice(FILES)
        way = rng.randrange(4)
        if way == 0:
            path = cased(rng, path)
        elif way == 1:
            path = strange(rng, path)
        elif way == 2 and "/" in path:
            path = through_link(place, path)
            call = "write", {"path": path, "content": "two\n"}
        if way != 2 or "/" not in path:
            call = change(rng, place, path)
        before = snapshot(place.root)
        async with Session(
            cwd=place.root, permission="edits", on_permission=place.answer
        ) as session:
            await session.run(*call)
        assert (place.asked, snapshot(place.root)) == (1, before), (SEED, number, call)


async def test_edits_cover_all_else(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    for number in range(CASES // 5):
        place = Place(tmp_path / "w")
        call = change(rng, place, rng.choice(PLAIN))
        async with Session(
            cwd=place.root, permission="edits", on_permission=place.answer
        ) as session:
            result = await session.run(*call)
        assert (place.asked, result.success) == (0, True), (SEED, number, call, result)


@pytest.mark.parametrize("tool", ["write", "delete", "move"])
async def test_what_is_always_allowed_is_exactly_that_call(tmp_path: Path, tool: str) -> None:
    names: list[str] = []

    def answer(question: Question) -> str:
        names.append(next(o.name for o in question.options if o.kind == "allow_always"))
        return "allow_always"

    for name in ("a", "b", ".envrc"):
        (tmp_path / name).write_text("one\n")
    calls: dict[str, tuple[dict[str, Any], ...]] = {
        "write": tuple({"path": path, "content": "x"} for path in ("a", "b", ".envrc", ".envrc")),
        "delete": tuple({"path": path} for path in ("a", "b", ".envrc")),
        "move": tuple({"source": path, "destination": f"{path}2"} for path in ("a", "b", ".envrc")),
    }
    async with Session(cwd=tmp_path, permission="ask", on_permission=answer) as session:
        for arguments in calls[tool]:
            assert (await session.run(tool, arguments)).success
    assert len(names) == 2
    assert names[1] == "Always allow exactly this"


async def test_what_is_always_rejected_stays_so(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(question: Question) -> str:
        asked.append(question.report.title)
        return "reject_always"

    async with Session(cwd=tmp_path, permission="ask", on_permission=answer) as session:
        for path in ("a", ".envrc"):
            assert not (await session.run("write", {"path": path, "content": "x"})).success
    assert len(asked) == 1


async def test_who_allows_everything_is_not_asked(tmp_path: Path) -> None:
    async with Session(cwd=tmp_path, permission="allow") as session:
        assert (await session.run("write", {"path": ".envrc", "content": "x"})).success


async def test_where_the_workspace_is_does_not_matter(tmp_path: Path) -> None:
    asked: list[Question] = []
    root = tmp_path / ".claude" / "worktrees" / "one"
    root.mkdir(parents=True)

    def answer(question: Question) -> str:
        asked.append(question)
        return "reject_once"

    async with Session(cwd=root, permission="edits", on_permission=answer) as session:
        assert (await session.run("write", {"path": "a", "content": "x"})).success
    hooks = tmp_path / ".git" / "hooks"
    hooks.mkdir(parents=True)
    async with Session(cwd=hooks, permission="edits", on_permission=answer) as session:
        assert not (await session.run("write", {"path": "pre-commit", "content": "x"})).success
    assert len(asked) == 1


async def test_a_directory_with_too_much_in_it_is_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callsheet.tools.triggers.MAX_ENTRIES", 5)
    place = Place(tmp_path / "w")
    for number in range(6):
        place.make(f"many/{number}")
    async with Session(cwd=place.root, permission="edits", on_permission=place.answer) as session:
        await asyncio.gather(session.run("delete", {"path": "many", "recursive": True}))
    assert place.asked == 1


def test_every_group_says_why_and_has_an_example_that_it_covers() -> None:
    for group in groups():
        assert group.why
        assert any(map(is_trigger_name, group.example.split("/")))
    assert not any(is_trigger_name(name) for path in PLAIN for name in path.split("/"))
