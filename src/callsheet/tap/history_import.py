"""Store recordings in the history, as a tap in front of the agent would have stored them.

The tap runs over the recording (`offline.py`), and what it would store gets the times of the recording.
Rows are identified by what is in the recording, and all of them are written at once: to import it again
changes nothing, whenever that is and whatever the file is called by then.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from hashlib import blake2b
from io import BytesIO
from threading import RLock
from typing import Any

from msgspec import Struct

from callsheet.history.call_records import Waiting, WaitingCall, column_text, possible_ids, to_rows
from callsheet.history.origin import hidden
from callsheet.history.rows import SessionRow
from callsheet.history.sink import SessionLog
from callsheet.history.store import Store
from callsheet.observe.lines import read_lines
from callsheet.observe.model import Json
from callsheet.report.json import JsonObject
from callsheet.runtime.spill_store import SpillStore
from callsheet.tap.context import TapSettings
from callsheet.tap.history_sink import HistorySink
from callsheet.tap.offline import Repairs
from callsheet.telemetry.prices import estimated


class Imported(Struct):
    """What became of a recording: how many sessions and calls are new, and how many were there already."""

    sessions: int = 0
    calls: int = 0
    known: int = 0
    """Sessions that were imported before."""
    messages: int = 0
    """Messages of ACP in the recording. Without any, it is none."""
    unreadable: int = 0
    """Lines that could not be read."""
    first_problem: str = ""
    is_empty: bool = False
    """Whether there is nothing in it at all."""


class ImportSink(HistorySink):
    """Takes what a tap stores of one recording, until it is written."""

    def __init__(self, store: Store, name: str, run: str, clock: ImportClock) -> None:
        self.problems: list[str] = []
        super().__init__(_no_history, name, self.problems.append)
        self.run: str = run
        self.lock: AbstractContextManager[Any] = RLock()
        self.known: int = 0
        self._target: Store = store
        self._clock: ImportClock = clock
        self._source: str = "import"
        self._info: JsonObject = {"file": name, "recording": run}
        self._entries: dict[str, Waiting] = {}
        self._begun: int = 0
        # The sessions that were imported before: nothing of them is stored.
        self._there: set[str] = set()

    def answered(self, answer: Json) -> None:
        """Store a session also if its agent stored it when it was recorded: that may have been elsewhere."""

    def put(self, entry: Waiting) -> None:
        """Take an entry. A later one with its key replaces it."""
        if entry.session.session_id not in self._there:
            self._entries[entry.key] = entry

    def at_last(self, until: float) -> bool:  # noqa: ARG002
        """Do nothing: an import that does not end has imported nothing."""
        return False

    def write(self) -> tuple[int, int]:
        """Write all at once. Return how many sessions and calls there were."""
        entries = list(self._entries.values())
        self._target.write(to_rows(entries, self._target.codec, estimated))
        sessions = {entry.session.session_id for entry in entries}
        return len(sessions), sum(isinstance(entry, WaitingCall) for entry in entries)

    def _begin(self, session: str, cwd: str) -> SessionLog:
        """Return the log of a session. One whose id another recording or a live session has gets a new id."""
        name = next(filter(self._is_ours, possible_ids(column_text(session))))
        now = self._clock()
        row = SessionRow(
            session_id=name,
            cwd=column_text(hidden(cwd)),
            info=self._info,
            created_at=now,
            updated_at=now,
            origin=self._origin(),
        )
        self._begun += 1
        log = self._logs[session] = SessionLog(self, row, 0, clock=self._clock, number=self._begun)
        return log

    def _is_ours(self, session_id: str) -> bool:
        """Whether nobody has an id of a session, or this recording had it when it was imported before."""
        found = self._target.session(session_id)
        if found is not None and found.info.get("recording") == self.run:
            self._there.add(session_id)
            self.known += 1
            return True
        return found is None


class ImportClock:
    """The time of day in a recording. Without times in it, each moment is just after the one before.

    Args:
        began: When it began, in seconds since 1970.
        has_times: Whether its lines have times.
    """

    def __init__(self, began: float, *, has_times: bool) -> None:
        self._began: float = began
        self._has_times: bool = has_times
        self._count: int = 0
        self.repairs: Repairs | None = None

    def __call__(self) -> float:
        """Return the time."""
        if self._has_times and self.repairs is not None:
            return self._began + self.repairs.now
        self._count += 1
        return self._began + self._count * 1e-6


def import_recording(
    store: Store,
    data: bytes,
    name: str,
    modified: float,
    settings: TapSettings,
    spill: SpillStore | bool = True,
) -> Imported:
    """Store a recording in the history.

    Args:
        store: The history, opened for writing.
        data: The recording.
        name: What its file is called.
        modified: When it ended, in seconds since 1970: lines have only the seconds since it began.
        settings: What the tap does with it. Secrets are redacted in any case.
        spill: Where what does not fit is written to.
    """
    done, last = Imported(is_empty=not data.strip()), None
    for line in read_lines(BytesIO(data)):
        last = line.time if line.time is not None else last
        if line.fault is not None and line.fault != "blank":
            done.unreadable += 1
            done.first_problem = done.first_problem or f"line {line.number}: {line.problem}"
    clock = ImportClock(modified - (last or 0.0), has_times=last is not None)
    run = blake2b(data, digest_size=12, salt=b"" if settings.repair else b"as sent").hexdigest()
    sink = ImportSink(store, name, f"import-{run}", clock)
    epoch = None if last is None else modified - last
    clock.repairs = repairs = Repairs(settings, spill, history=sink, epoch=epoch)
    for _ in repairs.repaired(BytesIO(data)):
        pass
    for problem in (*sink.problems, *repairs.faults):
        done.first_problem = done.first_problem or problem
    done.messages, done.known = repairs.messages, sink.known
    done.sessions, done.calls = sink.write()
    return done


def _no_history() -> Any:
    raise NotImplementedError("an import writes to its store")
