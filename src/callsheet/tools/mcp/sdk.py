"""The MCP SDK, imported when it is first needed, and in a thread: it takes most of a second."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from .faults import StartFailed

INSTALL = "pip install 'callsheet[mcp]'"


async def prepare() -> None:
    """Import what needs the SDK, so that importing it again takes no time.

    Raises `StartFailed` if the SDK can't be had.
    """
    await asyncio.to_thread(_import)


def _import() -> None:
    try:
        import_module(".client", __package__)
    except ImportError as exc:
        try:
            found = version("mcp")
        except PackageNotFoundError:
            raise StartFailed(f"needs the package mcp, which is not installed: {INSTALL}") from None
        raise StartFailed(
            f"needs the package mcp from version 2 on; {found} is installed and can't be used ({exc}): "
            f"{INSTALL}"
        ) from None
