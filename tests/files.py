"""What the tests of tools for files share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


def shown(output: str) -> list[str]:
    """Give the lines of an output without their numbers, and without what is said at the end."""
    return [line.partition("→")[2] for line in output.split("\n")[:-1]]


@contextmanager
def without_rights() -> Iterator[Path]:
    """Give a directory to somebody who may not do everything, and be that one meanwhile."""
    directory = Path(tempfile.mkdtemp()).resolve()
    is_root = os.geteuid() == 0
    if is_root:
        directory.chmod(0o755)
        os.chown(directory, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield directory
    finally:
        if is_root:
            os.seteuid(0)
        for path in (directory, *directory.rglob("*")):
            if path.is_dir():
                path.chmod(0o700)
        shutil.rmtree(directory)
