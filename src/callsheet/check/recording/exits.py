"""How a call's command ended, as far as the recording tells: by terminals, raw output, or text.

What a terminal or the raw output says is sure. In a text only forms that agents write count, on the first
or the last line, and only if the command can't just have printed some file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from callsheet.describe.commands import classify
from callsheet.report.kinds import ToolKind

from .moments import Call, Json
from .results import inner, of_a_command, parts, raw_texts, shows_something, texts
from .tools import command_of, entry_kind
from .values import obj, text

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
_CODE = r"(?P<code>-?\d{1,10})"
_MARKED = re.compile(
    rf"(?i)\[(?:process |command )?exit(?:ed)?(?: with)?(?: code| status)?[:=]? *{_CODE}\]"
    rf"|\((?:process |command )?exit(?:ed)?(?: with)?(?: code| status)[:=]? *{_CODE.replace('code', 'c2')}\)"
    rf"|<(?:exit_code|exitcode|returncode)>{_CODE.replace('code', 'c3')}</\w+>"
    rf"|(?:(?:command|process) (?:(?:failed|succeeded|exited) with )?(?:a )?(?:non-?zero )?(?:exit )?|exit "
    rf"|exited with (?:exit )?)(?:code|status)[:=]? *"
    rf"{_CODE.replace('code', 'c4')}\.?"
    rf"|\[command (?:failed|succeeded|finished|completed) with (?:exit )?(?:code|status)[:=]? *"
    rf"{_CODE.replace('code', 'c5')}\]"
    rf"|<(?:[\w :-]{{1,60}} )?(?:exited|finished|completed|failed) with (?:exit )?(?:code|status)[:=]? *"
    rf"{_CODE.replace('code', 'c6')}>"
    rf"|\*\*exit[_ ](?:code|status):\*\* *{_CODE.replace('code', 'c8')}"
    rf"|(?:error: )?command failed \(exit (?:code|status)[:=]? *{_CODE.replace('code', 'c7')}\)\.?"
)
_RETURNED = re.compile(r"<return-code>\s*(-?\d{1,10})\s*</return-code>").sub
_BESIDE_IT = re.compile(
    r"(?i)(?:signal|background pids?|process group pgid|wall time|duration|chunk id|here are the results)\b"
    r"[^\n]*"
).fullmatch
"""Lines that agents write next to the exit code."""
_LABEL = re.compile(r"^\*\*\w{1,20}:\*\* +|^- (?=\*\*exit)").sub
_ONE_PROGRAM = re.compile(r"\s*(?:\w+=[\w./-]*\s+)*([\w./+-]+)(?:\s[^;|&<>()`$\n]*)?").fullmatch
_NO_SUCH = re.compile(
    r"(?:\[stderr\] *)?(?:[\w./-]*sh: )?(?:(?:line )?\d+: )?"
    r"(?:(?P<program>[^\s:]+): (?:command )?not found|command not found: (?P<last>\S+))"
).fullmatch
"""What shells say of a program that isn't there."""
_PRINTS_CODES = re.compile(r"\$\?|PIPESTATUS|LASTEXITCODE|ERRORLEVEL").search
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_IN_A_SHELL = re.compile(r"\S*sh\s+-\w*c\s").match
_NEXT = re.compile(r"&&|[;\n]").split
_ASKS_FOR_IT = re.compile(r"(?:^|[;\n])\s*exit\s+([1-9]\d{0,2})\s*;?\s*$")
_OTHER_WAYS_OUT = re.compile(r"\b(?:exit|exec|return|kill|trap)\b|[#'\"`\\]|<<|\$\(")
_LAST_PROGRAM = re.compile(r"(?:^|[;&|\n(])\s*(?:\w+=\S*\s+)*(?:command\s+)?([\w./\[-]+)[^;&|\n]*$")
_ONE_IS_AN_ANSWER = frozenset(
    [
        "grep",
        "egrep",
        "fgrep",
        "rg",
        "ag",
        "ack",
        "diff",
        "cmp",
        "test",
        "[",
        "[[",
        "pgrep",
        "pidof",
        "which",
        "command",
        "type",
        "expr",
        "comm",
        "git grep",
        "git diff",
    ]
)
_MAX_COMMAND = 2000


class Exit(Struct, frozen=True):
    """A command's end. `where` says how it is known: "its terminal says exit code"."""

    code: int
    where: str
    field: str
    is_fine: bool


def exit_of(call: Call) -> Exit | None:
    """Give how a call's command ended, or None if nothing tells."""
    found = _told(call)
    if found is None:
        return None
    code, where, field = found
    return Exit(code, where, field, code == 0 or (code == 1 and _is_an_answer(call)))


def _told(call: Call) -> tuple[int, str, str] | None:
    if call.exit_code is not None:
        return call.exit_code, "its terminal says exit code", "update.status"
    code = _in_meta(call)
    if code is not None:
        return code, "its terminal says exit code", "update._meta"
    if _looks_after_another(call):
        return None
    raw: Any = call.fields.get("rawOutput")
    if type(raw) is str and not _may_print_codes(call):
        raw = of_a_command(raw)
    found = parts(raw)
    code = _in_raw_output(found[0]) if len(found) == 1 else None
    if code is not None:
        return code, "its raw output says exit code", "update.rawOutput"
    if "execute" not in (call.fields.get("kind"), entry_kind(call)):
        return None
    in_texts = _in_texts(call, raw)
    if in_texts is not None or any(map(_says_unknown, found)):
        return in_texts
    return _in_command(call) or _of_no_command(call, raw)


