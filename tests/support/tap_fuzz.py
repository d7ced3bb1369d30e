"""Sends a tap what neither side should: real conversations, mutated, by the ten thousand (`make fuzz`).

Several conversations of recorded agents go on at once, each in a session of its own. Messages are dropped,
sent twice, swapped and mutated, from either side. `tap_judge.py` looks at all that comes out.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from callsheet.observe.model import obj
from callsheet.tap.context import Context, TapSettings
from callsheet.tap.pipeline import Pipeline
from callsheet.tap.stats import Account
from tests.support import RECORDINGS
from tests.support.mutations import Message, Mutations
from tests.support.processes import rss_mb
from tests.support.raw_agent import TapProcess
from tests.support.tap_judge import Indulgent, Judge

AT_ONCE = 6
"""Conversations that go on at once."""

MUTATED, DROPPED, DOUBLED, SWAPPED = 0.4, 0.03, 0.03, 0.03
"""How likely each is."""

Said = tuple[str, Message]
"""Who says what: client or agent."""

IDS = ["call_0", "call_1", "t1", "nobody", "", "x" * 300, "a\nb", "session/update", "session/load",
       "tool_call", "tool_call_update", "session/cancel", 1, 2, 3]  # fmt: skip


class Outcome(NamedTuple):
    """What came of a run."""

    messages: int
    seconds: float
    counts: Counter[str]
    account: Account
    faults: list[str]
    mb_at_first: float
    mb_in_the_end: float


# Conversations


@cache
def conversations(version: int) -> tuple[tuple[Said, ...], ...]:
    """Return the recorded conversations, each from `session/new` on; those of v2 are made of them, or by hand."""
    found = [tuple(_recorded(path)) for path in sorted(RECORDINGS.rglob("*.jsonl"))]
    return tuple(found) if version == 1 else (*map(_in_v2, found), *_V2)


def _recorded(path: Path) -> Iterator[Said]:
    for line in path.read_bytes().splitlines():
        told = json.loads(line)
        message = told.get("msg")
        if isinstance(message, dict) and not _is_greeting(message):
            yield ("client" if told["dir"] == "client->agent" else "agent"), message


def _is_greeting(message: Message) -> bool:
    return message.get("method") == "initialize" or "protocolVersion" in obj(message.get("result"))


def _in_v2(said: tuple[Said, ...]) -> tuple[Said, ...]:
    """Return a conversation as a v2 agent would have it."""
    made: list[Said] = []
    prompts: dict[Any, str] = {}
    for who, message in said:
        method, params = message.get("method"), message.get("params")
        if method == "session/update":
            made.append(
                (who, {**message, "params": {**params, "update": _v2_update(params["update"])}})
            )
        elif method == "session/request_permission":
            call = _v2_update({"sessionUpdate": "tool_call_update", **params["toolCall"]})
            made.append(_told(call, params["sessionId"]))
            subject = {"type": "tool_call", "toolCall": {**call}}
            subject["toolCall"].pop("sessionUpdate")
            rest = {key: value for key, value in params.items() if key != "toolCall"}
            asked = {**rest, "title": call.get("title") or "May it run?", "subject": subject}
            made.append((who, {**message, "params": asked}))
        elif method == "session/prompt":
            prompts[message["id"]] = obj(params)["sessionId"]
            made += [(who, message), _state(prompts[message["id"]], "running")]
        elif method is None and message.get("id") in prompts and who == "agent":
            made += [(who, {**message, "result": {}}), _state(prompts[message["id"]], "idle")]
        else:
            made.append((who, message))
    return tuple(made)


def _v2_update(update: Message) -> Message:
    """Return an update as v2 has it: calls are announced by updates, and diffs list their changes."""
    if not str(update.get("sessionUpdate")).startswith("tool_call"):
        return update
    content = [
        {"type": "diff", "changes": [{"operation": "modify", "path": item.get("path")}]}
        if item.get("type") == "diff"
        else item
        for item in map(obj, update.get("content") or ())
    ]
    return {
        **update,
        "sessionUpdate": "tool_call_update",
        **({"content": content} if content else {}),
    }


def _state(session: str, state: str) -> Said:
    return _told({"sessionUpdate": "state_update", "state": state}, session)


def _told(update: Message, session: str = "s") -> Said:
    params = {"sessionId": session, "update": update}
    return "agent", {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _call(key: str, **fields: Any) -> Said:
    return _told({"sessionUpdate": "tool_call_update", "toolCallId": key, **fields})


def _chunk(key: str, said: str) -> Said:
    item = {"type": "content", "content": {"type": "text", "text": said}}
    return _told({"sessionUpdate": "tool_call_content_chunk", "toolCallId": key, "content": item})


def _screen(kind: str, **fields: Any) -> Said:
    return _told({"sessionUpdate": kind, "terminalId": "t1", **fields})


_V2: tuple[tuple[Said, ...], ...] = (
    (
        ("client", {"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": "/code"}}),
        ("agent", {"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}}),
        ("client", {"jsonrpc": "2.0", "id": 2, "method": "session/prompt",
                    "params": {"sessionId": "s", "prompt": [{"type": "text", "text": "go"}]}}),
        _state("s", "running"),
        _screen("terminal_update", command="make", cwd="/code"),
        _call("call_0", title="make", kind="execute", status="in_progress",
              rawInput={"command": "make"}, content=[{"type": "terminal", "terminalId": "t1"}]),
        _screen("terminal_output_chunk", data="dG9rZW49QUtJQUlPU0ZPRE5O"),
        _call("call_1", title="Task", kind="think", status="pending"),
        _screen("terminal_output_chunk", data="N0VYQU1QTEUKb2sK"),
        *(_chunk("call_1", f"step {number}\n") for number in range(8)),
        _call("call_1", status="completed"),
        _screen("terminal_update", exitStatus={"exitCode": 2}),
        _call("call_0", status="failed"),
        _call("call_2", title="late", kind="other", status="in_progress"),
        _told({"sessionUpdate": "state_update", "state": "idle",
               "background": [{"type": "tool_call", "toolCallId": "call_2"}]}),
        ("agent", {"jsonrpc": "2.0", "id": 2, "result": {}}),
        _call("call_2", status="completed", content=[]),
    ),
)  # fmt: skip


class Conversation:
    """One that goes on: its messages, under a session and ids that nobody else has."""

    def __init__(self, said: tuple[Said, ...], number: int) -> None:
        self.session: str = f"sess-{number}"
        self._said: list[Said] = list(said)
        self._number: int = number
        self._theirs: str = next(
            (
                key
                for _, told in said
                if isinstance(key := obj(told.get("result")).get("sessionId"), str)
            ),
            "",
        )

    def next(self, chance: random.Random) -> Said | None:
        """Return what is said next, if anything is."""
        said = self._said
        pick = chance.random()
        if pick < DROPPED and said:
            said.pop(0)
        elif pick < DROPPED + SWAPPED and len(said) > 1:
            said[0], said[1] = said[1], said[0]
        elif pick < DROPPED + SWAPPED + DOUBLED and said:
            said.insert(0, said[0])
        return (said[0][0], self._own(said.pop(0)[1])) if said else None

    def _own(self, message: Message) -> Message:
        made = {**message}
        for holder in ("params", "result"):
            told = obj(made.get(holder))
            if self._theirs and told.get("sessionId") == self._theirs:
                made[holder] = {**told, "sessionId": self.session}
        if isinstance(made.get("id"), int):
            made["id"] += self._number * 1000
        return made


# A run


class Fuzz:
    """One run: what is said, by whom, and when. What becomes of it is for those who drive it."""

    def __init__(self, version: int, seed: int) -> None:
        self.version: int = version
        self.chance: random.Random = random.Random(seed)
        self.now: float = 0.0
        self._talks: list[Conversation] = []
        self._begun: int = 0
        self._mutations: Mutations = Mutations(self.chance, self._other)

    def greeting(self) -> list[tuple[str, bytes]]:
        """Return what is said first."""
        params: Message = {"protocolVersion": self.version, "clientCapabilities": {}}
        answer = {"protocolVersion": self.version, "agentInfo": {"name": "fuzz", "version": "1"}}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        return [
            ("client", _line(hello)),
            ("agent", _line({"jsonrpc": "2.0", "id": 0, "result": answer})),
        ]

    def next(self) -> tuple[str, bytes]:
        """Return the next line, and who says it."""
        chance = self.chance
        self.now += chance.choice((0.0, 0.001, 0.02, 0.2, 3.0))
        while len(self._talks) < AT_ONCE:
            self._begun += 1
            said = chance.choice(conversations(self.version))
            self._talks.append(Conversation(said, self._begun))
        talk = chance.choice(self._talks)
        said = talk.next(chance)
        if said is None:
            self._talks.remove(talk)
            return self.next()
        who, message = said
        if chance.random() < MUTATED:
            return who, self._mutations.line(message)
        return who, _line(message)

    def _other(self) -> Any:
        """Return something that stands somewhere else in what is said."""
        sessions = [talk.session for talk in self._talks]
        return self.chance.choice([*sessions, *IDS, self._begun * 1000 + 2])


def _line(message: Message) -> bytes:
    return json.dumps(message).encode() + b"\n"


def fuzz(messages: int, version: int, seed: int, settings: TapSettings | None = None) -> Outcome:
    """Pass so many mutated messages through a pipeline. Raises if anything is wrong with what comes out."""
    begun = time.monotonic()
    faults: list[str] = []
    account = Account()
    settings = settings or TapSettings()
    pipeline = Pipeline(Context(settings, account, spill=False), faults.append)
    run, judge = Fuzz(version, seed), Judge(version) if settings.repair else Indulgent(version)
    first = 0.0
    for number in range(messages):
        for who, data in run.greeting() if number == 0 else [run.next()]:
            for line in data.split(b"\n")[:-1]:
                _pass(pipeline, judge, who, line + b"\n", run.now)
        if number == messages // 5:
            first = rss_mb()
    last = rss_mb()
    pipeline.agent_gone(run.now)
    _hear(pipeline, judge)
    judge.all_have_ended()
    took = time.monotonic() - begun
    return Outcome(messages, took, judge.counts, account, faults, first, last)


def _pass(pipeline: Pipeline, judge: Judge, who: str, line: bytes, now: float) -> None:
    ticks = 0
    while (due := pipeline.due) is not None and due <= now:
        pipeline.tick(due)
        _hear(pipeline, judge)
        ticks += 1
        assert ticks < 10_000, "what is due is never done"
    if who == "agent":
        judge.agent_says(line)
        pipeline.from_agent(line, now)
        _hear(pipeline, judge)
    else:
        pipeline.from_client(line, now)
        _hear(pipeline, judge)
        judge.client_says(line)
        (heard,) = pipeline.to_agent
        judge.agent_hears(heard, line)
        pipeline.to_agent.clear()


def _hear(pipeline: Pipeline, judge: Judge) -> None:
    for line in pipeline.to_client:
        judge.client_hears(line)
    pipeline.to_client.clear()


def fuzz_process(messages: int, version: int, seed: int, folder: Path) -> Outcome:
    """Pass so many mutated messages through a tap's process. Raises if anything is wrong with it.

    It keeps a history, and records.
    """
    begun = time.monotonic()
    run, judge = Fuzz(version, seed), Judge(version)
    history = f"sqlite:///{folder}/history.db"
    tap = TapProcess(folder, "--history", history, "--record", str(folder / "recording.jsonl"))
    try:
        first = 0.0
        for number in range(messages):
            for who, data in run.greeting() if number == 0 else [run.next()]:
                for line in data.split(b"\n")[:-1]:
                    _pass_by(tap, judge, who, line + b"\n")
            if number == messages // 5:
                first = tap.rss_mb()
        last = tap.rss_mb()
        code, heard, err = tap.finish()
    finally:
        tap.end()
    for line in heard:
        judge.client_hears(line)
    judge.all_have_ended()
    told = tap.report.read_text(encoding="utf-8")
    assert (code, err) == (0, ""), err[-2000:]
    assert "passed as they came" not in told, told
    return Outcome(messages, time.monotonic() - begun, judge.counts, Account(), [], first, last)


def _pass_by(tap: TapProcess, judge: Judge, who: str, line: bytes) -> None:
    heard = b""
    if who == "agent":
        judge.agent_says(line)
    else:
        heard = tap.send_as_client(line)
    for told in tap.send_as_agent(line if who == "agent" else b""):
        judge.client_hears(told)
    if who == "client":
        judge.client_says(line)
        judge.agent_hears(heard, line)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.tap_fuzz", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--protocol", type=int, choices=(1, 2), action="append")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    for version in options.protocol or (1, 2):
        print(f"a tap, ACP v{version}, --seed {options.seed}", flush=True)
        _tell(fuzz(options.messages, version, options.seed))
        with tempfile.TemporaryDirectory() as folder:
            _tell(fuzz_process(options.messages // 10, version, options.seed, Path(folder)))


def _tell(done: Outcome) -> None:
    counts = ", ".join(f"{count:,} {what}" for what, count in done.counts.most_common())
    print(
        f"  {done.messages:,} messages in {done.seconds:.0f} s; told {counts}; "
        f"{done.account.faults} faults{done.faults}; "
        f"{done.mb_at_first:.0f} MB after a fifth, {done.mb_in_the_end:.0f} MB in the end",
        flush=True,
    )


if __name__ == "__main__":
    main()
