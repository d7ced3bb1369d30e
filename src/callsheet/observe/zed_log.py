"""Read the log of ACP messages that Zed copies to the clipboard (`dev: open acp logs`, then Copy All).

It is one array of JSON over many lines, without times, as seen from the client:

    [{"_direction": "outgoing", "_type": "request", "id": 0, "method": "initialize", "params": {…}}, …]

A response has the method that it answers, and its result, or its error, as `params`. A log that was cut is
read as far as it goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from msgspec import Struct

from callsheet.observe.model import Json, obj, text

is_zed_log = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[\s*\{\s*"_(?:direction|type)"\s*:').match
"""Whether data begins as such a log does."""

_BETWEEN = re.compile(r"[\s,\[\ufeff]*")
_ERROR = frozenset(("code", "message", "data"))


class LoggedMessage(Struct):
    """An entry of the log: the line on which it begins, and its message, if it can be read."""

    line: int
    message: Json | None = None
    is_of_client: bool = False


def read_log(data: bytes) -> Iterator[LoggedMessage]:
    """Yield the entries of a log. The last has no message if the log breaks off within it."""
    log, decoder = data.decode(errors="replace"), json.JSONDecoder()
    place, line = 0, 1
    while True:
        between = _BETWEEN.match(log, place)
        begin = between.end() if between is not None else place
        line += log.count("\n", place, begin)
        if begin >= len(log) or log[begin] == "]":
            return
        try:
            entry, place = decoder.raw_decode(log, begin)
        except (ValueError, RecursionError):
            yield LoggedMessage(line)
            return
        yield LoggedMessage(line, _message(obj(entry)), obj(entry).get("_direction") == "outgoing")
        line += log.count("\n", begin, place)


def _message(entry: Json) -> Json | None:
    """Return the message of JSON-RPC that an entry stands for."""
    method, params = text(entry.get("method")), entry.get("params")
    message: Json = {"jsonrpc": "2.0"}
    if entry.get("id") is not None:
        message["id"] = entry["id"]
    if entry.get("_type") == "response":
        failed = obj(params)
        is_error = {"code", "message"} <= failed.keys() <= _ERROR and type(failed["code"]) is int
        return {**message, "error" if is_error else "result": params}
    return {**message, "method": method, "params": params} if method else None
