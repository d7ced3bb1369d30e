"""Calls as an agent makes them, in any number: what the histories of the bench are filled with.

The built-in tools are really run, over a copy of this project's tests: other files and words than those that
the dictionary was learned from. Of each record so many others are made as are needed: ids, times and a third
of the words are others, the same word by the same other one throughout a record, as in another file. So no
two have a large text in common, and nothing helps a dictionary more than it would in earnest.
"""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from sysconfig import get_path
from typing import Any

import msgspec

from callsheet import Session
from callsheet.acp.peer import Peer
from callsheet.history.call_records import WaitingCall
from callsheet.history.codec import as_json_bytes, record_of
from callsheet.history.rows import SessionRow
from callsheet.report.terminal import CallRecord
from callsheet.runtime.clock import new_call_id
from callsheet.runtime.sanitizer import GuardSettings

ROOT = Path(__file__).parent.parent
SEED = 2026
ROUNDS = 110
"""Rounds of the tools; each makes eight to ten calls."""

VARIED = 0.35
"""The share of a record's different words that is replaced."""

LONGEST = 12
START = 1_790_000_000.0
_OWN = {
    "type",
    "sessionUpdate",
    "status",
    "kind",
    "name",
    "_meta",
    "toolCallId",
    "id",
    "terminalId",
}
_WORD = re.compile(r"[a-z]{4,}")
_SLOT = re.compile(r"\\u0001(\d+);")


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _Collected:
    peer: Peer | None = None
    takes_records = True

    def __init__(self) -> None:
        self.records: dict[str, CallRecord] = {}

    def send(self, items: deque[Any]) -> None:
        while items:
            record = items.popleft()
            self.records[record.report.tool_call_id] = record

    def close(self) -> None:
        pass


class Template:
    """A record with gaps, to be filled with other words. They are as long as those that stood there."""

    def __init__(
        self, record: CallRecord, words: dict[int, list[str]], pick: random.Random
    ) -> None:
        body = msgspec.json.decode(as_json_bytes(record))
        known = sorted({word for text in _texts(body) for word in _WORD.findall(text)})
        varied = [word for word in known if pick.random() < VARIED]
        slots = {word: number for number, word in enumerate(varied)}
        pieces = _SLOT.split(msgspec.json.encode(_marked(body, slots)).decode())
        self.size: int = len(as_json_bytes(record))
        self._fixed: list[str] = pieces[::2]
        self._slots: list[int] = [int(slot) for slot in pieces[1::2]]
        self._choices: list[list[str]] = [words[min(len(word), LONGEST)] for word in varied]

    def record(self, pick: random.Random, at: float) -> CallRecord:
        """Return a record like the one that was, of another time."""
        chosen = [pick.choice(choices) for choices in self._choices]
        parts = [""] * (2 * len(self._fixed) - 1)
        parts[::2] = self._fixed
        parts[1::2] = [chosen[slot] for slot in self._slots]
        body = msgspec.json.decode("".join(parts))
        body["call"]["toolCallId"] = new_call_id()
        notes = body["call"]["_meta"]["callsheet"]
        notes["startedAt"], notes["endedAt"] = _when(at), _when(at + pick.random())
        notes["durationMs"] = round(pick.expovariate(0.02), 3)
        return record_of(body)


def templates() -> list[Template]:
    """Run the tools, and give templates of what they did, in an order by chance."""
    pick = random.Random(SEED)
    with tempfile.TemporaryDirectory() as place:
        workspace = Path(place) / "app"
        ignored = shutil.ignore_patterns("__pycache__", "node_modules", "recordings", "schema")
        shutil.copytree(ROOT / "tests", workspace, ignore=ignored)
        records = [_moved(one, place) for one in asyncio.run(_run(workspace, pick))]
        words = _vocabulary(workspace)
    made = [Template(record, words, pick) for record in records]
    pick.shuffle(made)
    return made


def _moved(record: CallRecord, place: str) -> CallRecord:
    """Return a record as if the work had been done in somebody's home."""
    return record_of(
        msgspec.json.decode(as_json_bytes(record).replace(place.encode(), b"/home/dev"))
    )


