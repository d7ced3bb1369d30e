"""Adapt a server's tools to tools of a session: their schemas, and the conversion of their responses.

Schemas are untrusted, so nothing that they refer to is fetched. Responses become text for the model, content
for the user, and locations inside the workspace.
"""

from __future__ import annotations

import math
import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import jsonschema_rs
import mcp_types as types
import msgspec

from callsheet.describe.classify import reading_kind
from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidContent
from callsheet.report.json import JsonObject, JsonValue
from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.tool import Tool

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

    from callsheet.tools.mcp.servers import Server
    from callsheet.tools.result import ToolResult
    from callsheet.tools.session import Call


class Unusable(ValueError):
    """A schema can't be used to check anything."""


def compiled(schema: Mapping[str, Any]) -> Callable[[JsonValue], str | None]:
    """Return a function that validates a value, and returns what is wrong with it, or None.

    Raises:
        Unusable: The schema is invalid, or refers to something that would have to be fetched.
    """
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except (ValueError, TypeError, RecursionError) as exc:
        raise Unusable(str(exc).splitlines()[0] if str(exc) else type(exc).__name__) from None

    def check(value: JsonValue) -> str | None:
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as exc:
            where = "/".join(map(str, exc.instance_path))
            return f"{where}: {exc.message}" if where else exc.message
        return None

    return check


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


_LINE = re.compile(r"L?(\d{1,9})\b")


class LinkedFile(NamedTuple):
    """A file that a response links to."""

    path: Path
    line: int | None


class McpAnswer(NamedTuple):
    """The response of a server to a call."""

    text: str
    """The text for the model."""
    items: tuple[ToolCallContent, ...]
    """The content for the user besides the text."""
    places: tuple[LinkedFile, ...]
    structured: JsonValue
    is_error: bool


class _Read(NamedTuple):
    """One block: its text for the model, and its content for the user."""

    text: str
    item: ToolCallContent | None = None


def read_answer(result: types.CallToolResult) -> McpAnswer:
    """Convert the response to a call."""
    blocks = [_read(block) for block in result.content]
    texts = [block.text for block in blocks if block.text]
    structured = result.structured_content
    if not texts and structured is not None:
        texts = [msgspec.json.format(msgspec.json.encode(structured)).decode()]
    return McpAnswer(
        "\n".join(texts),
        tuple(block.item for block in blocks if block.item is not None),
        tuple(dict.fromkeys(place for block in result.content for place in _places(block))),
        structured,
        result.is_error,
    )


def _read(block: types.ContentBlock) -> _Read:
    try:
        return _block(block)
    except InvalidContent as exc:
        return _Read(f"({block.type} that can't be shown: {exc})")


def _block(block: types.ContentBlock) -> _Read:
    notes = _annotations(block)
    if isinstance(block, types.TextContent):
        if notes is not None and notes.get("audience") == ["user"]:  # not for the model
            return _Read("", ToolCallContent.text(block.text, annotations=notes))
        return _Read(block.text)
    if isinstance(block, types.ImageContent):
        item = ToolCallContent.image(block.data, block.mime_type)
        read = _Read(f"(image, {block.mime_type}, {_size(block.data)})", item)
    elif isinstance(block, types.AudioContent):
        item = ToolCallContent.audio(block.data, block.mime_type)
        read = _Read(f"(audio, {block.mime_type}, {_size(block.data)})", item)
    elif isinstance(block, types.ResourceLink):
        read = _link(block)
    else:
        read = _resource(block.resource)
    if notes is not None and read.item is not None:
        read = read._replace(item=msgspec.structs.replace(read.item, annotations=notes))
    return read


def _link(block: types.ResourceLink) -> _Read:
    item = ToolCallContent.link(
        block.uri,
        block.name,
        title=block.title,
        description=block.description,
        mime_type=block.mime_type,
        size=block.size,
    )
    text = f"{block.title or block.name}: {block.uri}"
    return _Read(f"{text} ({block.description})" if block.description else text, item)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents) -> _Read:
    mime = resource.mime_type
    if isinstance(resource, types.TextResourceContents):
        item = ToolCallContent.resource(resource.uri, resource.text, mime)
        return _Read(f"{resource.uri}:\n{resource.text}", item)
    try:
        raw = b64decode(resource.blob, validate=True)
    except ValueError as exc:
        raise InvalidContent(f"{resource.uri}: not base64 ({exc})") from None
    kind = f"{mime}, " if mime else ""
    item = ToolCallContent.resource(resource.uri, raw, mime)
    return _Read(f"{resource.uri} ({kind}{len(raw):,} bytes)", item)


