"""A handler that plays a script, for demos and tests. A script is a JSON file.

A script is a list of steps, which every prompt plays; or `{"turns": [[…], …]}`, of which the first prompt
plays the first, and so on. A step is an object with one of

    {"say": "text"}                      send a message
    {"think": "text"}                    send a thought
    {"plan": ["text", {"content": …}]}   show a plan; an entry may have a `status` and a `priority`
    {"run": "read", "arguments": {…}}    run a tool; `alias` is the id that a model's provider gave
    {"parallel": [{"run": …}, …]}        run tools at the same time
    {"wait": 0.5}                        wait, in seconds
    {"expect": "success"}                check the last result (or those of `parallel`, one by one)
    {"usage": {"used": 5, "size": 10}}   send how much of a model's window is used
    {"stop": "refusal"}                  end the turn with this stop reason

`expect` is "success", "failure", or an object with some of `success`, `output` and `error` (texts that
are in it) and `exit_code`; it may also stand in a `run`. If it is not met, the turn ends with an error that
names the step. The structs below are the format: a script that does not fit them is refused when it is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from callsheet.agent.handler import Command, Prompt, StopReason, Turn
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonValue, is_list, is_object
from callsheet.tools.result import ToolResult
from callsheet.tools.tool import Tool

Tokens: TypeAlias = Annotated[int, Meta(ge=0)]


class Expected(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a result must have. `output` and `error` are texts that must be in it."""

    success: bool | None = None
    output: str | None = None
    error: str | None = None
    exit_code: int | None = None


Expectation: TypeAlias = Literal["success", "failure"] | Expected


class PlanEntry(Struct, forbid_unknown_fields=True):
    """An entry of a plan."""

    content: str
    priority: Literal["high", "medium", "low"] = "medium"
    status: Literal["pending", "in_progress", "completed"] = "pending"


class ToolRun(Struct, forbid_unknown_fields=True):
    """A tool to run."""

    run: Annotated[str, Meta(min_length=1)]
    arguments: dict[str, Any] = {}
    alias: str | None = None
    expect: Expectation | None = None


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
    expect: Expectation | list[Expectation] | None = None
    usage: Usage | None = None
    stop: StopReason | None = None


_VERBS = ("run", *Step.__struct_fields__)


class BadScript(CallsheetError):
    """A script that can't be played. The message names the step."""


class NotAsExpected(CallsheetError):
    """A result is not what the script expects."""


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
        last: list[ToolResult] = []
        for number, step in enumerate(self._turns[at], 1):
            if isinstance(step, Step) and step.stop is not None:
                return step.stop
            try:
                last = await _play(step, turn, last) or last
            except NotAsExpected as exc:
                where = "" if self._repeats else f"turn {at + 1}, "
                raise NotAsExpected(f"{where}step {number}: {exc}") from None
        return None


async def _play(
    step: Step | ToolRun, turn: Turn, last: Sequence[ToolResult]
) -> list[ToolResult] | None:
    """Do a step, and return the results of the tools that it has run."""
    if isinstance(step, ToolRun):
        return [await _run(step, turn)]
    if step.parallel is not None:
        with turn.session.batch(total=len(step.parallel)) as batch:
            return list(await asyncio.gather(*[_run(one, turn, batch) for one in step.parallel]))
    if step.say is not None:
        await turn.say(step.say)
    if step.think is not None:
        await turn.think(step.think)
    if step.plan is not None:
        await turn.plan([msgspec.to_builtins(entry) for entry in step.plan])
    if step.wait is not None:
        await asyncio.sleep(step.wait)
    if step.usage is not None:
        await turn.usage(step.usage.used, step.usage.size)
    if step.expect is not None:
        _check(step.expect, last)
    return None


async def _run(step: ToolRun, turn: Turn, batch: Any = None) -> ToolResult:
    result = await turn.run(step.run, step.arguments, alias=step.alias, batch=batch)
    if step.expect is not None:
        _check(step.expect, [result])
    return result


def _check(expect: Expectation | list[Expectation], results: Sequence[ToolResult]) -> None:
    if not results:
        raise NotAsExpected("expect: no tool was run before it")
    expected = expect if isinstance(expect, list) else [expect] * len(results)
    if len(expected) != len(results):
        raise NotAsExpected(f"{len(expected)} results expected, got {len(results)}")
    for one, result in zip(expected, results, strict=True):
        wanted = {"success": one == "success"} if isinstance(one, str) else msgspec.to_builtins(one)
        for field, value in wanted.items():
            got = getattr(result, field)
            if (value not in (got or "")) if isinstance(value, str) else got != value:
                raise NotAsExpected(f"{result.tool_name}: expected {field} {value!r}, got {got!r}")


# Reading


def read_script(file: str) -> Callable[[], Script]:
    """Read a script from a file.

    Returns:
        A factory that creates a handler for each session.

    Raises:
        BadScript: The file can't be read, or is no script.
    """
    try:
        given = msgspec.json.decode(Path(file).read_bytes())
    except OSError as exc:
        raise BadScript(f"{file}: {exc.strerror}") from None
    except (ValueError, RecursionError) as exc:
        raise BadScript(f"{file}: not JSON: {exc}") from None
    try:
        return script_of(given)
    except BadScript as exc:
        raise BadScript(f"{file}: {exc}") from None


def script_of(given: JsonValue) -> Callable[[], Script]:
    """Return a factory of handlers that play a script. Raise `BadScript` if it is none."""
    if is_list(given):
        steps = _steps(given, "")
        return lambda: Script([steps], repeats=True)
    listed = given.get("turns") if is_object(given) else None
    if not is_object(given) or not is_list(listed) or set(given) != {"turns"}:
        raise BadScript('expected a list of steps, or {"turns": [[…], …]}')
    turns = [_steps(steps, f"turn {number}, ") for number, steps in enumerate(listed, 1)]
    return lambda: Script(turns, repeats=False)


def _steps(given: JsonValue, where: str) -> list[Step | ToolRun]:
    if not is_list(given):
        raise BadScript(f"{where}expected a list of steps, got {given!r}")
    return [_step(one, f"{where}step {number}") for number, one in enumerate(given, 1)]


def _step(given: JsonValue, place: str) -> Step | ToolRun:
    if not is_object(given):
        raise BadScript(f'{place}: expected an object such as {{"say": "…"}}, got {given!r}')
    is_run = "run" in given
    if not is_run and len([verb for verb in _VERBS if given.get(verb) is not None]) != 1:
        got = ", ".join(given) or "nothing"
        raise BadScript(f"{place}: expected one of {', '.join(_VERBS)}, got {got}")
    try:
        return msgspec.convert(given, ToolRun if is_run else Step)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise BadScript(f"{place}: {exc}") from None
