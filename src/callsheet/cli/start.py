"""A fast start for what an editor waits for: `agent`, and the agents behind `tap` and `record`.

Importing click takes longer than everything else that `tap` does before it is ready. So the arguments are
split at `--`, the agent that follows it is started, and click reads our own options while the agent starts
up. If click then refuses an option, the agent is ended. `callsheet agent` without options needs no click at
all. Nothing here may import click, or anything else that is slow.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from itertools import pairwise

TYPE_CHECKING = False  # importing it would take longer than the rest
if TYPE_CHECKING:
    from typing import Literal

    from callsheet.history.history import History
    from callsheet.history.rows import Retention
    from callsheet.tap.stdio import Between

HOW = {
    "tap": "callsheet setup zed --tap AGENT prints the settings",
    "record": "in its settings, put callsheet record -o DIRECTORY -- before the agent's command",
}
"""How an editor is made to start `tap` or `record`."""

_HINT = """\
callsheet {} runs between an editor and an agent, which speak ACP (JSON) on stdin and stdout.
Let your editor start it: {}. To quit: Ctrl-D.
"""


LISTED = 1.0
"""Seconds after its start at which an agent or a tap is listed as running."""


class StartedAgent:
    """An agent that was started before its options were read."""

    def __init__(self, command: list[str], between: Between) -> None:
        self._command: list[str] = command
        self._between: Between | None = between

    def claim(self, command: Sequence[str]) -> Between | None:
        """Hand the agent over to whoever serves it; None if another command was meant after all."""
        if list(command) != self._command:
            self.discard()
        between, self._between = self._between, None
        return between

    def discard(self) -> None:
        """End an agent that nobody has claimed."""
        between, self._between = self._between, None
        if between is not None:
            between.child.end()
            between.child.wait()


def early(arguments: Sequence[str]) -> tuple[int | None, StartedAgent | None]:
    """Start what can be started before click is imported.

    Returns:
        An exit code if the command is over, and the agent that was started for it, if one was.
    """
    if arguments[0] == "agent":
        return (serve() if len(arguments) == 1 else None), None
    command = _agent_command(arguments[1:])
    if not command:
        return None, None
    from callsheet.processes.child import CannotStart
    from callsheet.tap.stdio import Between

    explain(arguments[0])
    try:
        return None, StartedAgent(command, Between(command))
    except CannotStart as exc:
        os.write(2, f"callsheet {arguments[0]}: {exc}\n".encode(errors="replace"))
        return exc.exit_code, None


def explain(name: str) -> None:
    """Say what `tap` or `record` waits for, to somebody who has started it on a terminal."""
    if os.isatty(0):
        os.write(2, _HINT.format(name, HOW[name]).encode())


def _agent_command(arguments: Sequence[str]) -> list[str]:
    """Return what follows `--`; nothing if it may not be our own `--`, or if only help is wanted.

    In `tap npx -- agent`, the `--` belongs to npx. Before our own, a word without dashes can only be
    the value of an option; flags, which take none, all begin with `--no`.
    """
    options = list(arguments[: arguments.index("--")]) if "--" in arguments else [""]
    for before, word in pairwise(["", *options]):
        takes_value = before.startswith("-") and "=" not in before and not before.startswith("--no")
        if word in ("-h", "--help") or not (word.startswith("-") or takes_value):
            return []
    return list(arguments[len(options) + 1 :])


def serve() -> int | None:
    """Run `callsheet agent` as it is without options; None if the settings are wrong, which click reports."""
    from callsheet.agent.handshake import Handshake, answer_early

    has_history = _has_history()
    handshake = Handshake() if has_history is None else answer_early(has_history)
    from callsheet.agent.startup import start

    if has_history is not None:  # there are no settings to read
        usual = HistoryFactory() if has_history else None
        list_as_running("agent", ("callsheet", "agent"), usual)
        return start(history=usual, handshake=handshake)
    from callsheet.cli.settings import use_rules
    from callsheet.report.errors import CallsheetError

    try:
        use_rules()
        history = history_factory()
    except CallsheetError:
        return None
    list_as_running("agent", ("callsheet", "agent"), history)
    return start(history=history, handshake=handshake)


def _has_history() -> bool | None:
    """Return whether a history is written; None if settings have to be read to know, which may be wrong.

    Where `settings` would find a file, this does not look into it, but for the word that it had to have.
    """
    chosen = os.environ.get("CALLSHEET_HISTORY") or None
    mac = os.path.expanduser("~/Library/Application Support")  # noqa: PTH111 - pathlib takes long
    own = os.environ.get("XDG_CONFIG_HOME", "").strip() or os.path.expanduser("~/.config")  # noqa: PTH111
    is_usual = os.name == "posix" and os.path.isabs(mac) and "ANDROID_DATA" not in os.environ  # noqa: PTH117
    if not is_usual or chosen not in (None, "off") or os.environ.get("CALLSHEET_CONFIG"):
        return None
    if any(os.path.lexists(f"{place}/callsheet/callsheet.toml") for place in (own, mac)):
        return None
    try:
        directory: str = os.getcwd()  # noqa: PTH109
        while True:
            project = f"{directory}/pyproject.toml"
            if os.path.lexists(project):
                if not os.path.isfile(project):  # noqa: PTH113 - reading a pipe could take for ever
                    return None
                with open(project, "rb") as file:  # noqa: PTH123
                    if b"callsheet" in file.read():
                        return None
            if os.path.lexists(f"{directory}/.git") or directory == "/":
                return chosen is None
            directory = os.path.dirname(directory)  # noqa: PTH120
    except OSError:
        return None


class HistoryFactory:
    """Makes the history when it is first needed.

    Args:
        url: Where it is. Default: this user's.
        keep: The limits of what is stored.
    """

    def __init__(self, url: str | None = None, keep: Retention | None = None) -> None:
        self._url: str | None = url
        self._keep: Retention | None = keep

    def __call__(self) -> History:
        """Return a new history."""
        from callsheet.history.history import History
        from callsheet.history.rows import KEEP
        from callsheet.history.url import default_url
        from callsheet.runtime.spill_store import SpillStore, default_directory
        from callsheet.telemetry.prices import estimated

        return History(
            self._url or default_url(),
            keep=self._keep or KEEP,
            forget_spills=SpillStore(default_directory()).forget,
            price=estimated,
        )

    def place(self) -> str:
        """Return where the history is, without a password."""
        from callsheet.history.url import canonical_url, default_url

        return canonical_url(self._url or default_url())


def list_as_running(
    kind: Literal["agent", "tap"], command: Sequence[str], history: HistoryFactory | None
) -> None:
    """List this process among the agents and taps that run, `LISTED` seconds later, in another thread.

    By then, an editor has its first answers. Whatever goes wrong, it is served: it is just not listed.
    """
    import threading
    import time
    from contextlib import suppress

    since = time.time()

    def enter() -> None:
        with suppress(Exception):
            from callsheet.processes import registry

            name = os.path.basename(command[0])  # noqa: PTH119 - pathlib takes long to import
            place = "off" if history is None else history.place()
            registry.enter(kind, name, command, place, since)

    timer = threading.Timer(LISTED, enter)
    timer.daemon = True

    def stop() -> None:
        # The interpreter must not end while the thread is inside of RE2: that aborts the process.
        timer.cancel()
        timer.join(LISTED)

    with suppress(RuntimeError):  # no thread can be started
        timer.start()
        atexit.register(stop)


def history_factory(
    flag: str | None = None, *, cwd: str | os.PathLike[str] = "."
) -> HistoryFactory | None:
    """Return what makes the history, or None if none is to be written. It is made when first needed.

    Args:
        flag: The value of `--history`; else the environment and the settings files decide.
        cwd: The directory whose project may have a history of its own.

    Raises:
        BadUrl: The URL is wrong.
        BadSettings: A settings file is.
    """
    from callsheet.cli.settings import history_settings

    url, keep = history_settings(flag, cwd=cwd)
    if url is None:
        return None
    return HistoryFactory(url, keep)
