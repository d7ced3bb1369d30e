"""Checks over the traffic that was recorded: each says whether it holds, and how it knows."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from callsheet.acp import v1, v2
from callsheet.acp.jsonrpc import (
    Message,
    Notification,
    ProtocolError,
    Request,
    Response,
    decode_line,
)
from callsheet.cli.cards.words import bytes_text
from callsheet.report.events import TerminalChanged, TerminalOutput
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_list, is_object
from callsheet.testing import Frame, assert_every_call_ended, fold, updates_in

from .kept import Kept
from .tally import tally

TIMES = 3
"""What a call shows may be sent so often: with its announcement, and at its end; and room for one more."""


MARK = 32
"""Bytes by which a mark may be longer than the secret in whose place it stands."""


class Evidence(NamedTuple):
    """What is known when all is over. `ends` says how the calls should have ended."""

    traffic: list[Frame]
    version: int
    secrets: Sequence[str]
    ends: Sequence[str]
    exit_code: int
    kept: Kept | None = None

    @property
    def lines(self) -> list[bytes]:
        """What the agent wrote."""
        return [frame.line for frame in self.traffic if frame.way == "in"]

    def messages(self) -> Iterator[tuple[str, Message | ProtocolError]]:
        """Return all messages, and which way each went."""
        for frame in self.traffic:
            yield frame.way, decode_line(frame.line)


class Verdict(NamedTuple):
    """Whether a check holds. `said` is a figure if it does, else why it doesn't."""

    ok: bool
    said: str


Check = Callable[[Evidence], Verdict]


def every_call_ended(evidence: Evidence) -> Verdict:
    """Hold that each call was announced first, ended once, and was silent afterwards."""
    calls = assert_every_call_ended(evidence.lines, at_least=len(evidence.ends))
    return Verdict(True, f"{len(calls)} calls")


def ended_rightly(evidence: Evidence) -> Verdict:
    """Hold that each call ended as what was done to it says."""
    reports = fold(evidence.lines, version=evidence.version)
    found = [(report.reason or report.status).value for report in reports]
    if found != list(evidence.ends):
        return Verdict(False, f"{', '.join(found)}; expected {', '.join(evidence.ends)}")
    return Verdict(True, ", ".join(dict.fromkeys(found)))


def all_is_readable(evidence: Evidence) -> Verdict:
    """Hold that each line is a message, and each update says something that can be folded."""
    for number, (_, message) in enumerate(evidence.messages(), 1):
        if isinstance(message, ProtocolError):
            return Verdict(False, f"line {number}: {message}")
        if isinstance(message, Response) and message.error is not None:
            return Verdict(False, f"line {number}: {message.error.get('message')}")
    fold(evidence.lines, version=evidence.version)
    return Verdict(True, f"{len(evidence.traffic)} messages")


def nothing_came_early(evidence: Evidence) -> Verdict:
    """Hold that nothing was sent about a session before the client knew of it."""
    known: set[str] = set()
    for way, message in evidence.messages():
        if way == "out" or isinstance(message, ProtocolError):
            continue
        if isinstance(message, Response):
            known.add(_text(message.result, "sessionId"))
        elif _text(message.params, "sessionId") not in known:
            return Verdict(False, f"{message.method} came before the answer to session/new")
    return Verdict(True, "")


def turns_are_whole(evidence: Evidence) -> Verdict:
    """Hold that all of a turn came before its end, and nothing between two turns."""
    turns, running, prompt = 0, False, None
    open_calls: set[str] = set()
    for way, message in evidence.messages():
        if isinstance(message, Request) and message.method == "session/prompt":
            running, prompt, turns = True, message.id, turns + 1
        elif way == "in" and isinstance(message, (Notification, Response)):
            update = _update(message)
            if "toolCallId" in update:
                if not running:
                    return Verdict(False, f"after turn {turns}: {update}")
                _note(update, open_calls)
            if _ends_turn(message, update, prompt, evidence.version):
                running = False
                if open_calls:
                    return Verdict(False, f"turn {turns} ended before {', '.join(open_calls)}")
    return Verdict(not running and turns > 0, f"{turns} turns")


def _ends_turn(message: Message, update: JsonObject, prompt: JsonValue, version: int) -> bool:
    if version == 2:
        return update.get("state") == "idle"
    return isinstance(message, Response) and message.id == prompt


def _note(update: JsonObject, open_calls: set[str]) -> None:
    open_calls.add(update["toolCallId"])
    if update.get("status") in ("completed", "failed", "cancelled"):
        open_calls.discard(update["toolCallId"])


def nobody_approved_blind(evidence: Evidence) -> Verdict:
    """Hold that each request for permission showed the whole input of a call that was announced."""
    inputs: dict[str, JsonValue] = {}
    asked = 0
    for _, message in evidence.messages():
        if isinstance(message, Notification):
            update = _update(message)
            if "rawInput" in update:
                inputs.setdefault(_text(update, "toolCallId"), update["rawInput"])
        elif isinstance(message, Request) and message.method == "session/request_permission":
            asked += 1
            params = message.params if is_object(message.params) else EMPTY
            subject = params.get("subject")
            call = (subject if is_object(subject) else params).get("toolCall")
            key = _text(call, "toolCallId")
            if (
                not is_object(call)
                or not call.get("rawInput")
                or call["rawInput"] != inputs.get(key)
            ):
                return Verdict(False, f"request {asked} does not show the call that was announced")
    return Verdict(asked > 0, f"{asked} requests")


