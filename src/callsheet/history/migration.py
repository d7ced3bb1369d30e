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

from callsheet.history.codec import Codec
from callsheet.history.database import Database
from callsheet.history.rows import WaitingRow
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


def _encode_again(db: Database, table: str, old: Codec) -> None:
    """Encode the payloads of a table again that need it, page by page."""

    def find_blob(key: bytes) -> bytes | None:
        return db.fetch_value(f"SELECT data FROM {OLD}.blobs WHERE hash = ?", key)

    page = f"SELECT session_id, key, payload FROM {table} WHERE (session_id, key) > (?, ?) "
    last = ("", "")
    while rows := db.fetch(f"{page} ORDER BY session_id, key LIMIT ?", *last, PAGE):
        last = rows[-1][0], rows[-1][1]
        found = [(encoded_again(payload, old, find_blob), *key, payload) for *key, payload in rows]
        db.execute_many(
            f"UPDATE {table} SET payload = ? WHERE session_id = ? AND key = ?",
            [(new, *key) for new, *key, payload in found if new is not payload],
        )


def encoded_again(payload: bytes, old: Codec, find_blob: FindBlob) -> bytes:
    """Return an old payload as it is now: the same one, if it can stay, or can't be read."""
    try:
        data = old.decompress(payload)
        if _MARK in data:
            data = msgspec.json.encode(_with_texts(msgspec.json.decode(data), old, find_blob))
        elif zstandard.get_frame_parameters(payload).dict_id in (0, old.dictionary_id):
            return payload
    except (StoreDamaged, ValueError, RecursionError):
        return payload
    return old.compress([data])[0]


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


def decode_old_batch(body: bytes) -> list[WaitingRow]:
    """Return the rows that 0.1.0 has left in a file. Raise a `MsgspecError` if it is no batch."""
    batch = msgspec.msgpack.decode(body, type=dict[str, Any])
    codec, sessions = Codec(), dict[str, Any]()
    blobs = {blob["hash"]: blob["data"] for blob in batch.get("blobs", ())}
    for one in batch.get("sessions", ()):
        sessions[one["session_id"]] = {**one, "info": msgspec.json.decode(one["info"])}
    rows: list[dict[str, Any]]
    rows = [{**row, "type": "call", "key": row["call_id"]} for row in batch.get("calls", ())]
    rows += [
        {**row, "type": "message", "key": f"{row['message_id']} {row['part']}"}
        for row in batch.get("messages", ())
    ]
    for row in rows:
        row["payload"] = encoded_again(row["payload"], codec, blobs.get)
    return msgspec.convert([(sessions[row["session_id"]], row) for row in rows], list[WaitingRow])
