"""Own `think`, which reports a thought so that users can follow it, and does nothing else."""

from __future__ import annotations

from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool


@tool(kind="think", read_only=True, permission=False)
def think(call: Call, thought: str) -> ToolResult:
    """Write down a thought. Nothing is read, changed or looked up.

    Args:
        thought: The thought.
    """
    return call.success(thought)
