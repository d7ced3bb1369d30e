"""A real `callsheet tap` process, with a test at both of its ends: as the client, and as the agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import BinaryIO

PATIENCE = 30.0
_AGENT = 'exec 3<&0; cat <&3 > "$1" & exec cat "$2"'


class TapProcess:
    """The process. What its client and its agent hear is read all the time."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.report: Path = folder / "report.txt"
        heard, says = folder / "heard", folder / "says"
        os.mkfifo(heard)
        os.mkfifo(says)
        agent = ["sh", "-c", _AGENT, "agent", str(heard), str(says)]
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "callsheet",
                "tap",
                "--report",
                str(self.report),
                *options,
                "--",
                *agent,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._says: BinaryIO = says.open("wb", buffering=0)
        self._hears: BinaryIO = heard.open("rb")
        self.at_client: Queue[bytes] = Queue()
        self.at_agent: Queue[bytes] = Queue()
        self._marks: int = 0
        assert self.process.stdout is not None
        self._readers: list[Thread] = []
        for source, queue in ((self.process.stdout, self.at_client), (self._hears, self.at_agent)):
            self._readers.append(Thread(target=_read, args=(source, queue), daemon=True))
            self._readers[-1].start()

    def agent_says(self, data: bytes) -> list[bytes]:
        """Let the agent say something. Gives all that the client has heard by then."""
        self._marks += 1
        mark = (
            json.dumps({"jsonrpc": "2.0", "method": "_mark", "params": self._marks}).encode()
            + b"\n"
        )
        _write(self._says, data + mark)
        heard: list[bytes] = []
        while (line := self.at_client.get(timeout=PATIENCE)) != mark:
            assert line, "the tap has ended"
            heard.append(line)
        return heard

    def client_says(self, line: bytes) -> bytes:
        """Let the client say a line. Gives what the agent has heard of it."""
        assert self.process.stdin is not None
        _write(self.process.stdin, line)
        return self.at_agent.get(timeout=PATIENCE)

    def end(self) -> tuple[int, list[bytes], str]:
        """Let the agent leave. Gives the exit code, what the client heard last, and what was said on stderr."""
        self._says.close()
        heard: list[bytes] = []
        while line := self.at_client.get(timeout=PATIENCE):
            heard.append(line)
        code = self.process.wait(PATIENCE)
        assert self.process.stderr is not None
        return code, heard, self.process.stderr.read().decode()

    def kill(self) -> None:
        """See to it that it is gone, and nothing of it is left open."""
        self._says.close()
        self.process.kill()
        self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        for file in (self._hears, self.process.stdin, self.process.stdout, self.process.stderr):
            if file is not None:
                file.close()


def _read(source: BinaryIO, queue: Queue[bytes]) -> None:
    for line in source:
        queue.put(line)
    queue.put(b"")


def _write(target: BinaryIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[target.write(rest) or 0 :]
