"""Shapes of tools that run something, and of those that look after what runs."""

from __future__ import annotations

import shlex
from typing import cast

from msgspec.structs import replace

from callsheet.describe.arguments import COMMAND, WORKING_DIRECTORY, Arguments, first, text_of
from callsheet.describe.i18n import N_
from callsheet.describe.paths import Locations, PathContext, distinct
from callsheet.describe.shapes import (
    COMMAND_WIDTH,
    NAME_WIDTH,
    TEXT_WIDTH,
    DescriptionDraft,
    Shape,
    fixed,
)
from callsheet.describe.shell.display import show_command
from callsheet.describe.shell.judge import File, files_read, text_of_command
from callsheet.describe.titles import LINE_BREAK
from callsheet.report.fields import ToolCallLocation, ToolKind

_RUN = N_("Running `{command}`")
_RUN_BARE = N_("Running a command")
_CODE = ("code", "script", "source", "command", "input", "expression", "")
_PROCESS = (
    *("bash_id", "shell_id", "task_id", "process_id", "session_id", "terminal_id", "terminalId"),
    *("pid", "id", "process"),
)


def shell(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Run a shell command. The files that it only reads are its locations."""
    command = arguments.get("command")
    if type(command) is not str or not command or "args" in arguments:
        command = _command_of(arguments)
    files = files_read(command)
    locations: Locations = ()
    if files:
        base = workspace.directory(first(arguments, WORKING_DIRECTORY))
        located = (_locate(file, base, workspace) for file in files)
        locations = distinct(place for place in located if place is not None)
    return _run(command, COMMAND_WIDTH, workspace, locations)


def foreign_shell(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Run a command of a shell whose language isn't parsed, such as PowerShell."""
    return _run(_command_of(arguments), COMMAND_WIDTH, workspace)


def command_line(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Do something to the world, perhaps by a command. Its files may be anywhere."""
    command = text_of_command(first(arguments, COMMAND))
    return _run(command, TEXT_WIDTH, workspace)  # the server's name stands beside it


def _run(
    command: str, width: int, workspace: PathContext, locations: Locations = ()
) -> DescriptionDraft:
    if not command.strip():
        return DescriptionDraft(_RUN_BARE)
    return DescriptionDraft(_RUN, {"command": show_command(command, width, workspace)}, locations)


def _command_of(arguments: Arguments) -> str:
    command = text_of_command(first(arguments, (*COMMAND, "")))
    words = arguments.get("args")
    if command and isinstance(words, list) and words:
        texts = [str(word) for word in cast(list[object], words)]
        return f"{command} {shlex.join(texts)}"
    return command


def _locate(file: File, base: str, workspace: PathContext) -> ToolCallLocation | None:
    if file.directory:
        unknown = "\0" in file.directory
        moved = None if unknown else workspace.resolve(file.directory, base)[0]
        if moved is None:
            return workspace.locate(file.path, file.line) if file.path[:1] == "/" else None
        base = moved
    return workspace.locate(file.path, file.line, base)


def code(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Run code in some language. What it does is unknown."""
    text = text_of(arguments, _CODE)
    if not text:
        return DescriptionDraft(N_("Running code"))
    return DescriptionDraft(_RUN, {"command": workspace.shorten(text, COMMAND_WIDTH, LINE_BREAK)})


def _about_process(message: str, bare: str) -> Shape:
    """Return the shape of tools that do something to a running command."""

    def named(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        name = first(arguments, _PROCESS)
        if name is None or not isinstance(name, (str, int)):
            return DescriptionDraft(bare)
        return DescriptionDraft(message, {"process": workspace.shorten(str(name), NAME_WIDTH)})

    return named


output = _about_process(
    N_("Reading the output of {process}"), N_("Reading the output of a command")
)
stop = _about_process(N_("Stopping {process}"), N_("Stopping a command"))
send = _about_process(N_("Sending input to {process}"), N_("Sending input to a command"))
processes = fixed(N_("Listing running commands"))

_ACTIONS: dict[str, tuple[Shape, ToolKind | None]] = {
    **dict.fromkeys(("kill", "stop", "terminate", "cancel"), (stop, None)),
    **dict.fromkeys(("write", "send", "input", "submit"), (send, None)),
    **dict.fromkeys(
        ("read", "poll", "wait", "output", "search", "log", "status"), (output, ToolKind.READ)
    ),
    "list": (processes, ToolKind.READ),
}


def process(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Do to a running command what `action` names."""
    action = arguments.get("action")
    shape, kind = _ACTIONS.get(action if isinstance(action, str) else "", (fixed(_RUN_BARE), None))
    return replace(shape(arguments, workspace), kind=kind)
