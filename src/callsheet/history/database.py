"""One connection to a store's database, in the dialect of its engine.

The program of a store (`store`, `queries`, `retention`, `migration`) is the same for SQLite and PostgreSQL,
and so are its tables (`schema`). What differs is a method of `Database`: how a statement is run, how words
are indexed and matched, how a process shows that it lives, how space is measured and released, and what an
error means. Statements are written in the SQL that both understand, with `?` for each value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from callsheet.history.codec import Codec

Values = Sequence[Any]
IndexedCall = tuple[int, Sequence[str]]
"""The `seq` of a call, and what can be found of it: see `search_text.search_fields`."""

PORTION = 500
"""Values of one list that are bound to one statement: engines have a limit."""


class Database(ABC):
    """A connection that shared statements run on."""

    begin: str = "BEGIN"
    for_update: str = ""
    """What a SELECT ends with to lock its rows until the end of the transaction."""
    for_share: str = ""
    """What a SELECT ends with so that nobody removes its rows until the end of the transaction."""
    day: str
    """The SQL for the day of a time, in UTC, with `{}` for its column."""
    old: str
    """What stands before the names of the old tables while they are migrated."""
    index_table: str
    """The table that has a row for each call in the index of words."""

    def __init__(self, url: str) -> None:
        self.url: str = url
        """Where the store is, without a password."""
        self.codec: Codec = Codec()

    # The connection

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether there is a connection, as far as is known."""

    @abstractmethod
    def connect(self, *, write: bool) -> list[str]:
        """Connect, and make or migrate the tables. Return what users should know."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection, if there is one."""

    @abstractmethod
    def error(self, exc: Exception) -> Exception:
        """Return our error for one that was raised while the database was used."""

    # Statements

    @abstractmethod
    def fetch(self, sql: str, *values: Any) -> Sequence[Values]:
        """Run a statement, and return its rows."""

    @abstractmethod
    def execute_many(self, sql: str, rows: Sequence[Values]) -> None:
        """Run a statement once with each of these rows of values."""

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Do all that is within, or nothing of it."""
        self.fetch(self.begin)
        try:
            yield
            self.fetch("COMMIT")
        except BaseException:
            with suppress(Exception):
                self.fetch("ROLLBACK")
            raise

    def fetch_value(self, sql: str, *values: Any) -> Any:
        """Return the first value of the first row, or None."""
        rows = self.fetch(sql, *values)
        return rows[0][0] if rows else None

    def fetch_in(self, sql: str, values: Values) -> list[Values]:
        """Run a statement with a list in the place of `{}`, in portions if it is long."""
        found: list[Values] = []
        for begin in range(0, len(values), PORTION):
            some = values[begin : begin + PORTION]
            found += self.fetch(sql.format(", ".join("?" * len(some))), *some)
        return found

    def prepare_for(self, times: Iterable[float]) -> None:  # noqa: B027
        """Make room for calls of these times, outside of a transaction."""

    def partitions_before(self, at: float) -> Sequence[str]:  # noqa: ARG002
        """Return the tables that hold only ended calls from before a time, and can be dropped as a whole."""
        return ()

    def drop_partition(self, table: str) -> bool:
        """Drop such a table, unless somebody uses it. Return whether that was done."""
        raise NotImplementedError(table)

    @contextmanager
    def patiently(self) -> Generator[None]:
        """Let statements within take long."""
        yield

    @abstractmethod
    def version(self) -> str:
        """Return what is another one as soon as something was written.

        Raises:
            HistoryError: The store is not there any more, or not the one that was opened.
        """

    # A process that writes holds a lock, which is released however the process ends

    @abstractmethod
    def hold(self, writer: str) -> None:
        """Hold the lock of this process. Called again with every batch."""

    def release_lock(self) -> None:  # noqa: B027
        """Close what holds the lock. A forked child does so, too: the lock lasts as long as its parent."""

    @abstractmethod
    def is_gone(self, writer: str) -> bool:
        """Return whether nobody holds the lock of a writer, within a transaction."""

    # Searching

    @abstractmethod
    def match(self, phrases: list[list[str]], *, in_paths: bool = False) -> tuple[str, Values]:
        """Return a condition for `seq`, and its values, for a search.

        Every phrase must occur. The last word may go on: it is a beginning.

        Args:
            phrases: The words of each phrase.
            in_paths: Look only in paths and commands.
        """

    @abstractmethod
    def add_words(self, calls: Sequence[IndexedCall]) -> None:
        """Add calls to the index of words."""

    @abstractmethod
    def remove_words(self, calls: Sequence[IndexedCall]) -> None:
        """Remove calls from the index of words. Some may not be in it."""

    # Space

    @abstractmethod
    def disk_bytes(self) -> int:
        """Return the bytes that the database takes on the disk."""

    @abstractmethod
    def used_bytes(self) -> int:
        """Return how many of these bytes are in use."""

    def release(self) -> None:  # noqa: B027
        """Release the space of what was removed. A server does that by itself, with its autovacuum."""

    @abstractmethod
    def vacuum(self) -> None:
        """Make the database as small as it can be."""
