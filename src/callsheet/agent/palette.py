"""The default handler: a palette of slash commands, one for each tool. It needs no model and no network.

What can be typed, a line each:

    /read path=README.md limit=5     a tool and its arguments; words without a name fill them in order
    !make test                       a shell command
    /help, /help read, /tools        what can be typed, and which tools there are

Lines are run one after another; under a first line `/parallel`, all at the same time. Every line is parsed
before anything is run: if one can't be, nothing is. A call that fails does not keep the next from running;
the tool itself checks its arguments, and its error says what is wrong with them.

Words are split by `shlex`, so quotes hold words together, but a backslash is only a backslash: patterns and
Windows paths have many.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from callsheet.agent.handler import Command, Prompt, StopReason, Turn
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.report.patterns import lazy
from callsheet.tools.arguments import value_of
from callsheet.tools.tool import Registry, Tool

PARALLEL, HELP, TOOLS, SHELL = "parallel", "help", "tools", "bash"

_HEAD = lazy(r"/([A-Za-z0-9_][\w.-]*)(?:\s+(.*))?")
_LONGEST = 100
"""Characters of a line that are quoted in a message or a plan."""

_OWN = (
    Command(HELP, "Tell what can be typed", "[tool]"),
    Command(TOOLS, "List the tools"),
    Command(PARALLEL, "Run the lines under it at the same time"),
)
_HELP = ("tool", "named", "shell", "lines", "parallel", "more")


class Line(NamedTuple):
    """A line that was typed: its command, and the arguments. Those of the palette's own are plain text."""

    text: str
    command: str
    arguments: dict[str, JsonValue] | str


class BadLine(CallsheetError):
    """A line can't be run. The message is an English one, or `phrase` and its `words` in any language."""

    def __init__(self, message: str, phrase: str = "", **words: str) -> None:
        super().__init__(message)
        self.phrase: str = phrase
        self.words: dict[str, str] = words


# Parsing


def parse(text: str, tools: Registry) -> tuple[list[Line], list[BadLine]]:
    """Return the lines that were typed, and what is wrong with those that can't be run."""
    lines: list[Line] = []
    problems: list[BadLine] = []
    for line in filter(None, map(str.strip, text.split("\n"))):
        try:
            lines.append(_line(line, tools))
        except BadLine as exc:
            problems.append(exc)
    return lines, problems


def _line(line: str, tools: Registry) -> Line:
    if line.startswith("!"):
        command = line[1:].strip()
        if not command:
            raise BadLine("! needs a shell command behind it, such as !make test")
        return Line(line, _tool(SHELL, tools).name, {"command": command})
    head = _HEAD.fullmatch(line)
    if head is None:
        if line.startswith("/"):
            raise _unknown(line.split()[0])
        raise BadLine(line, "typed_no_command", line=line)
    name, rest = head[1], (head[2] or "").strip()
    if name in (HELP, TOOLS, PARALLEL) and name not in tools:
        return Line(line, name, rest.removeprefix("/"))
    return Line(line, name, arguments_of(_tool(name, tools), rest))


def _tool(name: str, tools: Registry) -> Tool:
    found = tools.get(name)
    if found is None:
        raise _unknown(f"/{name}", *tools.nearest(name))
    return found


