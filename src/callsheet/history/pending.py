"""What waits to be written: entries as sessions report them, then rows, encoded and compressed.

An entry is encoded by the thread of the history, or, if the store takes too long, by whoever waits for it
to be durable. A later state of a call takes the place of an earlier one. Three counters track the progress:
entries that were put, that were encoded, and that are durable. Something is durable when `durable` reaches
the `put_count` that was seen then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import RLock

from callsheet.history.codec import Codec
from callsheet.history.rows import CallRow, MessageRow, RowBatch, SessionRow
from callsheet.history.sink import Waiting

BATCH_ROWS, BATCH_BYTES = 1000, 8 << 20
"""Rows that are written at once, and bytes of them."""

ROW_BYTES = 500
"""Bytes that a row takes in memory besides its payload, more or less."""

Key = tuple[str, str]
Row = CallRow | MessageRow


class Rows:
    """Rows that wait to be written, in order, and the sessions that they belong to."""

    def __init__(self, batch: RowBatch | None = None) -> None:
        self.sessions: dict[str, SessionRow] = {}
        self.size: int = 0
        self._rows: dict[Key, Row] = {}
        if batch is not None:
            self.sessions = {row.session_id: row for row in batch.sessions}
            self.add((*batch.calls, *batch.messages))

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows. One with the key of an earlier one replaces it."""
        for row in rows:
            key = row.session_id, row.key
            old = self._rows.get(key)
            self.size += len(row.payload) + ROW_BYTES
            if old is not None:
                self.size -= len(old.payload) + ROW_BYTES
            self._rows[key] = row

    def batch(self, most: int = 1 << 62, size: int = 1 << 62) -> RowBatch:
        """Return so many of the first rows, and all sessions, to be written at once."""
        batch = RowBatch(sessions=list(self.sessions.values()))
        for count, row in enumerate(self._rows.values(), 1):
            (batch.calls if isinstance(row, CallRow) else batch.messages).append(row)  # pyright: ignore[reportArgumentType]
            size -= len(row.payload)
            if count >= most or size <= 0:
                break
        return batch

    def remove(self, rows: Iterable[Row]) -> int:
        """Remove rows, unless they have changed since. Return how many that were."""
        count = 0
        for row in rows:
            key = row.session_id, row.key
            if self._rows.get(key) is row:
                del self._rows[key]
                self.size -= len(row.payload) + ROW_BYTES
                count += 1
        return count

    def remove_oldest(self, limit: int) -> int:
        """Remove the oldest rows, until `limit` bytes are left at most. Return how many that were."""
        before = len(self._rows)
        while self._rows and self.size > limit:
            self.remove([next(iter(self._rows.values()))])
        return before - len(self._rows)

    def clear(self) -> None:
        """Remove everything."""
        self._rows, self.size, self.sessions = {}, 0, {}


class Pending:
    """All that waits to be written in this process.

    `lock` is held for moments only, by whoever puts an entry. `busy` is held by whoever encodes entries, or
    takes rows away.
    """

    def __init__(self) -> None:
        self.lock: RLock = RLock()
        self.busy: RLock = RLock()
        self.rows: Rows = Rows()
        self.put_count: int = 0
        self.encoded: int = 0
        self.durable: int = 0
        self._entries: dict[Key, Waiting] = {}
        self._sessions: dict[str, SessionRow] = {}

    @property
    def has_entries(self) -> bool:
        """Whether there are entries that were not encoded yet."""
        return bool(self._entries)

    def put(self, key: Key, entry: Waiting, session: SessionRow) -> None:
        """Add an entry, which replaces an earlier one with the same key. The caller holds `lock`."""
        self._entries[key] = entry
        self._sessions[session.session_id] = session
        self.put_count += 1

    def encode(self, codec: Codec, refuse: Callable[[Exception], None]) -> int:
        """Encode the entries. The caller holds `busy`.

        Args:
            codec: The codec of this thread.
            refuse: Called for each entry that can't be encoded.

        Returns:
            The number of entries that are encoded now, of all that ever were put.
        """
        with self.lock:
            entries, self._entries = self._entries, {}
            self.rows.sessions |= self._sessions
            self._sessions = {}
            self.encoded = self.put_count
        rows: list[Row] = []
        for entry in entries.values():
            try:
                row = entry.to_row()
                if row.position >> 63:
                    raise ValueError(f"no position is {row.position}")  # noqa: TRY301
                rows.append(row)
            except Exception as exc:  # noqa: BLE001 - whatever it is, the others are stored
                refuse(exc)
        codec.compress(rows)
        self.rows.add(rows)
        return self.encoded

    def set_durable(self, count: int) -> None:
        """Record that the first so many entries are durable."""
        with self.lock:
            self.durable = max(self.durable, count)
