"""Which parts of a secret may be hidden in a text that may be run.

Users approve a command by reading it. What a rule takes for one secret may span `$(…)`, a separator
or the end of a line, and one mark in its place would hide a command. So a mark covers only characters
that no shell acts on, and everything from the first other character on is shown. Quoted text is no
exception: an inner shell may read it again (`bash -c "…"`, `ssh host '…'`). In doubt, text is shown.

All this is about texts that can be a command: `LONGEST` bytes. A longer one, such as the content of
a file, is treated as any other text, so that it takes no longer to look through.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from callsheet.redaction.encodings import ENCODED
from callsheet.redaction.scanner import Budget, Scanner
from callsheet.redaction.spans import UNSEARCHED, Span, only_marks
from callsheet.report.patterns import lazy

_INERT = lazy(
    rb"(?:[A-Za-z0-9_.+=~%@:/^!#*?\[\]-]"
    rb"|(?!\xc2[\x80-\xa0]|\xe2[\x80\x81]|\xe3\x80\x80|\xef\xbb\xbf)[\x80-\xff])*"
)
"""What means nothing to a shell in the midst of a word. Blanks of all kinds, commas and braces part
words."""

_ACTIVE = lazy(rb"[$`\\;&|<>(\n\r]")
_ACTIVE_IN_COOKIES = lazy(rb"[$`\\&|<>(\n\r]")
_OF_KNOWN = lazy(rb"""[^\s`\\;&|<>(){}"',]+""")

_SIMPLE = lazy(
    rb"`?(?:curl|http|https|xh)"
    rb"""(?:[ ]+(?:[^\s"'$`\\;&|<>(){}!#*?~\[]|"[^"$`\\\n\r]*"|'[^'$`\\\n\r]*')+)*[ ]*`?"""
)
"""One call of a program that runs none of its arguments: what is quoted is data, as not in `echo …
| sh`."""

_BEGUN = lazy(rb"""\\|[\s;&|()"']#""")
"""Right before a secret, and with its first character: an escape sequence, or a comment. These
stay."""

_BEFORE_COMMANDS = frozenset(b"\n\r;|&(`{")
_ASSIGNED = lazy(rb"""([A-Za-z_][A-Za-z0-9_]{0,95})\+?=["']?\Z""")
_ASSIGNED_NOTHING = lazy(rb"""[A-Za-z0-9_]=[ \t]+["']?\Z""")
_USED = lazy(rb"(?:\$\{?[!#]?|=|printenv[ ]+)([A-Za-z_]\w*)(?!\w|[ ]?=)")
_RUNS_VALUE = lazy(
    rb"""(?:\A|[;&|({`\n]|\\[nr]|-c[ ]|(?:eval|exec|do|then|else|sudo|env|command)\b)[ \t"'\\]*"""
    rb"\$(?:[1-9@*_](?!\w)|\{(?:[1-9@*_]|\w+\[))"
)
_NAMES_COMMAND = lazy(rb"""(?:\$\{[^\s}]{0,96}|alias[\s.]+[^\s=]{1,96}=["']?)\Z""")
"""Before a value that is the name of a command: `${PASSWORD:-…}`, `alias x=…`, `git -c
alias.x=…`."""
_CODE = lazy(rb"\bqx\W|%x\W|\b(?:system|exec|eval|popen|spawn)\b")
"""What other languages run a command with, and needs no brackets."""

_SETTING = lazy(rb"(?<=[;,\s])[\w.-]+=([A-Za-z0-9_.+=~%@:-]{12,})(?![^\s;,])")
_LINE = lazy(
    rb"""(?:(?<=[\s"',])|(?<=\\[nr]))([A-Za-z0-9+][A-Za-z0-9+/]{23,}={0,2})(?=[\s"',\\]|\Z)"""
)
_HASH = lazy(rb"(\$(?=[\w./+=]{12})([A-Za-z_]?\w*)[A-Za-z0-9./+=:]*)(?![A-Za-z0-9./+=:({])")
_WORD = lazy(rb"(?<![A-Za-z0-9_$])[A-Za-z_][A-Za-z0-9_]{11,}")

_DIGIT = lazy(rb"[0-9]")

LONGEST = 131_072
"""Bytes of a command at most: Linux starts no program with a longer argument."""

_UNREAD = lazy(rb"[A-Za-z0-9+][A-Za-z0-9+/=_.-]{11,}")
"""What may be a secret where the budget did not suffice to look for one."""

_DEPTH = 2
"""So often, what stands of a secret is searched for others that it has swallowed."""