async def _run(workspace: Path, pick: random.Random) -> list[CallRecord]:
    files = sorted(str(file.relative_to(workspace)) for file in workspace.rglob("*.py"))
    sink = _Collected()
    async with Session(
        cwd=workspace,
        sinks=[sink],
        builtin=True,
        permission="allow",
        guard=GuardSettings(spill=False),
    ) as session:
        for number in range(ROUNDS):
            for name, arguments in _calls(number, files, pick):
                await session.run(name, arguments)
    return [record for record in sink.records.values() if record.report.is_final]


def _calls(
    number: int, files: Sequence[str], pick: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return what an agent might do in one round: look, search, read, run, change, and err at times."""
    file, other = pick.choice(files), pick.choice(files)
    word = pick.choice(["assert", "fixture", "yield", "parametrize", "timeout", "tmp_path", "Path"])
    yield "grep", {"pattern": word, "path": ".", "limit": pick.choice([5, 20, 50])}
    yield (
        "read",
        {"path": file, "offset": pick.randrange(1, 80), "limit": pick.choice([10, 40, 120])},
    )
    yield "read", {"path": other, "limit": pick.choice([20, 80, 2000])}
    yield "bash", {"command": f"head -{pick.randrange(2, 60)} {file}"}
    yield "bash", {"command": f"grep -c {word} {file} {other}; ls -l {Path(file).parent}"}
    yield "glob", {"pattern": f"**/*{word[:3].lower()}*.py"}
    yield (
        "edit",
        {"path": file, "old_text": "from __future__ import annotations", "new_text": "import re"},
    )
    yield "think", {"thought": f"{word} in {file} is what {other} depends on; look there first."}
    if number % 3 == 0:
        yield "list", {"path": str(Path(file).parent)}
        yield (
            "bash",
            {"command": f"sort {file} | uniq -c | sort -n | tail -{pick.randrange(5, 200)}"},
        )
    if number % 4 == 0:
        yield "read", {"path": f"{file}.bak"}
        yield "bash", {"command": f"python3 -c 'import {word}'; exit {number % 5}"}
    if number % 10 == 0:
        yield "bash", {"command": f"cat {file} {other}"}
        yield (
            "write",
            {"path": f"new/{word}_{number}.py", "content": f"# {word}\n" * pick.randrange(9, 90)},
        )


def _vocabulary(workspace: Path) -> dict[int, list[str]]:
    """Return words by their length: those of the standard library's texts that the tests do not use."""
    here = _words_of(workspace.rglob("*.py"))
    there = _words_of(sorted(Path(get_path("stdlib")).glob("*.py")))
    found: dict[int, list[str]] = {length: [] for length in range(4, LONGEST + 1)}
    for word in sorted(there - here):
        if len(word) <= LONGEST:
            found[len(word)].append(word)
    return found


def _words_of(files: Iterable[Path]) -> set[str]:
    return {word for file in files for word in _WORD.findall(file.read_text(errors="replace"))}


def _texts(value: Any) -> Iterator[str]:
    """Return all texts of a body that are not the protocol's own."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            if key not in _OWN:
                yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _marked(value: Any, slots: dict[str, int]) -> Any:
    """Return a body with numbered gaps instead of the words that vary."""
    if isinstance(value, str):

        def mark(found: re.Match[str]) -> str:
            slot = slots.get(found[0])
            return found[0] if slot is None else f"\x01{slot};"

        return _WORD.sub(mark, value)
    if isinstance(value, dict):
        return {key: one if key in _OWN else _marked(one, slots) for key, one in value.items()}
    if isinstance(value, list):
        return [_marked(one, slots) for one in value]
    return value


def waiting(made: Sequence[Template], count: int, pick: random.Random) -> Iterator[WaitingCall]:
    """Return so many calls, in sessions of a hundred, as the history's thread gets them."""
    for number in range(count):
        at = START + number * 0.7
        record = made[number % len(made)].record(pick, at)
        session = SessionRow(session_id=f"sess_{number // 100:08}")
        yield WaitingCall(session, number % 100, at, at + 0.4, record)
