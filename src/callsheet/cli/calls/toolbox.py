"""Which tools the command line knows: the built-in ones, and those of the user's own file."""

from __future__ import annotations

import sys
import traceback
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import click

from callsheet.report.errors import CallsheetError
from callsheet.tools.registry import Registry
from callsheet.tools.tool import Tool


def own_tools(file: str | None) -> list[Tool]:
    """Give the tools that a Python file makes with `@tool`."""
    if file is None:
        return []
    module = _imported(Path(file))
    found = {id(value): value for value in vars(module).values() if isinstance(value, Tool)}
    if not found:
        raise click.UsageError(f"--tools: {file} has no tools; make some with @callsheet.tool")
    return list(found.values())


def registry_of(tools: list[Tool]) -> Registry:
    """Give the built-in tools and these."""
    try:
        return Registry(tools)
    except CallsheetError as exc:
        raise click.UsageError(f"--tools: {exc}") from None


def tool_named(name: str, registry: Registry) -> Tool:
    """Give a tool, or say which name may have been meant."""
    found = registry.get(name)
    if found is None:
        near = registry.nearest(name)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {_names(registry)}"
        raise click.UsageError(f"there is no tool {name!r}; {hint}")
    return found


def _names(registry: Registry) -> str:
    return ", ".join(registry.names())


def _imported(path: Path) -> ModuleType:
    """Run a file as a module. It may import what stands beside it; what it prints goes to stderr."""
    if not path.is_file():
        what = "is a directory, not a Python file" if path.is_dir() else "there is no such file"
        raise click.UsageError(f"--tools: {path}: {what}")
    spec = spec_from_file_location(path.stem, path.absolute())
    if spec is None or spec.loader is None:
        raise click.UsageError(f"--tools: {path}: not a Python file; its name ends in .py")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - it is somebody else's code
        raise click.UsageError(f"--tools: {_problem(path, exc)}") from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _problem(path: Path, exc: BaseException) -> str:
    """Say in a line what went wrong, and where in the user's file."""
    if isinstance(exc, SyntaxError):
        return f"{exc.filename or path}:{exc.lineno}: {exc.msg}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(exc.__traceback__)
        if Path(frame.filename) == path.absolute()
    ]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    said = str(exc).strip().split("\n")[0] or "no reason given"
    return f"{where}: {type(exc).__name__}: {said}"
