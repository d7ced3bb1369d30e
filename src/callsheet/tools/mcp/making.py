"""A server's tools as tools of a session: what is told of each, and what becomes of its answers."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from callsheet.describe.classify import reading_kind
from callsheet.report.json import JsonObject, JsonValue
from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.tool import Tool

from .results import Answer, read_answer
from .schemas import Unusable, compiled

if TYPE_CHECKING:
    import mcp_types as types
    from mcp.shared.dispatcher import ProgressFnT

    from callsheet.tools.result import ToolResult
    from callsheet.tools.session import Call

    from .server import Server

Check = Callable[[JsonValue], str | None]


class Made(NamedTuple):
    """A tool, and what was wrong with what was told of it."""

    tool: Tool
    problem: str | None


def make_tool(server: Server, name: str, told: types.Tool) -> Made:
    """Make a tool of what a server tells of it."""
    schema, wrong = _input_schema(told)
    check, wrong_output = _output_check(told)
    hints = _hints(told)
    is_read_only = server.config.trusted and hints.get("readOnlyHint") is True

    async def run(call: Call, arguments: dict[str, Any]) -> ToolResult:
        result = await server.call(told.name, arguments, _progress_of(call))
        return _result(call, told, read_answer(result), check, server.config.name)

    tool = Tool.from_schema(
        name,
        told.description or told.title or told.name,
        schema,
        run,
        # That it only reads is believed of a server that the user trusts: our permission depends on
        # this, and by the kind, the client's.
        kind=reading_kind(name) if is_read_only else None,
        read_only=is_read_only,
        annotations=hints,
        timeout=server.config.timeout,
    )
    wrong = wrong or wrong_output
    return Made(tool, f"{server.config}: tool {told.name!r}: {wrong}" if wrong else None)


def _hints(told: types.Tool) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    if told.annotations is not None:
        hints = told.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    return hints | {"title": told.title} if told.title else hints


def _input_schema(told: types.Tool) -> tuple[JsonObject, str | None]:
    try:
        compiled(told.input_schema)
    except Unusable as exc:
        return {
            "type": "object"
        }, f"its schema can't be used, so any arguments are let through: {exc}"
    return told.input_schema, None


def _output_check(told: types.Tool) -> tuple[Check | None, str | None]:
    if told.output_schema is None:
        return None, None
    try:
        return compiled(told.output_schema), None
    except Unusable as exc:
        return None, f"the schema of its output can't be used: {exc}"


def _progress_of(call: Call) -> ProgressFnT:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if not call.has_ended:
            call.progress(_number(progress), _number(total), message)

    return on_progress


def _number(value: float | None) -> float | None:
    """Return 3 for 3.0, and nothing for what is no number."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def _result(
    call: Call, told: types.Tool, answer: Answer, check: Check | None, server: str
) -> ToolResult:
    for place in answer.places:
        if call.workspace.holds(Path(os.path.realpath(place.path))):
            call.locate(place.path, place.line)
    if answer.is_error:
        result = call.error(
            ExecutionFailed(answer.text or f"{told.name} failed and did not say why")
        )
    else:
        result = call.success(answer.text)
    result = result.with_content(*answer.items)
    result = result.with_metadata("mcp_server", server).with_metadata("mcp_tool", told.name)
    if answer.structured is not None:
        result = result.with_metadata("structured_content", answer.structured)
    wrong = _wrong(answer, check)
    return result.with_metadata("structured_content_error", wrong) if wrong else result


def _wrong(answer: Answer, check: Check | None) -> str | None:
    """Say how the structured content breaks the schema that was declared for it."""
    if check is None or answer.is_error:
        return None
    if answer.structured is None:
        return "there is none, though the tool declares a schema for it"
    return check(answer.structured)
