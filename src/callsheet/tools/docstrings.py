"""What a docstring says of a function and of each of its arguments: Google's, NumPy's or Sphinx's way."""

from __future__ import annotations

import inspect
import re
from typing import NamedTuple

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params):\s*$")
_SECTION = re.compile(
    r"(?:Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|Warnings?"
    r"|Attributes|See Also|References):?\s*$"
)
_GOOGLE_ARG = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY_ARG = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?$")
_SPHINX_ARG = re.compile(r":param(?:\s+[^:\s]+)??\s+\*{0,2}(\w+)\s*:\s*(.*)$")
_SPHINX_FIELD = re.compile(r":\w+[^:]*:")


class Doc(NamedTuple):
    """The text before the arguments, and the text of each."""

    text: str
    arguments: dict[str, str]


def read_docstring(docstring: str | None) -> Doc:
    """Take a docstring apart."""
    if not docstring:
        return Doc("", {})
    lines = inspect.cleandoc(docstring).splitlines()
    begin = next((i for i in range(len(lines)) if _starts_a_section(lines, i)), len(lines))
    arguments: dict[str, str] = {}
    for at in range(begin, len(lines)):
        line = lines[at].rstrip()
        if _GOOGLE.match(line):
            arguments |= _block(_indented(lines[at + 1 :]), _GOOGLE_ARG)
        elif line == "Parameters" and _is_rule(lines, at + 1):
            arguments |= _numpy(lines[at + 2 :])
        elif found := _SPHINX_ARG.match(line):
            arguments[found[1]] = _joined([found[2], *_indented(lines[at + 1 :])])
    return Doc("\n".join(lines[:begin]).strip(), arguments)


def _starts_a_section(lines: list[str], at: int) -> bool:
    line = lines[at].rstrip()
    if _SPHINX_FIELD.match(line):
        return True
    if not _SECTION.match(line):
        return False
    return line.endswith(":") or _is_rule(lines, at + 1)


def _is_rule(lines: list[str], at: int) -> bool:
    return at < len(lines) and len(lines[at]) >= 3 and set(lines[at].strip()) == {"-"}


def _indented(lines: list[str]) -> list[str]:
    """Return the lines that belong to the line before them."""
    taken: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith((" ", "\t")):
            break
        taken.append(line)
    return taken


def _block(lines: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """Read arguments that stand at one depth, each followed by deeper lines."""
    depth = min((len(x) - len(x.lstrip()) for x in lines if x.strip()), default=0)
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        at_depth = line.strip() and len(line) - len(line.lstrip()) == depth
        match = pattern.match(line.strip()) if at_depth else None
        if match:
            name = match[1]
            found[name] = [match[2]]
        elif name:
            found[name].append(line)
    return {name: _joined(said) for name, said in found.items()}


def _numpy(lines: list[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    name = ""
    for at, line in enumerate(lines):
        if line.strip() and not line.startswith((" ", "\t")):
            match = _NUMPY_ARG.match(line.strip())
            if not match or _is_rule(lines, at + 1):
                break
            name = match[1]
            found[name] = []
        elif name:
            found[name].append(line)
    return {name: _joined(said) for name, said in found.items()}


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
