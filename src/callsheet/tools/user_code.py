"""Import the user's own Python files and modules, and find the tools and other objects they define.

Errors raised by the user's code are reported in one line, with the line of the user's file where possible.
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
    """A file or module can't be used. The message explains why."""


def tools_in(file: str) -> list[Tool]:
    """Return the tools that a Python file defines with `@tool`.

    Raises:
        BadFile: The file can't be loaded, or defines no tools.
    """
    module = load(Path(file))
    found = {id(value): value for value in vars(module).values() if isinstance(value, Tool)}
    if not found:
        raise BadFile(f"{file} has no tools; make some with @callsheet.tool")
    return list(found.values())


def named_in(name: str) -> Any:
    """Return the object that `MODULE:NAME` or `FILE.py:NAME` refers to.

    Raises:
        BadFile: The reference is malformed, the module can't be imported, or it has no such attribute.
    """
    where, colon, attribute = name.rpartition(":")
    if not colon or not where or not attribute:
        raise BadFile(f"{name}: expected MODULE:NAME or FILE.py:NAME")
    is_file = where.endswith(".py") or os.sep in where
    module = load(Path(where)) if is_file else _imported(where)
    if not hasattr(module, attribute):
        raise BadFile(f"{where} has no {attribute}")
    return getattr(module, attribute)


def _imported(name: str) -> ModuleType:
    """Import a module by name, also from the current directory."""
    here = str(Path.cwd())
    sys.path.append(here)
    try:
        with redirect_stdout(sys.stderr):
            return import_module(name)
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - user code may raise anything
        raise BadFile(f"{name}: {type(exc).__name__}: {exc}") from None
    finally:
        sys.path.remove(here)


def load(path: Path) -> ModuleType:
    """Run a file as a module, and return the module.

    The file may import modules in its own directory. Its standard output is redirected to stderr.

    Raises:
        BadFile: The file does not exist, is not a Python file, or raised an exception.
    """
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
    except (Exception, SystemExit) as exc:  # noqa: BLE001 - user code may raise anything
        raise BadFile(_problem(path, exc)) from None
    finally:
        sys.path.remove(str(path.resolve().parent))
    return module


def _problem(path: Path, exc: BaseException) -> str:
    """Return a one-line description of an exception, with its line in the user's file if known."""
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
