"""The default handler: a palette of slash commands, one for each tool. It needs no model and no network.

What can be typed, a line each:

    /read path=README.md limit=5     a tool and its arguments; those without a name fill them in order
    /read {"path": "README.md"}      the same as JSON
    !make test                       a shell command
    /help, /help read, /tools        what can be typed, and which tools there are

Lines are run one after another; under a first line `/parallel`, all at the same time. Everything is read
before anything is run: if a line can't be, nothing is. A call that fails does not keep the next from running.

Words are split by `shlex`, so quotes hold words together, but a backslash is only a backslash: patterns and
Windows paths have many.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from callsheet.agent.handler import Command, Prompt, StopReason, Turn
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.tools.arguments import nearest, parse_json, value_of
from callsheet.tools.tool import Registry, Tool

PARALLEL, HELP, TOOLS, SHELL = "parallel", "help", "tools", "bash"

_HEAD = re.compile(r"/([A-Za-z0-9_][\w.-]*)(?:\s+(.*))?").fullmatch
_LONGEST = 100
"""Characters of a line that are quoted in a message or a plan."""

_OWN = (
    Command(HELP, "Tell what can be typed", "[tool]"),
    Command(TOOLS, "List the tools"),
    Command(PARALLEL, "Run the lines under it at the same time"),
)
_HELP = ("tool", "named", "shell", "lines", "parallel", "more")


class BadCommand(CallsheetError):
    """A line can't be run. The message is for the user."""


class UnknownCommand(BadCommand):
    """There is no such command; `near` are those that may be meant."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        super().__init__(f"there is no command {name}")
        self.name: str = name
        self.near: tuple[str, ...] = tuple(f"/{one}" for one in near)


class NotCommand(BadCommand):
    """A line that is no command at all."""


class ToolCommand(NamedTuple):
    """A call that was typed, and its line."""

    tool: str
    arguments: dict[str, JsonValue]
    line: str


class HelpCommand(NamedTuple):
    """A question about the palette itself."""

    about: str
    topic: str


class Typed(NamedTuple):
    """What was typed: what to run, whether at the same time, and what was wrong with it."""

    steps: list[ToolCommand | HelpCommand]
    problems: list[BadCommand]
    in_parallel: bool


# Reading


def parse(text: str, tools: Registry) -> Typed:
    """Read what was typed."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    in_parallel = lines[:1] == [f"/{PARALLEL}"] and PARALLEL not in tools
    typed = Typed([], [], in_parallel)
    for line in lines[in_parallel:]:
        try:
            typed.steps.append(_step(line, tools))
        except BadCommand as exc:
            typed.problems.append(exc)
    if in_parallel and not typed.problems:
        if not typed.steps:
            typed.problems.append(BadCommand(f"/{PARALLEL} needs commands in the lines under it"))
        for step in typed.steps:
            if isinstance(step, HelpCommand):
                typed.problems.append(BadCommand(f"/{step.about} can't be run in /{PARALLEL}"))
    return typed


def _step(line: str, tools: Registry) -> ToolCommand | HelpCommand:
    if line.startswith("!"):
        command = line[1:].strip()
        if not command:
            raise BadCommand("! needs a shell command behind it, such as !make test")
        return ToolCommand(_tool(SHELL, tools).name, {"command": command}, line)
    head = _HEAD(line)
    if head is None:
        raise UnknownCommand(line.split()[0], ()) if line.startswith("/") else NotCommand(line)
    name, rest = head[1], (head[2] or "").strip()
    if name in (HELP, TOOLS) and name not in tools:
        return HelpCommand(name, rest.removeprefix("/"))
    tool = _tool(name, tools)
    return ToolCommand(tool.name, arguments_of(tool, rest), line)


def _tool(name: str, tools: Registry) -> Tool:
    found = tools.get(name)
    if found is None:
        raise UnknownCommand(f"/{name}", tools.nearest(name))
    return found


def arguments_of(tool: Tool, text: str) -> dict[str, JsonValue]:
    """Return the arguments in a line: `key=value`, words in the order of the schema, or a JSON object.

    Raises:
        BadCommand: They can't be read, or one is unknown, missing or there twice.
    """
    if text.startswith("{"):
        return _object(tool, text)
    found: dict[str, JsonValue] = {}
    names = _ordered(tool.schema)
    for word in _words(tool, text):
        key, equals, value = word.partition("=")
        if not equals or key not in names:
            near = nearest(key, names) if equals and key.isidentifier() else []
            if near:
                hint = " or ".join(near)
                raise BadCommand(f"/{tool.name} has no argument {key!r}; did you mean {hint}?")
            left = [name for name in names if name not in found]
            if not left:
                raise BadCommand(f"/{tool.name}: {word!r} is too much; {_usage_hint(tool)}")
            key, value = left[0], word
        if key in found:
            raise BadCommand(f"/{tool.name}: {key} is there twice")
        found[key] = value_of(value, key, tool.schema)
    missing = [name for name in tool.schema.get("required", ()) if name not in found]
    if missing:
        raise BadCommand(f"/{tool.name}: missing {', '.join(missing)}; {_usage_hint(tool)}")
    return found


