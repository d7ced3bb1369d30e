"""Asking the client on behalf of one session, from its event loop or from a tool's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import wait

from callsheet.agent.rpc import Connection
from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object

_SLICE = 0.05
"""Seconds after which a thread that waits looks whether it still should."""


class Asking:
    """The client, as one session asks it. Made on the event loop."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection: Connection = connection
        self._session_id: str = session_id
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()

    async def ask(
        self, method: str, params: JsonObject, seconds: float | None = None
    ) -> JsonObject:
        """Ask. Raises `ClientError`, `Disconnected`, `FrameTooLarge`, and TimeoutError after so long."""
        params = {"sessionId": self._session_id, **params}
        async with asyncio.timeout(seconds):
            return _object(await self._connection.ask(method, params))

    def ask_in_thread(
        self, method: str, params: JsonObject, seconds: float, go_on: Callable[[], None]
    ) -> JsonObject:
        """Ask, and wait for the answer in this thread. If `go_on` raises, the request is taken back."""
        asked = asyncio.run_coroutine_threadsafe(self.ask(method, params, seconds), self._loop)
        try:
            while not wait([asked], _SLICE).done:
                go_on()
        except BaseException:
            asked.cancel()
            raise
        return asked.result()


def _object(answer: JsonValue) -> JsonObject:
    return answer if is_object(answer) else EMPTY
