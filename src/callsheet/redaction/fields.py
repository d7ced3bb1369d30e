"""A telling name whose value stands further off: in XML, YAML blocks, records, calls, `set NAME value`.

`read` is given the place of the telling word, as `pairs.read` is. What it finds is judged more strictly than
`name=value`, since more often it is just code.
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
    # <add key="NAME" value="…"/>, {"name": "NAME", "value": "…"}, and lines `name: NAME`, `value: …`
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
"""What follows a telling name in these forms, as far as it tells them."""

SET_BEGUN = (
    rb"(?:[Ss][Ee][Tt][Xx]?|setenv|ENV|define)(?:[ \t]+--?[A-Za-z-]{1,20})*[ \t]+"
    rb"[A-Za-z0-9_.:/@-]{0,64}"
)
"""What stands before a telling name that a command gives a value."""

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
    """Read the field whose telling word, or whose command, is at this place."""
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
    match = _SET.match(data, place)
    return _field(data, match, match["name"].decode(), "set") if match else None


def is_set(data: bytes, place: int) -> bool:
    """Whether a command that gives a variable its value may stand at this place."""
    return data[place : place + 1] in _SET_WORDS and _SET.match(data, place) is not None


def _setter(name: str) -> str:
    """Return what a call sets: `setPassword(` and `.password(`; other calls are given something else."""
    found = re.fullmatch(r"(?:\w+[.])*(?:set|with)_?([A-Z_a-z]\w*)", name)
    return found[1] if found else ""


def _field(data: bytes, match: re.Match[bytes], name: str, form: str) -> Field:
    start, mark = match.end(), match["mark"]
    pattern = _STRING_END[mark[-1:]] if mark else _WORD_END
    found = pattern.match(data, start, start + _LONGEST)
    end = found.end() if found else start
    closed = end < len(data) and not (data.startswith(b"<", end) and end + 1 == len(data))
    return Field(name, start, end, form, mark, closed, pattern)
