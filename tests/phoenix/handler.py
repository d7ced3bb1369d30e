"""An agent whose turns have what a backend should show: tools, a sub-agent, failures, tokens."""

from __future__ import annotations

from typing import Any


class Worker:
    name = "worker"
    version = "1.0"

    async def turn(self, prompt: Any, turn: Any) -> None:
        await turn.run("write", {"path": "notes.txt", "content": "one\ntwo\n"})
        async with turn.call("task", {"description": prompt.text}) as task:
            await turn.run("read", {"path": "notes.txt"}, parent=task)
            await turn.run("bash", {"command": "grep -n two notes.txt"}, parent=task)
            task.succeed("two is on line 2", raw={"answer": "line 2"})
        await turn.run("read", {"path": "nothing.txt"})
        await turn.report_usage(
            input_tokens=900, output_tokens=80, cached_read_tokens=300, model="claude-sonnet-4-5"
        )
        await turn.say("Found it.")
