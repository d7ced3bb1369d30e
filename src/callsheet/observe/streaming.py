"""Arguments that an agent shows in a call's content while its model still writes them.

Some agents have no other place for them: the content is the text of a JSON object that grows, until the
output takes its place. Whether it is that is for others to judge; here it is only kept.
"""

from __future__ import annotations

from typing import Any

from callsheet.observe.moments import FINAL, Call, Json
from callsheet.observe.values import many, obj, text


def note(call: Call, update: Json) -> None:
    """Keep the content if it may be arguments: it begins as an object does, and nothing else was told."""
    if call.given or call.ended is not None or update.get("status") in FINAL:
        return
    if "rawOutput" in call.fields:
        return
    shown = sole_text(call.fields.get("content"))
    if shown is not None and shown[:1] == "{" and shown.startswith(call.streamed):
        call.streamed = shown


def sole_text(content: Any) -> str | None:
    """Return the text of a content that is no more than one text, without blanks before it. Else None."""
    items = many(content)
    if len(items) != 1:
        return None
    item = obj(items[0])
    block = obj(item.get("content"))
    if item.get("type") != "content" or block.get("type") != "text":
        return None
    shown = text(block.get("text", ""))  # encoders of Go leave out one that is empty
    return shown and shown.lstrip()
