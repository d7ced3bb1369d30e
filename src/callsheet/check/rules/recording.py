"""Is the recording itself sound: can each line be read? How its messages hang together: `traffic.py`."""

from __future__ import annotations

from collections.abc import Callable

from callsheet.check.finding import Rule, Said
from callsheet.observe.events import RecordingEnded, UnreadableLine
from callsheet.observe.lines import Fault


def _finds(
    fault: Fault, message: str, *, once: bool = False
) -> Callable[[UnreadableLine], Said | None]:
    """Make a rule of lines with one fault. `once` is for faults that a file has on each line, or on none."""

    def check(unreadable: UnreadableLine) -> Said | None:
        if unreadable.line.fault != fault:
            return None
        # What can still be read of a line makes it one of many, not a file of another kind.
        is_once = once and unreadable.line.message is None
        return Said(message, once=fault if is_once else None)

    return check


def lost_bytes(unreadable: UnreadableLine) -> Said | None:
    """Find where the recorder could not keep up, as it says itself."""
    line = unreadable.line
    return Said(line.problem or "") if line.fault == "lost" else None


def no_messages(over: RecordingEnded) -> Said | None:
    """Find a recording in which nobody says anything."""
    if over.messages:
        return None
    lines = f"none of its {over.lines} lines is a message" if over.lines else "it is empty"
    return Said(lines, line=max(1, over.line))


_ONE_LINE = "A message is one line of JSON in UTF-8, and ends with a newline. It has none inside."

RULES = (
    Rule(
        id="recording/no-messages",
        severity="error",
        moment=RecordingEnded,
        title="The recording has no message",
        protocol=_ONE_LINE,
        harm="Nothing can be said about the agent: that no rule is broken means nothing.",
        fix="Record again, and give the file that the recorder has written.",
        check=no_messages,
    ),
    Rule(
        id="recording/cut-line",
        severity="error",
        moment=UnreadableLine,
        title="A line breaks off",
        protocol=_ONE_LINE,
        harm="A message is lost. Clients that get such a line drop it, or die.",
        fix="Write each message in one piece and on one line, and flush before you exit.",
        check=_finds("cut", "the line breaks off in the middle of a message"),
    ),
    Rule(
        id="recording/several-messages",
        severity="error",
        moment=UnreadableLine,
        title="A line has several messages",
        protocol=_ONE_LINE + " ACP has no batches.",
        harm="Clients read a line as one message: they drop all that is on it.",
        fix="Let one writer send one message after the other, each with its newline.",
        check=_finds("several", "the line has several messages, or parts of them"),
    ),
    Rule(
        id="recording/gigantic-line",
        severity="error",
        moment=UnreadableLine,
        title="A line is too long to be looked into",
        protocol="A message is one line. The protocol names no limit; readers have one.",
        harm="Clients run out of memory, or drop the connection.",
        fix="Keep each message small: send parts of a long text, and say where the rest is.",
        check=_finds("long", "the line is longer than 64 MB, and was passed over"),
    ),
    Rule(
        id="recording/binary",
        severity="error",
        moment=UnreadableLine,
        title="The recording has binary data",
        protocol=_ONE_LINE,
        harm="Nobody can read it. Clients drop it, or die.",
        fix="Give the recorder's file, unpacked. Keep a tool's output off the agent's stdout.",
        check=_finds("binary", "the line is binary", once=True),
    ),
    Rule(
        id="recording/not-utf8",
        severity="error",
        moment=UnreadableLine,
        title="A line is no UTF-8",
        protocol=_ONE_LINE,
        harm="Clients drop the message, or show wrong characters.",
        fix="Decode a tool's output with replacement before you put it into a message.",
        check=_finds("encoding", "the line has bytes that are no UTF-8", once=True),
    ),
    Rule(
        id="recording/not-json",
        severity="error",
        moment=UnreadableLine,
        title="A line is no JSON",
        protocol="An agent writes nothing to its stdout but messages.",
        harm="Some clients skip such a line, some close the connection.",
        fix="Send logs to stderr, and give child processes a stdout of their own.",
        check=_finds("json", "the line is no JSON"),
    ),
    Rule(
        id="recording/not-a-message",
        severity="error",
        moment=UnreadableLine,
        title="A line is JSON, but no message",
        protocol="A message is an object of JSON-RPC 2.0.",
        harm="Some clients skip such a line, some close the connection.",
        fix="Write nothing but messages: an object with `jsonrpc`, and a method, a result or an error.",
        check=_finds("no_message", "the line is JSON, but no message"),
    ),
    Rule(
        id="recording/lost-bytes",
        severity="advice",
        moment=UnreadableLine,
        title="The recorder has lost bytes",
        protocol="Nothing is wrong with the agent: the disk was too slow for `callsheet record`.",
        harm="Messages are missing, so less can be said about the calls that they were about.",
        fix="Record again, onto a faster disk.",
        check=lost_bytes,
    ),
    Rule(
        id="recording/blank-line",
        severity="advice",
        moment=UnreadableLine,
        title="The recording has empty lines",
        protocol="An agent writes nothing to its stdout but messages, each with one newline.",
        harm="Most clients skip an empty line, some report an error for it.",
        fix="End each message with one newline. Send other output to stderr.",
        check=_finds("blank", "the line is empty", once=True),
    ),
)
