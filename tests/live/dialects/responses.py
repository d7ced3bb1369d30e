"""Responses: what agents of the Codex family speak."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.live.dialects.steps import Step, Use, event, new_id, pieces

_USAGE = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}


def tools(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers."""
    return [str(tool.get("name") or tool.get("type")) for tool in body.get("tools") or ()]


def answer(step: Step, body: dict[str, Any]) -> Iterator[bytes]:
    """Return the events of an answer."""
    numbers = count()

    def said(kind: str, **more: Any) -> bytes:
        return event({"type": kind, "sequence_number": next(numbers)} | more, kind)

    response = {"id": new_id("resp"), "object": "response", "model": str(body.get("model"))}
    yield said("response.created", response=response | {"status": "in_progress", "output": []})
    items = [*([_message(step.text)] if step.text else []), *map(_call, step.uses)]
    for index, item in enumerate(items):
        yield said("response.output_item.added", output_index=index, item=_begun(item))
        kind, text = _streamed(item)
        for piece in pieces(text):
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            yield said(f"response.{kind}.delta", delta=piece, **place)
        yield said("response.output_item.done", output_index=index, item=item)
    over = response | {"status": "completed", "output": items, "usage": _USAGE}
    yield said("response.completed", response=over)


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": new_id("msg"), "role": "assistant", "content": content}


def _call(use: Use) -> dict[str, Any]:
    item = {"id": f"item_{use.id}", "call_id": use.id, "name": use.name, "status": "completed"}
    if use.text:
        return item | {"type": "custom_tool_call", "input": use.text}
    return item | {"type": "function_call", "arguments": use.as_json}


def _streamed(item: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of the events that bring an item in pieces, and what they bring."""
    if item["type"] == "message":
        return "output_text", item["content"][0]["text"]
    if item["type"] == "function_call":
        return "function_call_arguments", item["arguments"]
    return "custom_tool_call_input", item["input"]


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item as it is before anything of it has come."""
    empty = {"content": [], "arguments": "", "input": ""}
    return {key: empty.get(key, value) for key, value in item.items()} | {"status": "in_progress"}
