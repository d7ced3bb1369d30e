"""What a server answers, as content, text for a model, and places. Nothing is asked or reported here."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

import mcp_types as types
import msgspec

from callsheet.report.content import ToolCallContent
from callsheet.report.errors import InvalidContent
from callsheet.report.json import JsonObject, JsonValue

_LINE = re.compile(r"L?(\d{1,9})\b")


class Place(NamedTuple):
    """A file that an answer links to."""

    path: Path
    line: int | None


class Answer(NamedTuple):
    """What a server has answered."""

    text: str
    """What a model gets."""
    items: tuple[ToolCallContent, ...]
    """What is shown besides the text."""
    places: tuple[Place, ...]
    structured: JsonValue
    is_error: bool


class _Read(NamedTuple):
    """One block: what a model gets of it, and what is shown besides."""

    text: str
    item: ToolCallContent | None = None


def read_answer(result: types.CallToolResult) -> Answer:
    """Read the answer to a call of a tool."""
    blocks = [_read(block) for block in result.content]
    texts = [block.text for block in blocks if block.text]
    structured = result.structured_content
    if not texts and structured is not None:
        texts = [msgspec.json.format(msgspec.json.encode(structured)).decode()]
    return Answer(
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
    said = f"{block.title or block.name}: {block.uri}"
    return _Read(f"{said} ({block.description})" if block.description else said, item)


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


def _places(block: types.ContentBlock) -> Iterator[Place]:
    if isinstance(block, types.ResourceLink):
        place = place_of(block.uri)
    elif isinstance(block, types.EmbeddedResource):
        place = place_of(block.resource.uri)
    else:
        return
    if place is not None:
        yield place


def place_of(uri: str) -> Place | None:
    """Return the file that a `file://` URI means, and the line if it ends with `#L12`."""
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
    return Place(Path(path), int(line[1]) or None if line else None)
