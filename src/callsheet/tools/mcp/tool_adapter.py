"""Adapt a server's tools to tools of a session: their schemas, and the conversion of their responses.

Schemas are untrusted, so nothing that they refer to is fetched. Responses become text for the model, content
for the user, and locations inside the workspace.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import jsonschema_rs
import mcp_types as types
import msgspec

from callsheet.acp.codec import decode_block
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.describe.classify import reading_kind
from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidContent
from callsheet.report.json import JsonObject
from callsheet.report.patterns import lazy
from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.tool import Tool

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

    from callsheet.tools.mcp.servers import Server
    from callsheet.tools.result import ToolResult
    from callsheet.tools.session import Call


_LINE = lazy(r"L?(\d{1,9})\b")


def _why_not(schema: JsonObject) -> str:
    """Return why nothing can be validated by a schema: it is invalid, or refers to something remote."""
    try:
        jsonschema_rs.validator_for(schema, retriever=_refuse)
    except (ValueError, TypeError, RecursionError) as exc:
        return str(exc).partition("\n")[0] or type(exc).__name__
    return ""


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def make_tool(server: Server, name: str, declared: types.Tool) -> tuple[Tool, str]:
    """Return the tool for a server's declaration, and what was wrong with the declaration, if anything."""
    schema, problem = declared.input_schema, ""
    if why_not := _why_not(schema):
        schema = {"type": "object"}
        problem = (
            f"{server.config}: tool {declared.name!r}: its schema can't be used, so any arguments are let "
            f"through: {why_not}"
        )
    hints: dict[str, Any] = {}
    if declared.annotations is not None:
        hints = declared.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    if declared.title:
        hints["title"] = declared.title
    is_read_only = server.config.trusted and hints.get("readOnlyHint") is True

    async def run(call: Call, arguments: dict[str, Any]) -> ToolResult:
        result = await server.call(declared.name, arguments, _progress_of(call))
        metadata = {"mcp_server": server.config.name, "mcp_tool": declared.name}
        return _result(call, result, metadata)

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
    return tool, problem


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


def _result(call: Call, answer: types.CallToolResult, metadata: JsonObject) -> ToolResult:
    blocks = [_converted(block) for block in answer.content]
    texts = [text for text, _ in blocks if text]
    structured: Any = answer.structured_content
    if not texts and structured is not None:
        texts = [msgspec.json.format(msgspec.json.encode(structured)).decode()]
    for block in answer.content:
        _locate(call, block)
    text = "\n".join(texts)
    result = call.error(ExecutionFailed(text)) if answer.is_error else call.success(text)
    result = result.with_content(*[item for _, item in blocks if item is not None])
    if structured is not None:
        metadata["structured_content"] = structured
    return result.with_all_metadata(metadata)


# Blocks: the text of each for the model, and its content for the user, which ACP has as MCP has it


def _converted(block: types.ContentBlock) -> tuple[str, ToolCallContent | None]:
    is_text = isinstance(block, types.TextContent)
    if is_text and (block.annotations is None or block.annotations.audience != ["user"]):
        return block.text, None
    try:
        raw = block.model_dump(by_alias=True, mode="json", exclude_none=True)
        item = decode_block({"content": raw})
    except (InvalidContent, InvalidParams) as exc:
        return f"({block.type} that can't be shown: {exc})", None
    return "" if is_text else _text(block), item  # this text is not for the model


def _text(block: types.ContentBlock) -> str:
    if isinstance(block, types.ResourceLink):
        text = f"{block.title or block.name}: {block.uri}"
        return f"{text} ({block.description})" if block.description else text
    if isinstance(block, types.EmbeddedResource):
        resource = block.resource
        if isinstance(resource, types.TextResourceContents):
            return f"{resource.uri}:\n{resource.text}"
        kind = f"{resource.mime_type}, " if resource.mime_type else ""
        return f"{resource.uri} ({kind}{_size(resource.blob):,} bytes)"
    assert not isinstance(block, types.TextContent)
    return f"({block.type}, {block.mime_type}, {_size(block.data):,} bytes)"


def _size(data: str) -> int:
    """Return the size of what stands there in base64."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _locate(call: Call, block: types.ContentBlock) -> None:
    """Report the file of the workspace that a block links to, and its line if the link ends with `#L12`."""
    uri = block.resource.uri if isinstance(block, types.EmbeddedResource) else None
    uri = block.uri if isinstance(block, types.ResourceLink) else uri
    try:
        parts = urlsplit(uri or "")
    except ValueError:
        return
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return
    path = url2pathname(parts.path)
    if "\0" in path or not path.startswith("/"):
        return
    line = _LINE.match(unquote(parts.fragment))
    if call.workspace.holds(Path(os.path.realpath(path))):
        call.locate(Path(path), int(line[1]) or None if line else None)
