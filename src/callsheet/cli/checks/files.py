"""The baseline's file: read before, and written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from callsheet.check.baseline import BadBaseline, Baseline
from callsheet.check.runner import why


def read_baseline(path: str, *, may_be_new: bool) -> Baseline:
    """Read a baseline. One that is to be written may not be there yet."""
    try:
        return Baseline.read(Path(path).read_bytes())
    except FileNotFoundError:
        if may_be_new:
            return Baseline()
        raise click.UsageError(f"there is no baseline {path}; --update-baseline makes it") from None
    except (OSError, BadBaseline) as exc:
        raise click.UsageError(f"{path}: {why(exc)}") from None


def write_baseline(path: str, data: bytes) -> None:
    """Write a baseline: a new file beside the old one, which then takes its place."""
    target = Path(os.path.realpath(path))
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
            Path(name).chmod(mode)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as exc:
        raise click.UsageError(f"{path}: {why(exc)}") from None


def _umask() -> int:
    old = os.umask(0)
    os.umask(old)
    return old
