"""The built-in tools, one file each. Each is imported when it is asked for."""

from __future__ import annotations

BUILTIN: dict[str, str] = {
    "read": "read:read",
    "write": "write:write",
    "edit": "edit:edit",
    "list": "list_files:list_files",
    "glob": "glob:glob",
    "grep": "grep:grep",
    "bash": "bash:bash",
    "move": "move:move",
    "delete": "delete:delete",
    "fetch": "fetch:fetch",
    "think": "think:think",
}
"""Where each tool is: a module of this package, and what it is called there."""
