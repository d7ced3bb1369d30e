"""What is to be told of a session's calls: all that is known of one, put right."""

from __future__ import annotations

from callsheet.describe import Describer
from callsheet.observe.model import ObservedConnection, ObservedSession, text
from callsheet.runtime.sanitizer import Sanitizer

from .calls import Tapped, in_own_terminals
from .context import Context, absolute
from .profiles import profile_of
from .repair import Draft, Known, as_told, repaired


class Drafts:
    """Makes drafts of the calls of one session."""

    def __init__(
        self,
        session: ObservedSession,
        connection: ObservedConnection,
        tap: Context,
        guard: Sanitizer,
    ) -> None:
        self._session: ObservedSession = session
        self._connection: ObservedConnection = connection
        self._tap: Context = tap
        self._guard: Sanitizer = guard
        self._cwd: str | None = None
        self.describer: Describer = tap.describer(None, guard.command)

    def of(self, mine: Tapped, now: float, status: str | None = None) -> Draft:
        """Put a call right, as if its status were `status`, where one is given."""
        if self._session.cwd != self._cwd:
            self._cwd = self._session.cwd
            self.describer = self._tap.describer(self._cwd, self._guard.command)
        known = Known(
            call=mine.call,
            connection=self._connection,
            profile=profile_of(self._connection.agent),
            describer=self.describer,
            asked=mine.asked,
            newer=mine.newer,
            title=text(mine.given.get("title")) or "",
            has_own_title=mine.has_own_title,
            earlier=mine.input,
            status=status or ("pending" if mine.is_open_again else None),
            diffs=mine.diffs,
            cwd=absolute(self._cwd) or "",
            now=now,
            announced=mine.report is not None,
        )
        if self._tap.settings.repair:
            try:
                return in_own_terminals(repaired(known), mine)
            except Exception as exc:  # noqa: BLE001 - what was told can be told on, and the call ends
                self._tap.failed(exc)
        return as_told(known)
