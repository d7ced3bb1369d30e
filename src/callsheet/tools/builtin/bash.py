"""The tool `bash`, which runs a command, streams its output, and ends all processes that it started."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from callsheet.describe.shell.programs import scope_of_command
from callsheet.processes.process import Ended, signal_name
from callsheet.processes.shell import CommandOutput
from callsheet.report.json import JsonObject
from callsheet.report.status import Reason
from callsheet.tools.errors import (
    Cancelled,
    ExecutionFailed,
    InvalidArguments,
    NotFound,
    TimedOut,
    ToolError,
)
from callsheet.tools.files.dirfd import stat_of
from callsheet.tools.host import ShellCommand
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool

TIMEOUT = 120.0
"""Seconds that a command may run, by default."""

MAX_TIMEOUT = 3600.0


class CommandFailed(ExecutionFailed):
    """The command did not exit with code 0."""

    reason = Reason.EXIT_CODE


def _scope(arguments: JsonObject) -> str | None:
    """Return the scope of an "always" answer: a program, in a directory, in its usual environment.

    The directory is part of the scope, because `make test` or `npm test` does something else in another one.
    """
    scope, cwd = scope_of_command(arguments["command"]), arguments.get("cwd")
    if scope is None or arguments.get("env"):
        return None
    return f"{scope} (in {cwd})" if cwd else scope


@tool(kind="execute", timeout=MAX_TIMEOUT + 60, writes=(), reads=(), scope=_scope)
async def bash(
    call: Call,
    command: Annotated[str, Meta(min_length=1)],
    timeout: Annotated[float, Meta(gt=0, le=MAX_TIMEOUT)] = TIMEOUT,
    cwd: Path | None = None,
    env: dict[str, str | None] | None = None,
) -> ToolResult:
    """Run a command in a shell (bash, or sh where there is none) and return its output.

    There is no standard input and no terminal: pagers are off, git and ssh ask for nothing, and git takes
    its messages as they are instead of opening an editor. Each command runs by itself: directory, variables
    and functions are not carried over to the next one. When the command ends, everything that it left
    running in the background is ended, too, and listed in the output. Of long output, the beginning and
    the end are returned. An exit code other than 0 is a failure.

    Args:
        command: The command, as it would be typed into a shell. It may have several lines.
        timeout: Seconds after which the command and all it started are ended: 120, and at most 3600.
        cwd: The directory to run it in, from the session's directory or absolute.
        env: Variables to set in its environment; null removes one.
    """
    where = cwd or call.workspace.cwd
    found = stat_of(where)
    if found is None:
        raise NotFound(f"cwd: the directory {where} does not exist", file_path=str(where))
    if not stat.S_ISDIR(found.st_mode):
        raise InvalidArguments(f"cwd: {where} is not a directory", file_path=str(where))
    output = CommandOutput()

    def take(data: bytes) -> None:
        output.add(data)
        if not call.has_ended:
            call.write(data)

    facts: dict[str, Any] = {"command": command, "working_directory": str(where)}
    try:
        process = call.session.host.command(call, ShellCommand(command, where, env or {}, take))
    except ValueError as exc:
        raise InvalidArguments(f"bash: {exc}") from exc
    try:
        ended = await process.run(timeout)
    except asyncio.CancelledError as exc:
        _report_end(call, process.ended)
        message = call.session.phrase("cancelled")
        raise _failure(Cancelled, message, output, process.ended, facts) from exc
    except OSError as exc:
        if exc.errno == errno.E2BIG:
            raise InvalidArguments(
                f"The command ({len(os.fsencode(command))} bytes) and its environment are longer than "
                "the system takes; write it to a file and run that"
            ) from exc
        raise
    _report_end(call, ended)
    return _result(call, ended, output, facts, timeout)


def _result(
    call: Call, ended: Ended, output: CommandOutput, facts: dict[str, Any], timeout: float
) -> ToolResult:
    phrase = call.session.phrase
    if ended.timed_out:
        message = phrase("timed_out", seconds=timeout)
        hint = f"all it had started was ended; up to {MAX_TIMEOUT:g} s can be allowed"
        raise _failure(TimedOut, f"{message}; {hint}", output, ended, facts)
    if ended.signal is not None:
        message = phrase("signal", signal=ended.signal)
        raise _failure(CommandFailed, message, output, ended, facts)
    if ended.exit_code:
        message = phrase("exit_code", code=ended.exit_code) + _hint(ended.exit_code)
        raise _failure(CommandFailed, message, output, ended, facts, ended.exit_code)
    if ended.exit_code is None:
        raise _failure(CommandFailed, phrase("abandoned"), output, ended, facts)
    notice = _left(ended)
    result = call.success(_joined(output.text(), notice)).as_written().with_exit_code(0)
    if notice:
        result = result.with_content(notice)
    return result.with_all_metadata(facts | _facts(ended, output))


def _failure(
    kind: type[ToolError],
    message: str,
    output: CommandOutput,
    ended: Ended | None,
    facts: dict[str, Any],
    exit_code: int | None = None,
) -> ToolError:
    notice = _left(ended) if ended is not None else ""
    error = kind(message, output=_joined(output.text(), notice), exit_code=exit_code)
    error.metadata |= facts | _facts(ended, output)
    return error


def _facts(ended: Ended | None, output: CommandOutput) -> dict[str, Any]:
    """Return the metadata of a result."""
    facts: dict[str, Any] = {"output_bytes": output.total, "truncated": output.is_cut}
    if ended is not None:
        facts["truncated"] = output.is_cut or ended.is_cut
        facts |= {
            "exit_code": ended.exit_code,
            "signal": ended.signal,
            "timed_out": ended.timed_out,
            "cpu_ms": ended.cpu_ms,
            "max_rss_kb": ended.max_rss_kb,
        }
        if ended.left:
            facts["ended_in_background"] = list(ended.left)
        if ended.survivors:
            facts["survivors"] = ended.survivors
    return facts


def _report_end(call: Call, ended: Ended | None) -> None:
    """Report how the command ended, and the resources it used."""
    if ended is not None and not call.has_ended:
        call.exit(ended.exit_code, ended.signal)
        call.usage(cpu_ms=ended.cpu_ms, max_rss_kb=ended.max_rss_kb)


def _left(ended: Ended) -> str:
    """Return a notice of the processes that the command left running, if any."""
    text = ""
    if ended.left:
        names = "; ".join(ended.left)
        text = f"[Still running when the command had ended, and ended then: {names}]"
    if ended.survivors:
        text += f"[{ended.survivors} processes that it started could not be ended]"
    return text


def _hint(code: int) -> str:
    """Return a hint for an exit code above 128, which shells use for signals, but a command may use too."""
    if not 128 < code <= 128 + 31:
        return ""
    return f" (128 + {code - 128}: probably ended by {signal_name(code - 128)})"


def _joined(output: str, notice: str) -> str:
    if not notice:
        return output
    return f"{output.rstrip()}\n\n{notice}" if output.strip() else notice