class Runnable:
    """Text that may be run, alone or beside other text: `around` is all that is shown together."""

    def __init__(self, scanner: Scanner, around: str) -> None:
        self._scanner = scanner
        self._around = around
        self.budget: Budget = Budget()

    def hidden(self, data: bytes, spans: Sequence[Span]) -> Sequence[Span]:
        """Return what may be hidden of the secrets in a text."""
        return spans if _SIMPLE.fullmatch(data) else list(self._pieces(data, spans, _DEPTH))

    def hidden_in_value(self, span: Span, value: bytes, name: str) -> Sequence[Span]:
        """Return what may be hidden of a value of JSON data that its name betrays."""
        used = self._runs_values or name.encode("utf-8", "replace") in self._used
        if used and not _is_random(value):
            return ()
        active = _ACTIVE_IN_COOKIES if span.rule == "cookie" else _ACTIVE
        is_data = self._scanner.knows(value) or not active.search(value)
        return (span,) if is_data else list(self._parts(value, span, _DEPTH))

    @cached_property
    def _used(self) -> frozenset[bytes]:
        """The variables that are used somewhere, and so may be run: `PASSWORD=…; $PASSWORD`."""
        return frozenset(_USED.findall(self._around.encode("utf-8", "surrogatepass")))

    @cached_property
    def _runs_values(self) -> bool:
        """Return whether a value is run that could be any: `set -- --password …; $2`."""
        return _RUNS_VALUE.search(self._around.encode("utf-8", "surrogatepass")) is not None

    @cached_property
    def _words(self) -> frozenset[bytes]:
        """Long words that stand somewhere, and so may be names of variables."""
        return frozenset(_WORD.findall(self._around.encode("utf-8", "surrogatepass")))

    def _pieces(self, data: bytes, spans: Sequence[Span], depth: int) -> Iterator[Span]:
        for span in spans:
            if span.rank == ENCODED:
                continue
            if self._scanner.knows(data[span.start : span.end]):
                # It is the user's own, so there is no command in it; but what parts commands stays.
                for match in _OF_KNOWN.finditer(data, span.start, span.end):
                    yield span._replace(start=match.start(), end=match.end())
            elif span.rule == UNSEARCHED:
                for match in _UNREAD.finditer(data, span.start, span.end):
                    if _is_random(match[0]):
                        yield Span(*match.span(), UNSEARCHED, span.rank, match[0])
            elif not self._may_name_a_program(data, span):
                yield from self._parts(data, span, depth)

    def _parts(self, data: bytes, span: Span, depth: int) -> Iterator[Span]:
        """Yield a secret up to where a shell acts on it, and what in the rest surely is no command."""
        if _BEGUN.match(data, max(0, span.start - 1), span.end):
            start = span.start + 1
            span = span._replace(start=start, secret=data[start : span.end])
        end = _end_of_inert(data, span)
        if end == span.end:
            if end > span.start:
                yield span
            return
        first = data[span.start : end]
        if first and not only_marks(first) and not first.startswith(b"-----"):
            yield span._replace(end=end, secret=first)
        rest = data[end : span.end]
        inner = (
            self._pieces(rest, self._scanner.search(rest, self.budget)[0], depth - 1)
            if depth
            else ()
        )
        place = end
        for part in sorted(one.moved(end) for one in (*self._random_parts(rest, span), *inner)):
            if part.start >= place:
                yield part
                place = part.end

    def _random_parts(self, rest: bytes, span: Span) -> Iterator[Span]:
        """Yield what is random in the rest of a secret: lines of a key, parts of a hash, cookies."""
        patterns = (_LINE, _HASH) if _ACTIVE_IN_COOKIES.search(rest) else (_LINE, _SETTING)
        for pattern in patterns:
            for match in pattern.finditer(rest):
                is_variable = pattern is _HASH and match[2] in self._words
                if _is_random(match[1]) and not is_variable:
                    yield Span(*match.span(1), span.rule, span.rank, match[1])

    def _may_name_a_program(self, data: bytes, span: Span) -> bool:
        """Return whether a secret begins where a program is named, and so may be one that is run."""
        first = data[span.start : _end_of_inert(data, span)]
        if span.rank > 1 and _CODE.search(first):
            return True
        if not first or _is_random(first):
            return False
        before = data[max(0, span.start - 200) : span.start]
        name = _ASSIGNED.search(before)
        if self._runs_values or (name is not None and name[1] in self._used):
            return True
        line = before.rstrip(b" \t")
        # The end of a line may be escaped: a call's arguments often are JSON in a text.
        begins = not line or line[-1] in _BEFORE_COMMANDS or line.endswith((b"\\n", b"\\r"))
        named = _ASSIGNED_NOTHING.search(before) or _NAMES_COMMAND.search(before)
        return span.rank > 1 and (begins or named is not None)


def is_inert(data: bytes, start: int, end: int) -> bool:
    """Return whether no shell acts on anything in this part of a text."""
    return _INERT.fullmatch(data, start, end) is not None


def _end_of_inert(data: bytes, span: Span) -> int:
    match = _INERT.match(data, span.start, span.end)
    return match.end() if match else span.start


def _is_random(word: bytes) -> bool:
    """Return whether no program has such a name: long, with digits, no path but a line of base64."""
    if len(word) < 12 or _DIGIT.search(word) is None:
        return False
    has_upper = word != word.lower()
    if b"/" in word:
        return len(word) >= 40 and has_upper and word != word.upper() and word[:1] not in b"/.~"
    return len(word) >= (12 if has_upper else 24)
