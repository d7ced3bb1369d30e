"""Pass on messages that are not about calls: unchanged, but without secrets in what the user is shown.

Agents send text in thousands of small pieces, and nearly all of them are harmless, so this path has to
be fast. Three things make it so:

- `TextRun` finds quickly that a piece is harmless, with one search over the piece and the end of the
  text before it. Only where a secret may have begun does the text go through a stream
  redactor, which holds back what may be part of it until the next piece, or a pause
  (`hold.TEXT_PAUSE`).
- `LineTemplate` recognises lines that differ from the one before only in their text, and reads many
  of them at once, without parsing the JSON around.
- What is not changed is passed on as the bytes that came.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias, cast

import msgspec

from callsheet.observe.lines import decode_leniently
from callsheet.observe.model import Json, many, obj, text
from callsheet.observe.tracker import SESSION_STATE
from callsheet.redaction.redactor import Redactor, StreamRedactor
from callsheet.tap.hold import TEXT_PAUSE, Waits, Why
from callsheet.tap.stats import Account

LONGEST = 64 * 1024 * 1024
"""Bytes of a line that is parsed. A longer one is not."""

PERMISSION = "session/request_permission"

CHUNKS = ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk")
"""Updates that are pieces of a longer text."""

MOST_RUNS = 256
"""Sessions that may send text at once. Of more, the text of the one that began first is taken as ended."""

_SHORT = 64
"""Bytes within which the quick check sees all that a stream holds, and the name before it."""

_TAIL = 256
"""Bytes of a text that are remembered: what follows may be a secret because of them."""

_PLAIN = {"sessionUpdate", "content", "messageId"}
_PLAIN_TEXT = {"type", "text"}
"""What a piece of text has, and its content."""

_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode
_decode_text = msgspec.json.Decoder(str).decode
_encode = msgspec.json.Encoder().encode

Accepts: TypeAlias = Callable[[bytes], bool]
"""Accepts a piece of text if it is harmless, and returns whether it is."""

StoreText: TypeAlias = Callable[[str], None]
"""Stores more of a text that is passed on."""

StoreMessage: TypeAlias = Callable[[Json], StoreText | None]
"""Stores a message. If it was a piece of a text, returns a function that stores further pieces."""


def parse_line(line: bytes) -> Json | None:
    """Return the message in a line, also one that strict parsers refuse; None if there is none."""
    if len(line) > LONGEST:
        return None
    try:
        value: Any = _decode(line)
    except (ValueError, RecursionError) as exc:
        value, _, _ = decode_leniently(line.removeprefix(_BOM), exc)
    return cast("Json", value) if type(value) is dict else None


class LineTemplate:
    """Recognise lines that differ from a parsed line only in their text, without parsing them.

    What precedes and follows the text is known from the parsed line. A line that begins and ends in the
    same way, with one JSON string and nothing else in between, is the same message with another text.
    Many such lines are read like one: their texts are joined.
    """

    def __init__(
        self, head: bytes, foot: bytes, accepts: Accepts | None, store: StoreText | None
    ) -> None:
        self._head: bytes = head
        self._foot: bytes = foot
        self._between: bytes = foot + head
        self._start: int = len(head) - 1
        self._end: int = 1 - len(foot)
        self._accepts: Accepts | None = accepts
        self._store: StoreText | None = store

    @classmethod
    def of(
        cls, line: bytes, text: str, accepts: Accepts | None, store: StoreText | None = None
    ) -> LineTemplate | None:
        """Return the template of a line with this text in it; None if the text's place is not certain.

        Args:
            line: The line.
            text: The text in it.
            accepts: Decides whether the text of another line is harmless; None if nothing is redacted.
            store: Receives the texts that pass.
        """
        if b"\\" in line or not text:
            return None
        quoted = b'"%b"' % text.encode("utf-8", "surrogatepass")
        place = line.find(quoted)
        if place < 0 or line.find(quoted, place + 1) >= 0:
            return None
        return cls(line[: place + 1], line[place + len(quoted) - 1 :], accepts, store)

    def passes(self, lines: bytes) -> bool:
        """Whether lines pass unchanged. If not, nothing was done with them."""
        if not (lines.startswith(self._head) and lines.endswith(self._foot)):
            return False
        try:
            text = _decode_text(lines[self._start : self._end])
        except ValueError:
            text = self._joined(lines)
        if not text:
            return False
        if self._accepts is not None and not self._accepts(text.encode("utf-8", "surrogatepass")):
            return False
        if self._store is not None:
            self._store(text)
        return True

    def _joined(self, lines: bytes) -> str:
        """Return the texts of many lines, joined; empty if there is anything else in them."""
        start, end = self._start + 1, self._end
        texts = [line[start:end] for line in lines.split(b"\n")]
        texts.pop()
        if self._between.join(texts) != lines[start : end - 1]:
            return ""
        try:
            return _decode_text(b'"%b"' % b"".join(texts))
        except ValueError:
            return ""


class TextRun:
    """One run of text: the messages of one kind in one session, until something else comes."""

    def __init__(self, redactor: Redactor, kind: str = "", account: Account | None = None) -> None:
        self.kind: str = kind
        self.message: Json = {}
        """The last piece's message."""
        self._redactor: Redactor = redactor
        self._account: Account = account or Account()
        self._tail: bytes = b""
        self._stream: StreamRedactor | None = None

    @property
    def held(self) -> int:
        """How many bytes wait for what follows them."""
        return 0 if self._stream is None else self._stream.held

    @property
    def accepts(self) -> Accepts | None:
        """What takes further pieces that are harmless, as `feed` would. None while something waits."""
        return self._passes if self._stream is None else None

    def feed(self, text: str) -> str:
        """Accept a piece, and return what certainly is no part of a secret.

        If that is all of it, the piece itself is returned, so that the caller can compare by identity.
        """
        data, before = text.encode("utf-8", "surrogatepass"), self._tail
        is_harmless = self._passes(data)
        if not is_harmless:
            self._tail = (before + data)[-_TAIL:]
        if self._stream is None:
            if is_harmless:
                return text
            self._stream = self._redactor.stream()
            self._stream.recall(before)
        stream, expected = self._stream, self._stream.held + len(data)
        out = stream.feed(data)
        if is_harmless and len(out) + stream.held == expected <= _SHORT:
            # Nothing was redacted, and what is held is a letter with which some tokens begin, as the last
            # of nearly every word is. Without this, all text from here on would come a letter late.
            out += stream.finish()
            self._stream = None
        out = self._counted(stream, out)
        return text if out == data else out.decode("utf-8", "replace")

    def pause(self) -> str:
        """Return what waits: nothing has come for a while."""
        stream = self._stream
        rest = b"" if stream is None else self._counted(stream, stream.flush())
        return rest.decode("utf-8", "replace")

    def end(self) -> str:
        """Return what waits: something else comes now."""
        stream, self._stream, self._tail = self._stream, None, b""
        rest = b"" if stream is None else self._counted(stream, stream.finish())
        return rest.decode("utf-8", "replace")

    def _passes(self, data: bytes) -> bool:
        """Take in a piece if nothing in the text is a secret, or may become one."""
        text = self._tail + data
        if not self._redactor.is_harmless(text):
            return False
        self._tail = text[-_TAIL:]
        return True

    def _counted(self, stream: StreamRedactor, data: bytes) -> bytes:
        self._account.hidden += stream.count
        stream.count = 0
        return data


