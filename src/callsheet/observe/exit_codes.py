"""Find how a call's command ended, as far as that is evident: from terminals, raw output, or text.

What a terminal or the raw output reports is certain. In a text, only a status line counts: a line with
nothing else, which the agent wrote above or below the command's output. The output itself is no evidence,
and neither is the command.

This module also decides whether a call was running when the user cancelled, and so may have been stopped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from callsheet.observe.evidence import inner, of_a_command, parts, raw_texts, shows_something, texts
from callsheet.observe.model import Json, ObservedCall, obj, text
from callsheet.observe.tool_identity import command_of, entry_kind

_KEYS = ("exit_code", "exitCode", "exit", "returncode", "return_code", "returnCode", "exit_status")
_VAGUE_KEYS = ("code", "status")
"""These may mean anything, unless what stands beside them is about a process."""
_BESIDE = frozenset(("stdout", "stderr", "signal", "command", "aggregated_output"))

_OF_ANOTHER = frozenset(
    f"{word}{end}"
    for word in ("bash", "shell", "task", "process", "job", "session", "terminal")
    for end in ("_id", "Id")
) | {"pid"}
"""Arguments that name a process which goes on."""

_LONGEST_CODE = 10
_EDGE = 300
_CODE = r"(?P<code>-?\d{1,10})(?P<rest>(?:[.!]|(?:[,;:·|]| in | after | - ).{1,200})?)"
_LABELLED = re.compile(
    rf"(?:(?:final|process|command|shell|bash|error|status|result):? )?(?:exit|return) ?(?:code|status|value)"
    rf"(?: ?[:=]| is| was| of)? ?{_CODE}"
).fullmatch
"""`Exit code: 2`, `EXIT_CODE=3`, `return code 1`."""
_SHORT = re.compile(rf"exit(?:ed)?(?: with)? ?[:=]? ?{_CODE}").fullmatch
"""`(exit 127)`, `[exited with 2]`: only in brackets."""
_ENDED = re.compile(
    r"(?=.*\b(?:code|status|exit)\b)(?:(?:error|status|result|failure|failed):? )?"
    r"(?:(?:the |your |shell |bash |background |tool )*"
    r"(?:command|process|program|script|task|execution|shell|bash|tool)"
    r"(?: '[^']{1,200}'| \"[^\"]{1,200}\"| [\w ./:-]{1,60})?? )?"
    r"(?:has |was )?(?:failed|exited|finished|completed|terminated|ended|returned|succeeded|crashed|stopped)"
    r"(?: with| by)?(?: an?| the)?(?: non-?zero)?(?: (?:exit|return|error))?(?: (?:code|status))?"
    rf"(?: ?[:=])? ?{_CODE}"
).fullmatch
"""`Command failed with exit code 3`, `the process exited with status 1: no such file`."""
_PLAIN = re.compile(
    r"(?:command|process)(?: exit| exited with| failed with)? (?:code|status)[:=]? ?" + _CODE
).fullmatch
_TAGGED = re.compile(r"<(?:exit_?code|return_?code|exit_?status)>\s*(-?\d{1,10})\s*</[\w-]+>").match
_MARKS = re.compile(r"^[^\w\[(<\"'$]+|[*`]+|\s[-=]{2,}$").sub
_BRACKETS = str.maketrans(dict.fromkeys("()[]<>", " ") | {"_": " "})
_RETURNED = re.compile(r"<return-code>\s*(-?\d{1,10})\s*</return-code>").sub
_BESIDE_IT = re.compile(
    r"(?i)(?:signal|background pids?|process group pgid|wall time|duration|elapsed|took|chunk id|cwd"
    r"|directory|here are the results|command:|ran:|\$ )[^\n]*|`{3}\w*|-{3,}|={3,}|"
).fullmatch
"""Lines that agents write next to the exit code."""
_ONE_PROGRAM = re.compile(r"\s*(?:\w+=[\w./-]*\s+)*([\w./+-]+)(?:\s[^;|&<>()`$\n]*)?").fullmatch
_NO_SUCH = re.compile(
    r"(?:\[stderr\] *)?(?:[\w./-]*sh: )?(?:(?:line )?\d+: )?"
    r"(?:(?P<program>[^\s:]+): (?:command )?not found|command not found: (?P<last>\S+))"
).fullmatch
"""How shells report a program that does not exist."""
_ASKS_FOR_CODES = re.compile(r"\$\?|PIPESTATUS|LASTEXITCODE|ERRORLEVEL").search
_PROGRAM = re.compile(
    r"(?:^|[;&|\n({])\s*(?:\w+=\S*\s+|(?:sudo|command|time|env)\s+)*([\w./-]+)(?:\s+([\w-]+))?"
)
_PRINTERS = frozenset(
    (
        *("cat", "tac", "head", "tail", "less", "more", "bat", "nl", "zcat", "strings", "grep"),
        *("egrep", "fgrep", "zgrep", "rg", "ag", "ack", "sed", "awk", "gawk", "find", "fd"),
        *("echo", "printf", "jq", "yq", "cut", "sort", "uniq", "tr", "column", "diff"),
        *("journalctl", "dmesg", "curl", "wget", "type", "history", "xxd", "od"),
    )
)
_PRINTS_LOGS = frozenset(
    (
        *("git show", "git log", "git diff", "git grep", "git blame", "docker logs", "podman logs"),
        *("kubectl logs", "gh run", "gh api", "adb logcat", "docker compose"),
    )
)
"""Programs that print what others have written: what they print may look like a status line."""
_SECTION = re.compile(
    r"(?i)^\W*(?:stdout|stderr|output|error output)\W*$|^\W*(?:stdout|stderr|output):", re.M
)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_IN_A_SHELL = re.compile(r"\S*sh\s+-\w*c\s").match
_NEXT = re.compile(r"&&|[;\n]").split
_LAST_PROGRAM = re.compile(r"(?:^|[;&|\n(])\s*(?:\w+=\S*\s+)*(?:command\s+)?([\w./\[-]+)[^;&|\n]*$")
_ONE_IS_AN_ANSWER = frozenset((
    "grep", "egrep", "fgrep", "rg", "ag", "ack", "diff", "cmp", "test", "[", "[[", "pgrep",
    "pidof", "which", "command", "type", "expr", "comm", "git grep", "git diff",
))  # fmt: skip
_MAX_COMMAND = 2000


class CommandExit(Struct, frozen=True):
    """How a command ended.

    Attributes:
        code: The exit code.
        where: How it is known, as the beginning of a phrase that the code completes.
        field: The field of the update that has it.
        is_fine: Whether the code is no failure: 0, or 1 of a program that answers a question by it.
    """

    code: int
    where: str
    field: str
    is_fine: bool


def exit_of(call: ObservedCall) -> CommandExit | None:
    """Return how a call's command ended, or None if there is no evidence."""
    found = _reported(call)
    if found is None:
        return None
    code, where, field = found
    return CommandExit(code, where, field, code == 0 or (code == 1 and _is_an_answer(call)))


