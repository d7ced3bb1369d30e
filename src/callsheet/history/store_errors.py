"""What can be wrong with a history. Each message says what to do about it."""

from __future__ import annotations

from callsheet.report.errors import CallsheetError


def sentence(message: object) -> str:
    """Return a message as a sentence that another one can follow."""
    text = str(message).rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def counted(number: int, one: str, many: str) -> str:
    """Return a number of things: `1 call`, `2 calls`."""
    return f"{number:,} {one if number == 1 else many}"


class HistoryError(CallsheetError):
    """Something is wrong with a history."""


class BadUrl(HistoryError):
    """A store can't be named like this."""


class StoreUnavailable(HistoryError):
    """A store can't be reached or written now. Later it may."""


class StoreDamaged(HistoryError):
    """A store's file is no database, or a damaged one."""


class StoreTooNew(HistoryError):
    """A store was made by a later version."""


class NotKept(HistoryError):
    """There is no such call or session in the store."""
