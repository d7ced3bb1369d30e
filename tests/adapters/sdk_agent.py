"""An agent of the official SDK, which reports its calls by `connected_session`. The prompt says what it does."""

from __future__ import annotations

import asyncio
from typing import Any

from acp import PROTOCOL_VERSION, Agent, run_agent
from acp.schema import InitializeResponse, NewSessionResponse, PromptResponse

from callsheet import PermissionDenied
from callsheet.adapters.acp_sdk import connected_session
from tests.adapters import kit


class Notes(Agent):
    conn: Any
    running: asyncio.Task[Any] | None = None

    def on_connect(self, conn: Any) -> None:
        self.conn = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: Any = None,
        client_info: Any = None,
        **kwargs: Any,
    ) -> Any:
        self.client = {"client_capabilities": client_capabilities, "client_info": client_info}
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd: str, **kwargs: Any) -> Any:
        self.cwd = cwd
        return NewSessionResponse(session_id="sess_sdk")

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        if self.running is not None:
            self.running.cancel()

    async def prompt(self, prompt: Any, session_id: str, **kwargs: Any) -> Any:
        async with connected_session(self.conn, session_id, cwd=self.cwd, **self.client) as session:
            kit.Stage.hanging, kit.Stage.met = asyncio.Event(), []
            self.running = asyncio.ensure_future(getattr(self, prompt[0].text)(session))
            await asyncio.wait({self.running})
        return PromptResponse(stop_reason="cancelled" if self.running.cancelled() else "end_turn")

    async def everything(self, session: Any) -> None:
        async with session.call("read_note", {"path": "a.txt"}) as outer:
            outer.start()
            async with outer.call("measure", {"path": "a.txt"}) as inner:
                inner.succeed(raw=kit.measure("a.txt"))
            outer.write("half")
            outer.progress(1, 2)
            outer.succeed("the note")
        await asyncio.gather(*[self._meet(session, name) for name in "abc"])
        try:
            async with session.call("explode", {"path": "a.txt"}) as call:
                call.start()
                kit.explode("a.txt")
        except ValueError:
            pass
        try:
            async with session.call("doze", {"path": "a.txt"}, timeout=0.05):
                await kit.doze("a.txt")
        except TimeoutError:
            pass
        try:
            async with session.call("remove_note", {"path": "a.txt"}) as call:
                await call.permission()
                call.succeed("removed")
        except PermissionDenied:
            pass

    async def _meet(self, session: Any, name: str) -> None:
        async with session.call("meet", {"name": name}) as call:
            call.succeed(await kit.meet(name))

    async def hang(self, session: Any) -> None:
        async with session.call("hang", {"path": "a.txt"}) as call:
            call.start()
            await kit.hang("a.txt")


if __name__ == "__main__":
    asyncio.run(run_agent(Notes()))
