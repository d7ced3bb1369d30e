"""Asking the person at the terminal whether a call may go outside its directory."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TypeAlias

from callsheet.cli.cards.words import visible
from callsheet.runtime.permission import Question

Hidden: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Makes room on the terminal."""


class Asking:
    """Asks on stderr, and reads the answer from the terminal. Only a clear yes is a yes."""

    def __init__(self, stdin: int, cwd: str, hidden: Hidden) -> None:
        self._stdin: int = stdin
        self._stderr: int = os.dup(2)  # the terminal itself, whoever takes stderr later
        self._cwd: str = cwd
        self._hidden: Hidden = hidden

    @staticmethod
    def is_possible(stdin: int) -> bool:
        """Whether there is somebody to ask."""
        return os.isatty(stdin) and os.isatty(2)

    async def __call__(self, question: Question) -> str | bool:
        """Return the id of the option that was chosen, or False."""
        with self._hidden():
            _forget_what_was_typed(self._stdin)
            text = question_text(question, self._cwd)
            os.write(self._stderr, text.encode(sys.stderr.encoding, errors="replace"))
            answer = await self._line()
        if answer.strip().lower() not in ("y", "yes"):
            return False
        return next(o.option_id for o in question.options if o.kind == "allow_once")

    async def _line(self) -> str:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_reader(self._stdin, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
            return os.read(self._stdin, 4096).decode(errors="replace")
        except OSError:  # the terminal is gone
            return ""
        finally:
            loop.remove_reader(self._stdin)


def question_text(question: Question, cwd: str) -> str:
    """Return the question, with the whole input."""
    report = question.report
    given = json.dumps(report.raw_input, indent=2, ensure_ascii=False)
    lines = [f"  {visible(line)}" for line in given.split("\n")]
    return "\n".join(
        [
            visible(report.title or report.name),
            *lines,
            f"This goes outside of {visible(cwd)}.",
            "Allow it once? [y/N] ",
        ]
    )


def _forget_what_was_typed(stdin: int) -> None:
    """An answer that was typed before the question was read is none."""
    with suppress(ImportError, OSError):
        import termios

        with suppress(termios.error):
            termios.tcflush(stdin, termios.TCIFLUSH)