def _annotations(block: types.ContentBlock) -> JsonObject | None:
    if block.annotations is None:
        return None
    notes: Any = block.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    return notes or None


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4 - data[-2:].count('='):,} bytes"


def _places(block: types.ContentBlock) -> Iterator[LinkedFile]:
    if isinstance(block, types.ResourceLink):
        place = place_of(block.uri)
    elif isinstance(block, types.EmbeddedResource):
        place = place_of(block.resource.uri)
    else:
        return
    if place is not None:
        yield place


def place_of(uri: str) -> LinkedFile | None:
    """Return the file that a `file://` URI refers to, and the line if it ends with `#L12`."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = url2pathname(parts.path)
    if "\0" in path or (not path.startswith("/") and ":" not in path[:3]):
        return None
    line = _LINE.match(unquote(parts.fragment))
    return LinkedFile(Path(path), int(line[1]) or None if line else None)


Check = Callable[[JsonValue], str | None]


class AdaptedTool(NamedTuple):
    """A tool, and what was wrong with its declaration."""

    tool: Tool
    problem: str | None


def make_tool(server: Server, name: str, declared: types.Tool) -> AdaptedTool:
    """Return the tool for a server's declaration, with any problem of the declaration."""
    schema, wrong = _input_schema(declared)
    check, wrong_output = _output_check(declared)
    hints = _hints(declared)
    is_read_only = server.config.trusted and hints.get("readOnlyHint") is True

    async def run(call: Call, arguments: dict[str, Any]) -> ToolResult:
        result = await server.call(declared.name, arguments, _progress_of(call))
        return _result(call, declared, read_answer(result), check, server.config.name)

    tool = Tool.from_schema(
        name,
        declared.description or declared.title or declared.name,
        schema,
        run,
        # Only a trusted server may declare a tool read-only: our permission depends on this, and the
        # client's depends on the kind.
        kind=reading_kind(name) if is_read_only else None,
        read_only=is_read_only,
        annotations=hints,
        timeout=server.config.timeout,
    )
    wrong = wrong or wrong_output
    return AdaptedTool(tool, f"{server.config}: tool {declared.name!r}: {wrong}" if wrong else None)


def _hints(declared: types.Tool) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    if declared.annotations is not None:
        hints = declared.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    return hints | {"title": declared.title} if declared.title else hints


def _input_schema(declared: types.Tool) -> tuple[JsonObject, str | None]:
    try:
        compiled(declared.input_schema)
    except Unusable as exc:
        return {
            "type": "object"
        }, f"its schema can't be used, so any arguments are let through: {exc}"
    return declared.input_schema, None


def _output_check(declared: types.Tool) -> tuple[Check | None, str | None]:
    if declared.output_schema is None:
        return None, None
    try:
        return compiled(declared.output_schema), None
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
    call: Call, declared: types.Tool, answer: McpAnswer, check: Check | None, server: str
) -> ToolResult:
    for place in answer.places:
        if call.workspace.holds(Path(os.path.realpath(place.path))):
            call.locate(place.path, place.line)
    if answer.is_error:
        result = call.error(
            ExecutionFailed(answer.text or f"{declared.name} failed and did not say why")
        )
    else:
        result = call.success(answer.text)
    result = result.with_content(*answer.items)
    result = result.with_metadata("mcp_server", server).with_metadata("mcp_tool", declared.name)
    if answer.structured is not None:
        result = result.with_metadata("structured_content", answer.structured)
    wrong = _wrong(answer, check)
    return result.with_metadata("structured_content_error", wrong) if wrong else result


def _wrong(answer: McpAnswer, check: Check | None) -> str | None:
    """Return how the structured content violates its declared schema, or None."""
    if check is None or answer.is_error:
        return None
    if answer.structured is None:
        return "there is none, though the tool declares a schema for it"
    return check(answer.structured)
