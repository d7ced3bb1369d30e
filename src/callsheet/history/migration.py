"""Histories of earlier versions, brought up to date once, when they are first opened.

0.1.0, and what came after it before this version, stored large texts as blobs: in the JSON of a payload, a
text that begins with NUL is a reference, `\\0blob:HASH` for a blob and `\\0text:…` for a text that itself
begins with NUL. 0.1.0 also trained zstd dictionaries of its own, and had rows without a key. Here the rows
are copied into new tables, and payloads that need it are encoded again, without references, and with the
shipped dictionary.

All of it is one transaction. On a server, the old tables move into a schema `callsheet_old` meanwhile. A
file is copied first, and attached under that name; the copy is removed when the new tables are durable.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import zstandard
from msgspec import Struct

from callsheet.history.codec import Codec
from callsheet.history.database import Database
from callsheet.history.rows import RowBatch
from callsheet.history.sqlite_file import connection
from callsheet.history.store_errors import StoreDamaged

OLD = "callsheet_old"
PAGE = 200
"""Rows that are encoded again at once."""

_MARK = b"\\u0000"
_BLOB, _TEXT = "\0blob:", "\0text:"

FindBlob = Callable[[bytes], bytes | None]
"""Returns the compressed data of a blob by its hash, or None if there is none."""

_SESSION_COLUMNS = "session_id, cwd, title, info, created_at, updated_at"
_MESSAGE_COLUMNS = "session_id, message_id, part, position, kind, at, size, payload"
_CALL_COLUMNS = (
    "session_id, call_id, position, name, title, kind, status, reason, at, updated_at, duration_ms, writer, "
    "size, payload"
)


def copy_to(file: Path) -> Path:
    """Copy the database of a file, and return where the copy is. It is for its owner alone."""
    copy = file.with_name(file.name + ".before-migration")
    remove_copy(copy)
    os.close(os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(connection(file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
    except BaseException:
        remove_copy(copy)
        raise
    return copy


def remove_copy(copy: Path) -> None:
    """Remove the copy of a file, and what SQLite has put beside it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(FileNotFoundError):
            copy.with_name(copy.name + suffix).unlink()


def copy_rows(db: Database, *, version: int) -> None:
    """Copy the rows of the old tables into new ones, which are empty and have no triggers yet.

    Args:
        db: The connection, within a transaction, with the old tables in `callsheet_old`.
        version: The version of the old tables. The first had no keys, and on a server no `seq`.
    """
    calls, messages, order = "key", "key", "seq"
    if version == 1:
        calls, messages, order = "call_id", "message_id || ' ' || part", "at"
    for statement in (
        f"INSERT INTO sessions SELECT {_SESSION_COLUMNS} FROM {OLD}.sessions",
        f"INSERT INTO writers SELECT id, pid, started_at, seen_at FROM {OLD}.writers",
        f"INSERT INTO calls ({_CALL_COLUMNS}, key) "
        f"SELECT {_CALL_COLUMNS}, {calls} FROM {OLD}.calls ORDER BY {order}",
        f"INSERT INTO messages ({_MESSAGE_COLUMNS}, key) "
        f"SELECT {_MESSAGE_COLUMNS}, {messages} FROM {OLD}.messages",
        "INSERT INTO unindexed SELECT seq FROM calls WHERE writer IS NULL",
    ):
        db.fetch(statement)
    old = Codec([bytes(data) for (data,) in db.fetch(f"SELECT data FROM {OLD}.dictionaries")])
    for table in ("calls", "messages"):
        _encode_again(db, table, old)
        counts = [
            db.fetch_value(f"SELECT count(*) FROM {name}") for name in (table, f"{OLD}.{table}")
        ]
        if counts[0] != counts[1]:
            raise StoreDamaged(f"Of {counts[1]} {table}, {counts[0]} could be migrated.")


class _Payload(Struct):
    payload: bytes
    session_id: str
    key: str


def _encode_again(db: Database, table: str, old: Codec) -> None:
    """Encode the payloads of a table again that need it, page by page."""

    def find_blob(key: bytes) -> bytes | None:
        return db.fetch_value(f"SELECT data FROM {OLD}.blobs WHERE hash = ?", key)

    page = f"SELECT session_id, key, payload FROM {table} WHERE (session_id, key) > (?, ?) "
    last = ("", "")
    while rows := db.fetch(f"{page} ORDER BY session_id, key LIMIT ?", *last, PAGE):
        last = rows[-1][0], rows[-1][1]
        found = [(row, plain_again(row[2], old, find_blob)) for row in rows]
        changed = [_Payload(data, row[0], row[1]) for row, data in found if data is not None]
        old.compress(changed)
        db.execute_many(
            f"UPDATE {table} SET payload = ? WHERE session_id = ? AND key = ?",
            [(one.payload, one.session_id, one.key) for one in changed],
        )


def plain_again(payload: bytes, old: Codec, find_blob: FindBlob) -> bytes | None:
    """Return the JSON of an old payload as it is now; None if the payload can stay, or can't be read."""
    try:
        data = old.decompress(payload)
        if _MARK in data:
            return msgspec.json.encode(_with_texts(msgspec.json.decode(data), old, find_blob))
        has_own = zstandard.get_frame_parameters(payload).dict_id not in (0, old.dictionary_id)
    except (StoreDamaged, ValueError, RecursionError):
        return None
    return data if has_own else None


def _with_texts(value: Any, old: Codec, find_blob: FindBlob) -> Any:
    """Return a value with the texts that its references stand for."""
    if type(value) is str:
        if value.startswith(_BLOB):
            found = find_blob(bytes.fromhex(value[len(_BLOB) :]))
            if found is None:
                raise StoreDamaged("a text is not in the store any more")
            return old.decompress(found).decode()
        return value[len(_TEXT) :] if value.startswith(_TEXT) else value
    if type(value) is dict:
        pairs = cast("dict[str, Any]", value)
        return {key: _with_texts(one, old, find_blob) for key, one in pairs.items()}
    if type(value) is list:
        return [_with_texts(one, old, find_blob) for one in cast("list[Any]", value)]
    return value


def decode_batch(body: bytes) -> RowBatch:
    """Return a batch of a spool, as this or an earlier version has written it.

    Raises:
        MsgspecError: It is no batch.
    """
    raw = msgspec.msgpack.decode(body)
    if isinstance(raw, dict) and "blobs" in (batch := cast("dict[str, Any]", raw)):
        blobs = {blob["hash"]: blob["data"] for blob in batch["blobs"]}
        codec = Codec()
        for row in (*batch["calls"], *batch["messages"]):
            old_key = row["call_id"] if "call_id" in row else f"{row['message_id']} {row['part']}"
            row["key"] = row.get("key") or old_key
            data = plain_again(row["payload"], codec, blobs.get)
            if data is not None:
                again = _Payload(data, "", "")
                codec.compress([again])
                row["payload"] = again.payload
    return msgspec.convert(raw, RowBatch)
