"""What a user has typed and mentioned, as one text: a file that was mentioned stands where its path would."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable
from pathlib import PurePath
from urllib.parse import unquote, urlsplit

from callsheet.report.json import JsonObject, is_object


def typed_text(blocks: Iterable[JsonObject], cwd: str) -> str:
    """Return the text of a prompt. What is mentioned belongs to the line before it."""
    text = ""
    after_mention = False
    for block in blocks:
        uri = _uri(block)
        if uri is not None:
            text = f"{text.rstrip()} {shlex.quote(shown(uri, cwd))}".lstrip()
            after_mention = True
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            said: str = block["text"]
            text += f" {said}" if after_mention and said[:1].strip() else said
            after_mention = False
    return text


def shown(uri: str, cwd: str) -> str:
    """Return the path of a file's address, from the session's directory on; else the address itself."""
    parts = urlsplit(uri)
    if parts.scheme != "file" or not parts.path:
        return uri
    text = unquote(parts.path)
    path = PurePath(text.lstrip("/") if os.name == "nt" else text)
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)


def _uri(block: JsonObject) -> str | None:
    kind = block.get("type")
    held = block.get("resource") if kind == "resource" else block
    if kind not in ("resource", "resource_link") or not is_object(held):
        return None
    uri = held.get("uri")
    return uri if isinstance(uri, str) and uri else None
