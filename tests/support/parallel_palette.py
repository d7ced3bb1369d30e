"""A handler for tests that runs calls at the same time, as a model's are: `/parallel`, and lines under it."""

from __future__ import annotations

from callsheet.agent.handler import Prompt, StopReason, Turn
from callsheet.agent.palette import Palette, parse

HEAD = "/parallel\n"


class ParallelPalette(Palette):
    """The palette, which runs what stands under a first line `/parallel` at the same time."""

    async def turn(self, prompt: Prompt, turn: Turn) -> StopReason | None:
        if not prompt.text.startswith(HEAD):
            return await super().turn(prompt, turn)
        lines, problems = parse(prompt.text.removeprefix(HEAD), turn.tools, turn.session.phrase)
        assert not problems
        await turn.plan([line.text for line in lines])
        await turn.run_all([(line.command, line.arguments) for line in lines])
        return None
