"""The tables of describe: TOML files beside the code that reads them. Here, because six modules have one."""

from __future__ import annotations

import tomllib
from pkgutil import get_data
from typing import Any


def read_table(name: str) -> dict[str, Any]:
    """Return the contents of a table, by its file's name below `describe`."""
    # Not by importlib.resources, which takes long to import.
    return tomllib.loads((get_data("callsheet.describe", name) or b"").decode())
