"""Is the recording itself sound: can each line be read, and do its messages fit together?

Messages fit together by their times, their directions, and by requests and responses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from callsheet.check.finding import Violation, rule
from callsheet.observe.events import MessageSeen, RecordingEnded, UnreadableLine
from callsheet.observe.lines import Fault


def _finds(
    fault: Fault, message: str, *, once: bool = False
) -> Callable[[UnreadableLine], Violation | None]:
    """Make a rule of lines with one fault. `once` is for faults that a file has on each line, or on none."""

    def check(event: UnreadableLine) -> Violation | None:
        if event.line.fault != fault:
            return None
        # What can still be read of a line makes it one of many, not a file of another kind.
        is_once = once and event.line.message is None
        return Violation(message, once=fault if is_once else None)

    return check


@rule("recording/no-messages", RecordingEnded)
def no_messages(event: RecordingEnded) -> Violation | None:
    """Find a recording without a message."""
    if event.messages:
        return None
    lines = f"none of its {event.lines} lines is a message" if event.lines else "it is empty"
    return Violation(lines, line=max(1, event.line))


rule("recording/cut-line", UnreadableLine)(
    _finds("cut", "the line is cut off in the middle of a message")
)
rule("recording/several-messages", UnreadableLine)(
    _finds("several", "the line contains several messages, or parts of them")
)
rule("recording/gigantic-line", UnreadableLine)(
    _finds("long", "the line is longer than 64 MB, and was skipped")
)
rule("recording/binary", UnreadableLine)(_finds("binary", "the line is binary", once=True))
rule("recording/not-utf8", UnreadableLine)(
    _finds("encoding", "the line has bytes that are not UTF-8", once=True)
)
rule("recording/not-json", UnreadableLine)(_finds("json", "the line is not JSON"))
rule("recording/not-a-message", UnreadableLine)(
    _finds("no_message", "the line is JSON, but not a message")
)
rule("recording/blank-line", UnreadableLine)(_finds("blank", "the line is empty", once=True))


_CLIENTS = frozenset(
    f"session/{name}" for name in ("new", "load", "prompt", "cancel", "set_mode", "resume", "list")
) | {"initialize", "authenticate", "session/set_model", "session/set_config_option"}
_AGENTS = frozenset(
    f"terminal/{name}" for name in ("create", "output", "release", "wait_for_exit", "kill")
) | {"session/update", "session/request_permission", "fs/read_text_file", "fs/write_text_file"}

_JITTER = 0.001
"""Seconds that the clock may go back: two threads that write down what they see."""

_LAST = 3
"""A request of the last lines may be one that nobody waited for."""


@rule("recording/begins-in-the-middle", RecordingEnded)
def begins_in_the_middle(event: RecordingEnded) -> Violation | None:
    """Find a recording of a conversation without its beginning."""
    seen = event.connection
    if not event.has_ids or seen.is_whole or seen.version is not None:
        return None
    return Violation("there is no `initialize`: what came before is not known", line=event.first)


@rule("recording/breaks-off", RecordingEnded)
def breaks_off(event: RecordingEnded) -> Iterator[Violation]:
    """Find turns that go on when the recording is over."""
    for turn in event.turns:
        if not turn.is_implied and turn.request is not None:
            yield Violation(
                f"the prompt on line {turn.begun} is not answered when the recording ends"
            )


@rule("recording/time-goes-back", MessageSeen)
def time_goes_back(event: MessageSeen) -> Violation | None:
    """Find a message that was earlier than the one before."""
    now, before = event.line.time, event.before
    if now is None or before is None or now >= before - _JITTER:
        return None
    if event.method == "initialize":
        return None  # another run of the agent, with its own clock
    return Violation(f"it is {before - now:.3f} s earlier than the previous message", "t")


@rule("recording/wrong-direction", MessageSeen)
def wrong_way(event: MessageSeen) -> Violation | None:
    """Find a message that goes from the one who should get it."""
    sender, method = event.line.sender, event.method
    if sender is None or method is None:
        return None
    if sender == "agent" and method in _CLIENTS:
        return Violation(
            f"`{method}` is sent by clients, but here the agent sent it", "dir", once=method
        )
    if sender == "client" and method in _AGENTS:
        return Violation(
            f"`{method}` is sent by agents, but here the client sent it", "dir", once=method
        )
    return None


@rule("recording/answer-without-request", MessageSeen)
def answer_to_nobody(event: MessageSeen) -> Violation | None:
    """Find an answer to something that nobody has asked, or that was answered before."""
    if event.answers != "" or event.message.get("id") is None:
        return None
    if not (event.connection.is_whole and event.connection.has_both_ways):
        return None
    return Violation("no open request has this id", "id")


@rule("recording/same-id", MessageSeen)
def same_id(event: MessageSeen) -> Violation | None:
    """Find a request under the id of another that waits."""
    if event.same_id is None or not event.connection.has_both_ways:
        return None  # the answer may be what was not recorded
    return Violation(
        f"the request on line {event.same_id} has this id, too, and is not answered yet", "id"
    )


@rule("recording/unanswered-request", RecordingEnded)
def unanswered(event: RecordingEnded) -> Iterator[Violation]:
    """Find requests that were never answered, though all went on."""
    seen = event.connection
    if event.turns or not (seen.is_whole and seen.has_both_ways):
        return
    for waiting in event.waiting:
        if event.line - waiting.line >= _LAST:
            other = "client" if waiting.asker == "agent" else "agent"
            yield Violation(f"the {other} never answered `{waiting.method}`", line=waiting.line)


@rule("safety/lone-surrogate", UnreadableLine)
def lone_surrogate(event: UnreadableLine) -> Violation | None:
    """Find half of a surrogate pair."""
    if event.line.fault != "surrogate":
        return None
    return Violation("the message contains half of a surrogate pair")
