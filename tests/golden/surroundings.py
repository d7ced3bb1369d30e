"""A place and an environment that are the same on every machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from unittest.mock import patch

LENGTH = 160
"""Characters in the path of the place. A path takes room in a report, so its length must not vary."""

PLACE = "/golden"
"""What stands for the place in the data."""


@contextmanager
def surroundings() -> Iterator[Path]:
    """Work in an empty place, with settings, language and user that are always the same."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        outer = Path(made).resolve()
        place = outer / "x".ljust(LENGTH - len(str(outer)) - 1, "x")
        place.mkdir()
        # Settings of a project are looked for upwards, and found here.
        (place / "pyproject.toml").write_text("[tool.callsheet]\n")
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": "/home/golden",
            "XDG_CACHE_HOME": f"{place}/cache",
            "XDG_CONFIG_HOME": f"{place}/config",
            "XDG_DATA_HOME": f"{place}/data",
            "CALLSHEET_HISTORY": "off",
            "LANG": "C.UTF-8",
            "TERM": "xterm",
            "TZ": "UTC",
        }
        with patch.dict(os.environ, environment, clear=True), chdir(place):
            yield place


def without_place(text: str, place: Path) -> str:
    """Return a text with the name `PLACE` instead of the path of the place."""
    return text.replace(str(place), PLACE)
