"""The command line. stdout carries only the answer; messages go to stderr.

Exit codes: 0 ok, 1 the command says no, 2 bad usage, 130 interrupted. This file only starts things
and ends them decently; the commands are in files of their own, imported when they are called.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.exit("callsheet: stdout is closed, so there is nowhere to answer")
    try:
        code = _quick()
        if code is None:
            from callsheet.cli.app import run

            code = run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except RuntimeError as exc:
        # Python 3.11 makes this of one that comes while a class is made.
        if not isinstance(exc.__cause__, KeyboardInterrupt):
            raise
        code = 130
    except BrokenPipeError:
        code = 1
    except OSError as exc:
        print(f"callsheet: {exc.strerror}", file=sys.stderr)  # noqa: T201
        code = 1
    _drop_unwritten()
    sys.exit(code)


def _quick() -> int | None:
    """Run what an editor waits for without more than it needs; nothing if that is not asked for."""
    if sys.argv[1:2] not in (["agent"], ["record"], ["tap"]):
        return None
    from callsheet.cli import quick

    run = {"agent": quick.agent, "record": quick.record, "tap": quick.tap}[sys.argv[1]]
    return run(sys.argv[1:])


def _drop_unwritten() -> None:
    """Send what can't be written any more to nowhere; Python would complain about it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
