"""Reads a line as a message, patiently: what most parsers refuse may still tell how a call goes.

Agents in JavaScript cut texts in the middle of a surrogate pair, and agents in Python write NaN. Numbers may
be too large for one that counts in 64 bits.

Lines that differ from the one before in a piece of text only: agents speak in thousands of them.

What stands around the text is known from a line that was looked into. One that has the same around it, and
between its quotes a text and nothing else, is the same message with another text. Of such lines, many at once
are read like one: their texts are joined.

What an agent says, piece by piece, without secrets: also without those that are split over two pieces.

Pieces come by the thousand, and nearly all of them are harmless: those are seen to be so at a glance, and
pass as they are. Only where a secret may have begun, what may be part of it waits for the next piece.

What passes the tap that is not about calls: as it is, but for secrets in what people are shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from callsheet.observe import lines
from callsheet.observe.model import Json, many, obj, text
from callsheet.redaction.redactor import QuickCheck, Redactor, StreamRedactor
from callsheet.tap.hold import TEXT_PAUSE
from callsheet.tap.stats import Account
from callsheet.tap.unrepaired import UnrepairedUpdates, is_about_calls

LONGEST = 64 * 1024 * 1024
"""Bytes of a line that is looked into. A longer one is not."""

_BOM = b"\xef\xbb\xbf"
_NO_NUMBERS = re.compile(rb"NaN|Infinity|\d[eE][+]?\d{3}").search
_decode = msgspec.json.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)


def read(line: bytes) -> Json | None:
    """Return the message that a line is; None if it can't be made out."""
    if len(line) > LONGEST:
        return None
    try:
        value: Any = _decode(line)
    except _UNREADABLE as exc:
        value = _mended(line.removeprefix(_BOM), exc)
    return cast("Json", value) if type(value) is dict else None


def _mended(data: bytes, exc: Exception) -> Any:
    fault, _ = lines.fault_of(data, exc)
    for reading in [one for one, _, _ in lines.readings(data, fault)] or [data]:
        for decode in (_decode, _patient):
            try:
                return decode(reading)
            except _UNREADABLE:
                continue
    return None


def _patient(data: bytes) -> Any:
    if not _NO_NUMBERS(data):
        raise ValueError
    return json.loads(data)


_text_of = msgspec.json.Decoder(str).decode

Say: TypeAlias = Callable[[str], None]
"""Gets a text that is passed on."""


class Alike:
    """Lines with the same around their text."""

    def __init__(self, head: bytes, foot: bytes, follows: Follows | None, say: Say | None) -> None:
        self._head: bytes = head
        self._foot: bytes = foot
        self._between: bytes = foot + head
        self._start: int = len(head) - 1
        self._end: int = 1 - len(foot)
        self._follows: Follows | None = follows
        self._say: Say | None = say

    @classmethod
    def to(
        cls, line: bytes, text: str, follows: Follows | None, say: Say | None = None
    ) -> Alike | None:
        """Learn from a line with this text in it. None if there is no telling where it stands.

        `follows` takes in the texts of others, if there is a look at them; `say` gets those that pass.
        """
        if b"\\" in line or not text:
            return None
        quoted = b'"%b"' % text.encode("utf-8", "surrogatepass")
        place = line.find(quoted)
        if place < 0 or line.find(quoted, place + 1) >= 0:
            return None
        return cls(line[: place + 1], line[place + len(quoted) - 1 :], follows, say)

    def passes(self, lines: bytes) -> bool:
        """Whether lines pass as they are. If not, it is as if they had not come."""
        if not (lines.startswith(self._head) and lines.endswith(self._foot)):
            return False
        try:
            text = _text_of(lines[self._start : self._end])
        except ValueError:
            text = self._joined(lines)
        if not text:
            return False
        if self._follows is not None and not self._follows(text.encode("utf-8", "surrogatepass")):
            return False
        if self._say is not None:
            self._say(text)
        return True

    def _joined(self, lines: bytes) -> str:
        """Return the texts of many lines, joined; nothing if there is anything else in them."""
        start, end = self._start + 1, self._end
        texts = [line[start:end] for line in lines.split(b"\n")]
        texts.pop()
        if self._between.join(texts) != lines[start : end - 1]:
            return ""
        try:
            return _text_of(b'"%b"' % b"".join(texts))
        except ValueError:
            return ""


