"""The keeper: a small process between us and one command, that lets nothing of the command stay behind.

It starts the command in a session of its own, waits for it, and says how it ended and what it used.
On Linux it is a subreaper: whatever the command starts stays under it, also what calls setsid, is
orphaned, or clears its environment. So when the keeper has no child any more, nothing is left; and
this is when it ends itself. On other systems it looks for what is under it or in the command's
group, and does not find a process that left both.

It is told over a socket, as its standard input; the command's output is its standard output. The
directory to run it in is open, under the number that is its last argument: a name could lead elsewhere
by now.
1. It gets the grace in seconds, a marker, the number of words of the command, these words, and the
   environment, all joined by NUL, after their length in eight bytes.
2. It says `started PID`, or `failed ERRNO directory|program` and ends.
3. It gets `T` to end the command with all it started, or `K` to kill it at once. The end of the
   socket means `T`: so the command ends too if we are killed.
4. It says `left NAME` for what still ran when the command had ended, `ended STATUS CPU_MS PEAK_KB
   SURVIVORS`, and ends. Survivors are those that it may not kill.

It is run without the rest of the package, so that it starts fast; see `start.py`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress
from time import monotonic

from callsheet.processes.table import (
    ask_to_end,
    can_look_below,
    family,
    kill,
    kill_below,
    name,
    send,
)

LINGER = 0.3
"""Seconds for what still runs when the command has ended, such as the `tee` of `> >(tee log)`."""

PATIENCE = 1.0
"""Seconds until a process that was killed is taken for one that can't be ended."""

CHASE = 6.0
"""Seconds for killing what forks all the time, so that it is another whenever one looks."""

PACE = 0.005
MOST_NAMES = 5

RUNNING, LINGERING, ENDING, KILLING, DONE = range(5)
DIRECTORY, PROGRAM = b"directory", b"program"

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_KB = 1024 if sys.platform == "darwin" else 1  # macOS counts bytes


class Keeper:
    """What is known of the command, and what is to be done next, and when."""

    def __init__(
        self, control: int, parent: int, shell: int, grace: float, marker: bytes, owns: bool
    ) -> None:
        self.control = control
        self.parent = parent
        self.shell = shell
        self.grace = grace
        self.marker = b"" if owns else marker
        self.owns = owns
        self.phase = RUNNING
        self.until: float | None = None
        self.has_children = True
        self.status: int | None = None
        self.cpu = 0.0
        self.peak = 0
        self.left: list[str] = []
        self.killed: set[int] = set()
        self.is_chasing = False
        self.chased = 0.0
        self.survivors = 0

    def run(self, wakeup: int) -> None:
        """Watch until nothing of the command is left, or can't be ended."""
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        poll.register(self.control, select.POLLIN)
        while True:
            self.reap()
            if self.is_over():
                return
            self.step(monotonic())
            if self.phase is DONE:
                return
            for fd, _ in poll.poll(self.patience()):
                if fd == self.control:
                    self.listen(poll)
                else:
                    with suppress(OSError):
                        os.read(wakeup, 512)

    def patience(self) -> float | None:
        """Return the milliseconds until there is something to do."""
        if self.until is None:
            return None
        rest = max(0.0, self.until - monotonic())
        if self.phase is KILLING:
            rest = 0.0 if self.is_chasing else min(rest, PACE)
        return 1000 * rest

    def reap(self) -> None:
        """Take in every child that has ended, and what it used."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self.has_children = False
                return
            if pid == 0:
                self.has_children = True
                return
            self.cpu += used.ru_utime + used.ru_stime
            self.peak = max(self.peak, used.ru_maxrss // _KB)
            if pid == self.shell:
                self.status = status

    def is_over(self) -> bool:
        """Whether nothing of the command is left."""
        return not self.has_children and (self.owns or not self.members())

    def members(self) -> dict[int, int]:
        """Return what is left of the command."""
        return family((os.getpid(),) if self.owns else (os.getpid(), self.shell), self.marker)

    def listen(self, poll: select.poll) -> None:
        """Follow an order. If there is nobody any more to give one, the command has to end."""
        try:
            order = os.read(self.control, 64)
        except OSError:
            order = b""
        if not order:
            poll.unregister(self.control)
        if b"K" in order:
            self.enter(KILLING, CHASE)
        elif self.phase < ENDING:
            self.end()

    def step(self, now: float) -> None:
        """Do what is due."""
        if os.getppid() != self.parent and self.phase < ENDING:
            self.end()
        if self.phase is RUNNING and self.status is not None:
            self.enter(LINGERING, LINGER)
        due = self.until is not None and now >= self.until
        if self.phase is LINGERING and due:
            self.left = [name(pid) for pid in sorted(self.members())]
            self.end()
        elif self.phase is ENDING and due:
            self.enter(KILLING, CHASE)
        elif self.phase is KILLING:
            self.kill(now)
            if due or now - self.chased >= PATIENCE:
                self.survivors = len(self.members()) or int(self.has_children)
                self.phase = DONE

    def end(self) -> None:
        """Ask everything to end."""
        told = self.leaders()
        for leader in told:  # before looking for the others, which takes a while
            send(os.killpg, leader, signal.SIGTERM)
            send(os.killpg, leader, signal.SIGCONT)
        members = self.members().items()
        ask_to_end({pid: group for pid, group in members if group not in told})
        self.enter(ENDING, self.grace)

    def kill(self, now: float) -> None:
        """Kill what is there. As long as there is something new, it may be running away from us."""
        if self.owns and can_look_below():
            found = kill_below(os.getpid())
        else:
            members = self.members()
            kill(members, {*members.values(), *self.leaders()})  # groups of their own making, all
            found = set(members)
        self.is_chasing = not found <= self.killed
        self.killed = found
        if self.is_chasing:
            self.chased = now

    def leaders(self) -> tuple[int, ...]:
        """Return the command, if it leads its group for sure: after its end, its number may be another's."""
        return (self.shell,) if self.status is None else ()

    def enter(self, phase: int, seconds: float) -> None:
        """Begin a phase that lasts so long at most."""
        if phase is KILLING:
            for leader in self.leaders():
                send(os.killpg, leader, signal.SIGKILL)
        self.phase = phase
        self.chased = monotonic()
        self.until = self.chased + seconds

    def report(self) -> bytes:
        """Say how the command ended."""
        names = [f"left {text}\n" for text in self.left[:MOST_NAMES]]
        names += [f"left {len(self.left) - MOST_NAMES} more\n"] * (len(self.left) > MOST_NAMES)
        status = -1 if self.status is None else self.status
        cpu_ms = round(self.cpu * 1000)
        return "".join([*names, f"ended {status} {cpu_ms} {self.peak} {self.survivors}\n"]).encode()


