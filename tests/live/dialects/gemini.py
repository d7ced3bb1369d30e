"""Generated content: what agents of the Gemini family speak. A call comes whole, not in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.live.dialects.steps import Step, event, pieces


def tools(body: dict[str, Any]) -> list[str]:
    """Return the names of the tools that a request offers."""
    offered = [one for tool in body.get("tools") or () for one in _declared(tool)]
    return [str(one.get("name")) for one in offered]


def _declared(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return tool.get("functionDeclarations") or tool.get("function_declarations") or []


def answer(step: Step, body: dict[str, Any]) -> Iterator[bytes]:
    """Return the events of an answer."""
    for piece in pieces(step.text):
        yield _event([{"text": piece}])
    calls = [{"id": use.id, "name": use.name, "args": use.arguments} for use in step.uses]
    yield _event([{"functionCall": call} for call in calls] or [{"text": ""}], "STOP")


def _event(parts: list[dict[str, Any]], finish: str | None = None) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    return event({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake"})
