"""Where a project's own imports lead: `from .types import ToolResult` may be ours, passed on.

Only files of the same project are looked at, only their imports, and only for our names. They
are parsed, never imported.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

from callsheet.lint.vocabulary import NAMES, is_ours

MOST_HOPS = 5
"""Files that an import is followed through. More would be a maze, or a circle."""

Read = Callable[[Path], "str | None"]
Imports = list[ast.ImportFrom]


class Project:
    """The files of a project as far as imports lead through them; remembers what it has parsed."""

    def __init__(self, read: Read) -> None:
        self._read: Read = read
        self._imports: dict[Path, Imports | None] = {}
        self._packages: dict[Path, tuple[str, ...]] = {}

    def follow(self, path: Path, module: str, level: int, name: str) -> str:
        """Return the dotted name that an import in the file at `path` leads to."""
        return self._follow(path, module, level, name, MOST_HOPS)

    def _follow(self, path: Path, module: str, level: int, name: str, hops: int) -> str:
        package = self.package(path.parent)
        if level:
            base = package[: len(package) - level + 1]
            module = ".".join((*base, module) if module else base)
        dotted = f"{module}.{name}"
        if name not in NAMES or not hops or not module or is_ours(module):
            return dotted
        above = level - 1 if level and not package else len(package)
        for start in dict.fromkeys((*path.parents[above : above + 1], path.parent)):
            file = start.joinpath(*module.split("."))
            for candidate in (file.parent / f"{file.name}.py", file / "__init__.py"):
                found = self._through(candidate, name, hops)
                if found is not None:
                    return found
        return dotted

    def _through(self, file: Path, name: str, hops: int) -> str | None:
        """Return where a name that a file imports leads to; None if it doesn't import it."""
        for node in self._imports_of(file) or ():
            for alias in node.names:
                if alias.name == "*" or (alias.asname or alias.name) == name:
                    original = name if alias.name == "*" else alias.name
                    found = self._follow(file, node.module or "", node.level, original, hops - 1)
                    if is_ours(found):
                        return found
        return None

    def _imports_of(self, file: Path) -> Imports | None:
        if file not in self._imports:
            text = self._read(file)
            self._imports[file] = _imports_in(text) if text is not None else None
        return self._imports[file]

    def package(self, directory: Path) -> tuple[str, ...]:
        """Return the package that the files of a directory belong to."""
        if directory not in self._packages:
            inside = directory.name and (directory / "__init__.py").is_file()
            above = self.package(directory.parent) if inside else ()
            self._packages[directory] = (*above, directory.name) if inside else ()
        return self._packages[directory]


def _imports_in(text: str) -> Imports:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
