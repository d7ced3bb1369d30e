"""A history for tests: filled by real sessions with the built-in tools, and asked by the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import callsheet.cli
from callsheet import Session
from callsheet.history import History
from callsheet.limits.limits import Limits
from callsheet.report.json import JsonObject
from callsheet.runtime.sanitizer import GuardSettings
from callsheet.runtime.sinks import Sink
from callsheet.runtime.spill_store import SpillStore, default_directory

ONE = "sess_01M7HA0000AAAAAAAAAAAAAAAA"
TWO = "sess_01M7HB0000BBBBBBBBBBBBBBBB"

Step = tuple[str, JsonObject]


class Done(NamedTuple):
    """What a command has said, and its exit code."""

    code: int
    out: str
    err: str


Cli = Callable[..., Done]


def cli_in_process(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, url: str
) -> Cli:
    """Return what runs a command with this history, without a process of its own."""

    def run(*args: str) -> Done:
        monkeypatch.setenv("CALLSHEET_HISTORY", url)
        monkeypatch.setattr(sys, "argv", ["callsheet", *args])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            callsheet.cli.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, out, err)

    return run


async def fill(url: str, cwd: Path, *sinks: Sink, title: str = "Fix the parser") -> None:
    """Keep two sessions: one with ends of all kinds, one with a single call."""
    (cwd / "a.txt").write_text("one\ntwo\n")
    steps: list[Step] = [
        ("read", {"path": "a.txt"}),
        ("bash", {"command": "echo needle in the hay; exit 3"}),
        ("bash", {"command": "sleep 20"}),
        ("read", {"path": "missing.txt"}),
        ("write", {"path": "b.txt", "content": "=1+1\n"}),
    ]
    history = History(url, notify=print)
    log = history.session(ONE, cwd=str(cwd))
    log.say("user", "msg_1", [{"type": "text", "text": title}])
    log.name(title)
    async with Session(
        ONE, cwd=cwd, permission="allow", locale="en", sinks=[log, *sinks]
    ) as session:
        for name, arguments in steps:
            slow = arguments.get("command") == "sleep 20"
            await session.run(name, arguments, timeout=0.2 if slow else 30)
        log.say("agent", "msg_2", [{"type": "text", "text": "It is done."}])
    log = history.session(TWO, cwd=str(cwd), title="Another one")
    async with Session(TWO, cwd=cwd, permission="allow", locale="en", sinks=[log]) as session:
        await session.run("think", {"thought": "=cmd()"}, alias="toolu_1")
    await history.close()


async def fill_with_spill(url: str, cwd: Path) -> Path:
    """Keep one call of which a part is in a file, and give that file."""
    spills = SpillStore(default_directory())
    before = set(spills.directory.glob("spill-*"))
    guard = GuardSettings(limits=Limits(content=2000, raw_output=2000), spill=spills)
    history = History(url, notify=print)
    log = history.session(ONE, cwd=str(cwd))
    async with Session(ONE, cwd=cwd, sinks=[log], guard=guard, locale="en") as session:
        async with session.call("report", {}) as call:
            call.start()
            call.succeed("long line\n" * 2000)
    await history.close()
    (file,) = set(spills.directory.glob("spill-*")) - before
    return file
