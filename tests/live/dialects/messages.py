"""Messages: what agents of the Claude family speak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.live.dialects.steps import Step, event, new_id, pieces


def tools(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers."""
    return [str(tool.get("name")) for tool in body.get("tools") or ()]


def answer(step: Step, body: dict[str, Any]) -> Iterator[bytes]:
    """Return the events of an answer."""
    usage = {"input_tokens": 100, "output_tokens": 10}
    message = {
        "id": new_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": str(body.get("model")),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield _event("message_start", message=message)
    yield from _text(step)
    for index, use in enumerate(step.uses, start=1 if step.text else 0):
        block = {"type": "tool_use", "id": use.id, "name": use.name, "input": {}}
        yield _event("content_block_start", index=index, content_block=block)
        for piece in pieces(use.as_json):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    reason = "tool_use" if step.uses else "end_turn"
    yield _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=usage)
    yield _event("message_stop")


def _text(step: Step) -> Iterator[bytes]:
    if not step.text:
        return
    yield _event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for piece in pieces(step.text):
        yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    yield _event("content_block_stop", index=0)


def _event(kind: str, **more: Any) -> bytes:
    return event({"type": kind} | more, kind)
