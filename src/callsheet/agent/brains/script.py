"""A mind that plays a script: a JSON file that says what is done, for demos and tests.

A script is a list of steps, which every prompt plays; or `{"turns": [[…], …]}`, of which the first prompt
plays the first, and so on. A step is an object with one of

    {"say": "text"}                      say something
    {"think": "text"}                    show a thought
    {"plan": ["text", {"content": …}]}   show a plan; an entry may have a `status` and a `priority`
    {"run": "read", "arguments": {…}}    run a tool; `alias` is the id that a model's provider gave
    {"parallel": [{"run": …}, …]}        run tools at the same time
    {"wait": 0.5}                        wait, in seconds
    {"expect": "success"}                check the last result (or those of `parallel`, one by one)
    {"usage": {"used": 5, "size": 10}}   tell how much of a model's window is used
    {"stop": "refusal"}                  end the turn, and say why

`expect` is "success", "failure", or an object with some of `success`, `output` and `error` (texts that
are in it) and `exit_code`. If it is not met, the turn ends with an error that names the step.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import msgspec

from callsheet.agent.brain import Command, Prompt, StopReason
from callsheet.agent.turn import Turn
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.tools.result import ToolResult
from callsheet.tools.tool import Tool

_OPTIONS = {"run": ("arguments", "alias", "expect")}
_STATUSES = ("pending", "in_progress", "completed")
_PRIORITIES = ("high", "medium", "low")
_EXPECTED: dict[str, tuple[type, str]] = {
    "success": (bool, "true or false"),
    "output": (str, "text"),
    "error": (str, "text"),
    "exit_code": (int, "a whole number"),
}


class BadScript(CallsheetError):
    """A script that can't be played. The message names the step."""


class NotAsExpected(CallsheetError):
    """A result is not what the script expects."""


class Step(NamedTuple):
    """One step of a script, and where it stands."""

    place: str
    verb: str
    value: Any
    options: JsonObject


class Script:
    """Plays the turns of a script, one for each prompt."""

    def __init__(self, turns: Sequence[Sequence[Step]], *, repeats: bool) -> None:
        self._turns: Sequence[Sequence[Step]] = turns
        self._repeats: bool = repeats
        self._played: int = 0

    def commands(self, tools: Sequence[Tool]) -> Sequence[Command]:  # noqa: ARG002
        """None: it does not listen."""
        return ()

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:  # noqa: ARG002
        """Play the next turn."""
        at = 0 if self._repeats else self._played
        self._played += 1
        if at >= len(self._turns):
            await turn.say(f"The script has {len(self._turns)} turns, and has ended.")
            return None
        last: list[ToolResult] = []
        for step in self._turns[at]:
            if step.verb == "stop":
                return step.value
            if step.verb == "expect":
                _check(step, last)
            else:
                last = await _play(step, turn) or last
        return None


async def _play(step: Step, turn: Turn) -> list[ToolResult]:
    """Do a step, and give the results of the tools that were run."""
    if step.verb == "say":
        await turn.say(step.value)
    elif step.verb == "think":
        await turn.think(step.value)
    elif step.verb == "plan":
        await turn.plan(step.value)
    elif step.verb == "wait":
        await asyncio.sleep(step.value)
    elif step.verb == "usage":
        await turn.usage(step.value["used"], step.value["size"])
    elif step.verb == "run":
        return [await _run(step, turn)]
    else:
        with turn.session.batch(total=len(step.value)) as batch:
            return list(await asyncio.gather(*[_run(one, turn, batch) for one in step.value]))
    return []


async def _run(step: Step, turn: Turn, batch: Any = None) -> ToolResult:
    arguments = step.options.get("arguments", {})
    result = await turn.run(step.value, arguments, alias=step.options.get("alias"), batch=batch)
    if "expect" in step.options:
        _check(step._replace(value=step.options["expect"]), [result])
    return result


def _check(step: Step, results: Sequence[ToolResult]) -> None:
    if not results:
        raise NotAsExpected(f"{step.place}: expect: no tool was run before it")
    expected: list[Any] = step.value if is_list(step.value) else [step.value] * len(results)
    if len(expected) != len(results):
        raise NotAsExpected(f"{step.place}: {len(expected)} results expected, got {len(results)}")
    for one, result in zip(expected, results, strict=True):
        wanted: JsonObject = {"success": one == "success"} if isinstance(one, str) else one
        for field, value in wanted.items():
            got = getattr(result, field)
            if (value not in (got or "")) if isinstance(value, str) else got != value:
                said = f"expected {field} {value!r}, got {got!r}"
                raise NotAsExpected(f"{step.place}: {result.tool_name}: {said}")


# Reading


def read_script(file: str) -> Callable[[], Script]:
    """Read a script. Gives what makes a mind that plays it, for each session anew."""
    try:
        raw = Path(file).read_bytes()
        given = msgspec.json.decode(raw)
    except OSError as exc:
        raise BadScript(f"{file}: {exc.strerror}") from None
    except (ValueError, RecursionError) as exc:
        raise BadScript(f"{file}: not JSON: {exc}") from None
    try:
        return script_of(given)
    except BadScript as exc:
        raise BadScript(f"{file}: {exc}") from None


