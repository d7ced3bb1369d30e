"""The checker's second opinion on exit codes and secrets, independent of the code that it judges.

The tap reads exit codes by `callsheet.observe.exit_codes` and hides secrets by `callsheet.redaction`. If the
checker used only these, whatever they miss would pass both: "nothing found" behind the tap would be no more
than the tap's own opinion. So this module shares nothing with them, and a test holds that.

It knows little, but what it knows is beyond doubt: a field that is called an exit code, a line that is
nothing else, and forms of secrets that can't be taken for anything else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from callsheet.observe.model import ObservedCall, many, obj

# Exit codes

_FIELDS = (
    "exit_code",
    "exitCode",
    "exit_status",
    "exitStatus",
    "returncode",
    "exit",
    "return_code",
    "returnCode",
)
_HOLDERS = (
    "exitStatus",
    "exit_status",
    "metadata",
    "result",
    "output",
    "details",
    "structuredContent",
    "toolResult",
)
_LINE = re.compile(
    r"(?i)\W*(?:(?:the )?(?:command|process|error|shell)\W{1,3}(?:[a-z]+ ){0,3})?"
    r"(?:exit(?:ed)?(?: with)?[ _-]?(?:code|status)|(?:exited )?with code|return[ _-]?code"
    r"|(?<=[(\[<])exit(?:ed)?)\W{1,5}(?P<code>\d{1,3})\W*"
).fullmatch
_TEXTS = ("output", "result", "text", "error", "stderr")
_SAYS_NO = re.compile(
    r"(?:^|[\s;&|(/])(?:[efp]?grep|rg|ag|ack|diff|cmp|test|which|command|find|git|\[\[?)(?=\s|$)"
)
"""Programs whose exit code 1 means "no"."""
_PRINTS_ONE = re.compile(
    r"(?i)(?:exit|return)[ _-]?(?:code|status)|\$\?|\bcat\b|\b(?:head|tail)\b"
).search
"""Whether a command may itself have printed such a line."""
_OTHERS = r"^pid$|(?:shell|bash|task|process|job|session|terminal)(?:_id|Id)$"
"""An argument that names another process, which the result is about."""
_EDGE = 400
_GOES_ON = -1
_RUN = ("command", "cmd", "script", "code")


class ExitEvidence(NamedTuple):
    """An exit code that means a failure, and the field that has it."""

    code: int
    field: str


def failure_of(call: ObservedCall) -> ExitEvidence | None:
    """Return the exit code by which a call's command failed, if there is one."""
    command = _command(call)
    if call.is_background or any(
        re.search(_OTHERS, str(key)) for key in obj(call.fields.get("rawInput"))
    ):
        return None
    codes = list(_fields(call)) or list(_lines(call, command))
    for code, field in codes:
        is_no = code == 1 and _SAYS_NO.search(command)
        if code not in (0, _GOES_ON) and not is_no:
            return ExitEvidence(code, field)
    return None


def _command(call: ObservedCall) -> str:
    raw = call.fields.get("rawInput")
    found = next((obj(raw)[key] for key in _RUN if key in obj(raw)), raw)
    words = many(found) or [found]
    return " ".join(word for word in words if isinstance(word, str))


def _fields(call: ObservedCall) -> Iterator[tuple[int, str]]:
    for fields in _objects(call.fields.get("rawOutput")):
        for name in _FIELDS:
            if type(code := fields.get(name)) is int:
                yield code, f"update.rawOutput.{name}"


def _lines(call: ObservedCall, command: str) -> Iterator[tuple[int, str]]:
    if _PRINTS_ONE(command) or not (command or call.fields.get("kind") == "execute"):
        return
    raw = call.fields.get("rawOutput")
    for item in many(call.fields.get("content")):
        yield from (
            (code, "update.content") for code in _in_text(obj(obj(item).get("content")).get("text"))
        )
    for value in (raw, *(fields.get(name) for fields in _objects(raw) for name in _TEXTS)):
        yield from ((code, "update.rawOutput") for code in _in_text(value))


def _objects(raw: Any) -> Iterator[dict[str, Any]]:
    for fields in map(obj, many(raw) or [raw]):
        yield fields
        yield from (obj(fields.get(name)) for name in _HOLDERS)


def _in_text(value: Any) -> Iterator[int]:
    """Yield the codes on the first line and the last, where agents write how a command ended."""
    if not isinstance(value, str):
        return
    for edge, place in ((value[:_EDGE], 0), (value[-_EDGE:], -1)):
        lines = [line for line in edge.splitlines() if line.strip(" `\t\r")]
        if lines and (match := _LINE(lines[place].strip())) is not None:
            yield int(match["code"])


# Secrets


class SecretForm(NamedTuple):
    """A sort of secret. Its pattern is tried only on text that has one of its hints."""

    name: str
    hints: tuple[str, ...]
    find: re.Pattern[str]


