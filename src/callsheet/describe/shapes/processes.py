"""Shapes of tools that run something, and of those that look after what runs."""

from __future__ import annotations

import shlex
from typing import cast

from callsheet.describe import i18n as say
from callsheet.describe.arguments import COMMAND, WORKING_DIRECTORY, Arguments, first, text_of
from callsheet.describe.paths import Locations, PathContext, distinct
from callsheet.describe.shapes import COMMAND_WIDTH, TEXT_WIDTH, DescriptionDraft
from callsheet.describe.shell.display import say_command
from callsheet.describe.shell.judge import File, files_read, text_of_command
from callsheet.describe.titles import LINE_BREAK
from callsheet.report.fields import ToolCallLocation, ToolKind

_CODE = ("code", "script", "source", "command", "input", "expression", "")
_PROCESS = (
    "bash_id",
    "shell_id",
    "task_id",
    "process_id",
    "session_id",
    "terminal_id",
    "terminalId",
    "pid",
    "id",
    "process",
)


def shell(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Run a shell command. The files that it only reads are its locations."""
    command = arguments.get("command")
    if type(command) is not str or not command or "args" in arguments:
        command = _command_of(arguments)
    if not command.strip():
        return DescriptionDraft(say.RUN_BARE)
    files = files_read(command)
    locations: Locations = ()
    if files:
        base = workspace.directory(first(arguments, WORKING_DIRECTORY))
        located = (_locate(file, base, workspace) for file in files)
        locations = distinct(place for place in located if place is not None)
    said = say_command(command, COMMAND_WIDTH, workspace)
    return DescriptionDraft(say.RUN, {"command": said}, locations)


def foreign_shell(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Run a command of a shell whose language isn't parsed, such as PowerShell."""
    command = _command_of(arguments)
    if not command.strip():
        return DescriptionDraft(say.RUN_BARE)
    return DescriptionDraft(say.RUN, {"command": say_command(command, COMMAND_WIDTH, workspace)})


def command_line(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Do something to the world, perhaps by a command. Its files may be anywhere."""
    command = text_of_command(first(arguments, COMMAND))
    if not command.strip():
        return DescriptionDraft(say.RUN_BARE)
    said = say_command(command, TEXT_WIDTH, workspace)  # the server's name stands beside it
    return DescriptionDraft(say.RUN, {"command": said})


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
        return DescriptionDraft(say.CODE_BARE)
    return DescriptionDraft(say.RUN, {"command": workspace.say(text, COMMAND_WIDTH, LINE_BREAK)})


def output(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Read what a running command has put out."""
    return _process(arguments, workspace, say.OUTPUT, say.OUTPUT_BARE)


def stop(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Stop a running command."""
    return _process(arguments, workspace, say.STOP, say.STOP_BARE)


def send(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Send input to a running command."""
    return _process(arguments, workspace, say.INPUT, say.INPUT_BARE)


def processes(_: Arguments, __: PathContext) -> DescriptionDraft:
    """List the running commands."""
    return DescriptionDraft(say.PROCESSES)


def process(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Do to a running command what `action` names."""
    action = arguments.get("action")
    if action in ("kill", "stop", "terminate", "cancel"):
        return stop(arguments, workspace)
    if action in ("write", "send", "input", "submit"):
        return send(arguments, workspace)
    if action == "list":
        return _only_reads(processes(arguments, workspace), "list")
    if action in ("read", "poll", "wait", "output", "search", "log", "status"):
        return _only_reads(output(arguments, workspace), str(action))
    return DescriptionDraft(say.RUN_BARE)


def _only_reads(draft: DescriptionDraft, action: str) -> DescriptionDraft:
    return DescriptionDraft(
        draft.message, draft.values, draft.locations, ToolKind.READ, f"its action is {action}"
    )


def _process(
    arguments: Arguments, workspace: PathContext, message: str, bare: str
) -> DescriptionDraft:
    name = first(arguments, _PROCESS)
    if name is None or not isinstance(name, (str, int)):
        return DescriptionDraft(bare)
    return DescriptionDraft(message, {"process": workspace.say(str(name), 40)})
