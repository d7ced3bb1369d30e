"""Adapt a server's tools to tools of a session: their schemas, and the conversion of their responses.

Schemas are untrusted, so nothing that they refer to is fetched. Responses become text for the model, content
for the user, and locations inside the workspace.
"""

from __future__ import annotations

import math
import os
import re
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import jsonschema_rs
import mcp_types as types
import msgspec

from callsheet.describe.classify import reading_kind
from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidContent
from callsheet.report.json import JsonObject
from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.tool import Tool

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

    from callsheet.tools.mcp.servers import Server
    from callsheet.tools.result import ToolResult
    from callsheet.tools.session import Call


def _compiled(schema: Mapping[str, Any]) -> jsonschema_rs.Validator | str:
    """Return what validates by a schema; or, if it is invalid or refers to something remote, why not."""
    try:
        return jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except (ValueError, TypeError, RecursionError) as exc:
        return str(exc).partition("\n")[0] or type(exc).__name__


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


_LINE = re.compile(r"L?(\d{1,9})\b")


def make_tool(server: Server, name: str, declared: types.Tool) -> tuple[Tool, list[str]]:
    """Return the tool for a server's declaration, and what was wrong with the declaration."""
    schema, output, problems = declared.input_schema, None, list[str]()
    why_not = _compiled(schema)
    if isinstance(why_not, str):
        schema = {"type": "object"}
        problems.append(f"its schema can't be used, so any arguments are let through: {why_not}")
    if declared.output_schema is not None:
        output = _compiled(declared.output_schema)
        if isinstance(output, str):
            problems.append(f"the schema of its output can't be used: {output}")
    hints: dict[str, Any] = {}
    if declared.annotations is not None:
        hints = declared.annotations.model_dump(by_alias=True, mode="json", exclude_none=True)
    if declared.title:
        hints["title"] = declared.title
    is_read_only = server.config.trusted and hints.get("readOnlyHint") is True

    async def run(call: Call, arguments: dict[str, Any]) -> ToolResult:
        result = await server.call(declared.name, arguments, _progress_of(call))
        made = _result(call, declared, result, None if isinstance(output, str) else output)
        return made.with_metadata("mcp_server", server.config.name)

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
    where = f"{server.config}: tool {declared.name!r}"
    return tool, [f"{where}: {problem}" for problem in problems]


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
    call: Call,
    declared: types.Tool,
    answer: types.CallToolResult,
    output: jsonschema_rs.Validator | None,
) -> ToolResult:
    blocks = [_converted(block) for block in answer.content]
    texts = [text for text, _ in blocks if text]
    structured: Any = answer.structured_content
    if not texts and structured is not None:
        texts = [msgspec.json.format(msgspec.json.encode(structured)).decode()]
    for block in answer.content:
        _locate(call, block)
    text = "\n".join(texts)
    if answer.is_error:
        message = text or f"{declared.name} failed and did not say why"
        result = call.error(ExecutionFailed(message))
    else:
        result = call.success(text)
    result = result.with_content(*[item for _, item in blocks if item is not None])
    metadata: JsonObject = {"mcp_tool": declared.name}
    if structured is not None:
        metadata["structured_content"] = structured
    if output is not None and not answer.is_error:
        wrong = _wrong_output(output, structured)
        metadata |= {"structured_content_error": wrong} if wrong else {}
    return result.with_all_metadata(metadata)


def _wrong_output(validator: jsonschema_rs.Validator, structured: Any) -> str | None:
    if structured is None:
        return "there is none, though the tool declares a schema for it"
    error = next(validator.iter_errors(structured), None)
    if error is None:
        return None
    where = "/".join(map(str, error.instance_path))
    return f"{where}: {error.message}" if where else error.message


# Blocks: the text of each for the model, and its content for the user


def _converted(block: types.ContentBlock) -> tuple[str, ToolCallContent | None]:
    notes: Any = None
    if block.annotations is not None:
        notes = block.annotations.model_dump(by_alias=True, mode="json", exclude_none=True) or None
    if isinstance(block, types.TextContent):
        if notes is not None and notes.get("audience") == ["user"]:  # not for the model
            return "", ToolCallContent.text(block.text, annotations=notes)
        return block.text, None
    try:
        text, item = _block(block)
    except InvalidContent as exc:
        return f"({block.type} that can't be shown: {exc})", None
    if notes is not None:
        item = msgspec.structs.replace(item, annotations=notes)
    return text, item


def _block(
    block: types.ImageContent | types.AudioContent | types.ResourceLink | types.EmbeddedResource,
) -> tuple[str, ToolCallContent]:
    if isinstance(block, (types.ImageContent, types.AudioContent)):
        make = ToolCallContent.image if block.type == "image" else ToolCallContent.audio
        size = len(block.data) * 3 // 4 - block.data[-2:].count("=")
        item = make(block.data, block.mime_type)
        return f"({block.type}, {block.mime_type}, {size:,} bytes)", item
    if isinstance(block, types.ResourceLink):
        item = ToolCallContent.link(
            block.uri,
            block.name,
            title=block.title,
            description=block.description,
            mime_type=block.mime_type,
            size=block.size,
        )
        text = f"{block.title or block.name}: {block.uri}"
        return f"{text} ({block.description})" if block.description else text, item
    resource = block.resource
    mime = resource.mime_type
    if isinstance(resource, types.TextResourceContents):
        item = ToolCallContent.resource(resource.uri, resource.text, mime)
        return f"{resource.uri}:\n{resource.text}", item
    try:
        raw = b64decode(resource.blob, validate=True)
    except ValueError as exc:
        raise InvalidContent(f"{resource.uri}: not base64 ({exc})") from None
    kind = f"{mime}, " if mime else ""
    item = ToolCallContent.resource(resource.uri, raw, mime)
    return f"{resource.uri} ({kind}{len(raw):,} bytes)", item


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