def _unknown(name: str, *near: str) -> BadLine:
    names = ", ".join(f"`/{one}`" for one in near)
    return BadLine(f"there is no command {name}", "typed_unknown", name=name, names=names)


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
        """Return one for each tool, and a few about the palette itself."""
        made = [
            Command(one.name, _first_line(one.description) or one.name, usage_of(one) or None)
            for one in tools
        ]
        taken = {one.name for one in made}
        return [*made, *(one for one in _OWN if one.name not in taken)]

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run what was typed."""
        messages = _Messages(turn)
        for problem in await turn.session.connected():
            if problem not in self._reported:
                self._reported.add(problem)
                await messages.send(problem)
        lines, problems = parse(typed_text(prompt.blocks, turn.session.cwd), turn.tools)
        if lines and not problems:
            await _run(lines, turn, messages)
        elif not lines and all(one.phrase == "typed_no_command" for one in problems):
            await messages.send(messages.phrase("typed_nothing"))
        else:
            texts = [messages.problem(one) for one in problems]
            if lines:
                texts.append(messages.phrase("typed_none_run"))
            await messages.send("\n".join(f"- {one}" for one in texts) if texts[1:] else texts[0])
        return None


class _Messages:
    """Messages to the user, in their language, each in a paragraph of its own."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._is_first: bool = True
        self.phrase: Callable[..., str] = turn.session.phrase

    async def send(self, text: str) -> None:
        await self._turn.say(text if self._is_first else f"\n\n{text}")
        self._is_first = False

    def cut(self, line: str) -> str:
        """Return a line without secrets, and then cut: half a secret would not be found."""
        return _cut(self._turn.session.guard.clean(line))

    def problem(self, problem: BadLine) -> str:
        if not problem.phrase:
            return str(problem)
        names = problem.words.pop("names", "")
        text = self.phrase(
            problem.phrase, **{key: code(self.cut(word)) for key, word in problem.words.items()}
        )
        if problem.phrase == "typed_unknown":
            text += f" {self.phrase('typed_nearest', names=names) if names else self.phrase('help_more')}"
        return text


async def _run(lines: Sequence[Line], turn: Turn, messages: _Messages) -> None:
    in_parallel = lines[0].command == PARALLEL and isinstance(lines[0].arguments, str)
    calls = [(one.command, one.arguments) for one in lines if not isinstance(one.arguments, str)]
    shown = [messages.cut(one.text) for one in lines if not isinstance(one.arguments, str)]

    async def show_plan(done: int, running: int) -> None:
        """Show how far the calls are, if there are several."""
        status = ["completed"] * done + ["in_progress"] * running + ["pending"] * len(calls)
        if len(calls) > 1:
            await turn.plan(
                [
                    {"content": one, "status": state}
                    for one, state in zip(shown, status, strict=False)
                ]
            )

    async def run(first: int, count: int) -> None:
        await show_plan(first, count)
        batch = calls[first : first + count]
        results = await turn.run_all(batch) if count > 1 else [await turn.run(*batch[0])]
        for number, result in enumerate(results, first):
            if not result.success:
                await messages.send(f"{code(shown[number])}: {_first_line(result.error or '')}")
        await show_plan(first + count, 0)

    number = 0
    for line in lines:
        if isinstance(line.arguments, str):
            if line.command != PARALLEL:
                await messages.send(_help(line.command, line.arguments, turn, messages))
        elif not in_parallel:
            await run(number, 1)
            number += 1
    if in_parallel and calls:
        await run(0, len(calls))


def _help(command: str, topic: str, turn: Turn, messages: _Messages) -> str:
    if command == TOOLS:
        return "\n".join(f"- {_usage(one)}: {_first_line(one.description)}" for one in turn.tools)
    if not topic:
        return "\n".join(f"- {messages.phrase(f'help_{key}')}" for key in _HELP)
    try:
        tool = _tool(topic, turn.tools)
    except BadLine as exc:
        return messages.problem(exc)
    properties: Any = tool.schema.get("properties", {})
    described = [
        f"- {code(name)}: {_first_line(about.get('description') or '') or about.get('type', '')}"
        for name, about in properties.items()
    ]
    return "\n".join([f"{_usage(tool)}: {tool.description}", "", *described]).rstrip()


def _usage(tool: Tool) -> str:
    return code(f"/{tool.name} {usage_of(tool)}".rstrip())


def code(text: str) -> str:
    """Return text as Markdown's code."""
    text = _cut(text)
    ticks = "``" if "`" in text else "`"
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{room}{text}{room}{ticks}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
