"""History: every call kept, found, told again.

`History` writes what sessions do, off their hot path; `store_at` gives a store to read; `Replay` tells a
session again, as a client would have seen it live.
"""

from .errors import (
    BadUrl,
    HistoryError,
    NotKept,
    StoreDamaged,
    StoreTooNew,
    StoreUnavailable,
)
from .history import KEEP, History, HistoryHealth
from .log import SessionLog
from .places import chosen_url, default_file, store_at
from .replay import Replay
from .rows import (
    Head,
    Pruned,
    Query,
    Retention,
    Stats,
    StoredCall,
    StoredMessage,
    StoredSession,
    ToolStats,
    Vacuumed,
)
from .store import Store

__all__ = [
    "KEEP", "BadUrl", "Head", "History", "HistoryError", "HistoryHealth", "NotKept", "Pruned", "Query",
    "Replay", "Retention", "SessionLog", "Stats", "Store", "StoreDamaged", "StoreTooNew",
    "StoreUnavailable", "StoredCall", "StoredMessage", "StoredSession", "ToolStats", "Vacuumed",
    "chosen_url", "default_file", "store_at",
]  # fmt: skip
