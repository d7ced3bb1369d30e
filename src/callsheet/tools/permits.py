"""Whether a call may be run: what was decided for all, what was answered before, or who is asked now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from callsheet.report.kinds import ToolKind
from callsheet.report.values import JsonObject
from callsheet.runtime.errors import PermissionDenied

from .errors import NotPermitted
from .workspace import outside

if TYPE_CHECKING:
    from .session import Call
    from .tool import Tool

Mode: TypeAlias = Literal["ask", "edits", "allow", "deny"]
"""What happens to a call that needs permission. `edits` allows those that change files, and asks for the rest."""

MODES: tuple[Mode, ...] = ("ask", "edits", "allow", "deny")
_EDITS = (ToolKind.EDIT, ToolKind.MOVE, ToolKind.DELETE)


class Permits:
    """The permissions of one session.

    Without a mode, somebody is asked if there is somebody; else the program that runs the tool has decided,
    except for tools that say they always need permission. A path outside the workspace always needs
    somebody who says yes.
    """

    def __init__(self, mode: Mode | None) -> None:
        self.mode: Mode | None = mode
        self._answers: dict[str, bool] = {}

    async def ask(
        self, call: Call, tool: Tool, arguments: JsonObject, beyond: Sequence[tuple[str, Path]]
    ) -> None:
        """Return if the call may be run; else raise. `beyond` are paths outside the workspace."""
        if not beyond and (not tool.needs_permission(arguments) or self._allows(tool)):
            return
        nobody = call.session.on_permission is None
        if self.mode == "deny" or (beyond and nobody):
            if beyond:
                raise outside(*beyond[0], call.workspace)
            raise NotPermitted(f"{tool.name} is not permitted in this session")
        if not beyond and nobody and tool.permission is not True and self.mode is None:
            return
        await self._ask(call, [tool.name, *[f"{tool.name} {path}" for _, path in beyond]][-1])

    def _allows(self, tool: Tool) -> bool:
        return self.mode == "allow" or (self.mode == "edits" and tool.kind in _EDITS)

    async def _ask(self, call: Call, key: str) -> None:
        known = self._answers.get(key)
        if known is False:
            raise NotPermitted(call.session.desk.phrase("denied"))
        if known:
            return
        try:
            chosen = await call.permission()
        except PermissionDenied as exc:
            if exc.option is not None and exc.option.kind == "reject_always":
                self._answers[key] = False
            raise
        if chosen.kind == "allow_always":
            self._answers[key] = True
