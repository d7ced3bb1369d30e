"""What the handlers of the adapters share: an agent, and what its user has sent and its model has used."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from callsheet.report.errors import InvalidValue

if TYPE_CHECKING:
    from callsheet.agent.handler import Prompt, Turn


async def speak(turn: Turn, text: str | None, thought: str | None = None) -> None:
    """Send what a model says and what it thinks, if there is any."""
    if text:
        await turn.say(text)
    if thought:
        await turn.think(thought)


class AgentHandler:
    """Runs an agent of a framework for each prompt of a session.

    Args:
        agent: The framework's agent.
        window: Tokens of its model's whole window, if they are known.
    """

    def __init__(self, agent: Any, window: int | None) -> None:
        self.agent: Any = agent
        self.window: int | None = window
        self.messages: list[Any] = []

    @classmethod
    def factory(cls, agent: Any, window: int | None) -> Callable[[], Self]:
        """Return what makes a handler for each session."""
        return lambda: cls(agent, window)

    @staticmethod
    def media(prompt: Prompt) -> list[tuple[bytes, str]]:
        """Return the images and the audio of a prompt, each with its MIME type."""
        blocks = (*prompt.images, *prompt.audio)
        return [(b64decode(block["data"]), block["mimeType"]) for block in blocks]

    async def report_usage(
        self, turn: Turn, given: Sequence[int | None], output: Sequence[int | None], **more: Any
    ) -> None:
        """Report what a turn has used. What a framework says of it may be anything, and breaks no turn.

        Args:
            turn: The turn.
            given: Tokens of the input: all of them; those read from a cache, and those written to it.
            output: Tokens of the output: all of them, and those of thoughts.
            more: As in `Turn.report_usage`.
        """
        try:
            all_given, *cached = [tokens or 0 for tokens in given]
            all_output, *thoughts = [tokens or 0 for tokens in output]
            if all_given or all_output:
                more["input_tokens"] = max(all_given - sum(cached), 0)
                more["output_tokens"] = max(all_output - sum(thoughts), 0)
            kinds = ("cached_read_tokens", "cached_write_tokens", "thought_tokens")
            counts = (*cached, *[0] * (2 - len(cached)), sum(thoughts))
            more |= {kind: count for kind, count in zip(kinds, counts, strict=True) if count}
            if not isinstance(more.get("model"), str):
                more["model"] = None
            await turn.report_usage(size=more.pop("size", self.window), **more)
        except (InvalidValue, TypeError) as exc:
            turn.session.faults.degraded(exc)
