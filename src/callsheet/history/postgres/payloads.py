"""What payloads need before they can be read: dictionaries, and the blobs that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from callsheet.history.errors import StoreDamaged
from callsheet.history.packing import Packer


async def load_dictionaries(db: Any, packer: Packer) -> None:
    """Know every dictionary of the store, and use the one that was learned last."""
    for data, source in await db.fetch(
        "SELECT data, source FROM callsheet.dictionaries ORDER BY at"
    ):
        if source == "trained":
            packer.use(data)
        else:
            packer.know(data)


async def ready(
    db: Any, packer: Packer, payloads: Sequence[bytes]
) -> Callable[[bytes], bytes | None]:
    """See to it that payloads can be read. Gives what finds their blobs."""
    if not all(packer.knows(payload) for payload in payloads):
        await load_dictionaries(db, packer)  # another process has learned one
    names: set[bytes] = set()
    for payload in payloads:
        with suppress(StoreDamaged):  # whoever reads it will say so
            names.update(packer.blobs_of(payload))
    blobs: dict[bytes, bytes] = {}
    if names:
        sql = "SELECT hash, data FROM callsheet.blobs WHERE hash = ANY($1::bytea[])"
        blobs.update(tuple(row) for row in await db.fetch(sql, list(names)))
    return blobs.get
