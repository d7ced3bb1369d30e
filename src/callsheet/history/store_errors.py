"""The errors of a history, and a helper for their messages."""

from __future__ import annotations

from callsheet.report.errors import CallsheetError


def sentence(message: object) -> str:
    """Return a message as a sentence that another one can follow."""
    text = str(message).rstrip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


class HistoryError(CallsheetError):
    """Something is wrong with a history."""


class BadUrl(HistoryError):
    """A URL does not name a store."""


class StoreUnavailable(HistoryError):
    """A store can't be reached or written now. Later it may."""


class StoreDamaged(HistoryError):
    """A store's file is no database, or a damaged one."""


class StoreTooNew(HistoryError):
    """A store was made by a later version."""


class NotKept(HistoryError):
    """There is no such history, call or session."""