Follows: TypeAlias = Callable[[bytes], bool]
"""Takes in a piece if it is harmless, and says whether it is so."""


class Speech:
    """One run of text: the messages of one kind in one session, until something else comes."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor: Redactor = redactor
        self._check: QuickCheck = redactor.quick_check()
        self._stream: StreamRedactor | None = None
        self.hidden: int = 0
        """How many secrets were taken out."""

    @property
    def held(self) -> int:
        """How many bytes wait for what follows them."""
        return 0 if self._stream is None else self._stream.held

    @property
    def follows(self) -> Follows | None:
        """What takes in further pieces that are harmless, as `say` would. None while something waits."""
        return self._check.passes if self._stream is None else None

    def say(self, text: str) -> str:
        """Take in a piece, and give what surely is no part of a secret: itself, if nothing was done."""
        data, before = text.encode("utf-8", "surrogatepass"), self._check.tail
        is_harmless = self._check.passes(data)
        if not is_harmless:
            self._check.take(data)
        if self._stream is None:
            if is_harmless:
                return text
            self._stream = self._redactor.stream()
            self._stream.recall(before)
        out = self._passed(self._stream.feed(data))
        if out != data:
            return _text(out)
        if is_harmless and not self._stream.held:
            self._stream = None
        return text

    def pause(self) -> str:
        """Return what waits: nothing has come for a while."""
        return "" if self._stream is None else _text(self._passed(self._stream.flush()))

    def end(self) -> str:
        """Return what waits: something else comes now."""
        rest = b"" if self._stream is None else self._passed(self._stream.finish())
        self._stream, self._check = None, self._redactor.quick_check()
        return _text(rest)

    def _passed(self, data: bytes) -> bytes:
        if self._stream is not None and self._stream.count:
            self.hidden += self._stream.count
            self._stream.count = 0
        return data


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
"""Updates that are pieces of a longer text."""

_INVISIBLE = frozenset(
    (
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "session_info_update",
        "usage_update",
    )
)
"""Updates that stand nowhere among the cards: they may overtake one that waits."""

_PARTS = ("params", "result", "error")
"""What of a message may hold a secret."""

_PLAIN = {"sessionUpdate", "content", "messageId"}
_PLAIN_TEXT = {"type", "text"}
"""What a piece of text has, and its content."""

_encode = msgspec.json.Encoder().encode


MOST_RUNS = 256
"""Sessions that may speak at once. Of more, what the one says that began first is taken as ended."""


class _Run(Struct, eq=False):
    """A run of text under way: what its last piece looked like, and until when it waits."""

    kind: str
    speech: Speech
    message: Json
    until: float


Keep: TypeAlias = Callable[[Json], Say | None]
"""Keeps a message. Gives what keeps further pieces of a text, if it was a piece of one."""


class Messages:
    """Passes on updates of sessions that are not about calls. Without a redactor, all of them as they are."""

    def __init__(
        self,
        unrepaired: UnrepairedUpdates,
        redactor: Redactor | None,
        account: Account,
        keep: Keep | None = None,
    ) -> None:
        self._unrepaired: UnrepairedUpdates = unrepaired
        self._redactor: Redactor | None = redactor
        self._account: Account = account
        self._keep: Keep | None = keep
        self._runs: dict[str, _Run] = {}
        self.alike: Alike | None = None
        """Lines that may follow the last one, and nothing else would come of them. Whoever does anything
        else here, or sends anything to the client, sets it to None."""

    def pass_on(self, line: bytes, message: Json, now: float) -> list[bytes]:
        """Return the lines for an update of a session. `line` is it, as it came."""
        self.alike = None
        if is_about_calls(message):
            rest = self.end(text(obj(message.get("params")).get("sessionId")) or "")
            return [*rest, *self._unrepaired.pass_on(line, message, now)]
        params = obj(message.get("params"))
        session = text(params.get("sessionId")) or ""
        update = obj(params.get("update"))
        kind, piece = update.get("sessionUpdate"), _piece(update)
        if self._redactor is None:
            if kind in CHUNKS and piece:
                return [self._shown_alike(message, line, piece)]
            return [self._shown(message, line)]
        if kind not in CHUNKS or not piece:
            return self._pass_other(line, message, session)
        if _says_more(update) and (clean := self._clean(_with(message, ""))) is not None:
            message = _with(clean, piece)
            line = _encode(message) + b"\n"
        run = self._runs.get(session)
        lines: list[bytes] = []
        if run is None or run.kind != kind:
            lines = self.end(session)
            if len(self._runs) >= MOST_RUNS:
                lines += self.end(next(iter(self._runs)))
            run = self._runs[session] = _Run(kind, Speech(self._redactor), message, now)
        elif _id_of(run.message) != _id_of(message):
            lines = self._paused(run)  # what waits belongs to the message before
        said = run.speech.say(piece)
        run.message, run.until = message, now + TEXT_PAUSE
        self._count(run.speech)
        if said is piece:
            if (follows := run.speech.follows) is not None:
                return [*lines, self._shown_alike(message, line, piece, follows)]
            return [*lines, self._shown(message, line)]
        return [*lines, self._shown(_with(message, said))] if said else lines

    def _pass_other(self, line: bytes, message: Json, session: str) -> list[bytes]:
        """Pass on an update that is no piece of a text."""
        # What nobody sees does not part the words around it, nor a secret that is split over them.
        rest = self.pause(session) if is_invisible(message) else self.end(session)
        clean = self._clean(message)
        if clean is not None:
            line, message = _encode(clean) + b"\n", clean
        return [*rest, self._shown(message, line)]

    def end(self, session: str) -> list[bytes]:
        """Return what waits in a session: something else comes now."""
        run = self._runs.pop(session, None)
        if run is None:
            return []
        rest = run.speech.end()
        self._count(run.speech)
        return [self._shown(_with(run.message, rest))] if rest else []

    def pause(self, session: str) -> list[bytes]:
        """Return what waits in a session. What it says may go on after that."""
        run = self._runs.get(session)
        return [] if run is None else self._paused(run)

    def _paused(self, run: _Run) -> list[bytes]:
        rest = run.speech.pause()
        self._count(run.speech)
        return [self._shown(_with(run.message, rest))] if rest else []

    def end_all(self) -> list[bytes]:
        """Return what waits in all sessions."""
        said = [line for session in list(self._runs) for line in self.end(session)]
        return [*said, *self._unrepaired.end()]

    @property
    def due(self) -> float | None:
        """When something has waited for long enough."""
        times = [run.until for run in self._runs.values() if run.speech.held]
        return min(
            [*times, *([] if self._unrepaired.due is None else [self._unrepaired.due])],
            default=None,
        )

    def tick(self, now: float) -> list[bytes]:
        """Return what has waited for long enough."""
        lines: list[bytes] = []
        for run in self._runs.values():
            if run.speech.held and run.until <= now:
                lines += self._paused(run)
        return [*lines, *self._unrepaired.tick(now)]

    def cleaned(self, line: bytes, message: Json) -> bytes:
        """Return a message without secrets; the line as it came if it has none."""
        clean = self._clean(message)
        return line if clean is None else _encode(clean) + b"\n"

    def listed(self, line: bytes, message: Json) -> bytes:
        """Return a list of sessions without secrets in their titles, which may be what somebody has typed."""
        result, redactor = obj(message.get("result")), self._redactor
        sessions = many(result.get("sessions"))
        if redactor is None or redactor.is_clean([obj(one).get("title") for one in sessions]):
            return line
        titles = [redactor.text(text(obj(one).get("title")) or "") for one in sessions]
        hidden = sum(count for _, count in titles)
        if not hidden:
            return line
        self._account.hidden += hidden
        shown = [
            {**obj(one), "title": title} if count else one
            for one, (title, count) in zip(sessions, titles, strict=True)
        ]
        return _encode({**message, "result": {**result, "sessions": shown}}) + b"\n"

    def recorded(self, line: bytes, message: Json | None) -> bytes:
        """Return a message as it is recorded: without secrets, wherever they are; also a line that is none.

        They are not counted: nobody would have been shown them.
        """
        redactor = self._redactor
        if redactor is None:
            return line
        if message is None:
            said, count = redactor.text(line.decode("utf-8", "surrogateescape"))
            return said.encode("utf-8", "surrogateescape") if count else line
        if redactor.is_clean(message):
            return line
        asks = _asks(message)
        parts = {key: redactor.value(message[key], runs=asks) for key in _PARTS if key in message}
        if not any(count for _, count in parts.values()):
            return line
        return _encode({**message, **{key: part for key, (part, _) in parts.items()}}) + b"\n"

    def _clean(self, message: Json) -> Json | None:
        """Return a message without secrets; None if it has none."""
        what = "params" if "params" in message else "error"
        told = message.get(what)
        if self._redactor is None or self._redactor.is_clean(told):
            return None
        clean, count = self._redactor.value(told, runs=_asks(message))
        self._account.hidden += count
        return {**message, what: _with_ids(clean, told)} if count else None

    def _shown(self, message: Json, line: bytes | None = None) -> bytes:
        """Return the line of a message that the client is shown, and keep it."""
        if self._keep is not None:
            self._keep(message)
        return _encode(message) + b"\n" if line is None else line

    def _shown_alike(
        self, message: Json, line: bytes, piece: str, follows: Follows | None = None
    ) -> bytes:
        """Return the line of a piece of text that passes as it came. Others like it may follow."""
        further = None if self._keep is None else self._keep(message)
        self.alike = Alike.to(line, piece, follows, further)
        return line

    def _count(self, speech: Speech) -> None:
        self._account.hidden += speech.hidden
        speech.hidden = 0


def _asks(message: Json) -> bool:
    """Whether a message asks people for permission: nothing may be hidden in it that would run."""
    return message.get("method") == "session/request_permission"


def is_invisible(message: Json) -> bool:
    """Whether an update changes nothing that stands among the cards of a session."""
    update = obj(obj(message.get("params")).get("update"))
    return text(update.get("sessionUpdate")) in _INVISIBLE or _piece(update) == ""


def _piece(update: Json) -> str | None:
    content = obj(update.get("content"))
    return text(content.get("text")) if content.get("type") == "text" else None


def _says_more(update: Json) -> bool:
    """Whether a piece of text comes with anything that is no text, such as `_meta`."""
    return not (update.keys() <= _PLAIN and obj(update["content"]).keys() <= _PLAIN_TEXT)


def _id_of(message: Json) -> Any:
    return obj(obj(message.get("params")).get("update")).get("messageId")


def _with_ids(clean: Any, told: Any) -> Any:
    """Return params with the ids by which they are answered as they were, whatever those look like."""
    kept = {key: value for key, value in obj(told).items() if key in ("sessionId", "elicitationId")}
    options = many(obj(told).get("options"))
    if options:
        shown = zip(many(obj(clean).get("options")), options, strict=True)
        kept["options"] = [
            {**obj(one), "optionId": obj(other)["optionId"]} if "optionId" in obj(other) else one
            for one, other in shown
        ]
    return {**clean, **kept} if kept else clean


def _with(message: Json, said: str) -> Json:
    """Return a message with another text."""
    params: dict[str, Any] = obj(message["params"])
    update = obj(params["update"])
    content = {**obj(update["content"]), "text": said}
    return {**message, "params": {**params, "update": {**update, "content": content}}}
