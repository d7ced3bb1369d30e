"""What tools of frameworks return, as content that clients show and as raw output for programs.

Text is content. Blocks (text, images, audio, links, resources) of MCP, ACP, Anthropic, OpenAI, LangChain,
Bedrock and Gemini are content, too, alone or in a list. Everything else is shown as JSON, and is raw output.
"""

from __future__ import annotations

import base64
import json
from typing import Any, cast

from callsheet.acp.codec import decode_block
from callsheet.acp.jsonrpc import InvalidParams
from callsheet.limits.to_json import jsonsafe
from callsheet.report.content import ToolCallContent, UnknownContent
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_object

_PLAIN = (str, int, float, bool)


def shown(result: Any) -> tuple[list[ToolCallContent], JsonValue]:
    """Return the content and the raw output of a tool's result."""
    if result is None or result == "":
        return [], None
    if isinstance(result, str):
        return [ToolCallContent.text(jsonsafe_text(result))], None
    if isinstance(result, ToolCallContent):
        return [result], None
    answer = _mcp_answer(result)
    if answer is not None:
        items, structured = answer
        content = [item for one in items for item in shown(one)[0]]
        return (content, structured) if content else shown(structured)
    alone = _block(result)
    if alone is not None:
        return [alone], None
    if isinstance(result, (list, tuple)) and result:
        many = list(cast("Any", result))
        blocks = [
            ToolCallContent.text(jsonsafe_text(one)) if isinstance(one, str) else _block(one)
            for one in many
        ]
        # A list of plain strings is data; with an image or another block among them, it is content.
        if not all(isinstance(one, str) for one in many):
            found = [one for one in blocks if one is not None]
            if len(found) == len(many):
                return found, None
    raw = jsonsafe(result)
    if isinstance(raw, str):
        return [ToolCallContent.text(raw)], None
    text = json.dumps(raw, ensure_ascii=False, indent=None if isinstance(raw, _PLAIN) else 2)
    return [ToolCallContent.text(f"```json\n{text}\n```" if "\n" in text else text)], raw


def shown_text(result: Any) -> str:
    """Return a result as text, without what has none."""
    texts = [getattr(item, "text", None) for item in shown(result)[0]]
    return "\n".join(text for text in texts if isinstance(text, str))


def is_failure(result: Any) -> bool:
    """Whether a result says itself that the tool has failed, as those of MCP and Bedrock do."""
    if is_object(result):
        failed = result.get("isError", result.get("is_error"))
        return failed is True or (result.get("status") == "error" and "content" in result)
    # A class that has both is a result; a mere attribute `is_error` of anything else says nothing.
    if not hasattr(result, "content"):
        return False
    return getattr(result, "isError", getattr(result, "is_error", None)) is True


def jsonsafe_text(text: str) -> str:
    """Return a text that can be sent."""
    return str(jsonsafe(text))


def _mcp_answer(result: Any) -> tuple[list[Any], JsonValue] | None:
    """Return the blocks and the structured content of MCP's `CallToolResult`, or of what looks like it."""
    if is_object(result):
        items = result.get("content")
        if not ({"isError", "is_error", "structuredContent", "toolUseId"} & result.keys()):
            return None
        structured = result.get("structuredContent")
    else:
        if not hasattr(result, "isError") and not hasattr(result, "structured_content"):
            return None
        items = getattr(result, "content", None)
        structured = getattr(result, "structuredContent", None) or getattr(
            result, "structured_content", None
        )
    if isinstance(items, str):
        items = [{"type": "text", "text": items}]
    if not isinstance(items, (list, tuple)):
        return None
    return list(cast("Any", items)), None if structured is None else jsonsafe(structured)


def _block(value: Any) -> ToolCallContent | None:
    """Return a block as content; None for what is none."""
    if isinstance(value, ToolCallContent):
        return value
    data, mime = getattr(value, "data", None), _mime(value)
    if isinstance(data, (bytes, str)) and isinstance(
        mime, str
    ):  # an object with bytes and their type
        return _media(data, mime)
    if not is_object(value):
        if not hasattr(value, "type") or not hasattr(value, "model_dump"):
            return None
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _of_object(value)


def _of_object(value: JsonObject) -> ToolCallContent | None:
    kind, text = value.get("type"), value.get("text")
    if isinstance(text, str) and kind in ("text", "input_text", "output_text", None):
        is_block = kind is not None or value.keys() == {"text"}
        return ToolCallContent.text(jsonsafe_text(text)) if is_block else None
    for key in ("image", "audio", "inline_data", "inlineData"):  # Bedrock, Gemini
        inner = value.get(key)
        if is_object(inner) and kind is None:
            source = inner.get("source")
            data = source.get("bytes") if is_object(source) else inner.get("data")
            return _media(data, _mime(inner) or f"{key}/{inner.get('format', 'png')}")
    url = value.get("image_url")
    url = url.get("url") if is_object(url) else url
    if isinstance(url, str) and kind in ("image_url", "input_image", "image"):
        return _of_url(url)
    source = value.get("source")
    if kind in ("image", "audio"):
        inner = source if is_object(source) else value  # Anthropic has a source
        data = inner.get("data") or inner.get("base64")
        if isinstance(inner.get("url"), str) and data is None:
            return _of_url(cast("str", inner["url"]))
        return _media(data, _mime(inner) or f"{kind}/{'png' if kind == 'image' else 'wav'}")
    if kind in ("resource", "resource_link"):
        try:
            found = decode_block({"content": value})
        except (CallsheetError, InvalidParams):
            return None
        return None if isinstance(found, UnknownContent) else found
    return None


def _mime(value: Any) -> str | None:
    for name in ("mimeType", "mime_type", "media_type"):
        found = value.get(name) if is_object(value) else getattr(value, name, None)
        if isinstance(found, str):
            return found
    return None


def _media(data: Any, mime: str) -> ToolCallContent | None:
    """Return bytes or base64 as an image, a sound or a resource."""
    try:
        if mime.startswith("image/"):
            return ToolCallContent.image(data, mime)
        if mime.startswith("audio/"):
            return ToolCallContent.audio(data, mime)
        body = data if isinstance(data, bytes) else base64.b64decode(data)
        return ToolCallContent.resource("data:" + mime, body, mime)
    except (CallsheetError, TypeError, ValueError):
        return None


def _of_url(url: str) -> ToolCallContent | None:
    head, _, data = url.partition(";base64,")
    if head.startswith("data:") and data:
        return _media(data, head.removeprefix("data:"))
    return ToolCallContent.link(url, url.rsplit("/", 1)[-1] or url)
