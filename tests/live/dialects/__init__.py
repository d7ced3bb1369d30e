"""The dialects in which agents ask a model: one file each, pure functions, a step in and its answer out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.live.dialects import chat, gemini, messages, responses
from tests.live.dialects.steps import Step


class Dialect(NamedTuple):
    """How one kind of agent asks, and is answered."""

    tools: Callable[[dict[str, Any]], list[str]]
    """The names of the tools that a request offers."""
    answer: Callable[[Step, dict[str, Any]], Iterator[bytes]]
    """The events of an answer."""
    talk: str
    """Where in a request the conversation is."""


DIALECTS: dict[str, Dialect] = {
    "/chat/completions": Dialect(chat.tools, chat.answer, "messages"),
    "/responses": Dialect(responses.tools, responses.answer, "input"),
    "/messages": Dialect(messages.tools, messages.answer, "messages"),
    ":streamGenerateContent": Dialect(gemini.tools, gemini.answer, "contents"),
}
"""By how the path of a request ends."""
