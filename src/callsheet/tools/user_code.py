"""Python files and modules of the user's own: their tools, and whatever else they make.

What goes wrong in them is reported in one line, with the place in the user's file.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from callsheet.report.errors import CallsheetError
from callsheet.tools.tool import Tool


class BadFile(CallsheetError):
    """A file that can't be used. The message says why."""


def tools_in(file: str) -> list[Tool]:
    """Return the tools that a Python file makes with `@tool`."""
    module = load(Path(file))
    found = {id(value): value for value in vars(module).values() if isinstance(value, Tool)}
    if not found:
        raise BadFile(f"{file} has no tools; make some with @callsheet.tool")
    return list(found.values())


def named_in(name: str) -> Any:
    """Return the object that `MODULE:NAME` or `FILE.py:NAME` names."""
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise BadFile(f"{name}: expected MODULE:NAME or FILE.py:NAME")
    is_file = where.endswith(".py") or os.sep in where
    module = load(Path(where)) if is_file else _imported(where)
    if not hasattr(module, attribute):
        raise BadFile(f"{where} has no {attribute}")
    return getattr(module, attribute)


def _imported(name: str) -> ModuleType:
    """Import a module by its name, also from the directory that we were started in."""
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        with redirect_stdout(sys.stderr):
            return import_module(name)
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - it is somebody else's code
        raise BadFile(f"{name}: {type(exc).__name__}: {exc}") from None
    finally:
        sys.path.remove(here)


def load(path: Path) -> ModuleType:
    """Run a file as a module. It may import what stands beside it; what it prints goes to stderr."""
    if not path.is_file():
        what = "is a directory, not a Python file" if path.is_dir() else "there is no such file"
        raise BadFile(f"{path}: {what}")
    spec = spec_from_file_location(path.stem, path.absolute())
    if spec is None or spec.loader is None:
        raise BadFile(f"{path}: not a Python file; its name ends in .py")
    module = module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - it is somebody else's code
        raise BadFile(_problem(path, exc)) from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _problem(path: Path, exc: BaseException) -> str:
    """Return in a line what went wrong, and where in the user's file."""
    if isinstance(exc, SyntaxError):
        return f"{exc.filename or path}:{exc.lineno}: {exc.msg}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(exc.__traceback__)
        if Path(frame.filename) == path.absolute()
    ]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    message = str(exc).strip().split("\n")[0] or "no reason given"
    return f"{where}: {type(exc).__name__}: {message}"
