"""Adapt a server's tools to tools of a session: their schemas, and the conversion of their responses.

Schemas are untrusted, so nothing that they refer to is fetched. Responses become text for the model, content
for the user, and locations inside the workspace.
"""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import jsonschema_rs
import msgspec
from msgspec import Struct

from callsheet.acp.codec import decode_block
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.describe.classify import reading_kind
from callsheet.report.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolCallContent,
)
from callsheet.report.errors import InvalidContent
from callsheet.report.json import JsonObject
from callsheet.report.patterns import lazy
from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.tool import Tool

if TYPE_CHECKING:
    from callsheet.tools.mcp.connection import DeclaredTool
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


def make_tool(server: Server, name: str, declared: DeclaredTool) -> tuple[Tool, str]:
    """Return the tool for a server's declaration, and what was wrong with the declaration, if anything."""
    schema, problem = declared.input_schema, ""
    if why_not := _why_not(schema):
        schema = {"type": "object"}
        problem = (
            f"{server.config}: tool {declared.name!r}: its schema can't be used, so any arguments are let "
            f"through: {why_not}"
        )
    hints = dict(declared.annotations or {})
    if declared.title:
        hints["title"] = declared.title
    is_read_only = server.config.trusted and hints.get("readOnlyHint") is True

    async def run(call: Call, arguments: dict[str, Any]) -> ToolResult:
        given = await server.call(
            declared.name,
            arguments,
            partial(_report_progress, call),
            call.session.trace_meta(call.id),
        )
        try:
            answer = msgspec.convert(given, _Answer)
        except msgspec.ValidationError as exc:
            raise ExecutionFailed(
                f"{server.config} gave a result that is not as MCP has it: {exc}"
            ) from None
        metadata = {"mcp_server": server.config.name, "mcp_tool": declared.name}
        return _result(call, answer, metadata)

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


def _report_progress(call: Call, done: object, total: object, message: object) -> None:
    if not call.has_ended:
        text = message if isinstance(message, str) else None
        call.progress(_number(done), _number(total), text)


def _number(value: object) -> float | None:
    """Return 3 for 3.0, and nothing for what is no number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


class _ContentBlock(Struct):
    type: Literal["text", "image", "audio", "resource_link", "resource"]
    annotations: JsonObject | None = None


class _Answer(Struct, rename="camel"):
    content: list[JsonObject] = []
    structured_content: Any = None
    is_error: bool = False

    def __post_init__(self) -> None:
        msgspec.convert(self.content, list[_ContentBlock])


def _result(call: Call, answer: _Answer, metadata: JsonObject) -> ToolResult:
    texts, items = list[str](), list[ToolCallContent]()
    for raw in answer.content:
        try:
            block = decode_block({"content": raw})  # ACP has the blocks of MCP
        except (InvalidContent, InvalidParams) as exc:
            texts.append(f"({raw.get('type')} that can't be shown: {exc})")
            continue
        if isinstance(block, TextContent) and (block.annotations or {}).get("audience") != ["user"]:
            texts.append(block.text)
        else:
            texts.append(_text(block))
            items.append(block)
        _locate(call, getattr(block, "uri", None) or "")
    text = "\n".join(filter(None, texts))
    if not text and answer.structured_content is not None:
        text = msgspec.json.format(msgspec.json.encode(answer.structured_content)).decode()
    result = call.error(ExecutionFailed(text)) if answer.is_error else call.success(text)
    if answer.structured_content is not None:
        metadata["structured_content"] = answer.structured_content
    return result.with_content(*items).with_all_metadata(metadata)


def _text(block: ToolCallContent) -> str:
    """Return what a model gets of a block that is shown to the user."""
    if isinstance(block, ResourceLink):
        text = f"{block.title or block.name}: {block.uri}"
        return f"{text} ({block.description})" if block.description else text
    if isinstance(block, (ImageContent, AudioContent)):
        kind = "image" if isinstance(block, ImageContent) else "audio"
        return f"({kind}, {block.mime_type}, {_size(block.data):,} bytes)"
    if not isinstance(block, EmbeddedResource):
        return ""  # text that is not for the model
    if block.text is not None:
        return f"{block.uri}:\n{block.text}"
    kind = f"{block.mime_type}, " if block.mime_type else ""
    return f"{block.uri} ({kind}{_size(block.blob or ''):,} bytes)"


def _size(data: str) -> int:
    """Return the size of what stands there in base64."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _locate(call: Call, uri: str) -> None:
    """Report the file of the workspace that a link leads to, and its line if it ends with `#L12`."""
    try:
        parts = urlsplit(uri)
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
