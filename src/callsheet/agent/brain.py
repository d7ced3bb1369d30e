"""What an agent's mind is to the agent. A mind that asks a model is one file that has this method.

    class MyBrain:
        async def turn(self, prompt, turn):
            answer = await my_model(prompt.text, tools=turn.tools)
            await turn.say(answer.text)
            for wanted in answer.tool_calls:
                result = await turn.run(wanted.name, wanted.arguments, alias=wanted.id)
                ...give result.for_model() to the model, and go on

The agent does the rest: it reports every call, asks for permission, cancels, and answers the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from msgspec import Struct

from callsheet.report.json import JsonObject

if TYPE_CHECKING:
    from callsheet.tools.tool import Tool

    from .turn import Turn

StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal"]


REASONS: tuple[StopReason, ...] = ("end_turn", "max_tokens", "max_turn_requests", "refusal")


class Prompt(Struct, frozen=True):
    """What the user said: ACP's blocks of content."""

    blocks: tuple[JsonObject, ...]

    @property
    def text(self) -> str:
        """All text, and the addresses of what was attached."""
        said: list[str] = []
        for block in self.blocks:
            if block.get("type") == "text" and isinstance(block.get("text"), str):
                said.append(block["text"])
            elif block.get("type") == "resource_link" and isinstance(block.get("uri"), str):
                said.append(block["uri"])
        return "\n".join(said)


class Command(Struct, frozen=True):
    """A slash command that the client offers while the user types."""

    name: str
    description: str
    hint: str | None = None


class Brain(Protocol):
    """Says what is done in a turn."""

    def commands(self, tools: Sequence[Tool]) -> Sequence[Command]:
        """Return the slash commands that the user may type, for the tools that there are."""
        ...

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        """Do what the user asks for. Gives why it stopped; None means that it is done."""
        ...