def _words(tool: Tool, text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = lexer.escape = ""
    try:
        return list(lexer)
    except ValueError as exc:
        raise BadCommand(f"/{tool.name}: {exc}; put it in the other kind of quotes") from None


def _object(tool: Tool, text: str) -> dict[str, JsonValue]:
    try:
        value = parse_json(text)
    except (ValueError, RecursionError) as exc:
        raise BadCommand(f"/{tool.name}: not JSON: {exc}") from None
    assert is_object(value)  # it starts with a brace
    return dict(value)


def _ordered(schema: JsonObject) -> list[str]:
    """Return the names of all arguments, the required ones first."""
    names = list(schema.get("properties", ()))
    required = schema.get("required", ())
    return sorted(names, key=lambda name: name not in required)


def usage_of(tool: Tool) -> str:
    """Return what a command takes: `path [offset] [limit]`."""
    required = tool.schema.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in _ordered(tool.schema))


def _usage_hint(tool: Tool) -> str:
    return f"it is /{tool.name} {usage_of(tool)}".rstrip()


def typed_text(blocks: Iterable[JsonObject], cwd: str) -> str:
    """Return the text of a prompt. A file that was mentioned becomes its path, in the line before it."""
    text = ""
    after_mention = False
    for block in blocks:
        uri = _uri(block)
        if uri is not None:
            text = f"{text.rstrip()} {shlex.quote(_path(uri, cwd))}".lstrip()
            after_mention = True
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            piece: str = block["text"]
            text += f" {piece}" if after_mention and piece[:1].strip() else piece
            after_mention = False
    return text


def _uri(block: JsonObject) -> str | None:
    kind = block.get("type")
    holder = block.get("resource") if kind == "resource" else block
    if kind not in ("resource", "resource_link") or not is_object(holder):
        return None
    uri = holder.get("uri")
    return uri if isinstance(uri, str) and uri else None


def _path(uri: str, cwd: str) -> str:
    """Return the path of a file's address, from the session's directory on; else the address itself."""
    parts = urlsplit(uri)
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
        talk = _Talk(turn)
        for problem in await turn.session.connected():
            if problem not in self._reported:
                self._reported.add(problem)
                await talk.say(problem)
        typed = parse(typed_text(prompt.blocks, turn.session.cwd), turn.tools)
        if not typed.problems and typed.steps:
            await _run(typed, turn, talk)
        elif not typed.steps and all(isinstance(one, NotCommand) for one in typed.problems):
            await talk.say(talk.phrase("typed_nothing"))
        else:
            lines = [talk.problem(one) for one in typed.problems]
            if typed.steps:
                lines.append(talk.phrase("typed_none_run"))
            await talk.say("\n".join(f"- {line}" for line in lines) if lines[1:] else lines[0])
        return None


class _Talk:
    """Messages to the user, in their language, each in a paragraph of its own."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._is_first: bool = True
        self.phrase: Callable[..., str] = turn.session.phrase
        # A line is redacted before it is cut: half a secret is not found.
        self.redact: Callable[[str], str] = turn.session.guard.clean

    async def say(self, text: str) -> None:
        await self._turn.say(text if self._is_first else f"\n\n{text}")
        self._is_first = False

    def problem(self, problem: BadCommand) -> str:
        if isinstance(problem, NotCommand):
            return self.phrase("typed_no_command", line=code(self.redact(str(problem))))
        if not isinstance(problem, UnknownCommand):
            return str(problem)
        text = self.phrase("typed_unknown", name=code(self.redact(problem.name)))
        if problem.near:
            names = ", ".join(map(code, problem.near))
            return f"{text} {self.phrase('typed_nearest', names=names)}"
        return f"{text} {self.phrase('help_more')}"


async def _run(typed: Typed, turn: Turn, talk: _Talk) -> None:
    commands = [step for step in typed.steps if isinstance(step, ToolCommand)]
    status = ["pending"] * len(commands)

    async def mark(numbers: Sequence[int], state: str) -> None:
        """Show how far the commands are, if there are several."""
        for number in numbers:
            status[number] = state
        if len(commands) > 1:
            lines = [_cut(talk.redact(one.line)) for one in commands]
            await turn.plan(
                [
                    {"content": line, "priority": "medium", "status": state}
                    for line, state in zip(lines, status, strict=True)
                ]
            )

    async def run(numbers: Sequence[int]) -> None:
        await mark(numbers, "in_progress")
        group = [commands[number] for number in numbers]
        if len(group) == 1:
            results = [await turn.run(group[0].tool, group[0].arguments)]
        else:
            results = await turn.run_all([(one.tool, one.arguments) for one in group])
        for one, result in zip(group, results, strict=True):
            if not result.success:
                line = code(talk.redact(one.line))
                await talk.say(f"{line}: {_first_line(result.error or '')}")
        await mark(numbers, "completed")

    if typed.in_parallel:
        await run(range(len(commands)))
        return
    number = 0
    for step in typed.steps:
        if isinstance(step, HelpCommand):
            await talk.say(_help(step, turn, talk))
        else:
            await run([number])
            number += 1


def _help(asked: HelpCommand, turn: Turn, talk: _Talk) -> str:
    if asked.about == TOOLS:
        return "\n".join(f"- {_usage(one)}: {_first_line(one.description)}" for one in turn.tools)
    if not asked.topic:
        return "\n".join(f"- {talk.phrase(f'help_{key}')}" for key in _HELP)
    try:
        tool = _tool(asked.topic, turn.tools)
    except BadCommand as exc:
        return talk.problem(exc)
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
