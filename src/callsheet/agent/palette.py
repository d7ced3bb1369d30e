"""The default handler: a palette of slash commands, one for each tool. It needs no model and no network.

What can be typed, a line each:

    /read path=README.md limit=5     a tool and its arguments; words without a name fill them in order
    !make test                       a shell command
    /help                            what can be typed, and which tools there are

Lines are run one after another. Every line is parsed before anything is run: if one can't be, nothing is. A
call that fails does not keep the next from running; the tool itself checks its arguments, and its error says
what is wrong with them.

Words are split by `shlex`, so quotes hold words together, but a backslash is only a backslash: patterns and
Windows paths have many.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from callsheet.agent.handler import Command, Prompt, StopReason, Turn
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.tools.arguments import value_of
from callsheet.tools.tool import Registry, Tool

HELP, SHELL = "help", "bash"

_HELP = ("help_tool", "help_named", "help_shell", "help_lines")


class Line(NamedTuple):
    """A line that was typed: the tool that it runs, and its arguments. `/help` has none."""

    text: str
    command: str
    arguments: dict[str, JsonValue] | None


class BadLine(CallsheetError):
    """A line can't be run. The message is for the user."""


# Parsing


def parse(
    text: str, tools: Registry, phrase: Callable[..., str]
) -> tuple[list[Line], list[BadLine]]:
    """Return the lines that were typed, and what is wrong with those that can't be run.

    Args:
        text: What was typed.
        tools: The tools that can be run.
        phrase: Returns a phrase in the user's language.
    """
    lines: list[Line] = []
    problems: list[BadLine] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        try:
            lines.append(_line(line, tools, phrase))
        except BadLine as exc:
            problems.append(exc)
    return lines, problems


def _line(line: str, tools: Registry, phrase: Callable[..., str]) -> Line:
    if not line.startswith(("/", "!")):
        raise BadLine(phrase("typed_no_command", line=code(line)))
    if line == "!":
        raise BadLine("! needs a shell command behind it, such as !make test")
    name, _, rest = (line[1:].replace("\t", " ") + " ").partition(" ")
    if line.startswith("!"):
        name, rest = SHELL, f"command={shlex.quote(line[1:].strip())}"
    tool = tools.get(name)
    if tool is None and name == HELP:
        return Line(line, HELP, None)
    if tool is None:
        problem = phrase("typed_unknown", name=code(f"/{name}"))
        near = ", ".join(code(f"/{one}") for one in tools.nearest(name))
        raise BadLine(f"{problem} {phrase('typed_nearest', names=near)}" if near else problem)
    return Line(line, tool.name, arguments_of(tool, rest))


def arguments_of(tool: Tool, text: str) -> dict[str, JsonValue]:
    """Return the arguments in a line: `key=value`, or words in the order of the schema.

    Raises:
        BadLine: There is an open quote, or more than the tool takes.
    """
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = lexer.escape = ""
    try:
        words = list(lexer)
    except ValueError as exc:
        raise BadLine(f"/{tool.name}: {exc}; put it in the other kind of quotes") from None
    found: dict[str, JsonValue] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            left = [name for name in _ordered(tool.schema) if name not in found]
            if not left:
                usage = f"/{tool.name} {usage_of(tool)}".rstrip()
                raise BadLine(f"/{tool.name}: {word!r} is too much; it is {usage}")
            key, value = left[0], word
        found[key] = value_of(value, key, tool.schema)
    return found


def _ordered(schema: JsonObject) -> list[str]:
    """Return the names of all arguments, the required ones first."""
    required = schema.get("required", ())
    return sorted(schema.get("properties", ()), key=lambda name: name not in required)


def usage_of(tool: Tool) -> str:
    """Return what a command takes: `path [offset] [limit]`."""
    required = tool.schema.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in _ordered(tool.schema))


def typed_text(blocks: Iterable[JsonObject], cwd: str) -> str:
    """Return the text of a prompt. A file that was mentioned becomes its path, in the line before it."""
    text = ""
    after_mention = False
    for block in blocks:
        holder = block.get("resource") if block.get("type") == "resource" else block
        uri = holder.get("uri") if is_object(holder) else None
        if isinstance(uri, str) and uri:
            text = f"{text.rstrip()} {shlex.quote(_path(uri, cwd))}".lstrip()
            after_mention = True
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            piece: str = block["text"]
            text += f" {piece}" if after_mention and piece[:1].strip() else piece
            after_mention = False
    return text


def _path(uri: str, cwd: str) -> str:
    """Return the path of a file's address, from the session's directory on; else the address itself."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # a host in brackets that is no address
        return uri
    if parts.scheme != "file" or not parts.path:
        return uri
    text = unquote(parts.path)
    path = PurePath(text.lstrip("/") if os.name == "nt" else text)
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


# Running


class Palette:
    """Offer a slash command for every tool, and run what the user types."""

    def __init__(self) -> None:
        self._reported: set[str] = set()

    def commands(self, tools: Sequence[Tool]) -> Sequence[Command]:
        """Return one for each tool, and `/help`."""
        made = {
            one.name: Command(
                one.name, _first_line(one.description) or one.name, usage_of(one) or None
            )
            for one in tools
        }
        return list(({HELP: Command(HELP, "Tell what can be typed")} | made).values())

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run what was typed."""
        phrase = turn.session.phrase
        for problem in await turn.session.connected():
            if problem not in self._reported:
                self._reported.add(problem)
                await turn.say(f"{problem}\n\n")
        typed = typed_text(prompt.blocks, turn.session.cwd)
        lines, problems = parse(typed, turn.tools, phrase)
        if not any(line.strip().startswith(("/", "!")) for line in typed.split("\n")):
            await turn.say(phrase("typed_nothing"))
        elif problems:
            texts = [str(one) for one in problems] + [phrase("typed_none_run")]
            await turn.say("\n".join(f"- {one}" for one in texts))
        else:
            for line in lines:
                await _run(line, turn)
        return None


async def _run(line: Line, turn: Turn) -> None:
    """Run one line. The user sees the call itself; what is said besides is why it failed."""
    if line.arguments is None:
        about = [turn.session.phrase(name) for name in _HELP]
        for one in turn.tools:
            usage = code(f"/{one.name} {usage_of(one)}".rstrip())
            about.append(f"{usage}: {_first_line(one.description)}")
        await turn.say("".join(f"- {one}\n" for one in about))
        return
    result = await turn.run(line.command, line.arguments)
    if not result.success:
        await turn.say(f"{code(line.text)}: {_first_line(result.error or '')}\n\n")


def code(text: str) -> str:
    """Return text as Markdown's code."""
    ticks = "``" if "`" in text else "`"
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{room}{text}{room}{ticks}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
