"""The tables of describe: TOML files beside the code that reads them. Here, because six modules have one."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def read_table(name: str) -> dict[str, Any]:
    """Return the contents of a table, by its file's name below `describe`."""
    return tomllib.loads(files("callsheet.describe").joinpath(name).read_text(encoding="utf-8"))
