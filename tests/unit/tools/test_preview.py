"""Nobody approves blind: what a tool would do is shown to whoever is asked whether it may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callsheet import Session, ToolResult
from callsheet.report.content import DiffContent
from callsheet.runtime.permission import Question
from callsheet.testing import Recorder

OLD, NEW = "one\ntwo\nthree\n", "one\n2\nthree\n"
EDIT = {"path": "a.txt", "old_text": "two", "new_text": "2"}


class Asked:
    """Answers, and keeps what it was asked, and what was in the file then."""

    def __init__(self, place: Path, answer: str = "allow_once") -> None:
        self.questions: list[Question] = []
        self.texts: list[str | None] = []
        self._file: Path = place / "a.txt"
        self._answer: str = answer

    def __call__(self, question: Question) -> str:
        self.questions.append(question)
        self.texts.append(self._file.read_text() if self._file.exists() else None)
        return self._answer


async def run(
    place: Path, asked: Asked, name: str, given: dict[str, Any], **options: Any
) -> tuple[ToolResult, Recorder]:
    recorder = Recorder()
    options = {"on_permission": asked, "on_update": recorder, **options}
    async with Session(cwd=place, **options) as session:
        result = await session.run(name, given)
    return result, recorder


def changes(items: Any) -> list[tuple[str, str | None, str | None]]:
    return [
        (Path(change.path).name, change.old_text, change.new_text)
        for item in items
        if isinstance(item, DiffContent)
        for change in item.changes
    ]


@pytest.mark.parametrize(
    ("name", "given", "before", "after"),
    [
        ("edit", EDIT, OLD, NEW),
        ("write", {"path": "a.txt", "content": NEW}, OLD, NEW),
        ("write", {"path": "a.txt", "content": NEW}, None, NEW),
    ],
    ids=["edit", "write", "new file"],
)
async def test_the_change_is_shown_before_it_is_made(tmp_path, name, given, before, after):
    if before is not None:
        (tmp_path / "a.txt").write_text(before)
    asked = Asked(tmp_path)
    result, recorder = await run(tmp_path, asked, name, given, strict=True)
    assert result.success
    (question,) = asked.questions
    assert changes(question.report.content) == [("a.txt", before, after)]
    assert asked.texts == [before]
    (call,) = recorder.fold()
    assert changes(call.content) == [("a.txt", before, after)]


async def test_a_denied_change_is_still_seen_and_not_made(tmp_path):
    (tmp_path / "a.txt").write_text(OLD)
    asked = Asked(tmp_path, "reject_once")
    result, recorder = await run(tmp_path, asked, "edit", EDIT, strict=True)
    assert result.metadata["error_code"] == "permission_denied"
    assert (tmp_path / "a.txt").read_text() == OLD
    (call,) = recorder.fold()
    assert changes(call.content) == [("a.txt", OLD, NEW)]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({**EDIT, "old_text": "four"}, "execution_failed"),
        ({**EDIT, "new_text": "two"}, "invalid_arguments"),
        ({**EDIT, "path": "missing.txt"}, "not_found"),
    ],
    ids=["text", "same", "file"],
)
async def test_what_can_not_be_done_is_not_asked_about(tmp_path, given, code):
    (tmp_path / "a.txt").write_text(OLD)
    asked = Asked(tmp_path)
    result, _ = await run(tmp_path, asked, "edit", given)
    assert result.metadata["error_code"] == code
    assert asked.questions == []


async def test_an_edit_outside_the_workspace_is_shown_to_whoever_is_asked(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "a.txt").write_text(OLD)
    asked = Asked(tmp_path, "reject_once")
    await run(tmp_path / "place", asked, "edit", {**EDIT, "path": "../a.txt"})
    (question,) = asked.questions
    assert changes(question.report.content) == [("a.txt", OLD, NEW)]


@pytest.mark.parametrize("path", ["../a.txt", "../missing.txt"])
async def test_nothing_is_revealed_of_files_outside_the_workspace_before_somebody_says_yes(
    tmp_path, path
):
    (tmp_path / "place").mkdir()
    (tmp_path / "a.txt").write_text(OLD)
    asked = Asked(tmp_path, "reject_once")
    given = {**EDIT, "path": path, "old_text": "four"}
    result, _ = await run(tmp_path / "place", asked, "edit", given)
    assert result.metadata["error_code"] == "permission_denied"
    assert "three" not in str(result.to_dict())
    assert len(asked.questions) == 1


async def test_a_small_change_of_a_large_file_can_be_asked_about(tmp_path):
    (tmp_path / "a.txt").write_text("".join(f"line {i}\n" for i in range(300_000)) + OLD)
    asked = Asked(tmp_path)
    result, _ = await run(tmp_path, asked, "edit", EDIT)
    assert result.success
    ((_, before, after),) = changes(asked.questions[0].report.content)
    assert "two" in (before or "")
    assert "two" not in (after or "")
