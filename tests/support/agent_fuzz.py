"""Sends an agent what no client should: valid conversations, mutated, by the ten thousand (`make fuzz`).

One long-lived agent process gets it all. It may execute nothing: it runs in a directory of its own, tools
that change something are denied or asked about, and nobody ever allows anything.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.runtime.rpc import LONGEST_ID
from tests.support.mutations import places, spliced
from tests.support.raw_agent import COMMAND, Message, RawAgent, line_of

BURSTS = (1, 3, 10, 30, 300)
"""Messages that are sent in one piece, before it is seen whether the agent is well."""

MOST_SESSIONS = 40
MOST_MB = 220.0

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**31, 2**63, 2**64, -(2**63) - 1, 10**40, 1e308, "", "x", "\0",
    "\u202e\u0000\U0001f600", "é" * 300, "../../../etc/passwd", "/", [], {}, [[]], [None], {"a": {}},
    {"": ""}, ["x"] * 50, "sess_nothing", "1",
]  # fmt: skip
TEXTS = [
    "hello", "!true", "/read a.txt", "/grep x", "/list", "/glob *", "/think so", "/nothing", "/", "!",
    "!true\n/read a.txt\nso", "/help\n/list", "/read ../../a", "/read a.txt offset=9", "",
]  # fmt: skip
WELL = [
    "initialize", "authenticate", "session/new", "session/load", "session/list", "session/prompt",
    "session/cancel", "session/close", "session/set_mode", "session/set_config_option",
    "tool_call/cancel", "$/cancel_request",
]  # fmt: skip


class Outcome(NamedTuple):
    """What came of a run."""

    messages: int
    seconds: float
    answers: int
    errors: Counter[int]
    calls: int
    mb_at_first: float
    mb_in_the_end: float


class FuzzedAgent(RawAgent):
    """Counts what it hears, and keeps no more of it than it must."""

    def __init__(self, cwd: Path, version: int) -> None:
        self.counts: Counter[str] = Counter()
        self.total: int = 0
        self.errors: Counter[int] = Counter()
        self.asked: list[Any] = []
        self.statuses: dict[str, str] = {}
        options = ("--permission", "deny", "--protocol", str(version), "--history", "off")
        super().__init__([*COMMAND, *options], cwd)

    def receive(self, line: bytes) -> None:
        message = json.loads(line)
        if "method" not in message:
            self.total += 1
            self.counts[json.dumps(message["id"])] += 1
            if "error" in message:
                self.errors[message["error"]["code"]] += 1
            if str(message["id"]).startswith("ping"):
                super().receive(line)
        elif "id" in message:
            self.asked.append(message["id"])
        elif message["method"] == "session/update":
            self._update(message["params"]["update"])

    def _update(self, update: Message) -> None:
        key, status = update.get("toolCallId"), update.get("status")
        if key is not None and status is not None:
            before = self.statuses.get(key)
            assert before not in ("completed", "failed", "cancelled"), f"{key}: {before}, {status}"
            self.statuses[key] = status


class Fuzz:
    """One run."""

    def __init__(self, agent: FuzzedAgent, version: int, seed: int) -> None:
        self.agent: FuzzedAgent = agent
        self.version: int = version
        self.chance: random.Random = random.Random(seed)
        self.sessions: list[str] = []
        self.expected: Counter[str] = Counter()
        self.doubtful: Counter[str] = Counter()
        self.lines: dict[str, bytes] = {}
        self.least: int = 0
        self.most: int = 0
        self.sent: int = 0
        self.pings: int = 0

    def run(self, messages: int) -> Outcome:
        """Send so many messages, look at it all the while, and end it."""
        begun = time.monotonic()
        self._ask("initialize", {"protocolVersion": self.version, "info": _INFO})
        self._look()
        first = 0.0
        while self.sent < messages:
            burst = min(self.chance.choice(BURSTS), messages - self.sent)
            self._send(b"".join(self._line() for _ in range(burst)))
            self._look()
            first = first or (self.agent.rss_mb() if self.sent >= messages // 5 else 0.0)
        for session in self._list():
            self._ask("session/close", {"sessionId": session})
        last = self.agent.rss_mb()
        self._settle()
        self.agent.close_stdin()
        assert self.agent.wait() == 0
        assert self.agent.leaves_nothing()
        assert b"Traceback" not in self.agent.stderr, self.agent.stderr.decode()[-3000:]
        open_calls = {key for key, status in self.agent.statuses.items() if status not in _FINAL}
        assert not open_calls, f"{len(open_calls)} calls never ended"
        took = time.monotonic() - begun
        agent = self.agent
        return Outcome(self.sent, took, agent.total, agent.errors, len(agent.statuses), first, last)

    # What is sent

    def _line(self) -> bytes:
        self.sent += 1
        message = self._message()
        pick = self.chance.random()
        # What ends a turn is mostly left as it is; else every session would soon be busy for ever.
        ends_turn = "result" in message or message.get("method") == "session/cancel"
        if pick < (0.6 if ends_turn else 0.15):
            return line_of(message)
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            message = self._mutated(message)
        line = json.dumps(message, ensure_ascii=self.chance.random() < 0.5).encode(
            errors="surrogatepass"
        )
        if pick > 0.75:
            line = spliced(self.chance, line)
        return line + b"\n"

    def _message(self) -> Message:
        """Return a message of a valid conversation."""
        chance = self.chance
        if self.agent.asked and chance.random() < 0.3:
            outcome: Message = {"outcome": "selected", "optionId": "reject_once"}
            if chance.random() < 0.5:
                outcome = {"outcome": "cancelled"}
            return {"jsonrpc": "2.0", "id": self.agent.asked.pop(0), "result": {"outcome": outcome}}
        method = chance.choice(WELL)
        if chance.random() < 0.4:
            method = "session/prompt"
        message: Message = {"jsonrpc": "2.0", "method": method, "params": self._params(method)}
        if method not in ("session/cancel", "$/cancel_request"):
            message["id"] = f"f{self.sent}" if chance.random() < 0.8 else self.sent
        return message

    def _params(self, method: str) -> Message:
        chance = self.chance
        session: Message = {"sessionId": chance.choice(self.sessions or ["sess_none"])}
        cwd = str(self.agent.cwd)
        return {
            "initialize": lambda: {"protocolVersion": self.version, "clientCapabilities": {}},
            "session/new": lambda: {"cwd": cwd, "mcpServers": []},
            "session/load": lambda: {**session, "cwd": cwd, "mcpServers": []},
            "session/prompt": lambda: {**session, "prompt": self._blocks()},
            "session/list": dict,
            "session/set_mode": lambda: {**session, "modeId": chance.choice(("ask", "read_only"))},
            "session/set_config_option": lambda: {
                **session, "configId": "permission", "value": chance.choice(("ask", "read_only"))
            },
            "tool_call/cancel": lambda: {**session, "toolCallId": "call_nothing"},
            "$/cancel_request": lambda: {"requestId": f"f{self.sent - chance.randrange(20)}"},
            "authenticate": lambda: {"methodId": "x"},
        }.get(method, lambda: session)()  # fmt: skip

    def _blocks(self) -> list[Message]:
        text = {"type": "text", "text": self.chance.choice(TEXTS)}
        link = {"type": "resource_link", "name": "a.txt", "uri": f"file://{self.agent.cwd}/a.txt"}
        return self.chance.choice(([text], [text], [text, link], []))

    # How it is mutated

    def _mutated(self, message: Message) -> Message:
        made: Message = json.loads(json.dumps(message))
        found = list(places(made))
        if not found:
            return {"jsonrpc": "2.0"}
        holder, key = self.chance.choice(found)
        change: Callable[[Any, Any], None] = self.chance.choice(
            (self._drop, self._retype, self._retype, self._double, self._nest, self._swap)
        )
        change(holder, key)
        return made

    def _drop(self, holder: Any, key: Any) -> None:
        del holder[key]

    def _retype(self, holder: Any, key: Any) -> None:
        holder[key] = self.chance.choice(ODD)

    def _double(self, holder: Any, key: Any) -> None:
        if isinstance(holder, list):
            holder.extend([holder[key]] * self.chance.choice((1, 3, 200)))
        else:
            holder[f"{key}{self.chance.choice(('', '2', 'X'))}"] = holder[key]

    def _nest(self, holder: Any, key: Any) -> None:
        for _ in range(self.chance.choice((1, 5, 200))):
            holder[key] = [holder[key]] if self.chance.random() < 0.5 else {"x": holder[key]}

    def _swap(self, holder: Any, key: Any) -> None:
        other = self.chance.choice([*self.sessions, f"f{self.sent - 1}", self.sent - 1, *WELL])
        holder[key] = other

    # Whether it is well

    def _send(self, data: bytes) -> None:
        assert b"allow" not in data, "nothing must ever be allowed"
        for line in data.split(b"\n"):
            least, most, key = wanted(line)
            self.least += least
            self.most += most
            if key is not None:
                self.expected[key] += least
                self.doubtful[key] += most - least
                self.lines[key] = line
        self.agent.send_bytes(data)

    def _ask(self, method: str, params: Message) -> Message:
        self.pings += 1
        key = f"ping{self.pings}"
        self._send(line_of({"id": key, "method": method, "params": params}))
        return self.agent.answer(key)

    def _list(self) -> list[str]:
        return [one["sessionId"] for one in self._ask("session/list", {})["result"]["sessions"]]

    def _look(self) -> None:
        """See that it answers and is not too big, and that there are sessions, but not too many."""
        self.sessions = self._list()
        for session in self.sessions[:-MOST_SESSIONS]:
            self._ask("session/close", {"sessionId": session})
        while len(self.sessions) < 3:
            params = {"cwd": str(self.agent.cwd), "mcpServers": []}
            self.sessions.append(self._ask("session/new", params)["result"]["sessionId"])
        assert self.agent.rss_mb() < MOST_MB

    def _settle(self) -> None:
        """Wait until every request has its answer, and see that it has just one."""
        self.agent.until(lambda: self.agent.total >= self.least)
        for key, count in self.expected.items():
            with suppress(AssertionError):  # answers that need not come may have come before
                self.agent.until(lambda key=key, count=count: self.agent.counts[key] >= count)
            assert count <= self.agent.counts[key] <= count + self.doubtful[key], (
                f"{key}: {self.agent.counts[key]} answers, not {count}: {self.lines[key]!r}"
            )
        assert self.least <= self.agent.total <= self.most


_INFO = {"name": "fuzz", "version": "1"}
_FINAL = ("completed", "failed", "cancelled")


def wanted(line: bytes) -> tuple[int, int, str | None]:
    """Return how many answers a line wants, at least and at most, and the id that these have."""
    if not line.strip():
        return 0, 0, None
    try:
        message = json.loads(line.decode(), parse_constant=_refuse, parse_float=_finite)
        json.dumps(message, ensure_ascii=False).encode()  # half a surrogate is no text
    except (ValueError, RecursionError):
        return 1, 1, None
    if not isinstance(message, dict):
        return 1, 1, None
    key = message.get("id")
    known = json.dumps(key) if isinstance(key, str) and key.startswith("f") else None
    if isinstance(key, str) and len(key) > LONGEST_ID:
        known = None  # it is refused, and no such id is told
    if message.get("jsonrpc") == "2.0" and ("method" not in message or "id" not in message):
        return 0, 1, known  # an answer or a notification, if nothing is wrong with it
    return 1, 1, known


def _finite(digits: str) -> float:
    number = float(digits)
    return number if abs(number) != float("inf") else _refuse(digits)


def _refuse(word: str) -> Any:
    raise ValueError(word)


@contextmanager
def fuzzed(version: int) -> Iterator[FuzzedAgent]:
    """Start an agent in a directory of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
        agent = FuzzedAgent(Path(folder).resolve(), version)
        try:
            yield agent
        finally:
            agent.end()


def fuzz(messages: int, version: int, seed: int) -> Outcome:
    """Send an agent so many mutated messages. Raises if it dies, or if anything is wrong with it."""
    with fuzzed(version) as agent:
        return Fuzz(agent, version, seed).run(messages)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.agent_fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--protocol", type=int, choices=(1, 2), action="append")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    for version in options.protocol or (1, 2):
        print(f"ACP v{version}, --seed {options.seed}", flush=True)
        done = fuzz(options.messages, version, options.seed)
        print(
            f"  {done.messages:,} messages in {done.seconds:.0f} s, {done.answers:,} answers, of them errors "
            f"{dict(done.errors.most_common())}; {done.calls:,} calls, all ended; "
            f"{done.mb_at_first:.0f} MB after a fifth, {done.mb_in_the_end:.0f} MB in the end"
        )


if __name__ == "__main__":
    main()