def _reported(call: ObservedCall) -> tuple[int, str, str] | None:
    if call.exit_code is not None:
        return call.exit_code, "its terminal says exit code", "update.status"
    code = _in_meta(call)
    if code is not None:
        return code, "its terminal says exit code", "update._meta"
    if _looks_after_another(call):
        return None
    raw: Any = call.fields.get("rawOutput")
    if type(raw) is str and not _prints_others(call):
        raw = of_a_command(raw)
    found = parts(raw)
    code = _in_raw_output(found[0]) if len(found) == 1 else None
    if code is not None:
        return code, "its raw output says exit code", "update.rawOutput"
    if "execute" not in (call.fields.get("kind"), entry_kind(call)):
        return None
    in_texts = _in_texts(call, raw)
    if in_texts is not None or any(map(_has_no_code, found)):
        return in_texts
    return _of_no_command(call, raw)


def _in_meta(call: ObservedCall) -> int | None:
    """Return the code in a call's `_meta`, where some v1 agents put it."""
    meta = call.fields.get("_meta")
    code: Any = obj(obj(meta).get("terminal_exit")).get("exit_code") if meta else None
    return code if type(code) is int else None


def _looks_after_another(call: ObservedCall) -> bool:
    """Whether the call asks about a process that another call has started: the code is not its own."""
    fields = obj(call.fields.get("rawInput"))
    return not _OF_ANOTHER.isdisjoint(fields) and not command_of(call)


def _in_raw_output(raw: Json) -> int | None:
    for fields in inner(raw):
        keys = _KEYS if _BESIDE.isdisjoint(fields) else (*_KEYS, *_VAGUE_KEYS)
        for key in keys:
            code = _as_code(fields.get(key)) if key in fields else None
            if code is not None:
                return code
    return None


def _has_no_code(raw: Json) -> bool:
    """Whether a raw output reports that there is no exit code, or none yet."""
    return any(fields.get(key) == -1 for fields in inner(raw) for key in _KEYS)


def _as_code(value: Any) -> int | None:
    """Return a value as an exit code; None if it is none.

    Agents use -1 for an unknown code and for a command that is still running, so it counts as none.
    """
    if type(value) is str and len(value) <= _LONGEST_CODE and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if type(value) is int and value != -1 else None


