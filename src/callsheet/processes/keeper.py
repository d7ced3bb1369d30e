"""The keeper: a small process between us and one command, which leaves nothing of the command behind.

It starts the command in a session of its own, waits for it, and reports how it ended and what it used. On
Linux it is a *subreaper*: an orphaned descendant becomes the keeper's child, not init's. So whatever the
command starts stays under the keeper, even if it calls setsid, is orphaned, or clears its environment; and
when the keeper has no child any more, nothing is left. That is when it ends itself. Elsewhere it looks for
what is under it or in the command's group, and does not find a process that has left both.

Theory of operation. `Keeper.run` is a loop around `poll` with one deadline, `until`, and a phase, which
only ever moves down this list:

    RUNNING      the command runs
    LINGERING    it has ended; what it left may still exit on its own, for `LINGER` seconds
    ENDING       all of it got SIGTERM, `grace` seconds ago at most
    KILLING      all of it gets SIGKILL, for `CHASE` seconds
    DONE         something can't be killed, and is abandoned

A phase ends early when nothing is left (`is_over`). It is entered by its deadline, by an order, or because
our parent has gone. Three things wake the loop: a signal (SIGCHLD above all, through `set_wakeup_fd`, so
that none is lost between a check and the wait), the control socket, and the deadline.

The protocol, over a socket that is the keeper's standard input (the command's outputs are the keeper's own):

1. The keeper receives the grace in seconds, a marker, the number of arguments, the arguments, and the
   environment, all joined by NUL, after their length in eight bytes. The directory to run in is open, under
   the number that is the keeper's second argument: a name could lead elsewhere by now. The third is that of
   the command's standard input, or empty if it has none.
2. It sends `started PID`; or `failed ERRNO directory|program`, and ends.
3. It receives `T` to end the command with all it started, or `K` to kill it at once. The end of the socket
   means `T`: so the command ends too if we are killed. A fork of ours may hold the socket open; so the
   keeper also asks the kernel for a signal when its parent dies (PDEATHSIG), and compares its parent's
   number.
4. It sends `left NAME` for what still ran when the command had ended, then
   `ended STATUS CPU_MS PEAK_KB SURVIVORS`, and ends. Survivors are those that it may not kill.

It runs without the rest of the package, so that it starts fast; see `_KEEPER` in `process.py`.
"""

from __future__ import annotations

import os
import select
import sys
from time import monotonic

