"""Child processes that search: no stdin, a group of their own, and gone when nobody waits for them."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import BinaryIO, NamedTuple

from callsheet.processes.starting import started

_MOST_COMPLAINTS = 1 << 20
_UNUSABLE = (errno.ENOENT, errno.EACCES, errno.ENOEXEC)


class CannotStart(Exception):
    """A program is missing, or not one for this machine."""


class Done(NamedTuple):
    """A child that has ended: its exit code, what it wrote, and what it complained of."""

    code: int
    output: BinaryIO
    complaints: str


@asynccontextmanager
async def run(
    command: Sequence[str], cwd: str, given: bytes = b"", opened: Sequence[int] = ()
) -> AsyncGenerator[Done, None]:
    """Run a child to its end. It can read what is `given`, if anything, and the files that are `opened`.

    It writes to a file: with a pipe, whoever reads it takes turns with the search, line by line.
    """
    with (
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as complaints,
        _filled(given) as asked,
    ):
        try:
            starting = asyncio.create_subprocess_exec(
                *command,
                stdin=asked or subprocess.DEVNULL,
                stdout=output,
                stderr=complaints,
                cwd=cwd,
                pass_fds=opened,
                start_new_session=True,
            )
            process = await started(starting, _end)
        except OSError as exc:
            if exc.errno in _UNUSABLE and exc.filename != cwd:
                raise CannotStart(str(exc)) from exc
            raise
        try:
            code = await process.wait()
        finally:
            if process.returncode is None:
                await _end(process)
        output.seek(0)
        complaints.seek(0)
        said = complaints.read(_MOST_COMPLAINTS).decode(errors="replace")
        yield Done(code, output, said)


def _filled(given: bytes) -> AbstractContextManager[BinaryIO | None]:
    if not given:
        return nullcontext()
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(given)
    file.seek(0)
    return file


async def _end(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