def _in_texts(call: ObservedCall, raw: Any) -> tuple[int, str, str] | None:
    is_printed = _prints_others(call)
    for field, found in _shown(call, raw):
        code = _in_text(found, is_printed=is_printed)
        if code is not None:
            return code, "its output says exit code", field
    return None


def _shown(call: ObservedCall, raw: Any) -> Iterator[tuple[str, str]]:
    """Yield the texts that a command has printed: its content, and its raw output if that is a text."""
    content = call.fields.get("content")
    for shown in texts(content):
        yield "update.content", shown
    if text(raw) is not None or not shows_something(content):
        for own in raw_texts(raw):
            yield "update.rawOutput", own


def _of_no_command(call: ObservedCall, raw: Any) -> tuple[int, str, str] | None:
    """Return the code of a command that is a single program, which the shell did not find."""
    asked = _ONE_PROGRAM(command_of(call)[:_MAX_COMMAND])
    if asked is None:
        return None
    for field, found in _shown(call, raw):
        phrase = _NO_SUCH(found[:_EDGE].strip("` \t\r\n").partition("\n")[0])
        if phrase is not None and asked[1] in (phrase["program"], phrase["last"]):
            return 127, "its shell knows no such command: exit code", field
    return None


def _in_text(found: str, *, is_printed: bool) -> int | None:
    """Return the exit code that an agent has written above or below an output.

    Where the command prints what others wrote, only one above sections that the agent has named counts.
    """
    above = _RETURNED(r"<returncode>\1</returncode>", found[:_EDGE]).strip("` \t\r\n").split("\n")
    below = found[-_EDGE:].rstrip("` \t\r\n").split("\n")
    if is_printed:
        return _first_status(above) if _SECTION.search(found[:_EDGE]) else None
    code = _first_status(above)
    return _first_status(reversed(below)) if code is None else code


def _first_status(lines: Iterable[str]) -> int | None:
    line = next((line for each in lines if not _BESIDE_IT(line := each.strip())), "")
    return _status_in(line)


def _status_in(line: str) -> int | None:
    """Return the exit code if a line is nothing but a status, in any wording, brackets and marks."""
    line = _MARKS("", line).strip()
    tagged = _TAGGED(line)
    if tagged is not None:
        return int(tagged[1])
    in_brackets = line[:1] in ("(", "[", "<")
    phrase = " ".join(line.translate(_BRACKETS).lower().split())
    phrase = phrase.replace("exitcode", "exit code").replace("returncode", "return code")
    match = (
        _LABELLED(phrase)
        or _ENDED(phrase)
        or _PLAIN(phrase)
        or (_SHORT(phrase) if in_brackets else None)
    )
    return int(match["code"]) if match is not None else None


def _prints_others(call: ObservedCall) -> bool:
    """Whether the command prints text that others have written, or an exit code that it asked for."""
    command = command_of(call)[:_MAX_COMMAND]
    if _ASKS_FOR_CODES(command):
        return True
    for match in _PROGRAM.finditer(_QUOTED.sub("''", command)):
        program = match[1].rpartition("/")[2]
        if program in _PRINTERS or f"{program} {match[2]}" in _PRINTS_LOGS:
            return True
    return False


def _is_an_answer(call: ObservedCall) -> bool:
    """Whether exit code 1 is no failure: a search that found nothing, or a comparison."""
    if call.fields.get("kind") == "search":
        return True
    command = command_of(call)[-_MAX_COMMAND:]
    if _IN_A_SHELL(command):
        return _answers(command)  # what is quoted is the command
    last = _QUOTED.sub("''", command).rstrip("; \n").rpartition(";")[2]
    # In `test -f a && b`, the code may be of either.
    return any(map(_answers, _NEXT(last)))


def _answers(command: str) -> bool:
    match = _LAST_PROGRAM.search(command)
    if match is None:
        return False
    program = match[1].rpartition("/")[2]
    if program == "git":
        program = " ".join(match[0][match.start(1) - match.start() :].split()[:2])
    return program in _ONE_IS_AN_ANSWER


# Cancels

CROSSED = 0.005
"""Seconds in which a cancel and the call's own end may cross on the wire."""


def ran_when_cancelled(call: ObservedCall, ended: int | None) -> bool:
    """Whether a call that ended on this line began before its turn was cancelled, and ended after it."""
    turn = call.turn
    if turn is None or turn.cancelled is None or ended is None:
        return False
    return call.first < turn.cancelled < ended and not _has_crossed(call)


def did_its_work(call: ObservedCall) -> bool:
    """Whether a call had certainly finished its work: its command succeeded."""
    found = exit_of(call)
    return found is not None and found.is_fine


def _has_crossed(call: ObservedCall) -> bool:
    begun = call.turn.cancelled_at if call.turn is not None else None
    return begun is not None and call.ended_at is not None and call.ended_at - begun < CROSSED
