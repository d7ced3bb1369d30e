"""The command line. stdout carries only the result; messages go to stderr.

Exit codes: 0 success, 1 the command failed or found something, 2 bad usage, 130 interrupted. This module only
starts a command and ends the process cleanly; each command has its own module, which is imported when the
command is run.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line, and exit with its code."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.exit("callsheet: stdout is closed, so there is nowhere to answer")
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 1
    except OSError as exc:
        where = f"{exc.filename}: " if exc.filename else ""
        print(f"callsheet: {where}{exc.strerror}", file=sys.stderr)  # noqa: T201
        code = 1
    _drop_unwritten()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Run a command. What an editor waits for is started before click is imported."""
    started = None
    try:
        if arguments[:1] in (["agent"], ["record"], ["tap"]):
            gc.disable()  # until they serve: what is imported stays, and looking for garbage takes long
            from callsheet.cli import start

            code, started = start.early(arguments)
            if code is not None:
                return code
        from callsheet.cli.app import run

        return run(started)
    finally:
        gc.enable()
        if started is not None:
            started.discard()


def _drop_unwritten() -> None:
    """Send what can't be written any more to /dev/null; Python would complain about it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
