"""Decide whether a call may run: by the mode, by an earlier answer, or by asking the user.

The order matters. The mode comes first: it may allow or refuse the call. A path outside the workspace is
refused if there is no handler to ask. Then stored "always" answers apply, by scope. Only then is the user
asked, about one call of a scope at a time, with a preview made at that moment; the executor makes it again
before the tool runs, and compares both.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from callsheet.acp.permission import PermissionOption
from callsheet.report.fields import ToolKind
from callsheet.report.json import JsonObject
from callsheet.runtime.health import PermissionDenied
from callsheet.tools.errors import NotPermitted, ToolError
from callsheet.tools.triggers import changes_trigger
from callsheet.tools.workspace import outside

if TYPE_CHECKING:
    from callsheet.tools.session import Call
    from callsheet.tools.tool import Tool

Mode: TypeAlias = Literal["ask", "edits", "allow", "deny"]
"""What happens to a call that needs permission. `edits` allows those that change files, which their
arguments name, and asks for the rest: a tool that deletes something else is no edit, and a change to a file
that makes other programs run something (`triggers`) is not only one."""

MODES: tuple[Mode, ...] = ("ask", "edits", "allow", "deny")
_EDITS = (ToolKind.EDIT, ToolKind.MOVE, ToolKind.DELETE)
_MOST_ANSWERS = 10_000
_LONGEST_NAME = 120
"""Maximum length of a scope's name. Of a longer one, the beginning and the end are shown."""

Beyond: TypeAlias = Sequence[tuple[str, Path]]


class PermissionScope(NamedTuple):
    """What an "always" answer applies to: all calls with the same key. The rest is for the option's text."""

    key: str
    form: Literal["this", "edits", "exactly"]
    name: str = ""

    @property
    def shown(self) -> str:
        """How a report names it."""
        return self.name or {"edits": "edits", "exactly": "exactly this call"}.get(self.form, "")

    def options(self, call: Call) -> list[PermissionOption]:
        """Return the answers to choose from."""
        phrase = call.session.phrase
        name = call.session.guard.command(self.name)
        return [
            PermissionOption("allow_once", phrase("allow_once"), "allow_once"),
            PermissionOption(
                "allow_always", phrase(f"allow_always_{self.form}", what=name), "allow_always"
            ),
            PermissionOption("reject_once", phrase("reject_once"), "reject_once"),
            PermissionOption(
                "reject_always", phrase(f"reject_always_{self.form}", what=name), "reject_always"
            ),
        ]


def scope_of(tool: Tool, arguments: JsonObject, beyond: Beyond) -> PermissionScope:
    """Return the scope of an "always" answer: the tool, the tool's own scope, or a path outside."""
    named = tool.scope(arguments) if tool.scope is not None else tool.name
    if beyond:
        paths = " ".join(str(path) for _, path in beyond)
        exact = "" if tool.scope is None else _written(arguments)
        return _this(f"{tool.name} {paths}", f"beyond {tool.name} {paths} {exact}")
    if named is None:
        return _exactly(f"{tool.name} {_written(arguments)}")
    if tool.scope is not None:
        return _this(named, f"{tool.name} {named}")
    if tool.kind is ToolKind.EDIT and tool.writes:
        return PermissionScope("edits", "edits")
    return _this(named, f"tool {named}")


def _this(name: str, key: str) -> PermissionScope:
    shown = "".join(char if char.isprintable() and char != "`" else "\ufffd" for char in name)
    if len(shown) > _LONGEST_NAME:
        half = _LONGEST_NAME // 2
        shown = f"{shown[:half]}…{shown[-half:]}"
    return PermissionScope(key, "this", shown)


def _exactly(key: str) -> PermissionScope:
    return PermissionScope(f"exactly {key}", "exactly")


def _written(arguments: JsonObject) -> str:
    written = json.dumps(arguments, sort_keys=True, default=repr)
    return blake2b(written.encode(), digest_size=16).hexdigest()


async def _quietly(preview: Callable[[], Awaitable[Any]]) -> Any:
    """Preview a call outside the workspace, and hide errors, which would reveal files there."""
    with suppress(ToolError, OSError):
        return await preview()
    return None


