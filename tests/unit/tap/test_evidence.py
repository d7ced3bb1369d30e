"""What a result says of how a call went: the agent's words at its edges, not what stands in it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import SUPPORT
from tests.support.tap_ends import draft_of, ending, turn, words

CORPUS: dict[str, Any] = tomllib.loads((SUPPORT / "outcomes.toml").read_text())


def failed() -> Iterator[tuple[str, str, str]]:
    for code, texts in CORPUS["exit_code"].items():
        for said in texts:
            yield "execute", said, "exit_code" if code != "0" else ""
    for group in CORPUS["failed"]:
        for kind in group["kinds"]:
            for said in group["texts"]:
                yield kind, said, group["reason"]


def fine() -> Iterator[tuple[str, str, str]]:
    for group in CORPUS["fine"]:
        for command in group.get("commands", ["make"]):
            for kind in group.get("kinds", ["execute"]):
                for said in group["texts"]:
                    yield kind, said, command


def end_of(kind: str, command: str, status: str = "completed", **told: Any) -> Any:
    key = "command" if kind == "execute" else "path"
    call = turn().call("a", status, kind=kind, rawInput={key: command}, **told)
    return ending(draft_of(call))


def test_the_corpus_is_large() -> None:
    assert len({said for _, said, _ in failed()}) >= 60
    assert len({(said, command) for _, said, command in fine()}) >= 60


@pytest.mark.parametrize("field", ["content", "rawOutput"])
def test_failures_that_are_reported_as_completed_are_failed(field: str) -> None:
    wrong: list[Any] = []
    for kind, said, reason in failed():
        told = {field: words(said) if field == "content" else said}
        status = {"": "completed", "cancelled": "cancelled"}.get(reason, "failed")
        found = end_of(kind, "make", **told)
        if found != (status, reason or None):
            wrong.append((kind, said, reason, found))
    assert wrong == []


@pytest.mark.parametrize("field", ["content", "rawOutput"])
def test_what_only_looks_like_a_failure_stays_completed(field: str) -> None:
    wrong: list[Any] = []
    for kind, said, command in fine():
        told = {field: words(said) if field == "content" else said}
        found = end_of(kind, command, **told)
        if found != ("completed", None):
            wrong.append((kind, said, command, found))
    assert wrong == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("User refused permission", "denied"),
        ("Cancelled by user", "cancelled"),
        ("boom", "tool_error"),
    ],
)
def test_a_command_that_would_exit_3_and_did_not_run_is_no_exit_code(
    said: str, reason: str
) -> None:
    _, found = end_of("execute", "echo a; exit 3", "failed", content=words(said))
    assert found == reason
