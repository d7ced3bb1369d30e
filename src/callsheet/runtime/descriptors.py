"""Writing to somebody's file descriptor without ever blocking, and without changing it for others."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import sys
from time import monotonic


class NonBlocking:
    """A descriptor of our own for an open file: a pipe, a socket, a terminal, a file."""

    def __init__(self, fd: int) -> None:
        self._socket: socket.socket | None = None
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            self._socket = socket.socket(fileno=os.dup(fd))
            self.fd: int = self._socket.fileno()
        else:
            self.fd = _opened_anew(fd)

    def write(self, data: memoryview) -> int:
        """Write as much as there is room for, and say how much that was."""
        try:
            if self._socket is None:
                return os.write(self.fd, data)
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def wait(self, until: float) -> bool:
        """Wait for room until a monotonic time. Gives whether there is some."""
        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        return bool(poll.poll(max(0.0, until - monotonic()) * 1000))

    def close(self) -> None:
        """Close it. The one that was given stays open."""
        fd, self.fd = self.fd, -1
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.close()
            elif fd >= 0:
                os.close(fd)


def _opened_anew(fd: int) -> int:
    """Return a descriptor of our own for the same file.

    Not blocking is a property of an open file, shared by all who have it open: a terminal's shell
    would be surprised. So pipes and terminals are opened anew where the system can do that.
    """
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        return os.dup(fd)
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    path = f"/proc/self/fd/{fd}" if stat.S_ISFIFO(found.st_mode) else _terminal(fd)
    if path is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):
            own = os.open(path, flags)
            now = os.fstat(own)
            if (now.st_dev, now.st_ino) == (found.st_dev, found.st_ino):
                return own
            os.close(own)
    own = os.dup(fd)
    os.set_blocking(own, False)
    return own


def _terminal(fd: int) -> str | None:
    """Return the path of a terminal. Opening a pseudo-terminal's master would make another one."""
    with contextlib.suppress(OSError):
        name = os.ttyname(fd)
        return None if name.endswith("/ptmx") else name
    return None