def main() -> None:
    """Keep one command."""
    parent = os.getppid()  # before it can be gone: it may be as soon as the command runs
    control = os.dup(0)  # the command can't inherit this one
    wakeup = _take_signals()
    owns = _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_PDEATHSIG, signal.SIGUSR1)
    directory = int(sys.argv[-1])
    os.set_inheritable(directory, False)
    grace, marker, count, *rest = _receive(control).split(b"\0")
    words, pairs = rest[: int(count)], rest[int(count) :]
    environment = dict(pair.split(b"=", 1) for pair in pairs)
    shell = _start(control, directory, words, environment)
    keeper = Keeper(control, parent, shell, float(grace), marker, owns)
    keeper.run(wakeup)
    _say(control, keeper.report())
    os._exit(0)  # there is nothing to tidy up, and we are waited for


def _take_signals() -> int:
    """Be woken by signals, and ended by none that can be caught. Gives what is readable then."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for name_ in ("CHLD", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "TSTP"):
        signal.signal(getattr(signal, "SIG" + name_), _note)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return read


def _note(number: int, frame: object) -> None:
    """Do nothing: being woken is all that a signal is for."""


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        import ctypes  # only Linux needs it

        long = ctypes.c_ulong
        return ctypes.CDLL(None).prctl(option, long(value), long(0), long(0), long(0)) == 0
    except (ImportError, OSError, AttributeError):
        return False


def _receive(control: int) -> bytes:
    size = int.from_bytes(_receive_just(control, 8), "big")
    return _receive_just(control, size)


def _receive_just(control: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(control, size - len(data))  # what follows is an order, for later
        if not more:
            os._exit(0)  # nobody wants a command any more
        data += more
    return data


def _start(
    control: int, directory: int, words: list[bytes], environment: dict[bytes, bytes]
) -> int:
    """Start the command, or say why not and end. Then let go of its output."""
    read, write = os.pipe()
    try:
        shell = os.fork()
    except OSError as exc:  # too many processes
        _say(control, b"failed %d %s\n" % (exc.errno or 0, PROGRAM))
        os._exit(0)
    if not shell:
        _become(write, directory, words, environment)
    os.close(write)
    os.close(directory)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    why = os.read(read, 64)
    os.close(read)
    if why:
        _say(control, b"failed " + why + b"\n")
        os._exit(0)
    _say(control, b"started %d\n" % shell)
    return shell


def _become(tell: int, directory: int, words: list[bytes], environment: dict[bytes, bytes]) -> None:
    """Be the command, in a session of its own, without standard input and with default signals."""
    where = DIRECTORY
    try:
        os.setsid()
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)
        os.fchdir(directory)
        where = PROGRAM
        os.execvpe(words[0], words, environment)
    except OSError as exc:
        os.write(tell, b"%d %s" % (exc.errno or 0, where))
    finally:
        os._exit(127)


def _say(control: int, line: bytes) -> None:
    with suppress(OSError):  # nobody is there to hear it
        os.write(control, line)
