"""Store every call, search the stored calls, and replay sessions.

`History` writes what sessions report, off their hot path; `store_at` returns a store to read; `Replay` sends
a session again, as a client would have seen it live. What is named here is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callsheet.history.history import History
    from callsheet.history.replay import Replay
    from callsheet.history.rows import (
        KEEP,
        Head,
        Pruned,
        Query,
        Retention,
        Stats,
        StoredCall,
        StoredMessage,
        StoredSession,
        ToolStats,
    )
    from callsheet.history.sink import SessionLog
    from callsheet.history.store import Store
    from callsheet.history.store_errors import (
        BadUrl,
        HistoryError,
        NotKept,
        StoreDamaged,
        StoreTooNew,
        StoreUnavailable,
    )
    from callsheet.history.url import chosen_url, default_file, store_at
    from callsheet.history.writer import HistoryHealth

__all__ = [
    "KEEP", "BadUrl", "Head", "History", "HistoryError", "HistoryHealth", "NotKept", "Pruned", "Query",
    "Replay", "Retention", "SessionLog", "Stats", "Store", "StoreDamaged", "StoreTooNew",
    "StoreUnavailable", "StoredCall", "StoredMessage", "StoredSession", "ToolStats",
    "chosen_url", "default_file", "store_at",
]  # fmt: skip

_MODULES = ("store_errors", "rows", "url", "store", "replay", "history")
"""Where these names are, those modules first that are imported quickly."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = import_module(f"{__name__}.{module}")
            if hasattr(found, name):
                globals()[name] = getattr(found, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