class Messages:
    """Sends on updates of sessions that are not about calls. Without a redactor, all of them as they are."""

    def __init__(
        self,
        redactor: Redactor | None,
        account: Account,
        send: Callable[[bytes], object],
        waits: Waits,
        store: StoreMessage | None = None,
    ) -> None:
        self._redactor: Redactor | None = redactor
        self._account: Account = account
        self._send: Callable[[bytes], object] = send
        self._waits: Waits = waits
        self._store: StoreMessage | None = store
        self._runs: dict[str, TextRun] = {}
        self.template: LineTemplate | None = None
        """Lines that may follow the last one with nothing else to do for them. Whoever does anything else
        here, or sends anything to the client, sets it to None."""

    def pass_on(self, line: bytes, message: Json, now: float) -> None:
        """Send an update of a session. `line` is it, as it came."""
        self.template = None
        params = obj(message.get("params"))
        session, update = text(params.get("sessionId")) or "", obj(params.get("update"))
        kind, piece = update.get("sessionUpdate"), _piece(update)
        if kind in CHUNKS and piece:
            if self._redactor is None:
                self._send_like(message, line, piece, None)
            else:
                self._pass_text(session, line, message, piece, now)
            return
        # An invisible update does not separate the text around it: a secret may be split across it.
        if is_invisible(message):
            self.pause(session)
        else:
            self.end(session)
        clean = self._clean(message)
        self._show(message if clean is None else clean, line if clean is None else None)

    def _pass_text(self, session: str, line: bytes, message: Json, piece: str, now: float) -> None:
        update = obj(obj(message["params"])["update"])
        kind = text(update.get("sessionUpdate")) or ""
        if _has_more(update) and (clean := self._clean(_with_text(message, ""))) is not None:
            message = _with_text(clean, piece)
            line = _encode(message) + b"\n"
        assert self._redactor is not None
        run = self._runs.get(session)
        if run is None or run.kind != kind:
            self.end(session)
            if len(self._runs) >= MOST_RUNS:
                self.end(next(iter(self._runs)))
            run = self._runs[session] = TextRun(self._redactor, kind, self._account)
        elif _message_id(run.message) != _message_id(message):
            self.pause(session)  # what waits belongs to the message before
        passed = run.feed(piece)
        run.message = message
        if run.held:
            pause = partial(self._pause_over, session)
            self._waits.hold(Why.TEXT, session, now + TEXT_PAUSE, pause)
        else:
            self._waits.drop(Why.TEXT, session)
        if passed is not piece:
            if passed:
                self._show(_with_text(message, passed))
        elif (accepts := run.accepts) is not None:
            self._send_like(message, line, piece, accepts)
        else:
            self._show(message, line)

    def end(self, session: str) -> None:
        """Send what waits in a session: something else comes now."""
        run = self._runs.pop(session, None)
        if run is not None:
            self._waits.drop(Why.TEXT, session)
            self._send_rest(run, run.end())

    def pause(self, session: str) -> None:
        """Send what waits in a session. Its text may go on after that."""
        run = self._runs.get(session)
        if run is not None:
            self._waits.drop(Why.TEXT, session)
            self._send_rest(run, run.pause())

    def _pause_over(self, session: str, now: float) -> None:
        del now
        self.pause(session)

    def end_all(self) -> None:
        """Send what waits in all sessions."""
        for session in list(self._runs):
            self.end(session)

    def _send_rest(self, run: TextRun, rest: str) -> None:
        if rest:
            self._show(_with_text(run.message, rest))

    def _show(self, message: Json, line: bytes | None = None) -> None:
        """Send a message that the client is shown, and store it."""
        if self._store is not None:
            self._store(message)
        self._send(_encode(message) + b"\n" if line is None else line)

    def _send_like(self, message: Json, line: bytes, piece: str, accepts: Accepts | None) -> None:
        """Send a piece of text as it came. Others like it may follow."""
        further = None if self._store is None else self._store(message)
        self.template = LineTemplate.of(line, piece, accepts, further)
        self._send(line)

    # Whole messages

    def cleaned(self, line: bytes, message: Json) -> bytes:
        """Return a message without secrets; the line as it came if it has none."""
        clean = self._clean(message)
        return line if clean is None else _encode(clean) + b"\n"

    def listed(self, line: bytes, message: Json) -> bytes:
        """Return a list of sessions without secrets in their titles, which may be a prompt of the user."""
        result, redactor = obj(message.get("result")), self._redactor
        sessions: list[Any] = []
        hidden = 0
        for one in many(result.get("sessions")):
            title = text(obj(one).get("title"))
            clean, count = (title, 0) if redactor is None or not title else redactor.text(title)
            sessions.append({**obj(one), "title": clean} if count else one)
            hidden += count
        if not hidden:
            return line
        self._account.hidden += hidden
        return _encode({**message, "result": {**result, "sessions": sessions}}) + b"\n"

    def recorded(self, line: bytes, message: Json | None) -> bytes:
        """Return a line as it is recorded: without secrets, wherever they are, message or not.

        They are not counted, because the client is not shown the recording.
        """
        redactor = self._redactor
        if redactor is None:
            return line
        if message is None:
            clean, count = redactor.text(line.decode("utf-8", "surrogateescape"))
            return clean.encode("utf-8", "surrogateescape") if count else line
        parts, count = _redacted(redactor, message, ("params", "result", "error"))
        return _encode({**message, **parts}) + b"\n" if count else line

    def _clean(self, message: Json) -> Json | None:
        """Return a message without secrets; None if it has none."""
        if self._redactor is None:
            return None
        part = "params" if "params" in message else "error"
        parts, count = _redacted(self._redactor, message, (part,))
        self._account.hidden += count
        return {**message, part: with_ids(parts[part], message[part])} if count else None


