"""The checker's second opinion on exit codes, written apart from `exits.py`, by which the tap repairs.

It reads only what nobody could misread: a field that is called an exit code, and a line that is nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from callsheet.observe.model import ObservedCall, many, obj

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
"""Programs that tell "no" by 1."""
_PRINTS_ONE = re.compile(
    r"(?i)(?:exit|return)[ _-]?(?:code|status)|\$\?|\bcat\b|\b(?:head|tail)\b"
).search
"""Whether a command may itself have printed such a line."""
_OTHERS = r"^pid$|(?:shell|bash|task|process|job|session|terminal)(?:_id|Id)$"
"""An argument that names another process, of which the result tells."""
_EDGE = 400
_GOES_ON = -1
_RUN = ("command", "cmd", "script", "code")


class ExitEvidence(NamedTuple):
    """An exit code that tells of a failure, and the field that tells it."""

    code: int
    field: str


def failure_of(call: ObservedCall) -> ExitEvidence | None:
    """Return the exit code by which a call's command failed, if one is told."""
    command = _command(call)
    if call.is_background or any(
        re.search(_OTHERS, str(key)) for key in obj(call.fields.get("rawInput"))
    ):
        return None
    told = list(_fields(call)) or list(_lines(call, command))
    for code, field in told:
        is_no = code == 1 and _SAYS_NO.search(command)
        if code not in (0, _GOES_ON) and not is_no:
            return ExitEvidence(code, field)
    return None


def _command(call: ObservedCall) -> str:
    given = call.fields.get("rawInput")
    found = next((obj(given)[key] for key in _RUN if key in obj(given)), given)
    words = many(found) or [found]
    return " ".join(word for word in words if isinstance(word, str))


def _fields(call: ObservedCall) -> Iterator[tuple[int, str]]:
    for told in _objects(call.fields.get("rawOutput")):
        for name in _FIELDS:
            if type(code := told.get(name)) is int:
                yield code, f"update.rawOutput.{name}"


def _lines(call: ObservedCall, command: str) -> Iterator[tuple[int, str]]:
    if _PRINTS_ONE(command) or not (command or call.fields.get("kind") == "execute"):
        return
    raw = call.fields.get("rawOutput")
    for item in many(call.fields.get("content")):
        yield from (
            (code, "update.content") for code in _in_text(obj(obj(item).get("content")).get("text"))
        )
    for said in (raw, *(told.get(name) for told in _objects(raw) for name in _TEXTS)):
        yield from ((code, "update.rawOutput") for code in _in_text(said))


def _objects(raw: Any) -> Iterator[dict[str, Any]]:
    for told in map(obj, many(raw) or [raw]):
        yield told
        yield from (obj(told.get(name)) for name in _HOLDERS)


def _in_text(said: Any) -> Iterator[int]:
    """Yield the codes on the first line and the last, where agents write how a command ended."""
    if not isinstance(said, str):
        return
    for edge, place in ((said[:_EDGE], 0), (said[-_EDGE:], -1)):
        lines = [line for line in edge.splitlines() if line.strip(" `\t\r")]
        if lines and (match := _LINE(lines[place].strip())) is not None:
            yield int(match["code"])
