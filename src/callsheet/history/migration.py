"""Histories of earlier versions, brought up to date once, when they are first opened.

0.1.0, and what came after it before this version, stored large texts as blobs: in the JSON of a payload, a
text that begins with NUL is a reference, `\\0blob:HASH` for a blob and `\\0text:…` for a text that itself
begins with NUL. 0.1.0 also trained zstd dictionaries of its own, and had rows without a key. Here the rows
are copied into new tables, and payloads that need it are encoded again, without references, and with the
shipped dictionary.

Versions from 3 on lack only columns: `add_origins` says of their rows who made them, as far as that is known.

All of it is one transaction, so a migration that fails changes nothing. The old tables are renamed meanwhile:
`Database.old` is what stands before their names.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import zstandard
from msgspec.structs import astuple

from callsheet.history.codec import Codec
from callsheet.history.database import Database
from callsheet.history.rows import Origin, name_and_version
from callsheet.history.schema import ADD_ORIGIN
from callsheet.history.store_errors import StoreDamaged

PAGE = 200
"""Rows that are encoded again at once."""

_MARK = b"\\u0000"
_BLOB, _TEXT = "\0blob:", "\0text:"

_SESSION_COLUMNS = "session_id, cwd, title, info, created_at, updated_at"
_MESSAGE_COLUMNS = "session_id, message_id, part, position, kind, at, size, payload"
_CALL_COLUMNS = (
    "session_id, call_id, position, name, title, kind, status, reason, at, updated_at, duration_ms, writer, "
    "size, payload"
)


def add_origins(db: Database) -> None:
    """Say of sessions and calls who made them, as far as the facts about the session had it."""
    for session_id, info in db.fetch("SELECT session_id, info FROM sessions"):
        try:
            facts: dict[str, Any] = msgspec.json.decode(info)
            name, version = name_and_version(str(facts.get("agent") or ""))
            source = str(facts.get("source") or "")
            origin = Origin(agent=name, agent_version=version, source=source)
        except (ValueError, AttributeError, TypeError):  # the row is damaged
            continue
        if origin.key is not None:
            db.fetch(ADD_ORIGIN, *astuple(origin), origin.key)
            for table in ("sessions", "calls"):
                db.fetch(
                    f"UPDATE {table} SET origin = ? WHERE session_id = ?", origin.key, session_id
                )


def copy_rows(db: Database, *, version: int) -> None:
    """Copy the rows of the old tables into new ones, which are empty and have no triggers yet.

    Args:
        db: The connection, within a transaction.
        version: The version of the old tables. The first had no keys, and on a server no `seq`.
    """
    old, calls, messages, order = db.old, "key", "key", "seq"
    if version == 1:
        calls, messages, order = "call_id", "message_id || ' ' || part", "at"
    db.prepare_for(at for (at,) in db.fetch(f"SELECT DISTINCT at FROM {old}calls"))
    for statement in (
        f"INSERT INTO sessions ({_SESSION_COLUMNS}) SELECT {_SESSION_COLUMNS} FROM {old}sessions",
        f"INSERT INTO calls ({_CALL_COLUMNS}, key) "
        f"SELECT {_CALL_COLUMNS}, {calls} FROM {old}calls ORDER BY {order}",
        f"INSERT INTO messages ({_MESSAGE_COLUMNS}, key) "
        f"SELECT {_MESSAGE_COLUMNS}, {messages} FROM {old}messages",
        "INSERT INTO unindexed SELECT seq FROM calls WHERE writer IS NULL",
    ):
        db.fetch(statement)
    codec = Codec([bytes(data) for (data,) in db.fetch(f"SELECT data FROM {old}dictionaries")])
    for table in ("calls", "messages"):
        _encode_again(db, table, codec)
        counts = [db.fetch_value(f"SELECT count(*) FROM {name}") for name in (table, old + table)]
        if counts[0] != counts[1]:
            raise StoreDamaged(f"Of {counts[1]} {table}, {counts[0]} could be migrated.")
    add_origins(db)


def _encode_again(db: Database, table: str, codec: Codec) -> None:
    """Encode the payloads of a table again that need it, page by page."""
    page = f"SELECT session_id, key, payload FROM {table} WHERE (session_id, key) > (?, ?) "
    last = ("", "")
    while rows := db.fetch(f"{page} ORDER BY session_id, key LIMIT ?", *last, PAGE):
        last = rows[-1][0], rows[-1][1]
        found = [(_encoded_again(payload, db, codec), *key, payload) for *key, payload in rows]
        db.execute_many(
            f"UPDATE {table} SET payload = ? WHERE session_id = ? AND key = ?",
            [(new, *key) for new, *key, payload in found if new is not payload],
        )


def _encoded_again(payload: bytes, db: Database, codec: Codec) -> bytes:
    """Return an old payload as it is now: the same one, if it can stay, or can't be read."""
    try:
        data = codec.decompress(payload)
        if _MARK in data:
            data = msgspec.json.encode(_with_texts(msgspec.json.decode(data), db, codec))
        elif zstandard.get_frame_parameters(payload).dict_id in (0, codec.dictionary_id):
            return payload
    except (StoreDamaged, ValueError, RecursionError):
        return payload
    return codec.compress([data])[0]


def _with_texts(value: Any, db: Database, codec: Codec) -> Any:
    """Return a value with the texts that its references stand for."""
    if type(value) is str:
        if value.startswith(_BLOB):
            key = bytes.fromhex(value[len(_BLOB) :])
            found = db.fetch_value(f"SELECT data FROM {db.old}blobs WHERE hash = ?", key)
            if found is None:
                raise StoreDamaged("a text is not in the store any more")
            return codec.decompress(found).decode()
        return value[len(_TEXT) :] if value.startswith(_TEXT) else value
    if type(value) is dict:
        pairs = cast("dict[str, Any]", value)
        return {key: _with_texts(one, db, codec) for key, one in pairs.items()}
    if type(value) is list:
        return [_with_texts(one, db, codec) for one in cast("list[Any]", value)]
    return value
