"""What the tests of tools for files share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534


def shown(output: str) -> list[str]:
    """Return the lines of an output without their numbers, and without what is said at the end."""
    return [line.partition("→")[2] for line in output.split("\n")[:-1]]


@contextmanager
def without_rights() -> Iterator[Path]:
    """Return a directory to somebody who may not do everything, and be that one meanwhile.

    Whoever that is may not be able to reach the modules and programs that root has installed: a test
    has to have used before what it uses then (`reachable`, for programs).
    """
    is_root = os.geteuid() == 0
    directory = Path(tempfile.mkdtemp(dir=_public_place() if is_root else None)).resolve()
    before = tempfile.tempdir
    if is_root:
        tempfile.tempdir = "/tmp"  # where everybody may write
        directory.chmod(0o755)
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield directory
    finally:
        tempfile.tempdir = before
        if is_root:
            os.seteuid(0)
        for path in (directory, *directory.rglob("*")):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(directory)


@contextmanager
def reachable(program: str) -> Iterator[str]:
    """Return a copy of a program that everybody can run."""
    directory = Path(tempfile.mkdtemp(dir=_public_place()))
    try:
        directory.chmod(0o755)
        copy = directory / Path(program).name
        shutil.copyfile(program, copy)
        copy.chmod(0o755)
        yield str(copy)
    finally:
        shutil.rmtree(directory)


def _public_place() -> str:
    """Return a directory for temporary files that everybody can reach."""
    for place in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")):
        steps = (place.resolve(), *place.resolve().parents)
        if os.access(place, os.W_OK) and all(step.stat().st_mode & 1 for step in steps):
            return str(place)
    pytest.skip("there is no directory for temporary files that everybody can reach")
