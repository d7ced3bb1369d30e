"""Chat completions: what most agents speak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.live.dialects.steps import Step, event, new_id, pieces

_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


def tools(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers."""
    return [str(tool.get("function", {}).get("name")) for tool in body.get("tools") or ()]


def answer(step: Step, body: dict[str, Any]) -> Iterator[bytes]:
    """Return the events of an answer."""
    body = body | {"id": new_id("chatcmpl")}
    yield _delta(body, role="assistant", content="")
    for piece in pieces(step.text):
        yield _delta(body, content=piece)
    for index, use in enumerate(step.uses):
        named = {"name": use.name, "arguments": ""}
        opened = {"index": index, "id": use.id, "type": "function", "function": named}
        yield _delta(body, tool_calls=[opened])
        for piece in pieces(use.as_json):
            yield _delta(body, tool_calls=[{"index": index, "function": {"arguments": piece}}])
    yield _chunk(body, [_choice({}, "tool_calls" if step.uses else "stop")])
    yield _chunk(body, [], usage=_USAGE)
    yield event("[DONE]")


def _delta(body: dict[str, Any], **delta: Any) -> bytes:
    return _chunk(body, [_choice(delta)])


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _chunk(body: dict[str, Any], choices: list[Any], **more: Any) -> bytes:
    head = {"id": body["id"], "model": str(body.get("model")), "created": 1_700_000_000}
    return event(head | {"object": "chat.completion.chunk", "choices": choices} | more)
