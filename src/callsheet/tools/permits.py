"""Whether a call may be run: what was decided for all, what was answered before, or who is asked now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from callsheet.report.values import JsonObject
from callsheet.runtime.errors import PermissionDenied

from .errors import NotPermitted
from .workspace import outside

if TYPE_CHECKING:
    from .session import Call
    from .tool import Tool

Mode: TypeAlias = Literal["ask", "allow", "deny"]
"""What happens to a call that needs permission."""

MODES: tuple[Mode, ...] = ("ask", "allow", "deny")


class Permits:
    """The permissions of one session.

    Without a mode, somebody is asked if there is somebody; else the program that runs the tool has decided,
    except for tools that say they always need permission. A path outside the workspace always needs
    somebody who says yes.
    """

    def __init__(self, mode: Mode | None) -> None:
        self.mode: Mode | None = mode
        # By the tool, and all the paths outside that were asked about: a yes to one is none to another.
        self._answers: dict[tuple[str, ...], bool] = {}

    async def ask(
        self, call: Call, tool: Tool, arguments: JsonObject, beyond: Sequence[tuple[str, Path]]
    ) -> None:
        """Return if the call may be run; else raise. `beyond` are paths outside the workspace."""
        if not beyond and (not tool.needs_permission(arguments) or self.mode == "allow"):
            return
        nobody = call.session.on_permission is None
        if self.mode == "deny" or (beyond and nobody):
            if beyond:
                raise outside(*beyond[0], call.workspace)
            raise NotPermitted(f"{tool.name} is not permitted in this session")
        if not beyond and nobody and tool.permission is not True and self.mode is None:
            return
        await self._ask(call, (tool.name, *[str(path) for _, path in beyond]))

    async def _ask(self, call: Call, key: tuple[str, ...]) -> None:
        known = self._answers.get(key)
        if known is False or self._answers.get(key[:1]) is False:
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
