"""The first requests and their results pass before there is a tap, which gets all of them later."""

from __future__ import annotations

import os
from collections.abc import Iterator
from select import select

import pytest

from callsheet.tap.stdio import Opening

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
NEW = b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}\n'
LIST = b'{"jsonrpc":"2.0","id":1,"method":"session/list","params":{}}\n'
RESULT = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}\n'
ERROR = b'{"jsonrpc":"2.0","id":0,"error":{"code":-32603,"message":"token=hunter2hunter2"}}\n'
UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}\n'


class Noted:
    """A traffic that notes what it gets, and passes it on."""

    wait = None

    def __init__(self) -> None:
        self.to_client: list[bytes] = []
        self.to_agent: list[bytes] = []
        self.got: list[tuple[str, bytes]] = []

    def from_client(self, data: bytes) -> None:
        self.got.append(("client", data))
        self.to_agent.append(data)

    def from_agent(self, data: bytes) -> None:
        self.got.append(("agent", data))
        self.to_client.append(data)

    def tick(self) -> None: ...


class Ends:
    """The client's ends of an opening, and the agent's."""

    def __init__(self) -> None:
        from_client, self.client_out = os.pipe()
        self.client_in, to_client = os.pipe()
        from_agent, self.agent_out = os.pipe()
        self.agent_in, to_agent = os.pipe()
        self.pipes = [from_client, to_client, from_agent, to_agent, self.client_out]
        self.pipes += [self.client_in, self.agent_in, self.agent_out]
        self.opening = Opening((from_client, to_client), (from_agent, to_agent))
        self.opening.start()

    def ask(self, data: bytes) -> bytes:
        """Let the client send something, and return what the agent gets at once."""
        os.write(self.client_out, data)
        return self._read(self.agent_in)

    def answer(self, data: bytes) -> bytes:
        """Let the agent send something, and return what the client gets at once."""
        os.write(self.agent_out, data)
        return self._read(self.client_in)

    def _read(self, source: int) -> bytes:
        ready, _, _ = select([source], [], [], 10 if self.opening.is_alive() else 0)
        return os.read(source, 1 << 16) if ready else b""

    def held(self, data: bytes, *, by_client: bool) -> None:
        """Send something that must not pass, and wait until it was read."""
        os.write(self.client_out if by_client else self.agent_out, data)
        self.opening.join(10)
        assert not select([self.agent_in, self.client_in], [], [], 0)[0]

    def handed_over(self) -> Noted:
        traffic = Noted()
        self.opening.hand_over(traffic)
        return traffic


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    if made.opening.is_alive():
        made.handed_over()
    for pipe in made.pipes:
        os.close(pipe)


def test_the_first_exchanges_pass_and_the_traffic_gets_them_later(ends: Ends) -> None:
    assert ends.ask(INITIALIZE) == INITIALIZE
    assert ends.answer(RESULT) == RESULT
    assert ends.ask(NEW) == NEW
    assert ends.answer(RESULT) == RESULT
    traffic = ends.handed_over()
    assert traffic.got == [
        ("client", INITIALIZE),
        ("agent", RESULT),
        ("client", NEW),
        ("agent", RESULT),
    ]
    assert (traffic.to_agent, traffic.to_client) == ([], [])


@pytest.mark.parametrize(
    "data",
    [ERROR, UPDATE, RESULT + UPDATE, RESULT[:-1], b"starting\n", RESULT.replace(b"1", b"1" * 5000)],
    ids=["an error", "an update", "two lines", "half a line", "no message", "a long one"],
)
def test_what_a_tap_may_change_waits_for_it(data: bytes, ends: Ends) -> None:
    assert ends.ask(INITIALIZE) == INITIALIZE
    ends.held(data, by_client=False)
    traffic = ends.handed_over()
    assert traffic.got == [("client", INITIALIZE), ("agent", data)]
    assert (traffic.to_agent, traffic.to_client) == ([], [data])


@pytest.mark.parametrize("data", [LIST, INITIALIZE + NEW, INITIALIZE[:-1], b"\n", b"[]\n"])
def test_other_requests_wait_for_the_tap(data: bytes, ends: Ends) -> None:
    ends.held(data, by_client=True)
    traffic = ends.handed_over()
    assert (traffic.got, traffic.to_agent) == ([("client", data)], [data])


def test_nothing_passes_what_waits(ends: Ends) -> None:
    ends.held(LIST, by_client=True)
    os.write(ends.agent_out, RESULT)
    assert ends.handed_over().got == [("client", LIST)]
    assert not select([ends.client_in], [], [], 0)[0]


def test_an_end_is_left_for_the_relay(ends: Ends) -> None:
    ends.pipes.remove(ends.agent_out)
    os.close(ends.agent_out)
    ends.opening.join(10)
    assert ends.handed_over().got == []


def test_an_answer_that_nobody_reads_any_more_is_not_lost(ends: Ends) -> None:
    assert ends.ask(INITIALIZE) == INITIALIZE
    ends.pipes.remove(ends.client_in)
    os.close(ends.client_in)
    os.write(ends.agent_out, RESULT)
    ends.opening.join(10)
    assert ends.handed_over().to_client == [RESULT]
