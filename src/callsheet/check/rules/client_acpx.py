"""What acpx would print. It takes text out of raw output by the names of keys."""

from __future__ import annotations

from typing import Any

from callsheet.check.finding import Rule, Said
from callsheet.check.rules.shown import can_know
from callsheet.observe.events import CallClosed
from callsheet.observe.evidence import OUTPUT_KEYS
from callsheet.observe.model import many, obj, text


def output_has_no_key(over: CallClosed) -> Said | None:
    """Find a raw output of which acpx knows no key, where there is no content either."""
    call = over.call
    raw = obj(call.fields.get("rawOutput"))
    if call.ended is None or not raw or not over.is_known or not can_know(over.connection):
        return None
    if many(call.fields.get("content")) or not raw.keys().isdisjoint(OUTPUT_KEYS):
        return None
    if not any(_has_text(value) for value in raw.values()):
        return None  # numbers and flags are no output
    return Said(f"acpx knows none of its keys: {_some(list(raw))}", "update.rawOutput")


def _has_text(value: Any) -> bool:
    """Whether there is something to print in a value."""
    if type(value) is str:
        return bool(value.strip())
    return any(map(_has_text, many(value))) or any(map(_has_text, obj(value).values()))


def _some(keys: list[str]) -> str:
    named = ", ".join(key[:30] for key in keys[:5])
    return f"{named}, …" if len(keys) > 5 else named


def no_title(over: CallClosed) -> Said | None:
    """Find a call that was never given a title."""
    call = over.call
    if (text(call.fields.get("title")) or "").strip() or not can_know(over.connection):
        return None
    if not over.connection.is_whole or call.is_asked_first:
        return None
    return Said("acpx prints the id where the title should be", "update.title")


def _rule(name: str, **told: Any) -> Rule:
    return Rule(id=f"client/acpx-{name}", clients=("acpx",), **told)


RULES = (
    _rule(
        "unknown-output",
        severity="advice",
        moment=CallClosed,
        title="acpx does not know what is output",
        protocol="`rawOutput` may be any JSON. Text for people belongs into `content`.",
        harm="acpx prints the whole object as JSON, and people look for the output in it.",
        fix=f"Send the output as content, or name it {', '.join(OUTPUT_KEYS[:-1])} or {OUTPUT_KEYS[-1]}.",
        check=output_has_no_key,
        example='{"tool_call": "c1", "title": "ls", "kind": "execute", "status": "completed",'
        ' "rawOutput": {"listing": "a.py"}}',
    ),
    _rule(
        "no-title",
        severity="warning",
        moment=CallClosed,
        title="acpx prints an id for a title",
        protocol="A `tool_call` has a title.",
        harm="People read `call_00_Xk3…` and don't know what was done.",
        fix="Announce each call with a title.",
        check=no_title,
        example='{"tool_call": "c1", "title": "", "status": "completed"}',
    ),
)