class Permissions:
    """The permissions of one session.

    Without a mode, the user is asked if there is an `on_permission` handler; else calls are allowed, except
    for tools that declare that they always need permission. A path outside the workspace always needs
    approval. An "always" answer applies to all calls of the same scope; for a change to a file that makes
    other programs run something, only to identical calls.
    """

    def __init__(self, mode: Mode | None) -> None:
        self.mode: Mode | None = mode
        self._answers: dict[str, bool] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    async def ask(
        self,
        call: Call,
        tool: Tool,
        arguments: JsonObject,
        beyond: Beyond,
        writes: Sequence[Path],
        preview: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Return if the call, which is not allowed without asking, may run; else raise.

        Args:
            call: The call.
            tool: Its tool.
            arguments: Its arguments, as they were passed.
            beyond: Its paths outside the workspace.
            writes: The paths that it writes.
            preview: Shows what it would change, and returns that.

        Returns:
            What `preview` returned, and the user approved, if the user was asked; else None.

        Raises:
            NotPermitted: The mode or an earlier answer refuses the call.
            PermissionDenied: The user rejected the call.
        """
        triggers = bool(writes) and await changes_trigger(writes, call.workspace)
        if self.allows(call, tool, beyond, triggers):
            return None
        scope = scope_of(tool, arguments, beyond)
        if triggers:
            self._is_answered(call, scope)  # an earlier "always reject" still applies
            scope = _exactly(f"{tool.name} {_written(arguments)}")
        if self._is_answered(call, scope):
            return None
        if beyond:
            preview = partial(_quietly, preview)
        return await self._ask(call, tool, scope, beyond, triggers, preview)

    def allows(self, call: Call, tool: Tool, beyond: Beyond, triggers: bool = True) -> bool:
        """Return whether a call that needs permission may run without asking.

        Args:
            call: The call.
            tool: Its tool.
            beyond: Its paths outside the workspace.
            triggers: Whether it may change a file that makes other programs run something.

        Raises:
            NotPermitted: The mode refuses the call.
        """
        is_edit = tool.kind in _EDITS and bool(tool.writes) and not triggers
        edits = self.mode == "edits" and is_edit
        if not beyond and (self.mode == "allow" or edits):
            call.decided("allowed", "mode", option=self.mode)
            return True
        nobody = call.session.on_permission is None  # there is no handler to ask the user with
        if self.mode == "deny" or (beyond and nobody):
            call.decided("denied", "mode" if self.mode == "deny" else "settings", option=self.mode)
            if beyond:
                raise outside(*beyond[0], call.workspace)
            raise NotPermitted(f"{tool.name} is not permitted in this session")
        return not beyond and nobody and tool.permission is not True and self.mode is None

    def _is_answered(self, call: Call, scope: PermissionScope) -> bool:
        """Return whether the scope was always allowed before. Raise if it was always rejected."""
        known = self._answers.get(scope.key)
        if known is not None:
            outcome = "allowed" if known else "denied"
            call.decided(outcome, "remembered", scope=call.session.guard.command(scope.shown))
        if known is False:
            raise NotPermitted(call.session.phrase("denied"))
        return known is True

    async def _ask(
        self,
        call: Call,
        tool: Tool,
        scope: PermissionScope,
        beyond: Beyond,
        triggers: bool,
        preview: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Ask about one call of a scope at a time, so that an "always" answer applies to the waiting ones."""
        lock = self._asking.setdefault(scope.key, asyncio.Lock())
        try:
            async with lock:
                decided = self.allows(call, tool, beyond, triggers)
                if decided or self._is_answered(call, scope):
                    return None
                shown = await preview()
                await self._answer(call, scope)
                return shown
        finally:
            if not lock.locked():
                self._asking.pop(scope.key, None)

    async def _answer(self, call: Call, scope: PermissionScope) -> None:
        try:
            chosen = await call.permission(scope.options(call), scope=scope.shown)
        except PermissionDenied as exc:
            if exc.option is not None and exc.option.kind == "reject_always":
                self._remember(scope, allowed=False)
            raise
        if chosen.kind == "allow_always":
            self._remember(scope, allowed=True)

    def _remember(self, scope: PermissionScope, *, allowed: bool) -> None:
        if len(self._answers) >= _MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._answers[scope.key] = allowed
