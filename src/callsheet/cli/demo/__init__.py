"""`callsheet demo`: what the tap makes of a poor agent; `callsheet demo agent`: the agent and its tools."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import click

from callsheet.cli.app import LazyGroup
from callsheet.cli.signals import StopSignals
from callsheet.testing import AgentError, AgentGone

COMMANDS = {
    "agent": (
        "demo.scenes:command",
        "Watch our agent and its tools at work: a client and an agent over stdio, as cards.",
    )
}


@click.group("demo", cls=LazyGroup, lazy=COMMANDS, invoke_without_command=True)
@click.option(
    "--keep",
    metavar="DIR",
    type=click.Path(),
    help="Save both recordings there: bare.jsonl and tapped.jsonl.",
)
@click.pass_context
def command(ctx: click.Context, keep: str | None) -> int:
    """Watch a poor agent become a good one: the same agent twice, bare and behind the tap.

    Both runs are real, side by side on a wide terminal. It takes less than ten seconds. No model and no
    network are needed, and nothing is stored without --keep.

    \b
    Exit codes: 0 ok, 1 something went wrong, 2 bad usage, 130 interrupted.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from callsheet.cli.demo.before_after import BeforeAfter  # rich takes a while to import

    if keep is not None:
        Path(keep).mkdir(parents=True, exist_ok=True)  # if it can't be, it is said at once

    async def play(directory: Path, _: StopSignals) -> int:
        demo = BeforeAfter(directory)
        findings = await demo.show()
        if keep is not None:
            for name, run in zip(("bare", "tapped"), demo.runs, strict=True):
                run.client.recording.save(Path(keep) / f"{name}.jsonl")
            click.echo(
                f"Saved. Next: callsheet view {Path(keep) / 'bare.jsonl'} --before", err=True
            )
        return 1 if findings else 0

    return staged(play)


def staged(play: Callable[[Path, StopSignals], Coroutine[Any, Any, int]]) -> int:
    """Play a part of the demo in a directory of its own, and return the exit code. A signal ends it."""
    # It is removed by its name, which is known before it is made: a signal may come in between.
    directory = Path(tempfile.gettempdir()).resolve() / f"callsheet-demo-{token_hex(8)}"
    remove = partial(shutil.rmtree, directory, ignore_errors=True)
    with StopSignals() as signals:
        signals.before_exit = remove
        try:
            directory.mkdir(mode=0o700)
            return asyncio.run(_played(play(directory, signals), signals))
        except (AgentGone, AgentError, TimeoutError) as exc:
            click.echo(f"callsheet: {exc}", err=True)
            return 1
        finally:
            remove()


async def _played(playing: Coroutine[Any, Any, int], signals: StopSignals) -> int:
    task = asyncio.current_task()
    assert task is not None
    signals.on_first(task.cancel)
    try:
        return await playing
    except (asyncio.CancelledError, AgentGone, AgentError):  # a Ctrl-C ends the agents as well
        if signals.number is None:
            raise
        return signals.exit_code


def own_environment(directory: Path) -> dict[str, str]:
    """Return an environment for our agents without the user's settings, history and telemetry."""
    settings = directory / ".callsheet.toml"
    settings.touch()
    env = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**env, "CALLSHEET_CONFIG": str(settings), "CALLSHEET_HISTORY": "off"}
