"""The checker finds nothing in our own agent's traffic: no error, no warning, no advice, for any client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from callsheet.check.runner import CLIENTS
from callsheet.testing import AgentClient, Recording, assert_every_call_ended
from tests.support import SUPPORT
from tests.support.sizes import FULL
from tests.support.websites import Site, answer

AGENT = [sys.executable, "-m", "callsheet", "agent", "--handler"]
AGENT.append(str(SUPPORT / "parallel_palette.py:ParallelPalette"))
TERMINALS = {"_meta": {"terminal_output": True}}
REAL = str(SUPPORT / "mcp_real.py")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154"
    "789c6360f8cf500f0003860180f45a9c3a0000000049454e44ae426082"
)
SECRET = "ghp_" + "Zk3x9Qw7Lm2Rt8Vb5Nc1Yd6Hj4Pf0Sg3TuAe"

READING = """
/read notes.txt
/read big.txt offset=100 limit=20
/read big.txt
/read missing.txt
/read empty.txt
/read bytes.dat
/read pixel.png
/read colours.txt
/read token.txt
/read /etc/passwd
/read sub
/read
/read notes.txt offset=abc
/list
/list sub
/list missing
/glob *.txt
/glob **/*.md
/glob *.nothing
/grep two
/grep line big.txt limit=5
/grep 'a*b_c' ignore_case=true
/grep red
/grep '('
/grep one context=2
/think of it
/nosuch x
/help
hello there
"""
CHANGING = """
/write new.txt content=hello
/write notes.txt content=other
/write empty.txt content=x
/write sub/deep/er/x.txt content=y
/write notes.txt content=
/write sub content=x
/edit greeting.py old_text=hello new_text=goodbye
/edit greeting.py old_text=nothere new_text=x
/edit greeting.py old_text=o new_text=oo replace_all=true
/edit missing.py old_text=a new_text=b
/move new.txt sub/moved.txt
/move missing.txt x.txt
/move notes.txt sub/moved.txt
/delete sub/moved.txt
/delete missing.txt
/delete sub
/delete sub recursive=true
/fetch SITE/page
/fetch SITE/missing
/fetch http://127.0.0.1:1/
/fetch not-a-url
"""
RUNNING = """
!echo hi
!true
!exit 3
!nosuchcommand
!echo out; echo err >&2
!kill -9 $$
!cat token.txt
!cat colours.txt
!for i in $(seq 40); do echo line $i; sleep 0.005; done
!seq 1 100000
!yes | head -c 1500000
!head -c 3000 /dev/urandom
!sleep 0.2 & echo on
/bash command='echo part; sleep 5' timeout=0.3
/bash command=pwd cwd=/
/bash command=pwd cwd=sub
"""
MARKED = """
/read __init__.py
/grep *a* .
/glob **/*.py
/write __n__ x
"""
TOGETHER = [
    "/parallel\n!sleep 0.3; echo a\n!sleep 0.3; echo b\n/read big.txt\n/grep line",
    "/parallel\n/read token.txt\n!exit 1\n/read nope",
    "/write a.txt content=1\n/read a.txt\n!rm a.txt\n/read a.txt",
]
DENIED = [
    "!touch a\n!touch b",
    "/write d.txt content=x",
    "/edit greeting.py old_text=return new_text=x",
    "/delete greeting.py",
    "/move greeting.py y.py",
    "/fetch http://127.0.0.1:1/",
]
LONG = "!echo begun; sleep 60"
LONG_BESIDE_SHORT = "/parallel\n!sleep 60\n!sleep 60\n/read notes.txt"
MCP = """
/mcp__real__add a=1 b=2
/mcp__real__burn what=it
/mcp__real__count to=3
/mcp__real__fail
/mcp__real__big size=200000
/mcp__real__noise
/mcp__real__add a=x b=y
/mcp__real__everything directory=.
"""


def furnish(place: Path) -> Path:
    place.mkdir()
    (place / "sub").mkdir()
    for name, text in {
        "notes.txt": "one\ntwo\nthree\n",
        "greeting.py": 'def greet():\n    return "hello"\n',
        "token.txt": f"token: {SECRET}\n",
        "big.txt": "".join(f"line {number} of a long file\n" for number in range(20_000)),
        "empty.txt": "",
        "colours.txt": "plain \x1b[31mred\x1b[0m\n",
        "sub/a_b*c.md": "# x\n",
        "__init__.py": "x = '*a*'\n",
    }.items():
        (place / name).write_text(text)
    (place / "bytes.dat").write_bytes(bytes(range(256)) * 20)
    (place / "pixel.png").write_bytes(PIXEL)
    return place


class Zed(AgentClient):
    """Says that it is Zed: the agent writes titles for it in another way."""

    async def request(self, method: str, params: Any = None, **options: Any) -> Any:
        if method == "initialize":
            params = {**params, "clientInfo": {"name": "zed", "version": "1"}}
        return await super().request(method, params, **options)


class Play:
    """A client whose user answers as `answer` says, and whose traffic is held to be right."""

    def __init__(self, kind: type[AgentClient], version: Any, capabilities: dict[str, Any]) -> None:
        self.answer: str | None = "allow_once"
        self.asked: asyncio.Event = asyncio.Event()
        self.running: asyncio.Event = asyncio.Event()
        self.completed: asyncio.Event = asyncio.Event()
        self.recording: Recording = Recording()
        self.client: AgentClient = kind(
            [*AGENT, "--protocol", str(version)],
            protocol=version,
            capabilities=capabilities,
            on_permission=self._decide,
            on_line=self._note,
            recording=self.recording,
        )

    def _note(self, line: bytes) -> None:
        if b'"in_progress"' in line:
            self.running.set()
        if b'"completed"' in line:
            self.completed.set()

    async def _decide(self, params: Any) -> str | None:
        self.asked.set()
        if self.answer is None:
            await asyncio.sleep(60)
        return self.answer

    async def stop(self, session: str, prompt: str, when: asyncio.Event) -> None:
        when.clear()
        turn = asyncio.ensure_future(self.client.prompt(session, prompt))
        await when.wait()
        await self.client.cancel(session)
        assert await turn == "cancelled"


WAYS = {"v1": (AgentClient, 1, {}), "zed": (Zed, 1, TERMINALS), "v2": (AgentClient, 2, {})}


@asynccontextmanager
async def playing(way: str, at_least: int) -> AsyncGenerator[Play]:
    """Play, and hold that nothing is wrong with it and that it was something."""
    play = Play(*WAYS[way])
    async with play.client:
        yield play
    assert play.recording.check(clients=CLIENTS) == []
    assert_every_call_ended(play.client.lines, at_least=at_least)


@pytest.mark.parametrize(
    ("way", "parts", "at_least"),
    [
        ("v1", (READING, RUNNING, CHANGING), 60),
        ("zed", (RUNNING, MARKED), 20),  # only what it is shown in another way
        ("v2", (READING, RUNNING, CHANGING), 60),
    ],
)
async def test_nothing_is_wrong_whatever_tools_do(
    way: str, parts: tuple[str, ...], at_least: int, tmp_path: Path
) -> None:
    async with Site().open() as site:
        site.pages["/page"] = answer(b"<h1>hello</h1>")
        prompts = [
            line.replace("SITE", site.url(""))
            for part in parts
            for line in part.strip().splitlines()
        ]
        async with playing(way, at_least) as play:
            session = await play.client.new_session(str(furnish(tmp_path / "place")))
            for prompt in (*prompts, *TOGETHER):
                assert await play.client.prompt(session, prompt) == "end_turn"


@pytest.mark.parametrize("way", ["zed", "v2"])
async def test_nothing_is_wrong_where_people_say_no_or_stop(way: str, tmp_path: Path) -> None:
    async with playing(way, at_least=18) as play:
        place = str(furnish(tmp_path / "place"))
        session = await play.client.new_session(place)
        for play.answer in ("reject_once", "reject_always"):
            for prompt in DENIED:
                await play.client.prompt(session, prompt)
        session = await play.client.new_session(place)
        play.answer = "allow_always"
        await play.stop(session, LONG, play.running)
        await play.stop(session, LONG_BESIDE_SHORT, play.completed)
        session, play.answer = await play.client.new_session(place), None
        await play.stop(session, "!touch asked\n!touch again", play.asked)


@pytest.mark.parametrize("way", ["v1", "v2"] if FULL else ["v2"])
async def test_nothing_is_wrong_with_tools_of_others(way: str, tmp_path: Path) -> None:
    server = {"name": "real", "command": sys.executable, "args": [REAL, "stdio"], "env": []}
    server |= {"type": "stdio"} if way == "v2" else {}
    async with playing(way, at_least=8) as play:
        session = await play.client.new_session(str(tmp_path), mcpServers=[server])
        for prompt in MCP.strip().splitlines():
            await play.client.prompt(session, prompt)
        await play.stop(session, "/mcp__real__slow mark=x", play.running)
