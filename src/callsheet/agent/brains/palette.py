"""The default mind: it runs what the user types. It needs no model and no network.

Everything is read before anything is run: if a line can't be, nothing is. A call that fails does not
keep the next from being run; what it says is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from callsheet.agent.brain import Command, Prompt, StopReason
from callsheet.agent.turn import Turn
from callsheet.report.json import JsonObject
from callsheet.tools.result import ToolResult
from callsheet.tools.tool import Tool

from .arguments import BadCommand, usage_of
from .language import HELP, PARALLEL, TOOLS, Ask, NotCommand, Step, Talk, Unknown, parse, tool_of
from .mentions import typed_text

_LONGEST = 100
"""Characters of a line that are told again."""

_OWN = (
    Command(HELP, "Tell what can be typed", "[tool]"),
    Command(TOOLS, "List the tools"),
    Command(PARALLEL, "Run several commands at the same time", "/command; /command"),
)
_HELP = ("tool", "named", "shell", "lines", "text", "parallel", "more")


class Palette:
    """Slash commands for every tool."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def commands(self, tools: Sequence[Tool]) -> Sequence[Command]:
        """One for each tool, and a few about the palette itself."""
        made = [
            Command(one.name, first_line(one.description) or one.name, usage_of(one) or None)
            for one in tools
        ]
        taken = {one.name for one in made}
        return [*made, *(one for one in _OWN if one.name not in taken)]

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Run what was typed."""
        voice = _Voice(turn)
        for problem in await turn.session.connected():
            if problem not in self._told:
                self._told.add(problem)
                await voice.say(problem)
        typed = parse(typed_text(prompt.blocks, turn.session.cwd), turn.tools)
        if not typed.problems and typed.steps:
            await _run(typed.steps, turn, voice)
        elif not typed.steps and all(isinstance(one, NotCommand) for one in typed.problems):
            await voice.phrase("typed_nothing")
        else:
            lines = [voice.problem(one) for one in typed.problems]
            if typed.steps:
                lines.append(voice.phrased("typed_none_run"))
            await voice.say("\n".join(f"- {line}" for line in lines) if lines[1:] else lines[0])
        return None


class _Voice:
    """Says things to the user, each in a paragraph of its own."""

    def __init__(self, turn: Turn) -> None:
        self._turn: Turn = turn
        self._has_spoken: bool = False

    async def say(self, text: str) -> None:
        """Say something."""
        await self._turn.say(f"\n\n{text}" if self._has_spoken else text)
        self._has_spoken = True

    async def phrase(self, key: str) -> None:
        """Say something fixed."""
        await self.say(self.phrased(key))

    def phrased(self, key: str, **values: str) -> str:
        """Return something fixed in the user's language."""
        return self._turn.session.desk.phrase(key, **values)

    def clean(self, text: str) -> str:
        """Return a text without secrets. Before it is cut: half a secret is not found."""
        return self._turn.session.desk.guard.clean(text)

    def problem(self, problem: BadCommand) -> str:
        """Give in words what was wrong."""
        if isinstance(problem, NotCommand):
            return self.phrased("typed_no_command", line=code(self.clean(str(problem))))
        if not isinstance(problem, Unknown):
            return str(problem)
        said = self.phrased("typed_unknown", name=code(self.clean(problem.name)))
        if problem.near:
            names = ", ".join(map(code, problem.near))
            return f"{said} {self.phrased('typed_nearest', names=names)}"
        return f"{said} {self.phrased('help_more')}"


class _Plan:
    """What is to be done, shown if it is more than one thing."""

    def __init__(self, steps: Sequence[Step], turn: Turn) -> None:
        asks = [ask for step in steps if not isinstance(step, Talk) for ask in step]
        self._turn: Turn = turn
        self._clean: Callable[[str], str] = turn.session.desk.guard.clean
        self._status: dict[int, tuple[Ask, str]] = {id(ask): (ask, "pending") for ask in asks}

    async def mark(self, asks: Sequence[Ask], status: str) -> None:
        """Note how far some are, and show it."""
        for ask in asks:
            self._status[id(ask)] = ask, status
        if len(self._status) > 1:
            entries: list[JsonObject] = [
                {"content": cut(self._clean(ask.line)), "priority": "medium", "status": known}
                for ask, known in self._status.values()
            ]
            await self._turn.plan(entries)


async def _run(steps: Sequence[Step], turn: Turn, voice: _Voice) -> None:
    plan = _Plan(steps, turn)
    for step in steps:
        if isinstance(step, Talk):
            await voice.say(_told(step, turn, voice))
            continue
        await plan.mark(step, "in_progress")
        results = await _results(step, turn)
        for ask, result in zip(step, results, strict=True):
            if not result.success:
                line = code(voice.clean(ask.line))
                await voice.say(f"{line}: {first_line(result.error or '')}")
        await plan.mark(step, "completed")


async def _results(step: Sequence[Ask], turn: Turn) -> list[ToolResult]:
    if len(step) == 1:
        return [await turn.run(step[0].tool, step[0].arguments)]
    return await turn.run_all([(ask.tool, ask.arguments) for ask in step])


def _told(talk: Talk, turn: Turn, voice: _Voice) -> str:
    """Answer a question about the palette."""
    if talk.about == TOOLS:
        return "\n".join(f"- {_usage(one)}: {first_line(one.description)}" for one in turn.tools)
    if not talk.topic:
        return "\n".join(f"- {voice.phrased(f'help_{key}')}" for key in _HELP)
    try:
        tool = tool_of(talk.topic, turn.tools)
    except BadCommand as exc:
        return voice.problem(exc)
    properties: Any = tool.schema.get("properties", {})
    described = [
        f"- {code(name)}: {first_line(about.get('description') or '') or about.get('type', '')}"
        for name, about in properties.items()
    ]
    return "\n".join([f"{_usage(tool)}: {tool.description}", "", *described]).rstrip()


def _usage(tool: Tool) -> str:
    return code(f"/{tool.name} {usage_of(tool)}".rstrip())


def code(text: str) -> str:
    """Return text as Markdown's code."""
    text = cut(text)
    ticks = "``" if "`" in text else "`"
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{ticks}{room}{text}{room}{ticks}"


def cut(text: str) -> str:
    """Return as much of a line as is told again."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def first_line(text: str) -> str:
    """Return the first line of a text."""
    return text.strip().partition("\n")[0]