FORMS = tuple(
    SecretForm(name, tuple(hints.split()), re.compile(pattern))
    for name, hints, pattern in (
        ("a GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"\bgh[opusr]_[A-Za-z0-9]{36,}"),
        ("a GitHub token", "github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{60,}"),
        ("a GitLab token", "glpat-", r"\bglpat-[\w-]{20,}"),
        ("an AWS key", "AKIA ASIA", r"\b(?:AKIA|ASIA)(?![A-Z]{16})[A-Z0-9]{16}\b(?!EXAMPLE)"),
        ("a Google key", "AIza", r"\bAIza[\w-]{35}\b"),
        ("a Slack token", "xoxb- xoxp- xoxa- xoxs- xoxe-", r"\bxox[abeps]-\d[\w-]{20,}"),
        ("a Stripe key", "_live_", r"\b[rs]k_live_[A-Za-z0-9]{20,}"),
        ("a key of an AI service", "sk-", r"\bsk-(?:ant-|proj-|svcacct-|or-)[\w-]{30,}"),
        ("a key of an AI service", "sk-", r"\bsk-[A-Za-z0-9]{40,}\b"),
        ("an npm token", "npm_", r"\bnpm_[A-Za-z0-9]{36}\b"),
        ("a PyPI token", "pypi-", r"\bpypi-AgE[\w-]{50,}"),
        ("a JSON web token", "eyJ", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{16,}"),
        ("a private key", "PRIVATE KEY", r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.{1,80}?[\w+/]{40}"),
        ("a password in an address", "://", r"://[\w.%+-]*:(?!passw|secret)[^\s:/@'\"`$<>{}\[\]*]{6,}@\w"),
    )
)  # fmt: skip
_HINTS = tuple((hint, form) for form in FORMS for hint in form.hints)

_NAMES = ("password", "passwd", "secret", "token", "api_key", "apikey", "api-key", "access_key")
_GIVEN = r"[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?"
_NAMED = re.compile(_GIVEN + r"(?P<value>[A-Za-z0-9+/_=.~-]{20,200})(?![\w$({\[])").match
"""The value of a setting with a telling name. Only one that looks random counts."""
_PASSWORD = re.compile(
    _GIVEN + r"(?=[^\s\"']*\d)(?!password)(?P<value>[A-Za-z][\w+/=.~!#%-]{7,60})(?![\w(\[{$])"
).match
_DRAWN = 3.5
"""Bits of entropy per character from which on a text is taken for random."""


def secrets_in(value: Any, spared: Callable[[str], str] = str) -> set[str]:
    """Return which sorts of secrets stand in a JSON value. `spared` takes out what the user allows."""
    return {name for text in _texts(value) for name in _named_in(spared(text))}


def has_hint(data: bytes) -> bool:
    """Whether `secrets_in` could find anything in a value, by its JSON: none of a hint is ever escaped."""
    text = data.decode()
    for hint, _ in _HINTS:
        if hint in text:
            return True
    text = text.lower()
    return any(name in text for name in _NAMES)


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts of a value; what stands beside a telling key, together with the key."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            for key, inner in one.items():  # pyright: ignore[reportUnknownVariableType]
                if isinstance(inner, str) and any(name in str(key).lower() for name in _NAMES):  # pyright: ignore[reportUnknownArgumentType]
                    yield f"{key}={inner}"
                else:
                    waiting.append(inner)
        elif isinstance(one, list):
            waiting += one  # pyright: ignore[reportUnknownArgumentType]


def _named_in(text: str) -> Iterator[str]:
    for hint, form in _HINTS:
        if hint in text and form.find.search(text):
            yield form.name
    lower = text.lower()
    if any(_is_set(name, lower, text) for name in _NAMES if name in lower):
        yield "a value under a telling name"


def _is_set(name: str, lower: str, text: str) -> bool:
    """Whether a text assigns a secret value to a telling name."""
    at = lower.find(name)
    while at >= 0:
        at += len(name)
        drawn = _NAMED(text, at)
        if (drawn and _looks_drawn(drawn["value"])) or (name[:4] == "pass" and _PASSWORD(text, at)):
            return True
        at = lower.find(name, at)
    return False


def _looks_drawn(value: str) -> bool:
    """Whether a value is no word, path or number: letters and digits mixed, hardly any twice in a row."""
    kinds = (str.islower, str.isupper, str.isdigit)
    if (
        sum(any(map(kind, value)) for kind in kinds) < 3
        or value.count("/") > 2
        or sum(map(str.isdigit, value)) < 2
    ):
        return False
    counts = Counter(value).values()
    entropy = -sum(count / len(value) * math.log2(count / len(value)) for count in counts)
    return entropy >= _DRAWN
