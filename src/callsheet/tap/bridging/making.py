"""Messages that the bridge makes. Each is held against the official schema of the side that it goes to.

What comes in may be anything. So nothing here trusts it: if what is made of it is not valid, `InvalidParams`
says why, and the message is refused or passed on as it came.
"""

from __future__ import annotations

from callsheet.acp.jsonrpc import InvalidParams, ProtocolError
from callsheet.acp.official import breaches, definition
from callsheet.report.json import JsonObject, JsonValue


class Cancelled(ProtocolError):
    """A request was taken back before anything came of it."""

    code = -32800
    label = "Request cancelled"


class UnknownSession(ProtocolError):
    """No session has that id."""

    code = -32002
    label = "Resource not found"


def as_text(value: JsonValue, what: str) -> str:
    """Return a text back, or raise `InvalidParams`."""
    if not isinstance(value, str):
        raise InvalidParams(f"{what}: expected text")
    return value


def fit(version: int, method: str, value: JsonValue, *, answer: bool = False) -> JsonValue:
    """Return params, or an answer, back if the official schema takes it, else raise `InvalidParams`."""
    known = definition(version, (method, answer))
    if known is None or known.is_valid(value):
        return value
    path, words = breaches(version, known.name, value)[0]
    where = ".".join(map(str, path))
    raise InvalidParams(f"{where}: {words}" if where else words)


def request(version: int, like: JsonObject, method: str, params: JsonValue) -> JsonObject:
    """Return a request or a notification with other words, under the same id."""
    return {**like, "method": method, "params": fit(version, method, params)}


def answer(version: int, asked: JsonObject, result: JsonValue) -> JsonObject:
    """Return the answer to a request, for the one who asked."""
    told = fit(version, str(asked.get("method")), result, answer=True)
    return {"jsonrpc": "2.0", "id": asked.get("id"), "result": told}


def failure(asked: JsonObject, error: ProtocolError) -> JsonObject:
    """Return the answer that says what is wrong."""
    return {"jsonrpc": "2.0", "id": asked.get("id"), "error": error.to_error()}


def update(
    version: int, session_id: str, told: JsonObject, like: JsonObject | None = None
) -> JsonObject:
    """Return a `session/update`; in place of another one, with what else that says."""
    message: JsonObject = like or {"jsonrpc": "2.0", "method": "session/update"}
    params = {**message.get("params", {}), "sessionId": session_id, "update": told}
    return {**message, "params": fit(version, "session/update", params)}
