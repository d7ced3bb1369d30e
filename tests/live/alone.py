"""A client in a process of its own, so that it can be killed: takes what it starts as a line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys

from callsheet.testing import AgentClient
from tests.live.dialects.steps import PROMPT


async def _main() -> None:
    command, environment, project = json.loads(sys.stdin.readline())
    async with AgentClient(command, env=environment, cwd=project) as client:
        print(client.pid, flush=True)
        await client.prompt(await client.new_session(project), PROMPT)


if __name__ == "__main__":
    asyncio.run(_main())
