"""Keeps what `callsheet call` does in the history. Nothing that is wrong with that one stops a call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from callsheet.runtime.sinks import Sink
from callsheet.runtime.timing import new_call_id

if TYPE_CHECKING:
    from callsheet.history import History

PATIENCE = 2.0
"""Seconds that the history gets at most when the call is over."""


def check_flag(flag: str | None) -> None:
    """Refuse a URL that was typed and names no store."""
    if flag is None or _is_off(flag):
        return
    from callsheet.history.errors import BadUrl
    from callsheet.history.url import chosen_url

    try:
        chosen_url(flag)
    except BadUrl as exc:
        raise click.BadParameter(str(exc), param_hint="'--history'") from None


class Keeping:
    """The history of one call, or none. `sinks` are what the session is given for it."""

    def __init__(self, flag: str | None, cwd: str, tool: str, locale: str | None) -> None:
        self.session_id: str = "sess_" + new_call_id().removeprefix("call_")
        self.sinks: list[Sink] = []
        self._history: History | None = None
        if not _is_off(flag):
            self._open(flag, cwd, tool, locale)

    def _open(self, flag: str | None, cwd: str, tool: str, locale: str | None) -> None:
        # These take a while to import, and who keeps no history does not need them.
        from callsheet.cli.settings import history_settings
        from callsheet.history import History
        from callsheet.history.errors import sentence
        from callsheet.report.errors import CallsheetError
        from callsheet.runtime.spill_store import SpillStore, default_directory

        try:
            url, keep = history_settings(flag, cwd=cwd)
            if url is None:
                return
            spills = SpillStore(default_directory())
            self._history = History(url, keep=keep, tell=self._tell, forget_spills=spills.forget)
        except CallsheetError as exc:
            self._tell(f"{sentence(exc)} Nothing is kept.")
        except ImportError as exc:
            self._tell(f"it needs {exc.name or exc}, which is not installed. Nothing is kept.")
        else:
            info = {"source": "call", **({"locale": locale} if locale else {})}
            title = f"callsheet call {tool}"
            self.sinks.append(
                self._history.session(self.session_id, cwd=cwd, title=title, info=info)
            )

    async def close(self) -> None:
        """See to it that the call is kept, if that is possible soon."""
        history, self._history = self._history, None
        if history is None:
            return
        await history.flush(PATIENCE / 2)
        await history.close(PATIENCE / 4)

    def _tell(self, text: str) -> None:
        """Say what is wrong, and what becomes of it."""
        click.echo(f"callsheet: history: {' '.join(text.split())}", err=True)


def _is_off(flag: str | None) -> bool:
    said = flag if flag is not None else os.environ.get("CALLSHEET_HISTORY")
    return said is not None and said.strip().lower() == "off"