def is_invisible(message: Json) -> bool:
    """Whether an update changes nothing among the cards of a session."""
    update = obj(obj(message.get("params")).get("update"))
    return text(update.get("sessionUpdate")) in SESSION_STATE or _piece(update) == ""


def _redacted(redactor: Redactor, message: Json, names: tuple[str, ...]) -> tuple[Json, int]:
    """Return these parts of a message without secrets, and how many there were; no parts if it is clean.

    Who is asked for permission must see all of what would run.
    """
    parts = {name: message[name] for name in names if name in message}
    if redactor.is_clean(parts):
        return {}, 0
    asks = message.get("method") == PERMISSION
    made = {name: redactor.value(part, runs=asks) for name, part in parts.items()}
    return {name: part for name, (part, _) in made.items()}, sum(
        count for _, count in made.values()
    )


def _piece(update: Json) -> str | None:
    content = obj(update.get("content"))
    return text(content.get("text")) if content.get("type") == "text" else None


def _has_more(update: Json) -> bool:
    """Whether a piece of text comes with anything that is not text, such as `_meta`."""
    return not (update.keys() <= _PLAIN and obj(update["content"]).keys() <= _PLAIN_TEXT)


def _message_id(message: Json) -> Any:
    return obj(obj(message.get("params")).get("update")).get("messageId")


def with_ids(clean: Any, value: Any) -> Any:
    """Return redacted params with the original ids, even if those look like secrets.

    The client's response refers to these ids, so they must reach the agent unchanged.
    """
    same = {key: one for key, one in obj(value).items() if key in ("sessionId", "elicitationId")}
    options = many(obj(value).get("options"))
    if options:
        shown = zip(many(obj(clean).get("options")), options, strict=True)
        same["options"] = [
            {**obj(one), "optionId": obj(other)["optionId"]} if "optionId" in obj(other) else one
            for one, other in shown
        ]
    return {**clean, **same} if same else clean


def _with_text(message: Json, piece: str) -> Json:
    """Return a message with another text."""
    params: dict[str, Any] = obj(message["params"])
    update = obj(params["update"])
    content = {**obj(update["content"]), "text": piece}
    return {**message, "params": {**params, "update": {**update, "content": content}}}
