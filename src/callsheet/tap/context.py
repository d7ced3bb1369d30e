"""What a tap is set to do, and what its sessions share."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct, field

from callsheet.describe import Describer, pick_locale
from callsheet.describe.titles import Redact
from callsheet.limits.limits import SAFE
from callsheet.observe.model import SeenIds
from callsheet.report.errors import InvalidLocation
from callsheet.report.json import check_path
from callsheet.report.terminal import CallRecord
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import GuardSettings, LocalPhrases, Sanitizer
from callsheet.runtime.spill_store import SpillStore
from callsheet.runtime.timing import to_rfc3339
from callsheet.tap.calls import Ids
from callsheet.tap.stats import Account


class TapSettings(Struct, frozen=True, kw_only=True):
    """What a tap is to do, besides passing everything on.

    - `repair`: make reports of calls complete and true, and send them as the smallest updates.
    - `redact`: take secrets out of what the client is shown, and of what is kept.
    - `bound`: keep messages about calls within limits; what is cut is kept in files.
    - `locale`: the language of titles and texts of ours; else that of the environment.
    """

    repair: bool = True
    redact: bool = True
    bound: bool = True
    locale: str | None = None


_MOST = 4096

Keep = Callable[[str, str, CallRecord], None]
"""Stores a call, by its session's id and directory."""


def _raise(exc: Exception) -> None:
    raise exc


class Context(Struct, eq=False):
    """What all sessions of a tap work with. `send` gets lines for the client, `failed` what went wrong here;
    who reads them sets both.

    `epoch` is the time of day, in seconds, at time 0; None if nobody knows it, as in a recording.
    """

    settings: TapSettings
    account: Account
    send: Callable[[bytes], object] = bytes
    failed: Callable[[Exception], None] = _raise
    keep: Keep | None = None
    epoch: float | None = None
    spill: SpillStore | bool = True
    used: SeenIds = field(default_factory=SeenIds)
    """The ids of calls that the client knows, of all sessions."""
    histories: dict[str, int] = field(default_factory=dict[str, int])
    """How often sessions were replayed, of those that were. Their ids are those of before."""

    def told_anew(self, session: str) -> None:
        """Note that the client forgets what it knows of a session: it will be replayed."""
        self.histories[session] = self.histories.pop(session, 0) + 1
        if len(self.histories) > _MOST:
            del self.histories[next(iter(self.histories))]

    def ids(self, session: str) -> Ids:
        """Return the ids of a session's calls."""
        return Ids(f"{session}\0{self.histories.get(session, 0)}", self.used)

    def sanitizer(self, words: LocalPhrases, faults: Faults) -> Sanitizer:
        """Return what makes values safe."""
        chosen = GuardSettings(
            redact=self.settings.redact,
            limits=SAFE if self.settings.bound else None,
            spill=self.spill if self.settings.bound else False,
        )
        return Sanitizer(chosen, words, faults)

    def describer(self, cwd: str | None, clean: Redact | None = None) -> Describer:
        """Return what describes calls of a session in a directory.

        `clean` takes secrets out of a text that is about to be cut: nobody would know half of one.
        """
        return Describer(
            absolute(cwd) or "/",
            redact=clean,
            locale=pick_locale(self.settings.locale, os.environ),
            home=os.path.expanduser("~") if self.epoch is not None else None,  # noqa: PTH111
        )

    def time(self, now: float) -> str | None:
        """Return a time of day, if it is known."""
        return None if self.epoch is None else to_rfc3339(int((self.epoch + now) * 1e9))


def absolute(cwd: str | None) -> str | None:
    """Return a session's directory, if it is one that can be relied on."""
    try:
        return None if cwd is None else check_path(cwd)
    except InvalidLocation:
        return None
