"""The history that the agent keeps, as flags, the environment and files say."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from callsheet.agent.startup import BadStart
from callsheet.report.errors import CallsheetError

if TYPE_CHECKING:
    from callsheet.history.history import History


def keeping(flag: str | None = None) -> Callable[[], History] | None:
    """Return what makes the history, if one is to be kept. It is made when it is first needed."""
    from .settings import history_settings

    try:
        url, keep = history_settings(flag)
    except CallsheetError as exc:
        raise BadStart("--history", str(exc)) from None
    if url is None:
        return None

    def make() -> History:
        from callsheet.history.history import History
        from callsheet.runtime.spill_store import SpillStore, default_directory

        return History(url, keep=keep, forget_spills=SpillStore(default_directory()).forget)

    return make
