"""A secret name and its value, in running text: `KEY=value`, JSON, YAML, headers, URLs, command
lines.

`read` takes a place where a secret word stands. It reads the whole name around it, what joins
it with a value, and the value; then it judges whether that is a secret or just code. It is used for
whole texts and for streams: a pair whose value may go on beyond the end is `open`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from callsheet.redaction import fields
from callsheet.redaction.fields import begins_line
from callsheet.redaction.secret_names import (
    family_of,
    is_mixed,
    is_placeholder,
    is_random,
    is_wordy,
    scheme_length,
    weak_family_of,
)
from callsheet.redaction.spans import alike

WORDS = (
    "pass",
    "pwd",
    "secret",
    "token",
    "jwt",
    "authorization",
    "xauth",
    "x-auth",
    "cookie",
    "credential",
)
"""Each secret name has one of these in it, or one of those in `BEFORE` right before key or pat."""

BEFORE: Mapping[str, tuple[str, ...]] = {
    "key": (
        "api", "app", "auth", "account", "access", "cryption", "signing", "master", "shared",
        "subscription", "functions", "service", "role", "license", "deploy", "hmac", "session",
        "storage", "private", "ssh", "rsa", "client", "application", "priv",
    ),
    "pat": ("github", "gitlab", "gh", "ext"),
}  # fmt: skip

_GAP = rb"(?:[ \t]|\x1b\[[0-9;]*m)*"

_NAME = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


_WORD = "(?i:{}{})".format(
    "|".join(WORDS),
    "".join(f"|(?:{'|'.join(before)})[_. -]?{word}" for word, before in BEFORE.items()),
).encode()

_TELLING = re.compile(_WORD + rb"|(?i:auth)")

ASSIGNED = (
    rb"(?:"
    + _WORD
    + rb"[A-Za-z0-9_.-]{0,40}|(?i:auth))"
    + rb"""(?:\\{0,3}["'`])?\]?[ \t\x1b\[0-9;m]{0,24}(?:[=:]|%3[AaDd])"""
)
"""Where an assignment may be. It begins with the secret word."""

STRUCTURED = _WORD + rb"[A-Za-z0-9_.-]{0,40}" + fields.AFTER
"""Where a field may be. It begins with the secret word."""

SET = fields.SET_BEGUN + _WORD + rb"[A-Za-z0-9_.-]{0,20}[ \t]"
"""Where a command may be that sets a variable."""

FLAGGED = rb"-[A-Za-z0-9_.-]{0,40}" + _WORD + rb"""[A-Za-z0-9_.-]{0,20}[ \t]"""
"""Where a flag with a value after a space may be. It begins with a dash."""

_JOINT = re.compile(
    rb"""[A-Za-z0-9_.-]{0,64}(?:\\{0,3}["'`])?\]?"""
    + _GAP
    + rb"(?P<sign>=>|:=|=(?![=~])|:(?![:=])|%3[AaDd])(?P<gap>"
    + _GAP
    + rb")"
    # A type stands between in code: `password: str = "…"`.
    + rb"""(?:(?<=[: ])&?[A-Za-z_'][A-Za-z0-9_.\[\]|, ?']{0,40}?[ ]?=[ ]?(?=[bfru]?\\{0,3}["']))?"""
    + rb"""(?P<quote>(?:[bBfFrRuU]{1,2}(?=["']))?(?P<mark>\\{0,3}["'`]))?"""
)
_HEADER = re.compile(rb"(?i)\A[\"']?(?:(?:proxy-)?authorization|(?:set-)?cookie2?)[\"']?\Z")
_LIKE_HEADER = re.compile(rb"(?i)(?:authorization|cookie2?)[\"']?\Z")
_FLAG = re.compile(
    rb"""--?(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,60})(?P<gap>[ \t]+)(?P<quote>(?P<mark>\\{0,3}["']))?"""
)
_MARK = rb"""(?:\[redacted:[A-Za-z0-9_.#-]{1,80}\]|"""
_BARE = re.compile(
    _MARK + rb"""[^\s"'`<>\\,;&|()\]}\x1b\0]|\\[^nrt"'`\s\\;&|()<>]|"""
    rb"""[,\]}](?![A-Za-z0-9_.%-]*[=:]|[\s"'`,;&|()\]}<>\\\x1b\0]|\Z))*"""
)
"""A value without quotes ends where a shell would end a word: what follows may be another
command."""
_NO_STOP = re.compile(rb"""[^\s"'`<>;&|()\x1b\0\\]*(?:\\(?![nrt"'`])[^\s"'`<>;&|()\x1b\0\\]*)*""")
_QUOTES = frozenset((b'"', b"'", b"`"))
_PLAIN: Mapping[bytes | None, re.Pattern[bytes]] = {
    None: re.compile(rb"""[^\s"'`<>\\,;&|()\]}\x1b\0]*"""),
    b'"': re.compile(rb'[^"\\\n]*'),
    b"'": re.compile(rb"[^'\\\n]*"),
    b"`": re.compile(rb"[^`\\\n]*"),
    **{b"\\" * n + q: re.compile(rb"[^\\\n]*") for n in (1, 2, 3) for q in sorted(_QUOTES)},
}
_TO_QUOTE = {
    b'"': re.compile(rb'[^"\\\n]*(?:\\.[^"\\\n]*)*'),
    b"'": re.compile(rb"[^'\\\n]*(?:\\.[^'\\\n]*)*"),
    b"`": re.compile(rb"[^`\n]*"),
}

LONGEST = 4096
LONGEST_QUOTED = 65_536
"""So much of a value is read at once. Without a limit, odd texts would take a very long time."""


class Pair(NamedTuple):
    """The value beside a secret name: its family, its place, and whether it may go on."""

    family: str
    start: int
    end: int
    open: bool
    secret: bool
    goes_on: re.Pattern[bytes]
    """What an open value is made of. It stays open while nothing else comes."""


def read(data: bytes, place: int, *, glued: bool = False) -> Pair | None:
    """Read the pair whose secret word, or whose flag, is at this place.

    A dash inside a word begins no flag, unless what it is `glued` to may turn out to be a secret.
    """
    if data[place] == 0x2D:  # a dash
        if not glued and place and data[place - 1] in _NAME:
            return None
        match = _FLAG.match(data, place)
        family = family_of(match["name"].decode()) if match else ""
        return _flag_pair(data, match, family, goes_on=glued) if match and family else None
    field = fields.read_set(data, place)
    if field is not None:
        return _field_pair(data, field, b"")
    if not _TELLING.match(data, place):
        return None
    start = _name_start(data, place)
    if data.endswith(b"[redacted:", 0, start):
        return None
    match = _JOINT.match(data, place)
    if match is None or not data[match.end() : match.end() + 1].strip(b"|>\r\n\\"):
        field = _field_pair(data, fields.read(data, place, start), data[start - 1 : start])
        if field is not None or match is None:
            return field
    name = data[start : match.start("sign")].rstrip(b" \t").rstrip(b"]\"'`\\").decode("latin-1")
    name = name.partition("\x1b")[0]
    name = name.strip("\"'`\\")
    family = family_of(name)
    if not family:
        return _weak_pair(data, match, start, name, goes_on=glued)
    if match["sign"] == b":" and (_HEADER if not glued else _LIKE_HEADER).search(name.encode()):
        return _header_pair(data, match, family, start)
    return _assigned_pair(data, match, family, start, name, goes_on=glued)


def _weak_pair(
    data: bytes, match: re.Match[bytes], start: int, name: str, *, goes_on: bool
) -> Pair | None:
    """Read the value beside a name that marks a secret only if the value looks random."""
    family = weak_family_of(name)
    pair = _assigned_pair(data, match, family, start, name, goes_on=goes_on) if family else None
    return pair and pair._replace(secret=is_random(data[pair.start : pair.end]))


_TAGGED = frozenset((b"<", b":", b">", b";", b'"', b"'"))


def _field_pair(data: bytes, field: fields.Field | None, before: bytes) -> Pair | None:
    """Judge what stands in a field. It may as well be code, so it must not look like words."""
    family = family_of(field.name) if field else ""
    if field is None or not family or (field.form == "element" and before not in _TAGGED):
        return None
    value = alike(data[field.start : field.end])
    if is_placeholder(value) or value.endswith(b":"):
        secret = False
    elif family == "password" and field.form in ("record", "element"):
        bare = field.form == "record" and not field.mark
        secret = len(value) > _DUMMY and not (
            bare and _is_code(value + _call(data, field.end, None))
        )
    elif family == "password" or field.form in ("record", "element"):
        secret = len(value) >= _LEAST and is_mixed(value) and not is_wordy(value)
    else:
        secret = is_random(value)
    return Pair(family, field.start, field.end, not field.closed, secret, field.goes_on)


_DUMMY = 3
_LEAST = 8


def _name_start(data: bytes, place: int) -> int:
    """Find where the name begins, past what only looks like a part of it (`\\n`, `%20`, `[32m`)."""
    start, low = place, max(0, place - 64)
    while start > low and data[start - 1] in _NAME:
        start -= 1
    before = data[start - 1 : start]
    if before == b"\\" and start < place:
        return start + 1
    if before == b"%" and start + 2 <= place:
        return start + 2
    if before in (b"[", b";"):
        colour = re.compile(rb"[0-9]*m").match(data, start, place)
        return colour.end() if colour else start
    return start


def _flag_pair(data: bytes, match: re.Match[bytes], family: str, *, goes_on: bool) -> Pair | None:
    start, mark = match.end(), match["mark"]
    end, closed = _value_end(data, start, mark, goes_on=goes_on)
    value = alike(data[start:end]) + _call(data, end, mark)
    secret = bool(value) and not is_placeholder(value)
    if secret and not match["mark"]:
        name = match["name"].upper().replace(b"-", b"_")
        prose = value.lower() in _PROSE or value.startswith(b"-") or name.endswith(value.upper())
        secret = not prose and not value.endswith((b".", b":"))
        if family != "password":
            secret = secret and is_mixed(value) and not is_wordy(value) and b"=" not in value[:-2]
    return Pair(family, start, end, not closed, secret, _PLAIN[mark])


_PROSE = frozenset(
    b"a an and are as at be but by can comes does for from has if in instead into is it may must not of on "
    b"option options or should than that the then this to was when where which will with you your flag "
    b"flags argument arguments value values parameter".split()
)


def _assigned_pair(
    data: bytes, match: re.Match[bytes], family: str, name_start: int, name: str, *, goes_on: bool
) -> Pair | None:
    start, mark = match.end(), match["mark"]
    if mark and _closes(data, mark, name_start, match):
        return None
    end, closed = _value_end(data, start, mark, goes_on=goes_on)
    if mark and closed and _is_cut(data, mark, start, end):
        return None
    value = alike(data[start:end])
    if is_placeholder(value + _call(data, end, mark)):
        return Pair(family, start, end, not closed, False, _PLAIN[mark])
    if family == "authorization":
        start += scheme_length(value)
    if mark:
        secret = _is_secret_string(family, value, match) and not (
            b"=" in match["sign"] and _is_dummy(data, name, name_start, match, value)
        )
    else:
        secret = _is_secret_word(data, family, name, name_start, match, end)
    return Pair(family, start, end, not closed, secret, _PLAIN[mark])


def _call(data: bytes, end: int, mark: bytes | None) -> bytes:
    """Return the bracket that ends a bare value, which makes it a call: `next(` or `$(`."""
    return b"" if mark or not data.startswith(b"(", end) else b"("


def _closes(data: bytes, mark: bytes, name_start: int, match: re.Match[bytes]) -> bool:
    """Whether a quote ends what began before the name, as in `getpass("Password: ")`."""
    before = data[name_start - 1 : name_start]
    return before == mark[-1:] and before not in data[name_start : match.start("sign")]


def _is_cut(data: bytes, mark: bytes, start: int, end: int) -> bool:
    """Return whether a string is not closed on its line, so that its quote ended something else."""
    return not data.startswith(mark, end) and end - start < LONGEST_QUOTED


def _value_end(
    data: bytes, start: int, mark: bytes | None, *, goes_on: bool = False
) -> tuple[int, bool]:
    """Return the end of a value, and whether it is known to be its end, in data that may go on."""
    if not mark:
        match = _BARE.match(data, start, start + LONGEST)
        end = match.end() if match else start
        going = _NO_STOP.match(data, start, start + LONGEST + 1) if goes_on else None
        return end, going is None or going.end() < len(data)
    if len(mark) == 1:
        match = _TO_QUOTE[mark].match(data, start, start + LONGEST_QUOTED)
        end = match.end() if match else start
        if end + 1 == len(data) and data[end] == 0x5C:  # what it escapes is still to come
            end += 1
    else:
        last = min(len(data), start + LONGEST_QUOTED)
        end = data.find(mark, start, last)
        while end > start and data[end - 1] == 0x5C:
            end = data.find(mark, end + 1, last)
        line = data.find(b"\n", start, last)
        if end < 0 or 0 <= line < end:
            end = last if line < 0 else line
    closed = end < len(data)
    return end, closed


def _header_pair(data: bytes, match: re.Match[bytes], family: str, name_start: int) -> Pair | None:
    """Read a header: up to the end of its line, or of the quotes around it or its value."""
    start, mark = match.end(), match["mark"]
    if mark and _closes(data, mark, name_start, match):
        return None
    around = data[name_start - 1 : name_start]
    line_start = data.rfind(b"\n", max(0, name_start - LONGEST), name_start) + 1
    begins = around in (b'"', b"'") and data.count(around, line_start, name_start) % 2 == 1
    closing = mark or (around if begins else b"")
    if closing:
        end, closed = _value_end(data, start, closing)
        if mark and closed and _is_cut(data, mark, start, end):
            return None
        line = _ESCAPED_LINE_END.search(data, start, end)
        end = line.start() if line else end
    else:
        line = _COOKIES if family == "cookie" else _TO_LINE_END
        rest = line.match(data, start, start + LONGEST)
        end = rest.end() if rest else start
        closed = end < len(data) and not (family == "cookie" and _COOKIE_BEGUN.match(data, end))
    shown = data[start:end].rstrip()
    plain = _PLAIN[closing or None] if closing or family == "cookie" else _TO_LINE_END
    value = alike(shown)
    if is_placeholder(value):
        return Pair(family, start, end, not closed, False, plain)
    scheme = scheme_length(value) if family == "authorization" else 0
    rest = value[scheme:]
    if family == "cookie":
        secret = _is_cookie(value)
    elif scheme:
        word, _, more = rest.partition(b" ")
        secret = (
            not is_placeholder(rest) and not is_placeholder(word) and (not more or is_mixed(rest))
        )
    else:
        secret = b" " not in value and (mark is not None or is_mixed(value))
    return Pair(family, start + scheme, start + len(shown), not closed, secret, plain)


_COOKIE = re.compile(
    rb"(?:^|[;,]\s*)(?!(?i:path|domain|version|max-age|expires|samesite|comment|port)=)[^\s=;,]+="
    rb"[^\s;]*?(?:(?=[A-Za-z]{0,5}[0-9])(?=[0-9]{0,5}[A-Za-z])[A-Za-z0-9]{6}|[0-9]{8}|[A-Za-z0-9%+/-]{16})"
)


def _is_cookie(value: bytes) -> bool:
    """Whether a cookie could name a session; `theme=dark` could not."""
    return _COOKIE.search(value) is not None


_ESCAPED_LINE_END = re.compile(rb"\\[rn]")
_TO_LINE_END = re.compile(rb"""[^\r\n"'`;&|<>()\x1b\0\\]*""")
_COOKIES = re.compile(
    rb"""[^\s"'`;&|<>()\x1b\0\\]*"""
    rb"""(?:;[ ]?(?:[\w.-]+=[^\s"'`;&|<>()\x1b\0\\]*|(?i:httponly|secure|partitioned)\b))*"""
)
"""Cookies continue after a semicolon, but only with another cookie or an attribute."""
_COOKIE_BEGUN = re.compile(rb";[ ]?[\w.-]*\Z")

_PROMPT = re.compile(rb".*[:?>][ ]*|.*(?:\{|%[sdr(]).*|[A-Z][a-z]+ .*", re.DOTALL)


def _is_secret_string(family: str, value: bytes, match: re.Match[bytes]) -> bool:
    """Judge what stands in quotes beside a secret name."""
    if family == "password" and value[:1] in b"/~":
        return len(value) < 8 or is_mixed(value)
    if _PROMPT.fullmatch(value) or value[:1] in b" ,)" or (match["mark"] == b"`" and b" " in value):
        return False
    if family in ("password", "secret", "private-key"):
        return (b" " not in value or match["sign"] == b":") and not (
            family == "secret" and b"/" in value and (is_wordy(value) or not is_mixed(value))
        )
    if family == "cookie":
        return _is_cookie(value)
    if b" " in value:
        return False
    if value.isalpha() or value.replace(b"_", b"").replace(b"-", b"").isalpha():
        return len(value) >= 16 and b"_" not in value and b"-" not in value
    return len(value) >= 6 and (is_mixed(value) or len(value) >= 12) and not is_wordy(value)


def _is_dummy(
    data: bytes, name: str, name_start: int, match: re.Match[bytes], value: bytes
) -> bool:
    """Return whether code only shows an example: `password="pass"`, `user, password = "a", "b"`."""
    end = match.end() + len(value) + len(match["mark"])
    before = data[max(0, name_start - 64) : name_start].rstrip()
    if match["gap"] and data.startswith(b",", end) and before.endswith(b","):
        return True
    if name.lower().endswith("pwd") and value.isalpha():  # more often a directory
        return True
    word = re.split(r"[^a-z]", name.lower())[-1]
    return len(value) < 3 or word.startswith(value.decode("latin-1").lower())


_CODE = re.compile(
    rb"""[A-Za-z_][\w.]*(?:[(\[{].*|\.)|[(\[{*&!@].*|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+.*|\d+(?:\.\d+)*""",
    re.DOTALL,
)


def _is_code(value: bytes) -> bool:
    """Return whether a value is an expression.

    Names in one are words; what is made by chance may have a dot too.
    """
    if _CODE.fullmatch(value) is None:
        return False
    return (
        _BRACKET.search(value) is not None
        or not is_mixed(value)
        or is_wordy(value)
        or len(value) < _LEAST
    )


_BRACKET = re.compile(rb"[(\[{*&@]")
_NAMELIKE = re.compile(rb"[A-Za-z_]+")
_CAPITALISED = re.compile(rb"[A-Z][a-z]+(?:[A-Z][a-z]*)*")


def _is_secret_word(
    data: bytes, family: str, name: str, name_start: int, match: re.Match[bytes], end: int
) -> bool:
    """Judge what stands beside a secret name without quotes: it may as well be code."""
    value = alike(data[match.end() : end]) + _call(data, end, None)
    before = data[name_start - 1 : name_start]
    sign, tight = match["sign"], not match["gap"] and data[match.start("sign") - 1] not in b" \t"
    if value.isdigit():
        return family == "password" and len(value) >= 4 and (tight or sign == b":")
    query = sign != b":" and tight and before in (b"?", b"&", b"#")
    if query or name.startswith("-") or sign.startswith(b"%"):
        return True
    if tight and sign == b"=" and not any(c.islower() for c in name):
        return not _is_code(value)
    if family == "credential" or _is_code(value):
        return False
    if family == "cookie":
        return _is_cookie(value)
    if _NAMELIKE.fullmatch(value):
        return (
            len(value) > _DUMMY
            and _is_settings_line(data, name_start, match, end)
            and not _CAPITALISED.fullmatch(value)
        )
    if value[:4].lower() == name[-8:].lower().encode()[:4]:  # password = passwd2
        return False
    if family != "password" and not tight and is_wordy(value):
        return False
    strong = is_mixed(value) and len(value) >= 6
    return strong if family in ("password", "secret") else strong and len(value) >= 12


_LINE_START = re.compile(
    rb"""(?:^|\n|\\n|[;&|$>#+-]|\x1b\[[0-9;]*m|\b(?:export|set|env|local|declare))[ \t"'-]*\Z"""
)


def _is_settings_line(data: bytes, name_start: int, match: re.Match[bytes], end: int) -> bool:
    """Return whether this looks like a settings line: `name=value` or `name: value`, and no more."""
    # A line may be a string in a list of lines, and end with the quote that it begins with.
    quote = data[max(0, name_start - 40) : name_start].rstrip(b" \t")[-1:]
    after = data[end : end + 1]
    if after not in (b"", b"\r", b"\n", b"\\", b"\x1b") and not (after == quote in _QUOTES):
        return False
    sign, gap = match["sign"], match["gap"]
    tight = not gap and data[match.start("sign") - 1] not in b" \t"
    if not ((tight and sign == b"=") or (sign == b":" and gap)):
        return False
    begins = _LINE_START.search(data, max(0, name_start - 40), name_start)
    return begins is not None or begins_line(data, name_start)
