"""Searches where there is no ripgrep, and gives the same answer. Runs in a process of its own.

A process can be ended at any time, even in the middle of a pattern that takes for ever. It writes
what `ripgrep` writes when it is asked in the way that `ripgrep.py` does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from .dialect import Translated, translate
from .globs import compile_glob
from .texts import Text, text_of
from .walk import Scope, Walk


class Line(NamedTuple):
    """A line with a match: its number, the first match's place in it (from 1), and where it begins."""

    number: int
    column: int
    offset: int


def command() -> list[str]:
    """Return the command that carries out the request that it reads from its stdin."""
    # Only this directory is importable there, under its last name: nothing else has to be loaded.
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    above, package = os.path.split(here)
    program = (
        f"import sys; sys.path.append({above!r}); "
        f"from {package}.fallback import main; sys.exit(main())"
    )
    return [sys.executable, "-I", "-S", "-c", program]


def main() -> int:
    """Carry out a request. Gives the exit code that ripgrep would give."""
    asked = json.loads(sys.stdin.buffer.read())
    pattern = translate(asked["pattern"], asked["ignore_case"])
    problems = list[str]()
    out = sys.stdout.buffer
    if asked["most"]:
        found = _lines(pattern, asked["files"], asked["most"], out, problems)
    else:
        found = _counts(pattern, asked, out, problems)
    out.flush()
    for problem in problems:
        sys.stderr.buffer.write(os.fsencode(f"{problem}\n"))
    return 2 if problems else 0 if found else 1


def _counts(pattern: Translated, asked: dict[str, Any], out: BinaryIO, problems: list[str]) -> bool:
    found = False
    for path in _files(asked, problems):
        count = 0
        for _ in _matches(path, pattern, problems):
            count += 1
        if count:
            found = True
            out.write(b"%s\0%d\n" % (os.fsencode(path), count))
    return found


def _lines(
    pattern: Translated, files: list[str], most: int, out: BinaryIO, problems: list[str]
) -> bool:
    found = False
    for path in files:
        left = most
        for line in _matches(path, pattern, problems):
            found = True
            out.write(b"%s\0%d:%d:%d:\n" % (os.fsencode(path), *line))
            left -= 1
            if not left:
                break
    return found


def _files(asked: dict[str, Any], problems: list[str]) -> Iterator[str]:
    if asked["files"]:
        yield from asked["files"]
        return
    scope = Scope(*asked["scope"])
    wanted = wanted_by(asked["glob"])
    with Walk(scope, hidden=False) as walk:
        for found in walk:
            if found.entry.is_file(follow_symlinks=False) and wanted(found.path):
                yield f"./{scope.below}/{found.path}" if scope.below else f"./{found.path}"
    problems += ["a directory can't be read (os error)"] * walk.unreadable


def wanted_by(glob: str | None) -> Callable[[str], bool]:
    """Make a filter of paths from a glob. Without a slash it is about names; `!` turns it round."""
    if glob is None:
        return lambda _: True
    meant = glob.removeprefix("!")
    whole = meant.lstrip("/") if "/" in meant else f"**/{meant}"
    matches, negated = compile_glob(whole).path.fullmatch, meant is not glob
    return lambda path: (matches(path) is None) is negated


def _matches(path: str, pattern: Translated, problems: list[str]) -> Iterator[Line]:
    """Return the lines of a file that match; none if it is binary."""
    try:
        text = text_of(path)
    except OSError as exc:
        problems.append(f"{path}: {exc.strerror} (os error {exc.errno})")
        return
    try:
        if not text.is_binary():
            yield from matching_lines(text, pattern)
    except OSError as exc:
        problems.append(f"{path}: {exc.strerror} (os error {exc.errno})")
    finally:
        text.close()


def matching_lines(text: Text, pattern: Translated) -> Iterator[Line]:
    """Return the lines of a text that match."""
    before = 1
    for offset, block in text.blocks():
        chars = block.decode("utf-8", "surrogateescape")
        if chars.isascii():
            plain, search = True, pattern.ascii.search
        else:
            plain, search = False, pattern.unicode.search
        at, begin, number, place = 0, 0, before, 0
        while match := search(chars, at):
            start = match.start()
            if start == len(chars) and chars.endswith("\n"):
                break  # after the last line, there is none
            number += chars.count("\n", begin, start)
            begin_of_line = chars.rfind("\n", begin, start) + 1 or begin
            place += _size(chars[begin:begin_of_line], plain)
            begin = begin_of_line
            before_match = _size(chars[begin:start], plain) if start < len(chars) else 0
            yield Line(number, before_match + 1, offset + place)
            at = chars.find("\n", start) + 1
            if not at:
                break
        before += block.count(b"\n")


def _size(chars: str, plain: bool) -> int:
    return len(chars) if plain else len(chars.encode("utf-8", "surrogateescape"))
