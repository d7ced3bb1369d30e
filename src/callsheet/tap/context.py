"""A tap's settings (`TapSettings`), and the state that its sessions share (`Context`)."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct, field

from callsheet.describe import Describer, pick_locale
from callsheet.describe.titles import Redact
from callsheet.limits.limits import SAFE
from callsheet.observe.model import Json, SeenIds
from callsheet.report.terminal import CallRecord
from callsheet.runtime.clock import to_rfc3339
from callsheet.runtime.health import Faults
from callsheet.runtime.sanitizer import GuardSettings, LocalPhrases, Sanitizer
from callsheet.runtime.spill_store import SpillStore
from callsheet.tap.calls import Ids
from callsheet.tap.repair.draft import valid_directory
from callsheet.tap.stats import Account


class TapSettings(Struct, frozen=True, kw_only=True):
    """Settings of a tap: what it does besides passing everything on.

    Attributes:
        repair: Make reports of calls complete and correct. If not, they are as the agent sent them, but
            still safe, within limits and in the smallest updates.
        redact: Remove secrets from what the client is shown and from what is stored.
        bound: Limit the size of messages about calls. What is cut is stored in files.
        locale: The language of the tap's own titles and texts. None means that of the environment.
    """

    repair: bool = True
    redact: bool = True
    bound: bool = True
    locale: str | None = None


_MOST = 4096

StoreCall = Callable[[str, str, CallRecord], None]
"""Stores a call, by its session's id and directory."""


def _raise(exc: Exception) -> None:
    raise exc


def _ignore(*_: object) -> None:
    """Stand in for what the pipeline sets."""


class Context(Struct, eq=False):
    """State and services that all sessions of a tap share.

    `send` receives lines for the client, `send_request` permission requests with the id of their session,
    `pass_on` lines of messages that the tap could not complete, and `failed` the exceptions of its own code.
    The pipeline sets them. `store` stores a call in the history. `epoch` is the time of day, in seconds, at
    time 0; it is None where that is unknown, as in a recording.
    """

    settings: TapSettings
    account: Account
    send: Callable[[bytes], object] = bytes
    send_request: Callable[[str, Json], None] = _ignore
    pass_on: Callable[[bytes, Json], None] = _ignore
    failed: Callable[[Exception], None] = _raise
    store: StoreCall | None = None
    epoch: float | None = None
    spill: SpillStore | bool = True
    used: SeenIds = field(default_factory=SeenIds)
    """The ids of calls that the client knows, of all sessions."""
    histories: dict[str, int] = field(default_factory=dict[str, int])
    """How often each session was replayed. A replay uses the same ids again, so each has its own ids."""

    def replayed(self, session: str) -> None:
        """Note that the client forgets what it knows of a session: it will be replayed."""
        self.histories[session] = self.histories.pop(session, 0) + 1
        if len(self.histories) > _MOST:
            del self.histories[next(iter(self.histories))]

    def ids(self, session: str) -> Ids:
        """Return the ids of a session's calls."""
        return Ids(f"{session}\0{self.histories.get(session, 0)}", self.used)

    def sanitizer(self, words: LocalPhrases, faults: Faults) -> Sanitizer:
        """Return a sanitizer that redacts and bounds values by the settings."""
        chosen = GuardSettings(
            redact=self.settings.redact,
            limits=SAFE if self.settings.bound else None,
            spill=self.spill if self.settings.bound else False,
        )
        return Sanitizer(chosen, words, faults)

    def describer(self, cwd: str | None, clean: Redact | None = None) -> Describer:
        """Return the describer for calls of a session in a directory.

        Args:
            cwd: The session's directory, if it is known.
            clean: Redacts a text before it is cut. Half a secret would not be recognised afterwards.
        """
        return Describer(
            valid_directory(cwd) or "/",
            redact=clean,
            locale=pick_locale(self.settings.locale, os.environ),
            home=os.path.expanduser("~") if self.epoch is not None else None,  # noqa: PTH111
        )

    def time(self, now: float) -> str | None:
        """Return a time of day, if it is known."""
        return None if self.epoch is None else to_rfc3339(int((self.epoch + now) * 1e9))
