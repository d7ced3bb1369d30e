"""Says what the figures were measured with. No names of hosts, no paths."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import callsheet

_PEERS = (
    "msgspec", "agent-client-protocol", "pydantic", "google-re2", "detect-secrets",
    "ripgrep",
)  # fmt: skip


def facts() -> dict[str, str | int | None]:
    """Return the date, the machine, and the versions of the peers."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "callsheet": callsheet.__version__,
        **{name: found for name in _PEERS if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
