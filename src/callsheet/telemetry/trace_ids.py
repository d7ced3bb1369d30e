"""The ids of traces and spans, made from those of sessions, turns and calls; and W3C trace context.

The same call always has the same ids. So what is sent twice, or live and later from the history, is one span.
A turn is a trace of its own, unless a client has sent a `traceparent`: then it is part of the client's. Calls
outside of any turn are in a trace of their session.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from msgspec import Struct

from callsheet.report.json import EMPTY, JsonObject, is_object

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
LONGEST = 8192
"""Characters of a `tracestate` or a `baggage` that is passed on: as many as the standards want."""

SAMPLED = 1


class TraceContext(Struct, frozen=True):
    """A span that others may be children of, and what is passed on with it."""

    trace_id: int
    span_id: int
    flags: int = SAMPLED
    state: str = ""
    baggage: str = ""

    @property
    def traceparent(self) -> str:
        """The context as the W3C has it."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"

    def meta(self) -> JsonObject:
        """Return the fields of a `_meta` that pass it on, in ACP and in MCP."""
        made = {"traceparent": self.traceparent, "tracestate": self.state, "baggage": self.baggage}
        return {name: value for name, value in made.items() if value}


def received(meta: object) -> TraceContext | None:
    """Return the context in a `_meta`, if there is one that the standard allows."""
    found = meta if is_object(meta) else EMPTY
    given = found.get("traceparent")
    match = _TRACEPARENT.fullmatch(given) if isinstance(given, str) else None
    if match is None or (match[4] and match[0].startswith("00")):  # later versions may have more
        return None
    trace_id, span_id, flags = (int(match[number], 16) for number in (1, 2, 3))
    if not trace_id or not span_id:
        return None
    state, baggage = (_text(found.get(name)) for name in ("tracestate", "baggage"))
    return TraceContext(trace_id, span_id, flags & SAMPLED, state, baggage)


def _text(value: object) -> str:
    is_fit = isinstance(value, str) and len(value) <= LONGEST and value.isprintable()
    return str(value) if is_fit else ""


def trace_id_of(session_id: str, turn: str) -> int:
    """Return the id of a turn's trace; of a session's own, if the turn is empty."""
    return _number(16, "trace", session_id, turn)


def turn_span_id(session_id: str, turn: str) -> int:
    """Return the id of a turn's span; of a session's own, if the turn is empty."""
    return _number(8, "turn", session_id, turn)


def call_span_id(session_id: str, turn: str, call_id: str) -> int:
    """Return the id of a call's span. `call_id` is the id by which its agent has reported it."""
    return _number(8, "call", session_id, turn, call_id)


def _number(size: int, *parts: str) -> int:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=size, person=b"callsheet").digest()) or 1
