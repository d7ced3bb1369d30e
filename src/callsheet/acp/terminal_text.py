"""A terminal's output as Markdown text, for clients that can't show terminals.

Plain text in a fence that nothing in it can close: its beginning and its end, and between them how
much was left out. Nothing is cut inside a character or an escape sequence, and what a terminal
would have overwritten (progress bars) is not shown.
"""

from __future__ import annotations

import codecs

from callsheet.acp.peer import ENGLISH, Phrases
from callsheet.report.patterns import lazy
from callsheet.report.terminal import TerminalState

TEXT_LIMIT = 16 * 1024
"""Bytes of output that are shown at most."""

_ESCAPE = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[P^_X][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
_ESCAPES = lazy(_ESCAPE + r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_ESCAPE_BYTES = lazy(_ESCAPE.encode("ascii"))
_LONGEST_ESCAPE = 64
_OVERWRITTEN = lazy(r"[^\n]*\r(?=[^\n\r])")
_FENCES = lazy(r"`{3,}")


def render_text(state: TerminalState, limit: int = TEXT_LIMIT, words: Phrases = ENGLISH) -> str:
    """Return a terminal's output as Markdown, of about `limit` bytes at most."""
    return fenced(render_plain(state, limit, words))


def render_plain(state: TerminalState, limit: int = TEXT_LIMIT, words: Phrases = ENGLISH) -> str:
    """Return a terminal's output as plain text, of about `limit` bytes at most."""
    head, tail = _parts(state, limit)
    left_out = state.total - len(head) - len(tail)
    final = state.exit_status is not None
    if left_out:
        lines = state.newlines - head.count(b"\n") - tail.count(b"\n")
        notice = f"[… {words.left_out(left_out, lines)} …]\n"
        return _end_line(to_plain(head, final=True)) + notice + to_plain(tail, final=final)
    return to_plain(tail, final=final)


def fenced(text: str) -> str:
    """Return text in a fence that nothing in it can close."""
    fence = "`" * (max((len(run) for run in _FENCES.findall(text)), default=2) + 1)
    return f"{fence}\n{_end_line(text)}{fence}"


def to_plain(data: bytes, *, final: bool) -> str:
    """Return a terminal's bytes as plain text. Unless they are final, a character's first half waits."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)
    text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = _OVERWRITTEN.sub("", text).replace("\r", "")
    return text if text.isprintable() else _ESCAPES.sub("", text)


def _parts(state: TerminalState, limit: int) -> tuple[bytes, bytes]:
    """Return the beginning and the end of the output, or nothing and all of it."""
    whole = state.tail(state.total) if state.total <= limit else b""
    if len(whole) == state.total:
        return b"", whole
    head = state.head[: limit // 4]
    head = head[: head.rfind(b"\n") + 1] or _whole_characters(head)
    size = min(limit - len(head), state.total - len(head))
    kept = state.tail(size + _LONGEST_ESCAPE)
    begin = _line_start(kept, max(0, len(kept) - size))
    return head, kept[begin:]


def _line_start(data: bytes, begin: int) -> int:
    """Return the first line start at or soon after `begin`, or else the first that cuts nothing in two."""
    line = data.find(b"\n", begin, begin + (len(data) - begin) // 4)
    if line >= 0:
        return line + 1
    escape = data.rfind(b"\x1b", max(0, begin - _LONGEST_ESCAPE), begin)
    match = _ESCAPE_BYTES.match(data, escape) if escape >= 0 else None
    if match and match.end() > begin:
        begin = match.end()
    while begin < len(data) and data[begin] & 0xC0 == 0x80:
        begin += 1
    return begin


def _whole_characters(data: bytes) -> bytes:
    """Leave out the first bytes of a character that is not whole."""
    for back in range(1, min(4, len(data)) + 1):
        first = data[-back]
        if first & 0xC0 != 0x80:
            return data[:-back] if first >= 0xC0 and back < _width(first) else data
    return data


def _width(first: int) -> int:
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else text + "\n"
