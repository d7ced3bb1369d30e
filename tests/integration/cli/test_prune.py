"""`callsheet history prune`, `forget` and `vacuum`: what is said and asked, and what goes."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from callsheet import Session
from callsheet.history import History, Pruned, Retention
from callsheet.history.store import Store
from tests.integration.cli.test_history import listed
from tests.support.shells import Terminal
from tests.support.stores import ONE, TWO, Cli, fill, fill_with_spill

CTRL_C, CTRL_D = "\x03", "\x04"


async def much(file: Path, count: int) -> None:
    """Keep calls that can't be compressed, of 16 kB each."""
    noise, history = Random(1), History(f"sqlite:///{file}")
    key = "sess_01M7HC0000CCCCCCCCCCCCCCCC"
    async with Session(key, sinks=[history.session(key)]) as session:
        for _ in range(count):
            async with session.call("t", {}) as one:
                one.start()
                one.succeed(noise.randbytes(8000).hex())
    await history.close()


def test_prune_shows_what_would_go_and_then_what_went(copy: str, own: Cli) -> None:
    done = own("history", "prune", "--keep-calls", "2", "--dry-run")
    assert (done.code, done.err) == (0, "4 calls besides the newest 2\n")
    assert len(listed(own)) == 6
    done = own("history", "prune", "--keep-calls", "2", "--yes")
    assert done.code == 0
    assert "Removed 4 calls, 1 message" in done.err
    assert "were released" in done.err
    assert [one["tool"] for one in listed(own)] == ["think", "write"]
    again = own("history", "prune", "--keep-calls", "2", "--yes")
    assert (again.code, again.err) == (0, "Nothing is beyond the limits.\n")


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        (["--older-than", "1h"], 6),
        (["--older-than", "0s"], 0),
        (["--keep-calls", "2"], 2),
        (["--max-size", "1GB"], 6),
        ([], 6),
    ],
)
def test_prune_holds_each_limit(copy: str, own: Cli, limits: list[str], left: int) -> None:
    assert own("history", "prune", *limits, "--yes").code == 0
    assert len(listed(own)) == left


def test_prune_returns_the_space_back(tmp_path: Path, own: Cli) -> None:
    file = tmp_path / "h.sqlite"
    asyncio.run(much(file, 40))
    before = file.stat().st_size
    assert own("history", "prune", "--keep-calls", "1", "--yes").code == 0
    assert file.stat().st_size < before / 3


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("n\n", 1, 6), ("y\n", 0, 1), (CTRL_C, 130, 6), (CTRL_D, 130, 6)]
)
def test_prune_asks_on_a_terminal(
    copy: str, tmp_path: Path, own: Cli, answer: str, code: int, left: int
) -> None:
    terminal = Terminal(["history", "prune", "--keep-calls", "1"], tmp_path, CALLSHEET_HISTORY=copy)
    terminal.until("Remove them? [y/N]: ")
    terminal.wait_for_sleep()
    terminal.type(answer)
    assert terminal.end() == code
    assert ("Nothing was removed." in terminal.text) == (left == 6)
    assert len(listed(own)) == left


@pytest.mark.parametrize(("answer", "code"), [(CTRL_C, 130), ("\n", 1), ("y\n", 0)])
def test_forget_asks_also_if_the_whole_id_is_passed(
    copy: str, tmp_path: Path, own: Cli, answer: str, code: int
) -> None:
    terminal = Terminal(["history", "forget", TWO], tmp_path, CALLSHEET_HISTORY=copy)
    terminal.until("Remove it? [y/N]: ")
    assert "Another one  1 call" in terminal.text
    terminal.wait_for_sleep()
    terminal.type(answer)
    assert terminal.end() == code
    assert (f"Removed session {TWO} with 1 call." in terminal.text) == (code == 0)
    assert len(listed(own)) == (6 if code else 5)


def test_ctrl_c_ends_a_prune_between_two_steps(
    tmp_path: Path, own: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, prune = f"sqlite:///{tmp_path}/h.sqlite", Store.prune
    spill = asyncio.run(fill_with_spill(url, tmp_path))
    asyncio.run(fill(url, tmp_path))

    def interrupted(store: Store, keep: Retention, *, now: float) -> Iterator[Pruned]:
        yield next(prune(store, keep, now=now, most=1))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Store, "prune", interrupted)
    assert own("history", "prune", "--keep-calls", "0", "--yes").code == 130
    assert len(listed(own)) == 6
    assert not spill.exists()  # it was of the call that went


@pytest.mark.parametrize(
    "command", [["prune", "--keep-calls", "0", "--yes"], ["forget", ONE, "--yes"]]
)
def test_spill_files_go_with_their_calls_and_others_stay(
    tmp_path: Path, own: Cli, command: list[str]
) -> None:
    spill = asyncio.run(fill_with_spill(f"sqlite:///{tmp_path}/h.sqlite", tmp_path))
    other = spill.with_name("spill-" + "0" * 32 + ".txt")
    other.write_text("of another call")
    done = own("history", *command)
    assert done.code == 0
    assert "1 spill file." in done.err
    assert not spill.exists()
    assert other.exists()
    other.unlink()


def test_forget_removes_one_session(copy: str, own: Cli) -> None:
    done = own("history", "forget", "AAAAA", "--yes")
    assert done.code == 0
    reported, removed = done.err.splitlines()
    assert reported.startswith(f"{ONE}  Fix the parser  5 calls, ")
    assert removed.startswith(f"Removed session {ONE} with 5 calls, 2 messages. ")
    assert [one["session"] for one in listed(own)] == [TWO]
    assert own("history", "forget", ONE, "--yes").code == 1
    assert own("history", "forget", TWO, "--yes").code == 0


def test_vacuum_shows_how_large_the_store_was_and_is(copy: str, own: Cli) -> None:
    done = own("history", "vacuum")
    assert (done.code, done.out) == (0, "")
    assert " before, " in done.err
    assert len(listed(own)) == 6


def test_what_a_limit_of_bytes_removes_is_reported_about_right(own: Cli, tmp_path: Path) -> None:
    asyncio.run(much(tmp_path / "h.sqlite", 40))
    size = json.loads(own("history", "stats", "--format", "json").out)["fileBytes"]
    options = ["prune", "--max-size", str(size * 2 // 3)]
    message = own("history", *options, "--dry-run").err
    found = re.fullmatch(
        r"about (\d+) calls, for the store takes [\d.]+ [kM]B, and [\d.]+ [kM]B are allowed\n",
        message,
    )
    assert found
    assert own("history", *options, "--yes").code == 0
    gone = 40 - len(listed(own))
    assert abs(int(found[1]) - gone) <= 4 < gone
