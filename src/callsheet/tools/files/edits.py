"""Find a text in a file, and replace it.

Line endings are ignored when searching: a text with LF is found in a file with CRLF. The replacement receives
the line endings of the text that it replaces. Everything else must match character by character.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from callsheet.tools.files.text_encoding import (
    common_prefix,
    count_lines,
    newline_of,
    with_newlines,
)

_MAX_COMPARED = 1000
"""Lines of one change that are compared one by one; of a larger one, all count as changed."""


class TextSpan(NamedTuple):
    """A part of a text."""

    begin: int
    end: int


class Change(NamedTuple):
    """A text after some of its parts were replaced. `first_line` is the first line that differs."""

    text: str
    first_line: int
    added: int
    removed: int


class Finder:
    """Find texts in a file, regardless of the line endings of either."""

    def __init__(self, text: str) -> None:
        self.text: str = text
        self.flat: str = text.replace("\r\n", "\n")
        """The text with LF only."""
        self._dropped: list[int] = []
        if len(self.flat) != len(text):
            endings = enumerate(re.finditer("\r\n", text))
            self._dropped = [found.start() - number for number, found in endings]

    def spans(self, wanted: str, *, overlapping: bool = False) -> Iterator[TextSpan]:
        """Return where a text occurs: exactly, or, if it does not, with other line endings."""
        if "\r\n" in wanted and wanted in self.text:
            for at in _all(self.text, wanted, overlapping):
                yield TextSpan(at, at + len(wanted))
            return
        wanted = wanted.replace("\r\n", "\n")
        for at in _all(self.flat, wanted, overlapping):
            yield TextSpan(self._place(at), self._place(at + len(wanted)))

    def _place(self, at: int) -> int:
        """Return the offset in the text for an offset in the flat text."""
        return at + bisect_left(self._dropped, at)

    def line(self, span: TextSpan) -> int:
        """Return the number of the line that a part begins in."""
        return self.text.count("\n", 0, span.begin) + 1


def _all(text: str, wanted: str, overlapping: bool) -> Iterator[int]:
    step = 1 if overlapping else len(wanted)
    at = text.find(wanted)
    while at >= 0:
        yield at
        at = text.find(wanted, at + step)


def replace(text: str, spans: Sequence[TextSpan], new: str) -> Change:
    """Replace parts of a text. The spans must be in order."""
    style, parts, last, shift = newline_of(text), list[str](), 0, 0
    hunks: list[_Hunk] = []
    for span in spans:
        put = _in_style(new, text[slice(*span)], style)
        parts += [text[last : span.begin], put]
        last = span.end
        begin = span.begin + shift
        hunks.append(_Hunk(span, TextSpan(begin, begin + len(put))))
        shift += len(put) - (span.end - span.begin)
    changed = "".join([*parts, text[last:]])
    added = removed = 0
    for hunk in _by_lines(text, changed, hunks):
        more, less = _count(text[slice(*hunk.old)], changed[slice(*hunk.new)])
        added, removed = added + more, removed + less
    return Change(changed, _first_line(text, changed, hunks), added, removed)


def _first_line(text: str, changed: str, hunks: Sequence[_Hunk]) -> int:
    """Return the first line of the new text that differs."""
    for old, new in hunks:
        before, after = text[slice(*old)], changed[slice(*new)]
        if before != after:
            at = new.begin + common_prefix(before, after)
            return clamped(changed.count("\n", 0, at) + 1, changed)
    return 1


def clamped(line: int, text: str) -> int:
    """Return a line number limited to the lines of a text, for a change that removed its end."""
    return max(1, min(line, count_lines(text)))


def _in_style(new: str, old: str, style: str) -> str:
    """Return the replacement with the line endings of the text that it replaces, or of the file."""
    windows = old.count("\r\n")
    others = old.count("\n") - windows
    if windows and not others:
        style = "\r\n"
    elif others and not windows:
        style = "\n"
    return with_newlines(new, style)


class _Hunk(NamedTuple):
    """The same place in the old and in the new text."""

    old: TextSpan
    new: TextSpan


def _by_lines(old: str, new: str, hunks: list[_Hunk]) -> Iterator[_Hunk]:
    """Widen hunks to whole lines, and merge those that share a line."""
    waiting: _Hunk | None = None
    for hunk in hunks:
        wide = _Hunk(_whole_lines(old, hunk.old), _whole_lines(new, hunk.new))
        if waiting is None:
            waiting = wide
        elif wide.old.begin < waiting.old.end or wide.new.begin < waiting.new.end:
            waiting = _Hunk(_joined(waiting.old, wide.old), _joined(waiting.new, wide.new))
        else:
            yield waiting
            waiting = wide
    if waiting is not None:
        yield waiting


def _joined(one: TextSpan, other: TextSpan) -> TextSpan:
    return TextSpan(min(one.begin, other.begin), max(one.end, other.end))


def _whole_lines(text: str, span: TextSpan) -> TextSpan:
    end = text.find("\n", span.end)
    return TextSpan(text.rfind("\n", 0, span.begin) + 1, len(text) if end < 0 else end + 1)


def _count(old: str, new: str) -> tuple[int, int]:
    """Count the lines that were added and removed."""
    before, after = _lines(old), _lines(new)
    few, many = sorted((before, after), key=len)
    if len(few) <= 1:
        same = sum(line in many for line in few)
        return len(after) - same, len(before) - same
    if max(len(before), len(after)) > _MAX_COMPARED:
        return len(after), len(before)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    same = sum(block.size for block in matcher.get_matching_blocks())
    return len(after) - same, len(before) - same


def _lines(text: str) -> list[str]:
    *whole, last = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([last] if last else [])]
