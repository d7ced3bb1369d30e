"""The command line as people start it: as a process, on a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from codecs import getincrementaldecoder
from pathlib import Path

CALLSHEET = [sys.executable, "-m", "callsheet"]


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, args: list[str], cwd: Path, *, columns: int = 80, **env: str) -> None:
        self.controller, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        known = {
            key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")
        }
        self.process = subprocess.Popen(
            [*CALLSHEET, *args],
            stdin=end,
            stdout=end,
            stderr=end,
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - for Ctrl-C
            env={**known, "TERM": "xterm-256color", **env},
        )
        os.close(end)
        self.text = ""
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def until(self, expected: str | re.Pattern[str], seconds: float = 20) -> None:
        """Read until something is shown."""
        stop = time.monotonic() + seconds
        pattern = re.compile(re.escape(expected)) if isinstance(expected, str) else expected
        while not pattern.search(self.text):
            assert time.monotonic() < stop, self.text
            if not self._read():
                raise AssertionError(f"ended without {expected!r}: {self.text}")

    def type(self, text: str) -> None:
        os.write(self.controller, text.encode())

    def wait_for_sleep(self) -> None:
        """Wait until it waits for us. What it is sent before that, Python notices with the next key only."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        while stat.exists() and ") S " not in stat.read_text():
            time.sleep(0.01)

    def end(self) -> int:
        """Read the rest, and give the exit code."""
        while self._read():
            pass
        os.close(self.controller)
        return self.process.wait(timeout=20)

    def _read(self) -> bool:
        if not select.select([self.controller], [], [], 20)[0]:
            self.process.kill()
            raise AssertionError(f"it neither says anything nor ends: {self.text}")
        try:
            data = os.read(self.controller, 65536)
        except OSError:  # Linux says so when the other end is closed
            return False
        self.text += self._decoder.decode(data).replace("\r\n", "\n")
        return bool(data)


def without_escapes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\|\r", "", text)
