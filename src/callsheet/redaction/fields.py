"""A secret name whose value stands further off: in XML, YAML blocks, records, calls, `set NAME
value`.

`read` takes the place of the secret word, as `assignments.read` does. What it finds is judged more
strictly than `name=value`, since more often it is just code. `begins_line` returns whether a name is
preceded only by what a listing, a diff or a log puts before each line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_BREAK = rb"""(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n)(?:[^A-Za-z\n"'<&]{0,40}?|[^\s"'()]{1,150}[:-][0-9]{1,7}[:-])"""
"""The end of a line, and what a listing puts before the next one."""

_TAIL = rb"[A-Za-z0-9_.-]{0,64}"
_QUOTE = rb"""\\{0,7}["']"""
_VALUE = rb"(?:[Vv]alue|VALUE)"
_LESS, _GREATER = rb"(?:<|&lt;)", rb"(?:>|&gt;)"

_FORMS = re.compile(
    _TAIL
    + rb"(?:"
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
_SET = re.compile(
    rb"(?:[Ss][Ee][Tt][Xx]?|setenv|ENV|define)(?:[ \t]+--?[A-Za-z-]{1,20})*[ \t]+"
    rb"(?P<name>[A-Za-z0-9_.:/@-]{1,120})[ \t]+(?P<mark>\\{0,7}[\"'])?"
)
_SET_WORDS = b"sSEd"

AFTER = rb"(?:%b(?:[^A-Za-z<>{}]{1,60}%b|,[ \t]{0,2}%b|%b)" % (
    _QUOTE,
    _VALUE,
    _QUOTE,
    _GREATER,
) + rb"|[ \t]{0,4}(?:\r?\n|\\{1,7}n)[^<>{}\n]{1,60}%b|%b|%b/key|\(%b)" % (
    _VALUE,
    _GREATER,
    _LESS,
    _QUOTE,
)
"""What follows a secret name in these forms, as far as needed to recognise them."""

SET_BEGUN = (
    rb"(?:[Ss][Ee][Tt][Xx]?|setenv|ENV|define)(?:[ \t]+--?[A-Za-z-]{1,20})*[ \t]+"
    rb"[A-Za-z0-9_.:/@-]{0,64}"
)
"""What stands before a secret name that a command sets."""

_WORD_END = re.compile(rb"""[^\s"'`<>\\;&|()\x1b\0]*""")
_STRING_END = {b'"': re.compile(rb'[^"\\\n<]*'), b"'": re.compile(rb"[^'\\\n<]*")}
_LONGEST = 4096


class Field(NamedTuple):
    """The name, where the value stands, and how it is written."""

    name: str
    start: int
    end: int
    form: str
    mark: bytes | None
    closed: bool
    goes_on: re.Pattern[bytes]


def read(data: bytes, place: int, name_start: int) -> Field | None:
    """Read the field whose secret word, or whose command, is at this place."""
    match = _FORMS.match(data, place)
    if match is None or (match["call"] and not match["mark"]):
        return None
    form = next(form for form in ("record", "element", "block", "call") if match[form] is not None)
    joint = match.start(form)
    name = data[name_start:joint].decode("latin-1")
    if form == "call" and match["call"] == b"(":
        name = _setter(name)
    if form == "element" and match["mark"]:
        return None
    field = _field(data, match, name, form)
    if form == "element" and field.closed and not data.startswith((b"<", b"&lt;"), field.end):
        return None
    return field if name else None


def read_set(data: bytes, place: int) -> Field | None:
    """Read `set NAME value` and what is like it."""
    match = _SET.match(data, place) if data[place] in _SET_WORDS else None
    return _field(data, match, match["name"].decode(), "set") if match else None


def _setter(name: str) -> str:
    """Return what a call sets, as `setPassword(` does; "" if it is no setter."""
    found = re.fullmatch(r"(?:\w+[.])*(?:set|with)_?([A-Z_a-z]\w*)", name)
    return found[1] if found else ""


def _field(data: bytes, match: re.Match[bytes], name: str, form: str) -> Field:
    start, mark = match.end(), match["mark"]
    pattern = _STRING_END[mark[-1:]] if mark else _WORD_END
    found = pattern.match(data, start, start + _LONGEST)
    end = found.end() if found else start
    closed = end < len(data) and not (data.startswith(b"<", end) and end + 1 == len(data))
    return Field(name, start, end, form, mark, closed, pattern)


_LOOK_BACK = 200

_PLAIN = re.compile(
    rb"""[^A-Za-z\n]{0,40}"""  # numbers and signs: `12→`, `[3] `, `> > `, `"`
    rb"""|[^\s"'()]{1,150}[:-][0-9]{1,7}[:-]"""  # `path:12:`, `path-12-`
    rb"""|[^\s"'()]{1,150}\.[a-z0-9]{1,8}:"""  # `file.env:`
    rb"""|[^A-Za-z\n]{0,8}[A-Za-z][0-9]{1,7}[:.|)\]]?"""  # `L12:`
    rb"""|[0-9][0-9TZ:.,+/-]{7,}"""  # a time
)
_SPACE = re.compile(rb"[ \t]+")
_NUMBER = re.compile(rb"\b[a-f]*[0-9][0-9a-f]*\b|\b[a-f]{7,}\b|[0-9]+")


def begins_line(data: bytes, place: int) -> bool:
    """Return whether nothing stands before this place in its line, or only what stands before every line.

    That is what numbers and signs are made of, or what the line before begins with too, numbers
    aside.
    """
    low = max(0, place - _LOOK_BACK)
    line = data.rfind(b"\n", low, place) + 1
    if not line and low:
        return False
    before = data[line:place].rstrip(b" \t\"'")
    if not before or _PLAIN.fullmatch(before):
        return True
    if before[-1:].isalpha() or not line:
        return False
    start = data.rfind(b"\n", max(0, line - 1 - 2 * _LOOK_BACK), line - 1) + 1
    return _shape(data[start : line - 1]).startswith(_shape(before))


def _shape(text: bytes) -> bytes:
    """Return the text with all numbers and gaps alike."""
    return _SPACE.sub(b" ", _NUMBER.sub(b"0", text))
