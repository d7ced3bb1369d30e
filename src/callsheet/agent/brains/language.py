"""What a user types, as steps: calls one after another, some of them at the same time.

A line that starts with `/` is a command, one that starts with `!` is for the shell. Lines under a command
that lacks a text are that text, up to the next command; fenced blocks are taken to the letter.
`/parallel` runs the commands behind it, and those under it up to an empty line, at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from callsheet.report.json import JsonValue
from callsheet.tools.registry import Registry
from callsheet.tools.tool import Tool

from .arguments import BadCommand, arguments_of, wants_text

PARALLEL, HELP, TOOLS = "parallel", "help", "tools"
SHELL = "bash"

_HEAD = re.compile(r"/([A-Za-z0-9_][\w.-]*)(?:[ \t]+(.*))?").fullmatch
_STARTS = re.compile(r"/[A-Za-z0-9_]|!\S").match
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[^`]*").fullmatch
_NEXT = re.compile(r";\s*(?=[/!])")


class Ask(NamedTuple):
    """A call that is asked for, and the line that asks for it."""

    tool: str
    arguments: dict[str, JsonValue]
    line: str


class Talk(NamedTuple):
    """A question about the palette itself."""

    about: str
    topic: str


Step: TypeAlias = "tuple[Ask, ...] | Talk"


class Unknown(BadCommand):
    """There is no such command."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        super().__init__(f"there is no command {name}")
        self.name: str = name
        self.near: tuple[str, ...] = tuple(f"/{one}" for one in near)


class NotCommand(BadCommand):
    """A line is no command."""


class Typed(NamedTuple):
    """What was typed: what to do, and what was wrong with it."""

    steps: list[Step]
    problems: list[BadCommand]


def parse(text: str, tools: Registry) -> Typed:
    """Read what was typed."""
    parser = _Parser(text.replace("\r\n", "\n").split("\n"), tools)
    parser.read()
    return Typed(parser.steps, parser.problems)


def tool_of(name: str, tools: Registry) -> Tool:
    """Return a tool by its name, or an MCP server's by the short one if no other has it."""
    found = tools.get(name)
    if found is None:
        ends = f"__{name}"
        short = [one for one in tools.names() if one.startswith("mcp__") and one.endswith(ends)]
        if len(short) > 1:
            names = " or ".join(f"/{one}" for one in short)
            raise BadCommand(f"/{name} could be {names}; type the whole name")
        found = tools.get(short[0]) if short else None
    if found is None:
        raise Unknown(f"/{name}", tools.nearest(name))
    return found


class _Parser:
    def __init__(self, lines: Sequence[str], tools: Registry, *, is_inner: bool = False) -> None:
        self.steps: list[Step] = []
        self.problems: list[BadCommand] = []
        self._lines: Sequence[str] = lines
        self._tools: Registry = tools
        self._is_inner: bool = is_inner
        self._at: int = 0

    def read(self) -> None:
        """Read all lines."""
        while self._at < len(self._lines):
            line = self._lines[self._at].strip()
            self._at += 1
            if not line:
                continue
            try:
                step = self._step(line)
            except BadCommand as exc:
                self.problems.append(exc)
                self._skip()
            else:
                self.steps += [step] if step else []

    def _step(self, line: str) -> Step | None:
        if line.startswith("!"):
            return (self._shell(line),)
        head = _HEAD(line)
        if head is None:
            if line.startswith("/"):
                raise Unknown(line.split()[0], ())
            raise NotCommand(line)
        name, rest = head.group(1), head.group(2) or ""
        if name == PARALLEL and name not in self._tools:
            return self._parallel(rest)
        if name in (HELP, TOOLS) and name not in self._tools:
            return Talk(name, rest.strip().removeprefix("/"))
        tool = tool_of(name, self._tools)
        return (Ask(tool.name, arguments_of(tool, rest, self._blocks(tool, rest)), line),)

    def _shell(self, line: str) -> Ask:
        tool = tool_of(SHELL, self._tools)
        command = line[1:].strip()
        while command.endswith("\\") and self._at < len(self._lines):
            command += "\n" + self._lines[self._at]
            self._at += 1
        if command:
            return Ask(tool.name, {"command": command}, line)
        return Ask(tool.name, arguments_of(tool, "", self._blocks(tool, "")), line)

    def _parallel(self, rest: str) -> Step | None:
        if self._is_inner:
            raise BadCommand(f"/{PARALLEL} can't be run in /{PARALLEL}")
        lines = [part.strip() for part in _NEXT.split(rest) if part.strip()]
        inner = _Parser([*lines, *self._group()], self._tools, is_inner=True)
        inner.read()
        self.problems += inner.problems
        asks: list[Ask] = []
        for step in inner.steps:
            if isinstance(step, Talk):
                raise BadCommand(f"/{step.about} can't be run in /{PARALLEL}")
            asks += step
        if not asks and not inner.problems:
            raise BadCommand(f"/{PARALLEL} needs commands behind it, or in the lines under it")
        return tuple(asks) or None

    # The lines under a command

    def _group(self) -> list[str]:
        """Return the lines up to an empty one that is not in a fenced block."""
        group: list[str] = []
        fence = ""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if not line.strip() and not fence:
                break
            found = _FENCE(line)
            if fence and found and line.strip() == fence:
                fence = ""
            elif found and not fence:
                fence = found.group(1)
            group.append(line)
            self._at += 1
        return group

    def _blocks(self, tool: Tool, rest: str) -> list[str]:
        blocks: list[str] = []
        while (block := self._fenced()) is not None:
            blocks.append(block)
        if not blocks and wants_text(tool, rest) and (lines := self._until_command()):
            blocks.append("\n".join(lines))
        return blocks

    def _fenced(self) -> str | None:
        """Return the fenced block that comes next."""
        at = self._at
        while at < len(self._lines) and not self._lines[at].strip():
            at += 1
        opening = _FENCE(self._lines[at]) if at < len(self._lines) else None
        if opening is None:
            return None
        fence = opening.group(1)
        for end in range(at + 1, len(self._lines)):
            if self._lines[end].strip() == fence:
                self._at = end + 1
                return "\n".join(self._lines[at + 1 : end])
        raise BadCommand(f"the block that {self._lines[at].strip()} opens is not closed by {fence}")

    def _until_command(self) -> list[str]:
        start = self._at
        while self._at < len(self._lines) and not _STARTS(self._lines[self._at]):
            self._at += 1
        lines = list(self._lines[start : self._at])
        while lines and not lines[-1].strip():
            lines.pop()
        return lines

    def _skip(self) -> None:
        """Go on with the next command: what is under a wrong one is not one more mistake."""
        while self._at < len(self._lines) and not _STARTS(self._lines[self._at].lstrip()):
            self._at += 1
