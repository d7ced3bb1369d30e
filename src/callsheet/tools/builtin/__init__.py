"""Own the built-in tools, one module each. Each is imported when it is first requested."""

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
"""The location of each tool, by name: a module of this package, and the attribute in it."""
