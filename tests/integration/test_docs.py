"""The documents are true: examples run and print what they say, links lead somewhere, drawings are fresh."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from callsheet.check.engine import check_stream
from callsheet.runtime.consumer import Consumer
from tests.support import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def place_of_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what examples make go where tests' files go: they clean up after nobody."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_examples_run_and_print_what_the_document_says(document: Path) -> None:
    namespace: dict[str, object] = {"__name__": "example"}
    printed: str | None = None
    for language, body in BLOCK.findall(document.read_text(encoding="utf-8")):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(body, name(document), "exec"), namespace)
            printed = out.getvalue()
        elif language == "text" and printed:
            assert matches(printed, body), f"{name(document)} says\n{body}\nbut it is\n{printed}"
            printed = None


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_the_checker_finds_nothing_in_what_examples_send(
    document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[Consumer, list[bytes]] = {}
    take: Any = Consumer._take

    def taken(consumer: Consumer) -> bool:
        is_more = take(consumer)
        if is_more and consumer.sink.peer is not None:
            sent.setdefault(consumer, []).extend(consumer._sending)
        return is_more

    monkeypatch.setattr(Consumer, "_take", taken)
    namespace: dict[str, object] = {"__name__": "example"}
    for language, body in BLOCK.findall(document.read_text(encoding="utf-8")):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(body, name(document), "exec"), namespace)
    for lines in sent.values():
        found = check_stream(io.BytesIO(b"".join(lines)))
        assert [
            one for one in found if one.rule != "lifecycle/cut-off"
        ] == []  # it may stop in the midst


def matches(printed: str, said: str) -> bool:
    """Compare output with a document; `…` stands for anything."""
    lines = printed.strip().splitlines()
    patterns = [".*".join(map(re.escape, line.split("…"))) for line in said.strip().splitlines()]
    return len(lines) == len(patterns) and all(
        re.fullmatch(pattern, line) for pattern, line in zip(patterns, lines, strict=True)
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target


def test_the_drawings_are_made_from_the_table() -> None:
    script = ROOT / "scripts" / "draw_lifecycle.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_table_of_rules_is_made_from_the_rules() -> None:
    script = ROOT / "scripts" / "list_rules.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_stale_drawing_is_noticed() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import draw_lifecycle
    finally:
        sys.path.pop(0)
    text = (ROOT / "docs" / "lifecycle.md").read_text(encoding="utf-8")
    assert draw_lifecycle.with_drawing(text) == text
    assert draw_lifecycle.with_drawing(text.replace("paused --> in_progress", "")) == text
    assert "    in_progress --> completed\n" in draw_lifecycle.draw()
    assert "    completed --> failed" not in draw_lifecycle.draw()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake test\nmake check\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


ROW = re.compile(r"^\| ([RS]\d+) \| (.+?) \| (.*?) ?\| (.+) \|$", re.MULTILINE)
REQUIREMENTS = ROW.findall((ROOT / "docs" / "requirements.md").read_text(encoding="utf-8"))


def test_every_point_of_the_requirements_is_in_the_table_once() -> None:
    points = [f"R{n}" for n in range(1, 64)] + [f"S{n}" for n in range(1, 22)]
    assert [row[0] for row in REQUIREMENTS] == points


@pytest.mark.parametrize("row", REQUIREMENTS, ids=lambda row: row[0])
def test_what_the_requirements_name_exists(row: tuple[str, str, str, str]) -> None:
    _, _, where, held = row
    for file in re.findall(r"`([^`]+)`", where):
        assert (ROOT / "src" / "callsheet" / file).exists() or (ROOT / file).exists(), file
    tests = re.findall(r"`([\w/]+\.py)::(\w+)`", held)
    for file, test in tests:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {test}\(", source, re.MULTILINE), test
    assert tests or "not built yet" in held or "`make bench`" in held
    assert bool(where) or held == "not built yet"
