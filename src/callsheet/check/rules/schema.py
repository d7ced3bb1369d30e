"""Is each message valid by the official schema of the agreed version, and by JSON-RPC 2.0?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callsheet.acp import schemas
from callsheet.check.finding import Violation, rule
from callsheet.observe.events import MessageSeen

_MOST = 5
"""Breaches of one message that are reported, at most."""


@rule("schema/invalid", MessageSeen, screen=True)
def not_valid(event: MessageSeen) -> Sequence[Violation] | None:
    """Find a message that is invalid in its version of the protocol."""
    message, method = event.message, event.method
    if method is not None:
        value = message.get("params")
        return _judged(event, (method, False), "params", {} if value is None else value)
    if "error" in message:
        return _broken(_versions(event), "Error", "error", message["error"])
    if event.answers and "result" in message:
        return _judged(event, (event.answers, True), "result", message["result"])
    return None


def _judged(
    event: MessageSeen, what: tuple[str, bool], begin: str, value: Any
) -> Sequence[Violation] | None:
    versions = _versions(event)
    for version in versions:
        found = schemas.definition(version, what)
        if found is None or found.is_valid(value) or (value is None and found.may_be_null):
            return None
    first = schemas.definition(versions[0], what) if versions else None
    return _broken(versions[:1], first.name, begin, value) if first is not None else None


def _versions(event: MessageSeen) -> Sequence[int]:
    """Return the versions that a message may be of: before one is agreed on, each."""
    seen = event.connection
    version = seen.spoken if seen.version is None else seen.version
    if version is None or event.method == "initialize" or event.answers == "initialize":
        return schemas.VERSIONS
    return _ONLY.get(version, ())


_ONLY = {version: (version,) for version in schemas.VERSIONS}


def _broken(
    versions: Sequence[int], name: str, begin: str, value: Any
) -> Sequence[Violation] | None:
    if not versions or any(schemas.is_valid(one, name, value) for one in versions):
        return None
    found = schemas.breaches(versions[0], name, value)[:_MOST]
    return [Violation(_sentence(one), _field(begin, one.path)) for one in found]


def _sentence(breach: schemas.Breach) -> str:
    last = breach.path[-1] if breach.path else None
    if breach.words.startswith("`") or not isinstance(last, str):
        return breach.words
    return f"`{last}` {breach.words}"


def _field(begin: str, path: Sequence[str | int]) -> str:
    """Return a path in the usual notation: `update.content[0].type`."""
    if begin == "params" and path[:1] == ("update",):
        begin, path = "update", path[1:]
    return begin + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path)


@rule("schema/not-json-rpc", MessageSeen, screen=True)
def not_json_rpc(event: MessageSeen) -> Violation | None:
    """Find a message that is not one of JSON-RPC 2.0."""
    message = event.message
    if message.get("jsonrpc") != "2.0":
        return Violation('`jsonrpc` must be "2.0"', "jsonrpc")
    if event.method is not None:
        return None
    if "method" in message:
        return Violation("`method` must be a string", "method")
    if "id" not in message:
        return Violation("it has neither a method nor an id")
    if ("result" in message) == ("error" in message):
        return Violation("a response has either a result or an error")
    return None
