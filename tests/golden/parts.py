"""Everything of callsheet and of the other tests that the golden outputs use: change imports here only."""

from __future__ import annotations

from callsheet import (
    FileChange,
    Peer,
    PermissionDenied,
    PermissionOption,
    Session,
    ToolCallContent,
    ToolError,
    tool,
)
from callsheet.cli import main
from callsheet.redaction.redactor import Redactor
from callsheet.redaction.spans import MARKS
from callsheet.testing import FakeClock, Recorder
from tests.support.redaction import CLEAN, PLACES, SHAPES
from tests.support.secret_corpus import CONTEXTS, corpus

__all__ = [
    "CLEAN",
    "CONTEXTS",
    "PLACES",
    "SHAPES",
    "FakeClock",
    "FileChange",
    "Peer",
    "PermissionDenied",
    "PermissionOption",
    "Recorder",
    "Redactor",
    "Session",
    "ToolCallContent",
    "ToolError",
    "corpus",
    "forget_marks",
    "main",
    "tool",
]


def forget_marks() -> None:
    """Number the marks of secrets from the beginning, as in a process that has just started."""
    MARKS.__init__()
