"""A handler that plays a script, for demos and tests. A script is a JSON file.

A script is a list of steps, which every prompt plays; or `{"turns": [[…], …]}`, of which the first prompt
plays the first, and so on. A step is an object with one of

    {"say": "text"}                      send a message
    {"think": "text"}                    send a thought
    {"plan": ["text", {"content": …}]}   show a plan; an entry may have a `status` and a `priority`
    {"run": "read", "arguments": {…}}    run a tool; `alias` is the id that a model's provider gave
    {"parallel": [{"run": …}, …]}        run tools at the same time
    {"wait": 0.5}                        wait, in seconds
    {"usage": {"used": 5, "size": 10}}   send how much of a model's window is used
    {"stop": "refusal"}                  end the turn with this stop reason

The structs below are the format: a script that does not fit them is refused when it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from callsheet.agent.handler import Command, PlanEntry, Prompt, StopReason, Turn
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonValue, is_list, is_object
from callsheet.tools.tool import Tool

Tokens: TypeAlias = Annotated[int, Meta(ge=0)]


class ToolRun(Struct, forbid_unknown_fields=True):
    """A tool to run."""

    run: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}
    alias: str | None = None


class Usage(Struct, forbid_unknown_fields=True):
    """How much of a model's window is used."""

    used: Tokens
    size: Tokens


class Step(Struct, forbid_unknown_fields=True):
    """One step, but for those that run a single tool, which are a `ToolRun`. One of the fields is set."""

    say: str | None = None
    think: str | None = None
    plan: list[str | PlanEntry] | None = None
    parallel: Annotated[list[ToolRun], Meta(min_length=1)] | None = None
    wait: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    usage: Usage | None = None
    stop: StopReason | None = None


_VERBS = ("run", *Step.__struct_fields__)


class BadScript(CallsheetError):
    """A script that can't be played. The message names the step."""


class Script:
    """Plays the turns of a script, one for each prompt."""

    def __init__(self, turns: Sequence[Sequence[Step | ToolRun]], *, repeats: bool) -> None:
        self._turns: Sequence[Sequence[Step | ToolRun]] = turns
        self._repeats: bool = repeats
        self._played: int = 0

    def commands(self, tools: Sequence[Tool]) -> Sequence[Command]:  # noqa: ARG002
        """Return none: whatever is typed, the script is played."""
        return ()

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:  # noqa: ARG002
        """Play the next turn."""
        at = 0 if self._repeats else self._played
        self._played += 1
        if at >= len(self._turns):
            await turn.say(f"The script has {len(self._turns)} turns, and has ended.")
            return None
        for step in self._turns[at]:
            if isinstance(step, ToolRun):
                await turn.run(step.run, step.arguments, alias=step.alias)
            elif step.stop is not None:
                return step.stop
            else:
                await _play(step, turn)
        return None


async def _play(step: Step, turn: Turn) -> None:
    if step.parallel is not None:
        with turn.session.batch(total=len(step.parallel)) as batch:
            runs = [
                turn.run(one.run, one.arguments, alias=one.alias, batch=batch)
                for one in step.parallel
            ]
            await asyncio.gather(*runs)
    elif step.say is not None:
        await turn.say(step.say)
    elif step.think is not None:
        await turn.think(step.think)
    elif step.plan is not None:
        await turn.plan([msgspec.to_builtins(entry) for entry in step.plan])
    elif step.wait is not None:
        await asyncio.sleep(step.wait)
    elif step.usage is not None:
        await turn.usage(step.usage.used, step.usage.size)


# Reading


def read_script(file: str) -> Callable[[], Script]:
    """Read a script from a file.

    Returns:
        A factory that creates a handler for each session.

    Raises:
        BadScript: The file can't be read, or is no script.
    """
    try:
        return script_of(msgspec.json.decode(Path(file).read_bytes()))
    except OSError as exc:
        raise BadScript(f"{file}: {exc.strerror}") from None
    except BadScript as exc:
        raise BadScript(f"{file}: {exc}") from None
    except (ValueError, RecursionError) as exc:
        raise BadScript(f"{file}: not JSON: {exc}") from None


def script_of(script: JsonValue) -> Callable[[], Script]:
    """Return a factory of handlers that play a script. Raise `BadScript` if it is none."""
    if is_list(script):
        steps = _steps(script, "")
        return lambda: Script([steps], repeats=True)
    listed = script.get("turns") if is_object(script) else None
    if not is_object(script) or not is_list(listed) or set(script) != {"turns"}:
        raise BadScript('expected a list of steps, or {"turns": [[…], …]}')
    turns = [_steps(steps, f"turn {number}, ") for number, steps in enumerate(listed, 1)]
    return lambda: Script(turns, repeats=False)


def _steps(steps: JsonValue, where: str) -> list[Step | ToolRun]:
    if not is_list(steps):
        raise BadScript(f"{where}expected a list of steps, got {steps!r}")
    return [_step(one, f"{where}step {number}") for number, one in enumerate(steps, 1)]


def _step(step: JsonValue, place: str) -> Step | ToolRun:
    if not is_object(step):
        raise BadScript(f'{place}: expected an object such as {{"say": "…"}}, got {step!r}')
    is_run = "run" in step
    if not is_run and len([verb for verb in _VERBS if step.get(verb) is not None]) != 1:
        got = ", ".join(step) or "nothing"
        raise BadScript(f"{place}: expected one of {', '.join(_VERBS)}, got {got}")
    try:
        return msgspec.convert(step, ToolRun if is_run else Step)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise BadScript(f"{place}: {exc}") from None
