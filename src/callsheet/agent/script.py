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

The structs below are the format: a script that does not fit them is refused when it is read, with the place
of what is wrong, such as `$[2].wait` for the third step.
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
from callsheet.report.json import JsonValue
from callsheet.tools.tool import Tool

Tokens: TypeAlias = Annotated[int, Meta(ge=0)]


class Usage(Struct, forbid_unknown_fields=True):
    """How much of a model's window is used."""

    used: Tokens
    size: Tokens


class Step(Struct, forbid_unknown_fields=True):
    """One step: one of the fields is set, and with `run` maybe `arguments` and `alias`."""

    run: Annotated[str, Meta(min_length=1)] | None = None
    say: str | None = None
    think: str | None = None
    plan: list[str | PlanEntry] | None = None
    parallel: Annotated[list[Step], Meta(min_length=1)] | None = None
    wait: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    usage: Usage | None = None
    stop: StopReason | None = None
    arguments: dict[str, Any] | None = None
    alias: str | None = None

    def __post_init__(self) -> None:
        found = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        if len([name for name in found if name in _VERBS]) != 1 or (found[1:] and not self.run):
            got = ", ".join(found) or "nothing"
            raise ValueError(f"expected one of {', '.join(_VERBS)}, got {got}")
        if not all(step.run for step in self.parallel or ()):
            raise ValueError("parallel: expected steps that run a tool")


class Turns(Struct, forbid_unknown_fields=True):
    """A script of several turns."""

    turns: list[list[Step]]


_VERBS = Step.__struct_fields__[:8]


class BadScript(CallsheetError):
    """A script that can't be played. The message names the place."""


class Script:
    """Plays the turns of a script, one for each prompt."""

    def __init__(self, script: list[Step] | Turns) -> None:
        self._script: list[Step] | Turns = script
        self._played: int = 0

    def commands(self, tools: Sequence[Tool]) -> Sequence[Command]:  # noqa: ARG002
        """Return none: whatever is typed, the script is played."""
        return ()

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:  # noqa: ARG002
        """Play the next turn."""
        steps = self._script
        if isinstance(steps, Turns):
            turns, at = steps.turns, self._played
            self._played += 1
            if at >= len(turns):
                await turn.say(f"The script has {len(turns)} turns, and has ended.")
                return None
            steps = turns[at]
        for step in steps:
            if step.stop is not None:
                return step.stop
            await _play(step, turn)
        return None


async def _play(step: Step, turn: Turn) -> None:
    if step.run is not None:
        await turn.run(step.run, step.arguments, alias=step.alias)
    elif step.parallel is not None:
        with turn.session.batch(total=len(step.parallel)) as batch:
            runs = [
                turn.run(one.run or "", one.arguments, alias=one.alias, batch=batch)
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
    try:
        checked = msgspec.convert(script, list[Step] | Turns)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise BadScript(str(exc)) from None
    return lambda: Script(checked)
