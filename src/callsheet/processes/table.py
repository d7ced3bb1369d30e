"""The system's table of processes: which come from which, sending all of them a signal, and their end.

The keeper runs this file outside of the package, once for each command. So it imports nothing of ours, and
only what takes no time: `signal`, `contextlib` and `collections` would be most of a keeper's start.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from signal import SIGCONT, SIGKILL, SIGTERM
    from types import TracebackType
else:
    from _signal import SIGCONT, SIGKILL, SIGTERM

GRACE = 0.4
"""Seconds from SIGTERM to SIGKILL."""

PATIENCE = 1.0
"""Seconds after SIGKILL until a process counts as one that can't be ended."""

LONGEST_NAME = 80
_PACE = 0.01

Row = tuple[int, int, int, bool]
"""Parent, group, session, and whether it runs (and is not just a dead one that nobody waited for)."""


class NoOSError:
    """A context that ends without a word at an OSError, as `contextlib.suppress` would."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> bool:
        return isinstance(exc, OSError)


def family(roots: Iterable[int], marker: bytes = b"") -> dict[int, int]:
    """Return the processes that come from `roots`, with their groups. This process is never one of them.

    They are the roots themselves, those in a group or session that a root leads, those with the
    marker in the environment they were started with, and whatever comes from one of these.
    """
    rows = dict(_rows())
    known = set(roots)
    known |= {pid for pid, row in rows.items() if row[1] in known or row[2] in known}
    if marker:
        known |= {pid for pid in rows if marker in _read(pid, "environ")}
    children: dict[int, list[int]] = {}
    for pid, row in rows.items():
        children.setdefault(row[0], []).append(pid)
    waiting = list(known)
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in known:
                known.add(pid)
                waiting.append(pid)
    known.discard(os.getpid())
    return {pid: rows[pid][1] for pid in known if pid in rows and rows[pid][3]}


def end_tree(*roots: int, marker: str = "", grace: float = GRACE) -> int:
    """End processes and all that came from them: SIGTERM, and SIGKILL after a grace.

    Args:
        roots: The processes.
        marker: `NAME=value`, as it stands in the environment of what belongs to them. Systems without
            /proc show no environments; there, nothing is found by it.
        grace: Seconds from SIGTERM to SIGKILL.

    Returns:
        How many could not be ended.
    """
    mark = marker.encode()
    members = family(roots, mark)
    ask_to_end(members)
    until = monotonic() + grace
    while members and monotonic() < until:
        sleep(_PACE)
        members = family(roots, mark)
    until = monotonic() + PATIENCE
    while members and monotonic() < until:
        kill(members)
        sleep(_PACE)
        members = family(roots, mark)
    return len(members)


def ask_to_end(members: dict[int, int], leaders: Iterable[int] = ()) -> None:
    """Send SIGTERM to each. One that is stopped is continued, so that it can handle the signal."""
    for sign in (SIGTERM, SIGCONT):
        _send_all(members, leaders, sign)


def kill(members: dict[int, int], leaders: Iterable[int] = ()) -> None:
    """Send SIGKILL to each, also if it has left its group meanwhile."""
    _send_all(members, leaders, SIGKILL)
    for pid in members:
        send(os.kill, pid, SIGKILL)


def can_look_below() -> bool:
    """Whether the system lists the children of a process, without a look at all processes."""
    return os.path.exists("/proc/thread-self/children")  # noqa: PTH110 - pathlib takes long to import


def kill_below(root: int) -> set[int]:
    """Send SIGKILL to what is under `root`, and to the groups of these. Return what was found.

    Each gets it the moment it is found, because what forks all the time is soon another one. What is
    orphaned by this is not found: look again. A group that one of them is in has to be theirs alone.
    """
    found: set[int] = set()
    waiting = [root]
    own = os.getpgrp()
    while waiting:
        for child in _children(waiting.pop()):
            if child not in found:
                _kill_with_group(child, own)
                found.add(child)
                waiting.append(child)
    return found


def _kill_with_group(pid: int, own: int) -> None:
    """Kill a process, with what it has forked, and also if it changes its group while we look."""
    with NoOSError():
        group = os.getpgid(pid)
        if group > 1 and group != own:  # killpg(1) would mean every process
            os.killpg(group, SIGKILL)
    send(os.kill, pid, SIGKILL)


def _send_all(members: dict[int, int], leaders: Iterable[int], sign: int) -> None:
    """Send a signal once to each: to a group in one go, if one of them, or of `leaders`, leads it.

    What forks all the time is outrun only by a signal to a group.
    """
    groups = ({*members.values()} & {*members} | {*leaders}) - {os.getpgrp()}
    for group in groups:
        send(os.killpg, group, sign)
    for pid, group in members.items():
        if group not in groups:
            send(os.kill, pid, sign)


def name(pid: int) -> str:
    """Return a process's command line, or what the system calls it, in a short line."""
    line = _read(pid, "cmdline").rstrip(b"\0").replace(b"\0", b" ") or _read(pid, "comm")
    text = line.decode(errors="replace").strip()
    text = "".join(char if char.isprintable() else " " for char in text)
    return (
        text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
    ) or f"process {pid}"


def send(how: Callable[[int, int], None], pid: int, sign: int) -> None:
    """Send a signal, if the process is there and ours."""
    with NoOSError():  # it has ended, or it belongs to another user
        how(pid, sign)


def _rows() -> Iterator[tuple[int, Row]]:
    return _rows_of_proc() if sys.platform == "linux" else _rows_of_ps()


def _rows_of_proc() -> Iterator[tuple[int, Row]]:
    try:
        entries = os.listdir("/proc")  # noqa: PTH208 - pathlib takes long to import
    except OSError:  # it is not mounted
        return
    for entry in entries:
        if entry.isdigit():
            fields = _read(int(entry), "stat").rpartition(b")")[2].split()
            if fields:
                parent, group, session = map(int, fields[1:4])
                yield int(entry), (parent, group, session, fields[0] not in (b"Z", b"X"))


def _rows_of_ps() -> Iterator[tuple[int, Row]]:
    import subprocess  # late, because it takes long to import

    ps = ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat="]
    with subprocess.Popen(ps, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        for line in running.communicate()[0].splitlines():
            pid, parent, group = map(int, line.split()[:3])
            if pid != running.pid:
                yield pid, (parent, group, 0, b"Z" not in line.split()[3])


def _children(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208
    except OSError:  # it has ended
        return
    for thread in threads:
        yield from map(int, _read(pid, f"task/{thread}/children").split())


def _read(pid: int, what: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""