def no_secret_came(evidence: Evidence) -> Verdict:
    """Hold that no secret reached the client, in any message or in the output as it was put together."""
    ledger = fold(evidence.lines, version=evidence.version)
    seen = [text for line in evidence.lines for text in _texts(msgspec.json.decode(line))]
    for report in ledger:
        for item in report.content:
            state = ledger.terminal(getattr(item, "terminal_id", ""))
            seen += [] if state is None else [state.output.decode(errors="replace")]
    for number, secret in enumerate(evidence.secrets, 1):
        if any(secret in text for text in seen):
            return Verdict(False, f"the client saw secret {number} of {len(evidence.secrets)}")
    hidden = sum(one.redactions for one in tally(evidence.traffic, evidence.version))
    told = f"{len(evidence.secrets)} secrets, {hidden} redactions"
    return Verdict(hidden >= len(evidence.secrets), told)


def _texts(value: JsonValue) -> Iterator[str]:
    """Return all text of a message, also what it holds as base64."""
    if isinstance(value, str):
        yield value
        try:
            yield binascii.a2b_base64(value, strict_mode=True).decode(errors="replace")
        except (ValueError, binascii.Error):
            return
    elif is_object(value):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif is_list(value):
        for item in value:
            yield from _texts(item)


def bytes_are_linear(evidence: Evidence) -> Verdict:
    """Hold that live output was sent once, and what calls show no more often than it must be."""
    decode = v2.decode if evidence.version == 2 else v1.decode
    live = shown = 0
    last: dict[str, int] = {}
    for update in updates_in(evidence.lines):
        if not update["sessionUpdate"].startswith(("tool_call", "terminal_")):
            continue
        for event in decode(update):
            if isinstance(event, TerminalOutput):
                live += len(event.data)
            elif isinstance(event, TerminalChanged) and isinstance(event.output, bytes):
                live += len(event.output)
        if update.get("content"):
            last[update["toolCallId"]] = len(msgspec.json.encode(update["content"]))
            shown += last[update["toolCallId"]]
    made, needed = _put_out(evidence), sum(last.values())
    if live > made:
        return Verdict(False, f"{bytes_text(live)} were sent for {bytes_text(made)} of output")
    if shown > TIMES * needed:
        return Verdict(False, f"{bytes_text(shown)} were sent for {bytes_text(needed)} of content")
    return Verdict(live > 0, f"{bytes_text(live)} of live output")


def _put_out(evidence: Evidence) -> int:
    """Count what the commands have put out by their own account, and the marks in place of secrets."""
    made = 0
    for one in tally(evidence.traffic, evidence.version):
        raw = one.report.raw_output
        metadata = raw.get("metadata") if is_object(raw) else None
        made += metadata.get("output_bytes", 0) if is_object(metadata) else 0
        made += MARK * one.redactions
    return made


def agent_ended(evidence: Evidence) -> Verdict:
    """Hold that the agent ended by itself when its stdin was closed."""
    return Verdict(evidence.exit_code == 0, f"exit code {evidence.exit_code}")


def history_is_whole(evidence: Evidence) -> Verdict:
    """Hold that the history has every call as the client knows it."""
    kept = evidence.kept
    if kept is None or kept.problem:
        return Verdict(False, kept.problem if kept else "no history is kept")
    shown = [
        (report.tool_call_id, report.title, report.status, report.notes)
        for report in fold(evidence.lines, version=evidence.version)
    ]
    found = [
        (report.tool_call_id, report.title, report.status, report.notes) for report in kept.reports
    ]
    if found != shown:
        return Verdict(False, f"{len(found)} of {len(shown)} calls are there, or not as they were")
    return Verdict(True, f"{len(found)} calls")


CHECKS: tuple[tuple[str, Check], ...] = (
    ("every call was announced, and ended once", every_call_ended),
    ("every call ended as it should", ended_rightly),
    ("every message can be read", all_is_readable),
    ("nothing came before its session", nothing_came_early),
    ("everything of a turn came before its end", turns_are_whole),
    ("nobody approved blind", nobody_approved_blind),
    ("no secret reached the client", no_secret_came),
    ("no output was sent twice", bytes_are_linear),
    ("the agent ended when its client left", agent_ended),
)


def verdicts(evidence: Evidence) -> list[tuple[str, Verdict]]:
    """Do all checks; that of the history, if there is one."""
    history = [("the history has what was seen", history_is_whole)] if evidence.kept else []
    return [(name, _verdict(check, evidence)) for name, check in (*CHECKS, *history)]


def _verdict(check: Check, evidence: Evidence) -> Verdict:
    try:
        return check(evidence)
    except Exception as exc:  # noqa: BLE001 - traffic that a check can't stand does not pass it
        return Verdict(False, f"{type(exc).__name__}: {exc}")


def _update(message: Message) -> JsonObject:
    params = message.params if isinstance(message, Notification) else None
    update = params.get("update") if is_object(params) else None
    return update if is_object(update) else EMPTY


def _text(value: JsonValue, key: str) -> str:
    found = value.get(key) if is_object(value) else None
    return found if isinstance(found, str) else ""
