"""The connection's bounds, and the pipe that many share."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from typing import Any

import pytest

from callsheet.runtime import rpc
from callsheet.runtime.pipes import PipeReader, PipeWriter
from callsheet.runtime.rpc import AT_ONCE, Answer, Disconnected, RemoteError, RpcPeer


class Pipes:
    """A connection over real pipes, and the client's ends."""

    def __init__(self, serve: Any) -> None:
        incoming, self.to_agent = os.pipe()
        self.from_agent, outgoing = os.pipe()
        self.notified: list[str] = []
        self.writer: PipeWriter = PipeWriter(outgoing)
        self.connection: RpcPeer = RpcPeer(
            PipeReader(incoming), self.writer, serve, lambda method, _: self.notified.append(method)
        )
        self.running: asyncio.Task[None] = asyncio.create_task(self.connection.run())
        self._rest: bytes = b""
        self._open: list[int] = [incoming, outgoing, self.from_agent]

    def send(self, *messages: dict[str, Any]) -> None:
        data = b"".join(json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n" for m in messages)
        os.write(self.to_agent, data)

    async def received(self, count: int) -> list[dict[str, Any]]:
        """Wait for so many messages."""
        async with asyncio.timeout(10):
            while self._rest.count(b"\n") < count:
                self._rest += await asyncio.to_thread(os.read, self.from_agent, 1 << 20)
        *lines, self._rest = self._rest.split(b"\n")
        return [json.loads(line) for line in lines]

    async def close(self) -> None:
        os.close(self.to_agent)
        await asyncio.wait_for(self.running, 5)
        self.connection.lose(Disconnected("gone"))
        await self.connection.stop()
        self.writer.close()
        for fd in self._open:
            os.close(fd)


async def for_ever(method: str, params: Any) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


async def test_no_more_requests_are_served_at_once_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(rpc, "PATIENCE", 0.2)  # the errors of all these are not read at the end
    pipes = Pipes(for_ever)
    pipes.send(*({"id": number, "method": "wait"} for number in range(AT_ONCE)))
    pipes.send(*({"id": AT_ONCE + number, "method": "wait"} for number in range(5)))
    refused = await pipes.received(5)
    assert [message["id"] for message in refused] == list(range(AT_ONCE, AT_ONCE + 5))
    assert {message["error"]["code"] for message in refused} == {-32000}
    pipes.send({"method": "$/cancel_request", "params": {"requestId": 7}})
    [taken_back] = await pipes.received(1)
    assert (taken_back["id"], taken_back["error"]["code"]) == (7, -32800)
    pipes.send({"id": "one more", "method": "wait"}, {"id": "too many", "method": "wait"})
    [refused_again] = await pipes.received(1)
    assert refused_again["id"] == "too many"
    await pipes.close()


async def test_a_malformed_answer_to_a_question_is_an_error_to_whoever_asked():
    pipes = Pipes(for_ever)
    asking = asyncio.create_task(pipes.connection.request("session/request_permission", {}))
    [question] = await pipes.received(1)
    pipes.send({"id": question["id"], "error": "no"})
    with pytest.raises(RemoteError, match="expected an object"):
        await asyncio.wait_for(asking, 5)
    await pipes.close()


async def test_a_pending_request_fails_when_the_client_disconnects():
    pipes = Pipes(for_ever)
    asking = asyncio.create_task(pipes.connection.request("session/request_permission", {}))
    await pipes.received(1)
    await pipes.close()
    with pytest.raises(Disconnected):
        await asking


async def test_lines_of_many_are_written_whole_and_in_order_through_a_full_pipe():
    pipes = Pipes(for_ever)
    size = 100_000
    lines = [b'{"n":%d,"x":"%s"}\n' % (n, b"x" * size) for n in range(20)]
    waiting = [pipes.writer.send(deque((line,))) for line in lines]
    assert all(one is not None for one in waiting)
    waiting[3].cancel()  # whoever waits may go; the line is written all the same
    got = await pipes.received(20)
    assert [message["n"] for message in got] == list(range(20))
    assert {len(message["x"]) for message in got} == {size}
    await asyncio.wait([one for one in waiting if not one.cancelled()], timeout=5)
    assert not pipes.writer.is_full
    await pipes.close()


async def test_closing_the_writer_fails_all_pending_writes():
    pipes = Pipes(for_ever)
    waiting = [pipes.writer.send(deque((b"x" * 200_000 + b"\n",))) for _ in range(3)]
    pipes.writer.close()
    for one in waiting:
        with pytest.raises(BrokenPipeError):
            await one
    assert pipes.writer.gone.done()
    with pytest.raises(BrokenPipeError):
        pipes.writer.send(deque((b"more\n",)))
    await pipes.close()