def _in_meta(call: Call) -> int | None:
    """Give the code that an update tells of a terminal by the way, as some v1 agents do."""
    meta = call.fields.get("_meta")
    code: Any = obj(obj(meta).get("terminal_exit")).get("exit_code") if meta else None
    return code if type(code) is int else None


def _looks_after_another(call: Call) -> bool:
    """Whether the call asks how a process does that another has begun: the code is not its own."""
    told = obj(call.fields.get("rawInput"))
    return not _OF_ANOTHER.isdisjoint(told) and not command_of(call)


def _in_raw_output(raw: Json) -> int | None:
    for told in inner(raw):
        keys = _KEYS if _BESIDE.isdisjoint(told) else (*_KEYS, *_VAGUE_KEYS)
        for key in keys:
            code = _as_code(told.get(key)) if key in told else None
            if code is not None:
                return code
    return None


def _says_unknown(raw: Json) -> bool:
    """Whether a raw output says that there is no exit code, or none yet."""
    return any(told.get(key) == -1 for told in inner(raw) for key in _KEYS)


def _as_code(value: Any) -> int | None:
    """Give an exit code. By -1, agents mean that it isn't known, or that the command goes on."""
    if type(value) is str and len(value) <= _LONGEST_CODE and value.removeprefix("-").isdecimal():
        value = int(value)
    return value if type(value) is int and value != -1 else None


def _in_texts(call: Call, raw: Any) -> tuple[int, str, str] | None:
    for field, found in _shown(call, raw):
        code = _in_text(found)
        if code is not None and not _may_print_codes(call):
            return code, "its output says exit code", field
    return None


def _shown(call: Call, raw: Any) -> Iterator[tuple[str, str]]:
    """Give the texts that tell what a command has printed: its content, its raw output if that is one."""
    content = call.fields.get("content")
    for shown in texts(content):
        yield "update.content", shown
    if text(raw) is not None or not shows_something(content):
        for own in raw_texts(raw):
            yield "update.rawOutput", own


def _of_no_command(call: Call, raw: Any) -> tuple[int, str, str] | None:
    """Give the code of a command that is one program, of which a shell says that there is none."""
    asked = _ONE_PROGRAM(command_of(call)[:_MAX_COMMAND])
    if asked is None:
        return None
    for field, found in _shown(call, raw):
        said = _NO_SUCH(found[:_EDGE].strip("` \t\r\n").partition("\n")[0])
        if said is not None and asked[1] in (said["program"], said["last"]):
            return 127, "its shell knows no such command: exit code", field
    return None


def _in_text(found: str) -> int | None:
    """Give the exit code that an agent has written above or below an output."""
    above = _RETURNED(r"<returncode>\1</returncode>", found[:_EDGE]).strip("` \t\r\n").split("\n")
    below = found[-_EDGE:].rstrip("` \t\r\n").split("\n")
    for lines in (above, reversed(below)):
        line = next((line for each in lines if not _BESIDE_IT(line := each.strip())), "")
        match = _MARKED.fullmatch(_LABEL("", line))
        if match is not None:
            return int(next(filter(None, match.groups())))
    return None


def _may_print_codes(call: Call) -> bool:
    """Whether the command itself may have printed a code: some file's, or one that it asked for."""
    command = command_of(call)[:_MAX_COMMAND]
    if not command:
        return False
    return bool(_PRINTS_CODES(command)) or classify(command).kind != ToolKind.EXECUTE


def _in_command(call: Call) -> tuple[int, str, str] | None:
    """Give the code of a command that itself ends by `exit 3`, where there is no other way out."""
    command = command_of(call)
    asks = _ASKS_FOR_IT.search(command) if len(command) <= _MAX_COMMAND else None
    if asks is None or _OTHER_WAYS_OUT.search(command[: asks.start() + 1]):
        return None
    return int(asks[1]), "its command ends by exit", "update.status"


def _is_an_answer(call: Call) -> bool:
    """Whether 1 is no failure: a search that found nothing, a comparison."""
    if call.fields.get("kind") == "search":
        return True
    command = command_of(call)[-_MAX_COMMAND:]
    if _IN_A_SHELL(command):
        return _answers(command)  # what is quoted is the command
    last = _QUOTED.sub("''", command).rstrip("; \n").rpartition(";")[2]
    # Of `test -f a && b`, nobody knows whose code it is.
    return any(map(_answers, _NEXT(last)))


def _answers(command: str) -> bool:
    match = _LAST_PROGRAM.search(command)
    if match is None:
        return False
    program = match[1].rpartition("/")[2]
    if program == "git":
        program = " ".join(match[0][match.start(1) - match.start() :].split()[:2])
    return program in _ONE_IS_AN_ANSWER
