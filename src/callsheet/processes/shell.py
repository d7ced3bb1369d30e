"""The shell that commands run in, and what is in their environment."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping

QUIET: Mapping[str, str] = {
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "GH_PAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "AWS_PAGER": "",
    "TERM": "dumb",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "DEBIAN_FRONTEND": "noninteractive",
    "PIP_NO_INPUT": "1",
    "PYTHONUNBUFFERED": "1",
}
"""What is set in every command's environment, so that nothing waits for a person, and output comes live."""


def shell() -> str:
    """Return the path of bash, or of sh where there is none. Raises FileNotFoundError without either."""
    found = shutil.which("bash") or shutil.which("sh") or shutil.which("sh", path=os.defpath)
    if found is None:
        why = "There is neither bash nor sh on this machine's PATH"
        raise FileNotFoundError(errno.ENOENT, why)
    return found


def environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return this process's environment with changes; None takes a variable out."""
    merged = {**os.environ, **QUIET, **changes}
    return {name: value for name, value in merged.items() if value is not None}
