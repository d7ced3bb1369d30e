"""Does a call stay small on the wire: is nothing sent that is known already, and no message too big?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from callsheet.check.finding import Rule, Said
from callsheet.observe.events import LARGE, CallClosed, LargeMessage
from callsheet.observe.model import Json, ObservedCall, Repetition, obj

FLOOR = 256 * 1024
"""Bytes that a call may take on the wire, whatever it says."""

TIMES = 8
"""Bytes on the wire per byte of what people see in the end, at most."""

ENVELOPE = 512
"""Bytes of a message that are not what it tells."""

AGAIN = 1024
"""Bytes that a call may send again."""

GROWTHS = 3
"""Times that a long text may grow and be sent again."""

SAME = 1024
"""A text that is as long is long enough to be sent only once."""

_MB = 1024 * 1024

FLOOD = 40
"""Updates of a call in a second, at most. Eyes and screens take fewer."""


def amplified(over: CallClosed) -> Said | None:
    """Find a call that takes many times the bytes of what it tells in the end."""
    call = over.call
    if call.wire_bytes < FLOOR or not over.is_known:
        return None
    told = told_bytes(call)
    envelopes = ENVELOPE * (call.updates + len(call.questions))
    if call.wire_bytes <= FLOOR + TIMES * told + envelopes:
        return None
    times = f"{call.wire_bytes / max(told, 1):.0f} times the {_size(told)} that it tells"
    return Said(f"{_size(call.wire_bytes)} in {call.updates} updates: {times}")


def told_bytes(call: ObservedCall) -> int:
    """Return the bytes of what a call tells in the end: its input, and its output once."""
    fields = call.fields
    output = max(_encoded(fields.get("content")), _encoded(fields.get("rawOutput")))
    given = max(_encoded(one.get("rawInput")) for one in (fields, *_asked(call)))
    return given + max(output, call.output_bytes, call.news_bytes)


def _asked(call: ObservedCall) -> Iterator[Json]:
    """Return what questions tell of a call. They may have all of an input that is cut elsewhere."""
    return (question.tool_call for question in call.questions)


def sent_again(over: CallClosed) -> Iterator[Said]:
    """Find fields that were sent again as they were."""
    for (name, how), again in over.call.again.items():
        if how == "same" and again.size > AGAIN:
            yield _again(name, again, "unchanged")


def grows(over: CallClosed) -> Iterator[Said]:
    """Find fields that were sent again and again, each time with a little more."""
    for (name, how), again in over.call.again.items():
        if how == "grown" and again.times >= GROWTHS:
            yield _again(name, again, "with more at its end")


def _again(name: str, again: Repetition, how: str) -> Said:
    times = f"{again.times} times" if again.times > 1 else "once"
    message = f"{name} was sent again {times} {how}: {_size(again.size)} that were known"
    return Said(message, f"update.{name}", line=again.line)


def output_twice(over: CallClosed) -> Said | None:
    """Find a long text that is in the content and in the raw output."""
    fields = over.call.fields
    shown = [text for text in _texts(fields.get("content")) if len(text) >= SAME]
    if not shown:
        return None
    raw = [text for text in _texts(fields.get("rawOutput")) if len(text) >= SAME]
    twice = sum(len(text) for text in shown if _is_in(text, raw))
    if not twice:
        return None
    return Said(f"{_size(twice)} of the content are in rawOutput, too", "update.rawOutput")


def _is_in(text: str, raw: list[str]) -> bool:
    core = text.strip("`\n ")
    core = core.partition("\n")[2] if text.startswith("```") else core
    return bool(core) and any(core in other or other.strip() in text for other in raw)


def flood(over: CallClosed) -> Said | None:
    """Find a call with more updates than anybody can see."""
    if over.call.busiest <= FLOOD:
        return None
    return Said(f"{over.call.busiest} updates within a second")


def _bigger(least: int, most: int | None) -> Callable[[LargeMessage], Said | None]:
    """Make a rule of messages of the agent that are bigger than one size, and not than the next."""

    def check(big: LargeMessage) -> Said | None:
        size = big.line.size
        if size <= least or big.sender == "client" or (most is not None and size > most):
            return None
        return Said(f"the message has {_size(size)}")

    return check


_over_64_kb = _bigger(LARGE, _MB)


def over_64_kb(big: LargeMessage) -> Said | None:
    """Find messages that some clients die of. Who is asked for permission is shown the whole input."""
    return None if big.method == "session/request_permission" else _over_64_kb(big)


def _encoded(value: Any) -> int:
    return len(msgspec.json.encode(value)) if value else 0


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in obj(value).values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner)


def _size(count: int) -> str:
    if count < 10_000:
        return f"{count} bytes"
    return f"{count / 1000:.0f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


_PATCH = "In an update, what is left out stays as it was. Only what has changed is sent."

RULES = (
    Rule(
        id="size/amplified",
        severity="warning",
        moment=CallClosed,
        title="A call takes many times the bytes that it tells",
        protocol=_PATCH,
        harm="Editors become slow, and logs huge: 280 KB of output became 890 MB in the field.",
        fix="Send output in parts that are added (a terminal, v2's chunks), or less often and bounded.",
        check=amplified,
    ),
    Rule(
        id="size/sent-again",
        severity="warning",
        moment=CallClosed,
        title="A field is sent again unchanged",
        protocol=_PATCH,
        harm="Editors render again what has not changed: diffs flicker, and people lose their place.",
        fix="Remember what was sent, and leave out the field unless it has changed.",
        check=sent_again,
    ),
    Rule(
        id="size/growing",
        severity="warning",
        moment=CallClosed,
        title="A growing text is sent again and again",
        protocol=_PATCH + " v1 replaces the content as a whole; v2 has chunks that are added.",
        harm="Bytes grow with the square of the output. Editors freeze, and sessions die.",
        fix="Use a terminal or v2's chunks; else send the text seldom, and only its end.",
        check=grows,
    ),
    Rule(
        id="size/output-twice",
        severity="advice",
        moment=CallClosed,
        title="The output is sent twice",
        protocol="`content` is for people, `rawOutput` for programs, and for people if there is no content.",
        harm="Each call takes twice the bytes, on the wire and in every log.",
        fix="Put text into the content, and only what is structured into the raw output.",
        check=output_twice,
    ),
    Rule(
        id="size/flood",
        severity="warning",
        moment=CallClosed,
        title="Too many updates in a second",
        protocol="The protocol names no limit; each update is rendered.",
        harm="Editors spend their time on pictures that nobody sees, and react late.",
        fix="Gather what is new, and send it at most ten times a second.",
        check=flood,
    ),
    Rule(
        id="size/frame-64kb",
        severity="advice",
        moment=LargeMessage,
        title="A message is over 64 KB",
        protocol="A message is one line. The protocol names no limit; readers have one.",
        harm="Clients that read lines with Python's default limit die on it.",
        fix="Keep messages under 64 KB: cut long texts, and say where the rest is. Only who is asked for"
        " permission needs the whole input.",
        check=over_64_kb,
    ),
    Rule(
        id="size/frame-1mb",
        severity="warning",
        moment=LargeMessage,
        title="A message is over 1 MB",
        protocol="A message is one line. The protocol names no limit; readers have one.",
        harm="Many clients die on it, the others stand still while they render it.",
        fix="Keep messages under 64 KB: cut long texts, and say where the rest is.",
        check=_bigger(_MB, 10 * _MB),
    ),
    Rule(
        id="size/frame-10mb",
        severity="error",
        moment=LargeMessage,
        title="A message is over 10 MB",
        protocol="A message is one line. The protocol names no limit; readers have one.",
        harm="Most clients close the connection: the session is lost.",
        fix="Keep messages under 64 KB: cut long texts, and say where the rest is.",
        check=_bigger(10 * _MB, None),
    ),
)
