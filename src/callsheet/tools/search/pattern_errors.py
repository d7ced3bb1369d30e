"""What is wrong with a pattern, and where."""

from __future__ import annotations


class PatternError(ValueError):
    """A pattern that can't be searched for. Positions count characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position: int = position


class Unsupported(PatternError):
    """A pattern that only ripgrep can search for."""
