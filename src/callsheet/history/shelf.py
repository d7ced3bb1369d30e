"""What waits to be written, packed: in order, within bounds, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from .log import Waiting
from .packing import Packer
from .rows import Batch, BlobRow, CallRow, MessageRow, SessionRow

MUCH = 1000
"""Rows that are written at once, and bytes of them."""
MUCH_BYTES = 8 << 20

Key = tuple[str, str]


class _Item(Struct, gc=False):
    row: CallRow | MessageRow
    blobs: list[BlobRow]
    size: int


Some = dict[Key, _Item]


class Shelf:
    """Holds what waits. A later state of the same thing takes the place of an earlier one."""

    def __init__(self) -> None:
        self.size: int = 0
        self.sessions: dict[str, SessionRow] = {}
        """The sessions of what was spooled."""
        self._items: dict[Key, _Item] = {}

    def __len__(self) -> int:
        return len(self._items)

    @classmethod
    def of(cls, batch: Batch) -> Shelf:
        """Return a shelf with what is in a batch."""
        shelf, blobs = cls(), {blob.hash: blob for blob in batch.blobs}
        shelf.sessions = {row.session_id: row for row in batch.sessions}
        for row in (*batch.calls, *batch.messages):
            shelf._put(
                (row.session_id, row.owner), row, [blobs[key] for key in row.blobs if key in blobs]
            )
        return shelf

    def put(
        self, given: dict[Key, Waiting], packer: Packer, refuse: Callable[[Exception], None]
    ) -> None:
        """Pack what was given. What can't be packed is told of."""
        folded: list[tuple[Key, CallRow | MessageRow, list[BlobRow]]] = []
        for key, item in given.items():
            try:
                folded.append((key, *item.fold(packer)))
            except Exception as exc:  # noqa: BLE001 - whatever it is, the others are kept
                refuse(exc)
        packer.press([row for _, row, _ in folded], [b for *_, blobs in folded for b in blobs])
        for key, row, blobs in folded:
            self._put(key, row, blobs)

    def _put(self, key: Key, row: CallRow | MessageRow, blobs: list[BlobRow]) -> None:
        size = len(row.payload) + 500
        if blobs:
            size += sum([len(blob.data) for blob in blobs])
        old = self._items.get(key)
        self.size += size - (old.size if old else 0)
        self._items[key] = _Item(row, blobs, size)

    def batch(self, sessions: Iterable[SessionRow], most: int) -> tuple[Batch, Some]:
        """Return as much as is written at once, `most` rows, and which items that are."""
        some, size = Some(), 0
        for key, item in self._items.items():
            some[key] = item
            size += item.size
            if len(some) >= most or size >= MUCH_BYTES:
                break
        return _batch(some.values(), sessions), some

    def all(self, sessions: Iterable[SessionRow]) -> Batch:
        """Return everything that waits."""
        return _batch(self._items.values(), sessions)

    def wrote(self, some: Some) -> int:
        """Let go of what was written, unless it has changed since. Return how many items that were."""
        same = [key for key, item in some.items() if self._items.get(key) is item]
        for key in same:
            self._pop(key)
        return len(same)

    def refuse(
        self, is_odd: Callable[[CallRow | MessageRow], bool], refuse: Callable[[Exception], None]
    ) -> None:
        """Let go of what is odd, and tell of each."""
        for key in [key for key, item in self._items.items() if is_odd(item.row)]:
            self._pop(key)
            refuse(ValueError("an id or a number of it can't be written"))

    def drop(self, limit: int) -> int:
        """Let go of the oldest, until what waits is small enough. Gives how many that were."""
        count = 0
        while self._items and self.size > limit:
            self._pop(next(iter(self._items)))
            count += 1
        return count

    def clear(self) -> None:
        """Let go of everything."""
        self._items, self.size = {}, 0

    def _pop(self, key: Key) -> None:
        self.size -= self._items.pop(key).size


def _batch(items: Iterable[_Item], sessions: Iterable[SessionRow]) -> Batch:
    batch = Batch(sessions=list(sessions))
    for item in items:
        if isinstance(item.row, CallRow):
            batch.calls.append(item.row)
        else:
            batch.messages.append(item.row)
        batch.blobs += item.blobs
    return batch
