"""Print the lines and files of each package beside its budget, and fail where the layout is broken.

    python scripts/check_layout.py

A budget is there to make you think before you add, not to make code dense: it counts every line of Python,
comments and docstrings included. `BUDGETS` holds, for each package, what it may have now and the aim of the
design. The script fails if a package is past 110 % of the first, a file is longer than `LONGEST`, a module's
name is used more than twice, or two classes in `src` have the same name.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "callsheet"
LONGEST = 500
SHORT = 80

# package: (lines now, the design's aim)
BUDGETS = {
    "cli": (7300, 4200),
    "ui": (1700, 2500),
    "adapters": (2300, 1400),
    "agent": (2800, 2400),
    "tap": (6400, 5500),
    "testing": (1050, 900),
    "tools": (8950, 8500),
    "check": (3450, 3700),
    "lint": (1100, 1200),
    "runtime": (4550, 2400),
    "history": (7100, 3500),
    "observe": (3500, 3300),
    "processes": (1400, 1100),
    "telemetry": (1300, 700),
    "acp": (3500, 2900),
    "describe": (2350, 2300),
    "redaction": (3050, 1700),
    "limits": (1350, 800),
    "report": (2300, 1600),
}

# Classes that share a name on purpose, because each package speaks of another protocol.
SHARED_CLASS_NAMES: set[str] = set()


def main() -> None:
    """Print the table, then what is wrong, and exit with 1 if anything is."""
    files = sorted(SOURCE.rglob("*.py"))
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    wrong = print_table(lengths)
    wrong += [
        f"{relative(path)} has {n} lines; {LONGEST} at most"
        for path, n in lengths.items()
        if n > LONGEST
    ]
    wrong += repeated_module_names(files)
    wrong += repeated_class_names(files)
    for line in wrong:
        print(f"layout: {line}", file=sys.stderr)
    sys.exit(bool(wrong))


def print_table(lengths: dict[Path, int]) -> list[str]:
    """Print lines and files of each package, and return what is past its budget."""
    wrong: list[str] = []
    print(
        f"{'package':<10} {'lines':>7} {'budget':>7} {'aim':>6} {'':>5} {'files':>6} {'short':>6}"
    )
    for package, (budget, aim) in BUDGETS.items():
        inside = {
            path: n for path, n in lengths.items() if path.relative_to(SOURCE).parts[0] == package
        }
        lines = sum(inside.values())
        short = sum(n < SHORT and path.name != "__init__.py" for path, n in inside.items())
        share = lines / budget
        print(
            f"{package:<10} {lines:>7,} {budget:>7,} {aim:>6,} {share:>5.0%} {len(inside):>6} {short:>6}"
        )
        if share > 1.1:
            wrong.append(
                f"{package} has {lines:,} lines, more than 110 % of its budget of {budget:,}"
            )
    print(f"{'all':<10} {sum(lengths.values()):>7,} {'':>7} {'':>6} {'':>5} {len(lengths):>6}")
    known = {*BUDGETS, "__init__.py", "__main__.py"}
    others = sorted({path.relative_to(SOURCE).parts[0] for path in lengths} - known)
    return wrong + [f"{name} has no budget in scripts/check_layout.py" for name in others]


def repeated_module_names(files: list[Path]) -> list[str]:
    """Return the names that more than two modules have."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files:
        if path.name not in ("__init__.py", "__main__.py"):
            places[path.name].append(relative(path))
    return [
        f"{len(where)} modules are called {name}: {', '.join(where)}"
        for name, where in places.items()
        if len(where) > 2
    ]


def repeated_class_names(files: list[Path]) -> list[str]:
    """Return the names that more than one class at the top of a module has."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{relative(path)}:{node.lineno}")
    return [
        f"{len(where)} classes are called {name}: {', '.join(where)}"
        for name, where in places.items()
        if len(where) > 1 and name not in SHARED_CLASS_NAMES
    ]


def relative(path: Path) -> str:
    """Return a path below the source folder, as people name it."""
    return path.relative_to(SOURCE).as_posix()


if __name__ == "__main__":
    main()