def script_of(given: JsonValue) -> Callable[[], Script]:
    """Check a script. Gives what makes a mind that plays it."""
    if is_list(given):
        turns = [_steps(given, "")]
        return lambda: Script(turns, repeats=True)
    listed = given.get("turns") if is_object(given) else None
    if not is_object(given) or not is_list(listed) or set(given) != {"turns"}:
        raise BadScript('expected a list of steps, or {"turns": [[…], …]}')
    turns = [
        _steps(_typed(steps, list, f"turn {number}", "a list of steps"), f"turn {number}, ")
        for number, steps in enumerate(listed, 1)
    ]
    return lambda: Script(turns, repeats=False)


def _steps(given: Sequence[Any], where: str, what: str = "step") -> list[Step]:
    return [_step(one, f"{where}{what} {number}") for number, one in enumerate(given, 1)]


def _step(given: Any, place: str) -> Step:
    if not is_object(given):
        raise BadScript(f'{place}: expected an object such as {{"say": "…"}}, got {given!r}')
    verbs = [key for key in given if key in _READERS and key not in _OPTIONS["run"]]
    verbs = verbs or [key for key in given if key in _READERS]
    if len(verbs) != 1:
        got = ", ".join(given) or "nothing"
        raise BadScript(f"{place}: expected one of {', '.join(_READERS)}, got {got}")
    verb = verbs[0]
    options: dict[str, Any] = {key: value for key, value in given.items() if key != verb}
    for key, value in options.items():
        if key not in _OPTIONS.get(verb, ()):
            known = ", ".join(_OPTIONS.get(verb, ())) or "nothing else"
            raise BadScript(f"{place}: {verb} takes {known}, got {key!r}")
        options[key] = _option(key, value, f"{place}: {key}")
    return Step(place, verb, _READERS[verb](given[verb], f"{place}: {verb}"), options)


def _option(key: str, value: Any, place: str) -> Any:
    if key == "arguments":
        return _typed(value, dict, place, "an object")
    return _text(value, place) if key == "alias" else _expected(value, place)


def _typed(value: Any, kind: type | tuple[type, ...], place: str, words: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise BadScript(f"{place}: expected {words}, got {value!r}")
    return value


def _text(value: Any, place: str) -> str:
    return _typed(value, str, place, "text")


def _name(value: Any, place: str) -> str:
    if not _typed(value, str, place, "the name of a tool"):
        raise BadScript(f"{place}: expected the name of a tool, got an empty one")
    return value


def _seconds(value: Any, place: str) -> float:
    seconds = _typed(value, (int, float), place, "seconds")
    if not 0 <= seconds < math.inf:
        raise BadScript(f"{place}: expected seconds from 0 on, got {value!r}")
    return seconds


def _plan(value: Any, place: str) -> list[JsonObject]:
    entries: list[JsonObject] = []
    for number, one in enumerate(_typed(value, list, place, "a list of entries"), 1):
        where = f"{place}: entry {number}"
        given: JsonObject = {"content": one} if isinstance(one, str) else one
        _typed(given, dict, where, "text or an object")
        entry = {"priority": "medium", "status": "pending", **given}
        _text(entry.get("content"), f"{where}: content")
        _one_of(entry["status"], _STATUSES, f"{where}: status")
        _one_of(entry["priority"], _PRIORITIES, f"{where}: priority")
        entries.append(entry)
    return entries


def _one_of(value: Any, known: Sequence[str], place: str) -> Any:
    if value not in known:
        raise BadScript(f"{place}: expected one of {', '.join(known)}, got {value!r}")
    return value


def _parallel(value: Any, place: str) -> list[Step]:
    steps = _steps(_typed(value, list, place, "a list of runs"), f"{place}: ", "call")
    for step in steps:
        if step.verb != "run":
            raise BadScript(f"{step.place}: only run can be done at the same time, got {step.verb}")
    if not steps:
        raise BadScript(f"{place}: expected at least one run")
    return steps


def _expected(value: Any, place: str) -> Any:
    if is_list(value):
        return [_expected(one, place) for one in value]
    if isinstance(value, str):
        return _one_of(value, ("success", "failure"), place)
    for field, wanted in _typed(value, dict, place, "success, failure or an object").items():
        kind, words = _EXPECTED[_one_of(field, tuple(_EXPECTED), place)]
        _typed(wanted, kind, f"{place}: {field}", words)
    return value


def _usage(value: Any, place: str) -> JsonObject:
    given = _typed(value, dict, place, "used and size")
    for key in ("used", "size"):
        _typed(given.get(key), int, f"{place}: {key}", "a whole number")
    return given


def _stop(value: Any, place: str) -> StopReason:
    return cast("StopReason", _one_of(value, get_args(StopReason), place))


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "say": _text,
    "think": _text,
    "plan": _plan,
    "run": _name,
    "parallel": _parallel,
    "wait": _seconds,
    "expect": _expected,
    "usage": _usage,
    "stop": _stop,
}
"""What a step can be, and what checks what it says."""
