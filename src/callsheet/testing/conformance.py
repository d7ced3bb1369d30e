"""Check that a tool conforms to the standard by running it: success, failure, bad arguments, timeout, cancel.

from callsheet.testing import check_tool

async def test_my_tool_keeps_the_standard(tmp_path):
    await check_tool(my_tool, good={"path": "a.txt"}, failing={"path": "missing"}, cwd=tmp_path)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
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
    given: list[Any] = [] if isinstance(made, str) else [made]
    recorder, results = Recorder(), dict[str, ToolResult]()
    options = {"permission": "allow", "on_update": recorder, "tools": given, **options}
    async with Session(cwd=cwd, **options) as session:
        await session.connected()
        known = session.tools.get(name)
        assert known is not None, f"there is no tool {name!r}"
        results["success"] = await _within(session.run(name, good), "success")
        assert results["success"].success, (
            f"{name} failed with good arguments: {results['success']}"
        )
        assert results["success"].output != NO_OUTPUT, f"{name} succeeded without an output"
        if failing is not None:
            results["failure"] = await _within(session.run(name, failing), "failure")
            assert not results["failure"].success, f"{name} succeeded with {failing}"
        results |= await _with_bad_arguments(session, known, good)
        if slow is None:
            slow = good
            session.tools.add(_held_up(known))
        results["timeout"] = await _within(session.run(name, slow, timeout=0.2), "timeout")
        _failed_with(results["timeout"], "timeout")
        results["cancel"] = await _within(_cancelled(session, name, slow), "cancel")
        _failed_with(results["cancel"], "cancelled")
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


async def _with_bad_arguments(
    session: Session, one: Tool, good: JsonObject
) -> dict[str, ToolResult]:
    tried: dict[str, JsonObject] = {}
    if one.schema.get("additionalProperties") is False:
        tried["unknown argument"] = {**good, "no_such_argument": 1}
    for name in one.schema.get("required", ()):
        tried[f"without {name}"] = {key: value for key, value in good.items() if key != name}
        tried[f"bad {name}"] = {**good, name: _NOT_OF_ANY_TYPE}
    results: dict[str, ToolResult] = {}
    for what, arguments in tried.items():
        results[what] = await _within(session.run(one.name, arguments), what)
        _failed_with(results[what], "invalid_arguments")
    return results


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


async def _cancelled(session: Session, name: str, slow: JsonObject) -> ToolResult:
    running = asyncio.ensure_future(session.run(name, slow, alias="to be cancelled"))
    await asyncio.sleep(0.2)
    assert session.cancel("to be cancelled"), f"{name} was not running any more after 0.2 s"
    return await running


async def _within(work: Any, what: str) -> Any:
    try:
        return await asyncio.wait_for(work, _PATIENCE)
    except TimeoutError:
        raise AssertionError(f"{what}: still running after {_PATIENCE:g} s") from None


def _failed_with(result: ToolResult, code: str) -> None:
    assert not result.success, f"expected a failure ({code}): {result}"
    found = result.metadata.get("error_code")
    assert found == code, f"expected the error code {code!r}, got {found!r}: {result}"