from callsheet.processes.table import (
    PATIENCE,
    NoOSError,
    ask_to_end,
    can_look_below,
    family,
    kill,
    kill_below,
    name,
    send,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the other one takes longer to import than all the rest of this

LINGER = 0.3
"""Seconds for what still runs when the command has ended, such as the `tee` of `> >(tee log)`."""

CHASE = 6.0
"""Seconds for killing what forks all the time, so that its processes are others at every look."""

PACE = 0.005
MOST_NAMES = 5

RUNNING, LINGERING, ENDING, KILLING, DONE = range(5)
DIRECTORY, PROGRAM = b"directory", b"program"

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_KB = 1024 if sys.platform == "darwin" else 1  # macOS counts bytes


class Keeper:
    """The state of one command, and what is to be done next, and when.

    `owns` is true if this process is a subreaper; if not, the `marker` in the environment helps to find
    descendants.
    """

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
                    with NoOSError():
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
        """Reap every child that has ended, and add up what it used."""
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
        """Return the processes that are left of the command, with their groups."""
        return family((os.getpid(),) if self.owns else (os.getpid(), self.shell), self.marker)

    def listen(self, poll: select.poll) -> None:
        """Follow an order. The end of the socket is one, too: the command has to end."""
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
        leaders = self.leaders()
        for leader in leaders:  # before looking for the others, which takes a while
            send(os.killpg, leader, signal.SIGTERM)
            send(os.killpg, leader, signal.SIGCONT)
        members = self.members().items()
        ask_to_end({pid: group for pid, group in members if group not in leaders})
        self.enter(ENDING, self.grace)

    def kill(self, now: float) -> None:
        """Kill what is there. As long as a look finds something new, it may be running away from us."""
        if self.owns and can_look_below():
            found = kill_below(os.getpid())
        else:
            members = self.members()
            kill(
                members, {*members.values(), *self.leaders()}
            )  # all these groups are the command's
            found = set(members)
        self.is_chasing = not found <= self.killed
        self.killed = found
        if self.is_chasing:
            self.chased = now

    def leaders(self) -> tuple[int, ...]:
        """Return the command's pid while it surely leads its group: once reaped, the number may be reused."""
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
        """Return the lines that report how the command ended."""
        names = [f"left {text}\n" for text in self.left[:MOST_NAMES]]
        names += [f"left {len(self.left) - MOST_NAMES} more\n"] * (len(self.left) > MOST_NAMES)
        status = -1 if self.status is None else self.status
        cpu_ms = round(self.cpu * 1000)
        return "".join([*names, f"ended {status} {cpu_ms} {self.peak} {self.survivors}\n"]).encode()


def main() -> None:
    """Run one command, as stdin asks for it."""
    parent = os.getppid()  # before it can be gone: it may be as soon as the command runs
    control = os.dup(0)  # the command can't inherit this one
    wakeup = _take_signals()
    owns = _prctl(_SET_CHILD_SUBREAPER, 1)
    _prctl(_SET_PDEATHSIG, signal.SIGUSR1)
    directory = int(sys.argv[2])
    os.set_inheritable(directory, False)
    stdin = int(sys.argv[3]) if sys.argv[3] else os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(stdin, False)
    grace, marker, count, *rest = _receive(control).split(b"\0")
    words, pairs = rest[: int(count)], rest[int(count) :]
    environment = dict(pair.split(b"=", 1) for pair in pairs)
    shell = _start(control, directory, stdin, words, environment)
    keeper = Keeper(control, parent, shell, float(grace), marker, owns)
    keeper.run(wakeup)
    _send_line(control, keeper.report())
    os._exit(0)  # there is nothing to clean up, and we are waited for


def _take_signals() -> int:
    """Wake up by signals, and end by none that can be caught. Return the descriptor that is readable then."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for name_ in ("CHLD", "TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ALRM", "TSTP"):
        signal.signal(getattr(signal, "SIG" + name_), _note)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return read


def _note(number: int, frame: object) -> None:
    """Do nothing: a signal only wakes the loop."""


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
            os._exit(0)  # the parent has gone: nothing is left to run the command for
        data += more
    return data


def _start(
    control: int, directory: int, stdin: int, words: list[bytes], environment: dict[bytes, bytes]
) -> int:
    """Start the command, or report why not and end.

    The pipe is closed by a successful exec, so reading nothing from it means that the command runs. After
    that, the keeper closes its own copies of the pipes, or the other end would never see that they end.
    """
    read, write = os.pipe()
    try:
        shell = os.fork()
    except OSError as exc:  # too many processes
        _send_line(control, b"failed %d %s\n" % (exc.errno or 0, PROGRAM))
        os._exit(0)
    if not shell:
        _become(write, directory, stdin, words, environment)
    for fd in (write, directory, stdin):
        os.close(fd)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    why = os.read(read, 64)
    os.close(read)
    if why:
        _send_line(control, b"failed " + why + b"\n")
        os._exit(0)
    _send_line(control, b"started %d\n" % shell)
    return shell


def _become(
    report: int, directory: int, stdin: int, words: list[bytes], environment: dict[bytes, bytes]
) -> None:
    """Become the command, in a session of its own, with default signals.

    PDEATHSIG is set here as well: if the keeper is killed, its direct child dies with it, and `end_tree`
    finds the rest by the marker.
    """
    where = DIRECTORY
    try:
        os.setsid()
        _prctl(_SET_PDEATHSIG, signal.SIGKILL)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.fchdir(directory)
        where = PROGRAM
        os.execvpe(words[0], words, environment)
    except OSError as exc:
        os.write(report, b"%d %s" % (exc.errno or 0, where))
    finally:
        os._exit(127)


def _send_line(control: int, line: bytes) -> None:
    with NoOSError():  # the reader has gone
        os.write(control, line)
