"""A secret name and its value, in running text: `KEY=value`, JSON, YAML, XML, headers, URLs, calls,
command lines.

`read` takes a place where a secret word stands. It reads the whole name around it, what joins it with
a value, and the value, all of which make up an `Assignment`; the assignment then judges whether that is
a secret or just code. How strictly depends on its form: `--password x` is hardly ever anything else,
while two strings in a call nearly always are. It is used for whole texts and for streams: a pair whose
value may go on beyond the end is `open`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from callsheet.redaction.rules import table
from callsheet.redaction.secret_names import (
    family_of,
    is_code,
    is_cookie,
    is_mixed,
    is_placeholder,
    is_random,
    is_wordy,
    scheme_length,
    weak_family_of,
)
from callsheet.redaction.spans import alike
from callsheet.report.patterns import lazy

_NAME = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")

# What joins a name with its value.

_GAP = rb"(?:[ \t]|\x1b\[[0-9;]*m)*"
_QUOTE = rb"""\\{0,7}["']"""
_VALUE = rb"(?:[Vv]alue|VALUE)"
_LESS, _GREATER = rb"(?:<|&lt;)", rb"(?:>|&gt;)"
_SET = rb"(?:[Ss][Ee][Tt][Xx]?|setenv|ENV|define)(?:[ \t]+--?[A-Za-z-]{1,20})*[ \t]+"
_BREAK = rb"""(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n)(?:[^A-Za-z\n"'<&]{0,40}?|[^\s"'()]{1,150}[:-][0-9]{1,7}[:-])"""
"""The end of a line, and what a listing puts before the next one."""

_ASSIGNED = lazy(
    rb"""[A-Za-z0-9_.-]{0,64}(?:\\{0,3}["'`])?\]?"""
    + _GAP
    + rb"(?P<sign>=>|:=|=(?![=~])|:(?![:=])|%3[AaDd])(?P<gap>"
    + _GAP
    + rb")"
    # A type stands between in code: `password: str = "…"`.
    + rb"""(?:(?<=[: ])&?[A-Za-z_'][A-Za-z0-9_.\[\]|, ?']{0,40}?[ ]?=[ ]?(?=[bfru]?\\{0,3}["']))?"""
    + rb"""(?:[bBfFrRuU]{1,2}(?=["']))?(?P<mark>\\{0,3}["'`])?"""
)
_FURTHER = lazy(
    rb"[A-Za-z0-9_.-]{0,64}(?:"
    # <add key="NAME" value="…"/>, {"name": "NAME", "value": "…"}, and lines `name: NAME`, `value:
    # …`
    + rb"(?P<record>(?:%b)?(?:[ \t]|,|%b){1,20}(?:%b)?%b(?:%b)?[ \t]{0,4}[:=][ \t]{0,4})"
    % (_QUOTE, _BREAK, _QUOTE, _VALUE, _QUOTE)
    # <NAME>…</NAME>, <string name="NAME">…</string>, <key>NAME</key> <string>…</string>
    + rb"|(?P<element>(?:%b)?%b(?:<!\[CDATA\[)?|%b/key%b(?:[ \t]|%b){0,20}%bstring%b)"
    % (_QUOTE, _GREATER, _LESS, _GREATER, _BREAK, _LESS, _GREATER)
    # a name with a block in YAML: the value is in the next line
    + rb"|(?P<block>(?:%b)?:[ \t]{0,4}(?:(?:\||%b)[+-]?)?[ \t]{0,4}%b[ \t]{1,40})"
    % (_QUOTE, _GREATER, _BREAK)
    # two strings of a call, the name and the value; or the call of a setter
    + rb"|(?P<call>%b,[ \t]{0,4}|\()" % _QUOTE
    + rb")(?P<mark>%b)?" % _QUOTE
)
_SETTER = lazy(r"(?:\w+[.])*(?:set|with)_?([A-Z_a-z]\w*)")
_COMMAND = lazy(_SET + rb"(?P<name>[A-Za-z0-9_.:/@-]{1,120})[ \t]+(?P<mark>\\{0,7}[\"'])?")
_FLAG = lazy(rb"""--?(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,60})[ \t]+(?P<mark>\\{0,3}["'])?""")


@cache
def _word() -> bytes:
    """Return a pattern for what every secret name has in it."""
    keys = table().keys
    joined = [f"(?:{'|'.join(words)})[_. -]?{last}" for last, words in keys.joined.items()]
    return f"(?i:{'|'.join((*keys.words, *joined))})".encode()


@cache
def _telling() -> re.Pattern[bytes]:
    return re.compile(_word() + rb"|(?i:auth)")


@cache
def pairs() -> tuple[bytes, ...]:
    """Return patterns for where `read` may find something, for the gate."""
    word = _word()
    return (
        # An assignment, from its secret word on.
        rb"(?:" + word + rb"[A-Za-z0-9_.-]{0,40}|(?i:auth))"
        rb"""(?:\\{0,3}["'`])?\]?[ \t\x1b\[0-9;m]{0,24}(?:[=:]|%3[AaDd])""",
        # A flag with a value after a space, from its dash on.
        rb"-[A-Za-z0-9_.-]{0,40}" + word + rb"""[A-Za-z0-9_.-]{0,20}[ \t]""",
        # The forms that stand further off, from the secret word on.
        word
        + rb"[A-Za-z0-9_.-]{0,40}(?:%b(?:[^A-Za-z<>{}]{1,60}%b|,[ \t]{0,2}%b|%b)"
        % (_QUOTE, _VALUE, _QUOTE, _GREATER)
        + rb"|[ \t]{0,4}(?:\r?\n|\\{1,7}n)[^<>{}\n]{1,60}%b|%b|%b/key|\(%b)"
        % (_VALUE, _GREATER, _LESS, _QUOTE),
        # A command that sets a variable.
        _SET + rb"[A-Za-z0-9_.:/@-]{0,64}" + word + rb"[A-Za-z0-9_.-]{0,20}[ \t]",
    )


# Where a value ends.

_BARE = lazy(
    rb"""(?:\[redacted:[A-Za-z0-9_.#-]{1,80}\]|[^\s"'`<>\\,;&|()\]}\x1b\0]|\\[^nrt"'`\s\\;&|()<>]|"""
    rb"""[,\]}](?![A-Za-z0-9_.%-]*[=:]|[\s"'`,;&|()\]}<>\\\x1b\0]|\Z))*"""
)
"""A value without quotes ends where a shell would end a word: what follows may be another
command."""
_FURTHER_VALUE = {
    b"": lazy(rb"""[^\s"'`<>\\;&|()\x1b\0]*"""),
    b'"': lazy(rb'[^"\\\n<]*'),
    b"'": lazy(rb"[^'\\\n<]*"),
}
"""A value that stands further off from its name. What closes a bracket may be a part of it, and a tag may
follow it."""
_TO_QUOTE = {
    b'"': lazy(rb'[^"\\\n]*(?:\\.[^"\\\n]*)*'),
    b"'": lazy(rb"[^'\\\n]*(?:\\.[^'\\\n]*)*"),
    b"`": lazy(rb"[^`\n]*"),
}
_QUOTES = frozenset(_TO_QUOTE)
_HEADER = lazy(r"(?i)(?:(?:proxy-)?authorization|(?:set-)?cookie2?)")
_TO_LINE_END = lazy(rb"""[^\r\n"'`;&|<>()\x1b\0\\]*""")
_COOKIES = lazy(
    rb"""[^\s"'`;&|<>()\x1b\0\\]*"""
    rb"""(?:;[ ]?(?:[\w.-]+=[^\s"'`;&|<>()\x1b\0\\]*|(?i:httponly|secure|partitioned)\b))*"""
)
"""Cookies continue after a semicolon, but only with another cookie or an attribute."""
_ESCAPED_LINE_END = lazy(rb"\\[rn]")

LONGEST = 4096
LONGEST_QUOTED = 65_536
"""So much of a value is read at once. Without a limit, odd texts would take a very long time."""

# What is a secret.

_PROMPT = lazy(rb".*[:?>][ ]*|.*(?:\{|%[sdr(]).*|[A-Z][a-z]+ .*", re.DOTALL)
_NAMELIKE = lazy(rb"[A-Za-z_]+")
_CAPITALISED = lazy(rb"[A-Z][a-z]+(?:[A-Z][a-z]*)*")
_LINE_START = lazy(
    rb"""(?:^|\n|\\n|[;&|$>#+-]|\x1b\[[0-9;]*m|\b(?:export|set|env|local|declare))[ \t"'-]*\Z"""
)
_PROSE = frozenset(
    b"a an and are as at be but by can comes does for from has if in instead into is it may must not of on "
    b"option options or should than that the then this to was when where which will with you your flag "
    b"flags argument arguments value values parameter".split()
)
_TAGGED = frozenset((b"<", b":", b">", b";", b'"', b"'"))
_DUMMY = 3
_LEAST = 8


class Pair(NamedTuple):
    """The value beside a secret name: its family, its place, and whether it may go on."""

    family: str
    start: int
    end: int
    open: bool
    secret: bool


def read(data: bytes, place: int) -> Pair | None:
    """Read the pair whose secret word, whose flag or whose command is at this place."""
    if data[place] == 0x2D:  # a dash
        match = None if place and data[place - 1] in _NAME else _FLAG.match(data, place)
        return (
            Assignment(data, "flag", match["name"].decode(), place, match).pair() if match else None
        )
    if data[place] in b"sSEd" and (match := _COMMAND.match(data, place)):
        return Assignment(data, "set", match["name"].decode(), place, match).pair()
    if not _telling().match(data, place):
        return None
    start = _name_start(data, place)
    if data.endswith(b"[redacted:", 0, start):
        return None
    match = _ASSIGNED.match(data, place)
    if match is None or not data[match.end() : match.end() + 1].strip(b"|>\r\n\\"):
        further = _read_further(data, place, start)
        if further is not None or match is None:
            return further
    name = data[start : match.start("sign")].rstrip(b" \t").rstrip(b"]\"'`\\").decode("latin-1")
    name = name.partition("\x1b")[0].strip("\"'`\\")
    is_header = match["sign"] == b":" and _HEADER.fullmatch(name)
    return Assignment(data, "header" if is_header else "sign", name, start, match).pair()


def _read_further(data: bytes, place: int, start: int) -> Pair | None:
    """Read a pair whose value stands further off than after a sign."""
    match = _FURTHER.match(data, place)
    if match is None or (match["call"] and not match["mark"]):
        return None
    form = next(form for form in ("record", "element", "block", "call") if match[form] is not None)
    name = data[start : match.start(form)].decode("latin-1")
    if match["call"] == b"(":
        setter = _SETTER.fullmatch(name)
        name = setter[1] if setter else ""
    if form == "element" and (match["mark"] or data[start - 1 : start] not in _TAGGED):
        return None
    return Assignment(data, form, name, start, match).pair()


def _name_start(data: bytes, place: int) -> int:
    """Find where the name begins. What follows a backslash, as in `\\n`, only looks like a part of it."""
    start, low = place, max(0, place - 64)
    while start > low and data[start - 1] in _NAME:
        start -= 1
    return start + 1 if start < place and data[start - 1 : start] == b"\\" else start


class Assignment:
    """A name, what joins it with a value, and the value, read from a text at one place."""

    def __init__(
        self, data: bytes, form: str, name: str, name_start: int, match: re.Match[bytes]
    ) -> None:
        self._data = data
        self._form = form
        self._name = name
        self._name_start = name_start
        self._before = data[name_start - 1 : name_start]
        self._family = family_of(name)
        self._start: int = match.end()
        self._mark: bytes = match["mark"] or b""
        self._sign, self._gap, self._sign_start = b"", b"", 0
        if form in ("sign", "header"):
            self._sign, self._gap = match["sign"], match["gap"]
            self._sign_start = match.start("sign")

    def pair(self) -> Pair | None:
        """Judge the value. None if there is none that the name could be about."""
        weak = weak_family_of(self._name) if self._form == "sign" and not self._family else ""
        family, mark = self._family or weak, self._mark
        is_near = self._form in ("sign", "header")
        if not family or (is_near and mark and self._closes()):
            return None
        start, end = self._start, self._end()
        has_ended = end < len(self._data)
        is_open = not has_ended and bool(mark or self._form == "header")
        shown = end
        if self._form == "header":
            start, shown, secret = self._judge_header(end)
            rest = self._data[end : end + LONGEST]
            is_open = is_open or (family == "cookie" and rest[:1] == b";" and b"\n" not in rest)
        else:
            value = alike(self._data[start:end]) + self._call(end)
            secret = not is_placeholder(value) and self._is_secret(family, value, end)
            if family == "authorization" and self._form == "sign" and not is_placeholder(value):
                start += scheme_length(value)
        if weak:
            secret = is_random(self._data[start:end])
        return Pair(family, start, shown, is_open, secret)

    # --- where the value ends

    def _end(self) -> int:
        data, start, mark = self._data, self._start, self._mark
        if self._form == "header":
            return self._header_end()
        if self._form not in ("sign", "flag"):
            pattern = _FURTHER_VALUE[mark[-1:]]
        elif mark:
            return self._string_end(mark)
        else:
            pattern = _BARE
        match = pattern.match(data, start, start + LONGEST)
        return match.end() if match else start

    def _string_end(self, mark: bytes) -> int:
        data, start = self._data, self._start
        last = min(len(data), start + LONGEST_QUOTED)
        if len(mark) == 1:
            match = _TO_QUOTE[mark].match(data, start, last)
            end = match.end() if match else start
            # If the last byte is a backslash, what it escapes is still to come.
            return end + 1 if end + 1 == len(data) and data[end] == 0x5C else end
        end = data.find(mark, start, last)
        while end > start and data[end - 1] == 0x5C:
            end = data.find(mark, end + 1, last)
        line = data.find(b"\n", start, last)
        if end < 0 or 0 <= line < end:
            return last if line < 0 else line
        return end

    def _header_end(self) -> int:
        """Return the end of a header: of its line, or of the quotes around it or its value."""
        data, start, around = self._data, self._start, self._before
        if closing := self._mark or (around if around in (b'"', b"'") else b""):
            end = self._string_end(closing)
            line = _ESCAPED_LINE_END.search(data, start, end)
            return line.start() if line else end
        pattern = _COOKIES if self._family == "cookie" else _TO_LINE_END
        rest = pattern.match(data, start, start + LONGEST)
        return rest.end() if rest else start

    def _closes(self) -> bool:
        """Whether a quote ends what began before the name, as in `getpass("Password: ")`."""
        before = self._before
        return (
            before == self._mark[-1:]
            and before not in self._data[self._name_start : self._sign_start]
        )

    def _call(self, end: int) -> bytes:
        """Return the bracket that ends a bare value, which makes it a call: `next(` or `$(`."""
        is_bare = not self._mark and self._form in ("sign", "flag", "record")
        return b"(" if is_bare and self._data.startswith(b"(", end) else b""

    # --- whether it is a secret

    def _is_secret(self, family: str, value: bytes, end: int) -> bool:
        if self._form == "flag":
            return bool(self._mark) or self._is_secret_argument(family, value)
        if self._form != "sign":
            return self._is_secret_field(family, value)
        if not self._mark:
            return self._is_secret_word(family, value, end)
        is_code = b"=" in self._sign and self._is_dummy(value)
        return self._is_secret_string(family, value) and not is_code

    def _judge_header(self, end: int) -> tuple[int, int, bool]:
        """Return where the secret in a header begins and ends, and whether it is one."""
        shown = self._data[self._start : end].rstrip()
        value, start = alike(shown), self._start
        if is_placeholder(value):
            return start, end, False
        scheme = scheme_length(value) if self._family == "authorization" else 0
        rest = value[scheme:]
        if self._family == "cookie":
            secret = is_cookie(value)
        elif scheme:
            word, _, more = rest.partition(b" ")
            is_example = is_placeholder(rest) or is_placeholder(word)
            secret = not is_example and (not more or is_mixed(rest))
        else:
            secret = b" " not in value and (bool(self._mark) or is_mixed(value))
        return start + scheme, start + len(shown), secret

    def _is_secret_argument(self, family: str, value: bytes) -> bool:
        """Judge what follows a flag without quotes."""
        name = self._name.encode().upper().replace(b"-", b"_")
        if value.lower() in _PROSE or value.startswith(b"-") or name.endswith(value.upper()):
            return False
        if value.endswith((b".", b":")):
            return False
        looks_random = is_mixed(value) and not is_wordy(value) and b"=" not in value[:-2]
        return family == "password" or looks_random

    def _is_secret_field(self, family: str, value: bytes) -> bool:
        """Judge what stands further off. It may as well be code, so it must not look like words."""
        is_tagged = self._form in ("record", "element")
        if value.endswith(b":"):
            return False
        if family == "password" and is_tagged:
            is_bare = self._form == "record" and not self._mark
            return len(value) > _DUMMY and not (is_bare and is_code(value))
        if family == "password" or is_tagged:
            return len(value) >= _LEAST and is_mixed(value) and not is_wordy(value)
        return is_random(value)

    def _is_secret_string(self, family: str, value: bytes) -> bool:
        """Judge what stands in quotes beside a secret name."""
        if family == "password" and value[:1] in b"/~":
            return len(value) < _LEAST or is_mixed(value)
        is_quoted_text = self._mark == b"`" and b" " in value
        if _PROMPT.fullmatch(value) or value[:1] in b" ,)" or is_quoted_text:
            return False
        if family in ("password", "secret", "private-key"):
            is_path = b"/" in value and (is_wordy(value) or not is_mixed(value))
            has_words = b" " in value and self._sign != b":"
            return not has_words and not (family == "secret" and is_path)
        if family == "cookie":
            return is_cookie(value)
        if b" " in value:
            return False
        if value.isalpha() or value.replace(b"_", b"").replace(b"-", b"").isalpha():
            return len(value) >= 16 and b"_" not in value and b"-" not in value
        return len(value) >= 6 and (is_mixed(value) or len(value) >= 12) and not is_wordy(value)

    def _is_dummy(self, value: bytes) -> bool:
        """Return whether code only shows an example: `password="pass"`, `user, password = "a", "b"`."""
        data, name = self._data, self._name.lower()
        end = self._start + len(value) + len(self._mark)
        before = data[max(0, self._name_start - 64) : self._name_start].rstrip()
        if self._gap and data.startswith(b",", end) and before.endswith(b","):
            return True
        if name.endswith("pwd") and value.isalpha():  # more often a directory
            return True
        word = re.split(r"[^a-z]", name)[-1]
        return len(value) < 3 or word.startswith(value.decode("latin-1").lower())

    @property
    def _is_tight(self) -> bool:
        """Whether no blank stands around the sign."""
        return not self._gap and self._data[self._sign_start - 1] not in b" \t"

    def _is_secret_word(self, family: str, value: bytes, end: int) -> bool:
        """Judge what stands beside a secret name without quotes: it may as well be code."""
        name, sign, tight = self._name, self._sign, self._is_tight
        if value.isdigit():
            return family == "password" and len(value) >= 4 and (tight or sign == b":")
        query = sign != b":" and tight and self._before in (b"?", b"&", b"#")
        if query or name.startswith("-") or sign.startswith(b"%"):
            return True
        if tight and sign == b"=" and not any(c.islower() for c in name):
            return not is_code(value)
        if family == "credential" or is_code(value):
            return False
        if family == "cookie":
            return is_cookie(value)
        if _NAMELIKE.fullmatch(value):
            is_setting = len(value) > _DUMMY and self._is_settings_line(end)
            return is_setting and not _CAPITALISED.fullmatch(value)
        if value[:4].lower() == name[-8:].lower().encode()[:4]:  # password = passwd2
            return False
        if family != "password" and not tight and is_wordy(value):
            return False
        strong = is_mixed(value) and len(value) >= 6
        return strong if family in ("password", "secret") else strong and len(value) >= 12

    def _is_settings_line(self, end: int) -> bool:
        """Return whether this looks like a settings line: `name=value` or `name: value`, and no more."""
        data, name_start = self._data, self._name_start
        # A line may be a string in a list of lines, and end with the quote that it begins with.
        quote = data[max(0, name_start - 40) : name_start].rstrip(b" \t")[-1:]
        after = data[end : end + 1]
        if after not in (b"", b"\r", b"\n", b"\\", b"\x1b") and not (after == quote in _QUOTES):
            return False
        sign = self._sign
        if not ((self._is_tight and sign == b"=") or (sign == b":" and self._gap)):
            return False
        begins = _LINE_START.search(data, max(0, name_start - 40), name_start)
        return begins is not None or _begins_line(data, name_start)


_LOOK_BACK = 200

_PREFIX = lazy(
    rb"""[^A-Za-z\n]{0,40}"""  # numbers and signs: `12→`, `[3] `, `> > `, `"`
    rb"""|[^\s"'()]{1,150}[:-][0-9]{1,7}[:-]"""  # `path:12:`, `path-12-`
    rb"""|[^\s"'()]{1,150}\.[a-z0-9]{1,8}:"""  # `file.env:`
    rb"""|[^A-Za-z\n]{0,8}[A-Za-z][0-9]{1,7}[:.|)\]]?"""  # `L12:`
    rb"""|[0-9][0-9TZ:.,+/-]{7,}"""  # a time
)
_SPACE = lazy(rb"[ \t]+")
_NUMBER = lazy(rb"\b[a-f]*[0-9][0-9a-f]*\b|\b[a-f]{7,}\b|[0-9]+")


def _begins_line(data: bytes, place: int) -> bool:
    """Return whether nothing stands before this place in its line, or only what stands before every line.

    That is what numbers and signs are made of, or what the line before begins with too, numbers
    aside.
    """
    low = max(0, place - _LOOK_BACK)
    line = data.rfind(b"\n", low, place) + 1
    if not line and low:
        return False
    before = data[line:place].rstrip(b" \t\"'")
    if not before or _PREFIX.fullmatch(before):
        return True
    if before[-1:].isalpha() or not line:
        return False
    start = data.rfind(b"\n", max(0, line - 1 - 2 * _LOOK_BACK), line - 1) + 1
    return _shape(data[start : line - 1]).startswith(_shape(before))


def _shape(text: bytes) -> bytes:
    """Return the text with all numbers and gaps alike."""
    return _SPACE.sub(b" ", _NUMBER.sub(b"0", text))
