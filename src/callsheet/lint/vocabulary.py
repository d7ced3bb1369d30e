"""The names of callsheet that tool code uses, and the fields of a result in their order."""

from __future__ import annotations

PACKAGE = "callsheet"
RESULT = "ToolResult"
TOOL = "tool"
CALL = "Call"

ERRORS = frozenset(
    {
        "ToolError",
        "InvalidArguments",
        "NotFound",
        "NotPermitted",
        "TimedOut",
        "Cancelled",
        "ExecutionFailed",
        "IOFailed",
    }
)
EXECUTORS = frozenset({TOOL, "Tool", "Session", "Executor"})
"""Who takes functions as tools: what is given to one of these is run, and measured, by an executor."""

NAMES = frozenset({RESULT, CALL}) | ERRORS | EXECUTORS
"""The names that are looked for behind the imports of a project's own modules."""

FIELDS = (
    "call_id",
    "tool_name",
    "success",
    "output",
    "error",
    "exit_code",
    "execution_time_ms",
    "metadata",
    "content",
)
"""The fields of a result, in the order in which they are given by position."""

HELPERS = {"success": "output", "error": "error"}
"""The helpers that make results, and the field that each takes last."""

UNKNOWN = "?"
"""Stands before a name that a file uses but nowhere binds: a snippet without its imports."""

WORTH_A_LOOK = (RESULT, PACKAGE, "call_id", "@tool")
"""Words of which a file has one, or no rule can be broken in it."""


def is_ours(dotted: str) -> bool:
    """Whether a dotted name begins with our package."""
    return dotted.partition(".")[0] == PACKAGE


def meaning(dotted: str | None) -> str | None:
    """Return which of our names a dotted name is; none if it's somebody else's."""
    if dotted is None:
        return None
    root, _, rest = dotted.partition(".")
    last = rest.rpartition(".")[2]
    if root == PACKAGE:
        return last or None
    if root == UNKNOWN and rest in NAMES:
        return rest
    return None
