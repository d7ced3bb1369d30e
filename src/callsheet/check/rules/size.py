"""Does a call stay small on the wire: is nothing sent that is known already, and no message too big?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

from callsheet.check.finding import Violation, rule
from callsheet.observe.events import LARGE, CallClosed, LargeMessage
from callsheet.observe.model import Json, ObservedCall, Repetition, obj
from callsheet.report.humanize import bytes_text

FLOOR = 256 * 1024
"""Bytes that a call may take on the wire, however little it shows."""

TIMES = 8
"""Bytes on the wire per byte of what is shown in the end, at most."""

ENVELOPE = 512
"""Bytes of a message that are not its content."""

AGAIN = 1024
"""Bytes that a call may send again."""

GROWTHS = 3
"""Times that a long text may grow and be sent again."""

SAME = 1024
"""A text that is as long is long enough to be sent only once."""

_MB = 1024 * 1024

FLOOD = 40
"""Updates of a call in a second, at most. Eyes and screens take fewer."""


@rule("size/amplified", CallClosed)
def amplified(event: CallClosed) -> Violation | None:
    """Find a call that takes many times the bytes of what it shows in the end."""
    call = event.call
    if call.wire_bytes < FLOOR or not event.is_known:
        return None
    net = net_bytes(call)
    envelopes = ENVELOPE * (call.updates + len(call.questions))
    if call.wire_bytes <= FLOOR + TIMES * net + envelopes:
        return None
    times = f"{call.wire_bytes / max(net, 1):.0f} times the {bytes_text(net)} of its content"
    return Violation(f"{bytes_text(call.wire_bytes)} in {call.updates} updates: {times}")


def net_bytes(call: ObservedCall) -> int:
    """Return the bytes that a call needs in the end: its input, and its output once."""
    fields = call.fields
    output = max(_encoded(fields.get("content")), _encoded(fields.get("rawOutput")))
    inputs = max(_encoded(one.get("rawInput")) for one in (fields, *_asked(call)))
    return inputs + max(output, call.output_bytes, call.news_bytes)


def _asked(call: ObservedCall) -> Iterator[Json]:
    """Return what approval requests report of a call: they may have the whole of an input that is cut."""
    return (question.tool_call for question in call.questions)


@rule("size/sent-again", CallClosed)
def sent_again(event: CallClosed) -> Iterator[Violation]:
    """Find fields that were sent again as they were."""
    for (name, how), again in event.call.again.items():
        if how == "same" and again.size > AGAIN:
            yield _again(name, again, "unchanged")


@rule("size/growing", CallClosed)
def grows(event: CallClosed) -> Iterator[Violation]:
    """Find fields that were sent again and again, each time with a little more."""
    for (name, how), again in event.call.again.items():
        if how == "grown" and again.times >= GROWTHS:
            yield _again(name, again, "with more at its end")


def _again(name: str, again: Repetition, how: str) -> Violation:
    times = f"{again.times} times" if again.times > 1 else "once"
    message = (
        f"{name} was sent again {times} {how}: {bytes_text(again.size)} that had been sent before"
    )
    return Violation(message, f"update.{name}", line=again.line)


@rule("size/output-twice", CallClosed)
def output_twice(event: CallClosed) -> Violation | None:
    """Find a long text that is in the content and in the raw output."""
    fields = event.call.fields
    shown = [text for text in _texts(fields.get("content")) if len(text) >= SAME]
    if not shown:
        return None
    raw = [text for text in _texts(fields.get("rawOutput")) if len(text) >= SAME]
    twice = sum(len(text) for text in shown if _is_in(text, raw))
    if not twice:
        return None
    return Violation(
        f"{bytes_text(twice)} of the content are also in rawOutput", "update.rawOutput"
    )


def _is_in(text: str, raw: list[str]) -> bool:
    core = text.strip("`\n ")
    core = core.partition("\n")[2] if text.startswith("```") else core
    return bool(core) and any(core in other or other.strip() in text for other in raw)


@rule("size/flood", CallClosed)
def flood(event: CallClosed) -> Violation | None:
    """Find a call with more updates than anybody can see."""
    if event.call.busiest <= FLOOD:
        return None
    return Violation(f"{event.call.busiest} updates within a second")


def _bigger(least: int, most: int | None) -> Callable[[LargeMessage], Violation | None]:
    """Make a rule of messages of the agent that are bigger than one size, and not than the next."""

    def check(event: LargeMessage) -> Violation | None:
        size = event.line.size
        if size <= least or event.sender == "client" or (most is not None and size > most):
            return None
        return Violation(f"the message has {bytes_text(size)}")

    return check


_over_64_kb = _bigger(LARGE, _MB)


@rule("size/frame-64kb", LargeMessage)
def over_64_kb(event: LargeMessage) -> Violation | None:
    """Find messages that some clients die of. Who is asked for permission is shown the whole input."""
    return None if event.method == "session/request_permission" else _over_64_kb(event)


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


rule("size/frame-1mb", LargeMessage)(_bigger(_MB, 10 * _MB))
rule("size/frame-10mb", LargeMessage)(_bigger(10 * _MB, None))
