"""Check that a tool conforms to the standard by running it: success, failure, bad arguments, timeout, cancel.

from callsheet.testing import check_tool

async def test_my_tool_keeps_the_standard(tmp_path):
    await check_tool(my_tool, good={"path": "a.txt"}, failing={"path": "missing"}, cwd=tmp_path)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from callsheet.report.json import JsonObject
from callsheet.tools.result import NO_OUTPUT, ToolResult
from callsheet.tools.session import Session
from callsheet.tools.tool import Tool, tool

from .recordings import Recorder, assert_every_call_ended

_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").fullmatch
_PATIENCE = 30.0
_NOT_OF_ANY_TYPE: JsonObject = {"callsheet": ["no", "tool", "takes", "this"]}


async def check_tool(
    one: Tool | Callable[..., Any] | str,
    *,
    good: JsonObject,
    failing: JsonObject | None = None,
    slow: JsonObject | None = None,
    cwd: str | Path = ".",
    **options: Any,
) -> dict[str, ToolResult]:
    """Run a tool through everything that can happen to it, and assert that it conforms to the standard.

    Args:
        one: The tool, a function to make one of, or the name of a built-in tool.
        good: Arguments with which it succeeds.
        failing: Arguments with which it fails. Without them, a failure is not tried.
        slow: Arguments with which it runs for ten seconds or more. Without them, timeout and cancel are tried
            with a stand-in that has the tool's name and schema.
        cwd: The session's directory.
        options: Further options of the `Session`.

    Returns:
        The results, by what was tried: `success`, `failure`, `timeout`, `cancel`, `bad NAME`, …

    Raises:
        AssertionError: The tool does not conform.
    """
    made = one if isinstance(one, (str, Tool)) else tool(one)
    name = made if isinstance(made, str) else made.name
    tools: list[Any] = [] if isinstance(made, str) else [made]
    recorder, results = Recorder(), dict[str, ToolResult]()
    options = {"permission": "allow", "on_update": recorder, "tools": tools, **options}
    async with Session(cwd=cwd, **options) as session:

        async def run(what: str, arguments: JsonObject, code: str = "", **more: Any) -> ToolResult:
            """Run the tool, and assert that it ends in time: with this code, if it fails by us."""
            try:
                async with asyncio.timeout(_PATIENCE):
                    result = results[what] = await session.run(name, arguments, **more)
            except TimeoutError:
                raise AssertionError(f"{what}: still running after {_PATIENCE:g} s") from None
            found = result.metadata.get("error_code", "")
            assert not code or found == code, f"{what}: expected {code!r}, got {found!r}: {result}"
            return result

        await session.connected()
        known = session.tools.get(name)
        assert known is not None, f"there is no tool {name!r}"
        done = await run("success", good)
        assert done.success, f"{name} failed with good arguments: {done}"
        assert done.output != NO_OUTPUT, f"{name} succeeded without an output"
        if failing is not None:
            assert not (await run("failure", failing)).success, f"{name} succeeded with {failing}"
        for what, arguments in _bad_arguments(known, good):
            await run(what, arguments, "invalid_arguments")
        if slow is None:
            slow = good
            session.tools.add(_held_up(known))
        await run("timeout", slow, "timeout", timeout=0.2)
        running = asyncio.ensure_future(run("cancel", slow, "cancelled", alias="to be cancelled"))
        await asyncio.sleep(0.2)
        assert session.cancel("to be cancelled"), f"{name} was not running any more after 0.2 s"
        await running
    for result in results.values():
        assert_standard(result)
    ended = assert_every_call_ended(recorder, at_least=len(results))
    assert {result.call_id for result in results.values()} <= set(ended)
    for report in recorder.fold():
        assert report.title, f"{name}: a call without a title"
        assert report.name == name, f"a call of {name!r} names {report.name!r}"
    return results


def assert_standard(result: ToolResult) -> None:
    """Assert that a result conforms to the standard, whatever its tool.

    Raises:
        AssertionError: It does not. The message names what is missing.
    """
    data = result.to_dict()
    time, code, error = data["execution_time_ms"], data["exit_code"], data["error"]
    stamp = str(result.metadata.get("timestamp"))
    wanted = {
        "a call's id": _is_text(data["call_id"]),
        "the tool's name": _is_text(data["tool_name"]),
        "a success that is true or false": isinstance(data["success"], bool),
        "an output": _is_text(data["output"]),
        "something for a model": _is_text(result.for_model()),
        "an execution time": isinstance(time, (int, float)) and time >= 0,
        "an exit code that is a number": code is None or type(code) is int,
        "a timestamp": bool(_RFC_3339(stamp)),
    }
    if result.success:
        wanted["no error, being a success"] = error is None
    else:
        wanted |= {
            "an error": _is_text(error),
            "the error's details in its output": str(error) in result.output,
            "an error code": _is_text(result.metadata.get("error_code")),
            "a hint on trying again": result.metadata.get("retry") in ("no", "changed", "later"),
        }
    missing = [what for what, is_there in wanted.items() if not is_there]
    assert not missing, f"a result must have {', and '.join(missing)}: {result!r}"
    msgspec.json.encode(data)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _bad_arguments(one: Tool, good: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    if one.schema.get("additionalProperties") is False:
        yield "unknown argument", {**good, "no_such_argument": 1}
    for name in one.schema.get("required", ()):
        yield f"without {name}", {key: value for key, value in good.items() if key != name}
        yield f"bad {name}", {**good, name: _NOT_OF_ANY_TYPE}


def _held_up(one: Tool) -> Tool:
    """Return a stand-in with the tool's name and schema, which only waits."""

    async def wait(*_: Any, **__: Any) -> None:
        await asyncio.sleep(_PATIENCE)

    return Tool.from_schema(
        one.name,
        one.description,
        one.schema,
        wait,
        kind=one.kind,
        title=one.title,
        read_only=one.read_only,
    )
