"""Do the messages of a recording hang together: times, directions, questions and answers?"""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.check.finding import Rule, Said
from callsheet.observe.events import MessageSeen, RecordingEnded, UnreadableLine

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


def begins_in_the_middle(over: RecordingEnded) -> Said | None:
    """Find a recording of a conversation without its beginning."""
    seen = over.connection
    if not over.has_ids or seen.is_whole or seen.version is not None:
        return None
    return Said("there is no `initialize`: what was before is not known", line=over.first)


def breaks_off(over: RecordingEnded) -> Iterator[Said]:
    """Find turns that go on when the recording is over."""
    for turn in over.turns:
        if not turn.is_implied and turn.request is not None:
            yield Said(f"the prompt of line {turn.begun} is not answered when the recording ends")


def time_goes_back(heard: MessageSeen) -> Said | None:
    """Find a message that was earlier than the one before."""
    now, before = heard.line.time, heard.before
    if now is None or before is None or now >= before - _JITTER:
        return None
    if heard.method == "initialize":
        return None  # another run of the agent, with its own clock
    return Said(f"it is {before - now:.3f} s earlier than the message before", "t")


def wrong_way(heard: MessageSeen) -> Said | None:
    """Find a message that goes from the one who should get it."""
    sender, method = heard.line.sender, heard.method
    if sender is None or method is None:
        return None
    if sender == "agent" and method in _CLIENTS:
        return Said(
            f"`{method}` is what a client sends, and here the agent did", "dir", once=method
        )
    if sender == "client" and method in _AGENTS:
        return Said(
            f"`{method}` is what an agent sends, and here the client did", "dir", once=method
        )
    return None


def answer_to_nobody(heard: MessageSeen) -> Said | None:
    """Find an answer to something that nobody has asked, or that was answered before."""
    if heard.answers != "" or heard.message.get("id") is None:
        return None
    if not (heard.connection.is_whole and heard.connection.has_both_ways):
        return None
    return Said("nothing waits for an answer under this id", "id")


def same_id(heard: MessageSeen) -> Said | None:
    """Find a request under the id of another that waits."""
    if heard.same_id is None or not heard.connection.has_both_ways:
        return None  # the answer may be what was not recorded
    return Said(
        f"the request of line {heard.same_id} has this id too, and is not answered yet", "id"
    )


def unanswered(over: RecordingEnded) -> Iterator[Said]:
    """Find requests that were never answered, though all went on."""
    seen = over.connection
    if over.turns or not (seen.is_whole and seen.has_both_ways):
        return
    for waiting in over.waiting:
        if over.line - waiting.line >= _LAST:
            other = "client" if waiting.asker == "agent" else "agent"
            yield Said(f"the {other} never answered `{waiting.method}`", line=waiting.line)


def lone_surrogate(unreadable: UnreadableLine) -> Said | None:
    """Find half of a surrogate pair."""
    if unreadable.line.fault != "surrogate":
        return None
    return Said("the message has half of a surrogate pair")


RULES = (
    Rule(
        id="recording/begins-in-the-middle",
        severity="advice",
        moment=RecordingEnded,
        title="The recording does not begin at the beginning",
        protocol="A connection begins with `initialize`, which agrees on the version.",
        harm="The version and what was announced before are not known, so some rules can't hold.",
        fix="Start the recorder together with the agent.",
        check=begins_in_the_middle,
    ),
    Rule(
        id="recording/breaks-off",
        severity="advice",
        moment=RecordingEnded,
        title="The recording ends in the middle of a turn",
        protocol="Each prompt is answered, when its turn is over.",
        harm="Nobody can tell how the turn's calls ended. If the agent died, so did what it did.",
        fix="Record until the turn is over. If the agent has died, find out why.",
        check=breaks_off,
    ),
    Rule(
        id="recording/time-goes-back",
        severity="warning",
        moment=MessageSeen,
        title="Times go backwards",
        protocol="The lines of a recording are in the order in which the messages went.",
        harm="Lines may be out of order, and what is found about order may be wrong.",
        fix="Take the time of a clock that only goes forward, when you write the line.",
        check=time_goes_back,
    ),
    Rule(
        id="recording/wrong-direction",
        severity="error",
        moment=MessageSeen,
        title="A message goes the wrong way",
        protocol="Each method has one side: `session/prompt` the client, `session/update` the agent.",
        harm="The other side answers with an error. If the recorder has mixed them up, so is what is found.",
        fix="Call only the methods of your side; or let the recorder write `dir` as it was.",
        check=wrong_way,
    ),
    Rule(
        id="recording/answer-without-request",
        severity="warning",
        moment=MessageSeen,
        title="An answer to nothing",
        protocol="JSON-RPC: an answer has the id of the request that it answers, and there is one for each.",
        harm="Peers log an error, or drop the connection; and somebody may wait for the right answer.",
        fix='Answer each request once, under its own id, with the same type: 1 is not "1".',
        check=answer_to_nobody,
    ),
    Rule(
        id="recording/same-id",
        severity="error",
        moment=MessageSeen,
        title="Two requests wait under one id",
        protocol="JSON-RPC: an id tells which request is answered, so those that wait have different ones.",
        harm="An answer reaches the wrong request: a permission may be given for another call.",
        fix="Count the ids up, for the whole connection.",
        check=same_id,
    ),
    Rule(
        id="recording/unanswered-request",
        severity="advice",
        moment=RecordingEnded,
        title="A request is never answered",
        protocol="JSON-RPC: each request is answered, with an error if nothing else; cancelled ones, too.",
        harm="Whoever has asked waits for ever.",
        fix="Answer when the work is over, and also when it was cancelled or can't be done.",
        check=unanswered,
    ),
    Rule(
        id="safety/lone-surrogate",
        severity="error",
        moment=UnreadableLine,
        title="A text has half of a surrogate pair",
        protocol="JSON in UTF-8: a character is whole. `\\ud83d` alone is none.",
        harm="Strict readers drop the message, or die: Python, Rust and Go can't write it again.",
        fix="Cut texts between characters, and replace what can't be decoded with U+FFFD.",
        check=lone_surrogate,
    ),
)
