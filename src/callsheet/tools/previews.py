"""What a call would change, shown on the call before somebody is asked about it."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from callsheet.report.content import DiffContent, ToolCallContent, to_content

from .threads import in_thread

if TYPE_CHECKING:
    from .session import Call
    from .tool import Tool


async def previewed(tool: Tool, call: Call, values: dict[str, Any]) -> tuple[ToolCallContent, ...]:
    """Show what a call would change, and give it. What a preview raises is what the call ends with."""
    items = await preview_of(tool, call, values)
    for item in items:
        change = item.changes[0] if type(item) is DiffContent and len(item.changes) == 1 else None
        if change is not None and change.old_path is None:
            call.diff(change.path, change.old_text, change.new_text)
        elif item not in call.report.content:
            call.show(item)
    return items


async def preview_of(tool: Tool, call: Call, values: dict[str, Any]) -> tuple[ToolCallContent, ...]:
    """Return what a call would change."""
    preview = tool.preview
    if preview is None:
        return ()
    given = (call,) if tool.parameters.takes_call else ()
    if inspect.iscoroutinefunction(preview):
        made = await preview(*given, **values)
    else:
        made = await in_thread(lambda: preview(*given, **values))
    return tuple(to_content(item) for item in made or ())
