"""Text patches as git writes them, for the diffs of ACP v2.

`write` makes the patch of some changes; `read` returns the texts that a patch holds. ACP's rules
for paths: absolute, no `a/` and `b/`, `/dev/null` for the missing side, quoted as git quotes.

How much context a patch has: small files (`WHOLE_UP_TO`) are written whole, so that both texts can
be read back, byte for byte. Around the changes of larger ones
stand three lines, as usual; what is read back then are the changed places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from typing import cast

from msgspec import Struct

from callsheet.report.content import FileChange
from callsheet.report.patterns import lazy

WHOLE_UP_TO = 8 * 1024
CONTEXT = 3
MATCH_UP_TO = 250_000
"""Lines × lines that are matched with care; what is larger is divided first, or shown as replaced."""


def write(changes: Iterable[FileChange]) -> str:
    """Return one patch for all changes that have text or a new path; empty if there are none."""
    return "".join(_section(change) for change in changes)


def _section(change: FileChange) -> str:
    old, new = change.old_text, change.new_text
    if old is None and new is None and change.old_path is None:
        return ""
    if change.operation not in ("add", "modify", "delete", "move", "copy"):
        return ""
    before, after = _quote(change.old_path or change.path), _quote(change.path)
    head = [f"diff --git {before} {after}\n"]
    if change.operation == "add":
        head.append("new file mode 100644\n")
        before = "/dev/null"
    elif change.operation == "delete":
        head.append("deleted file mode 100644\n")
        after = "/dev/null"
    elif change.old_path is not None:
        verb = "rename" if change.operation == "move" else "copy"
        head.append(f"{verb} from {before}\n{verb} to {after}\n")
    size = len(old or "") + len(new or "")
    context = max(size, CONTEXT) if size <= WHOLE_UP_TO else CONTEXT
    hunks = list(_hunks(_lines(old or ""), _lines(new or ""), context))
    if hunks:
        head.append(f"--- {_ended(before)}\n+++ {_ended(after)}\n")
    return "".join(head + hunks)


def _hunks(old: list[str], new: list[str], context: int) -> Iterator[str]:
    for group in _Matcher(None, old, new, autojunk=False).get_grouped_opcodes(context):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield f"@@ -{_span(a, b)} +{_span(c, d)} @@\n"
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (_body(" ", line) for line in old[i:j])
            else:
                yield from (_body("-", line) for line in old[i:j])
                yield from (_body("+", line) for line in new[k:m])


class _Matcher(SequenceMatcher[str]):
    """Matches lines as `difflib` does, but in about linear time also where files are large.

    Equal ends are set aside first, which leaves little to match. What is left and still too large is
    divided at a line that stands once on both sides, or taken as replaced if there is none.
    """

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return a run of equal lines by which to divide a stretch of both files."""
        old, new = cast("list[str]", self.a), cast("list[str]", self.b)  # pyright: ignore
        ahi, bhi = len(old) if ahi is None else ahi, len(new) if bhi is None else bhi
        shorter = min(ahi - alo, bhi - blo)
        if alo == blo == 0:
            size = next((n for n in range(shorter) if old[n] != new[n]), shorter)
            if size:
                return Match(0, 0, size)
        if ahi == len(old) and bhi == len(new):
            size = next((n for n in range(shorter) if old[-1 - n] != new[-1 - n]), shorter)
            if size:
                return Match(ahi - size, bhi - size, size)
        if (ahi - alo) * (bhi - blo) > MATCH_UP_TO:
            return Match(*_anchor(old, new, range(alo, ahi), range(blo, bhi)))
        found = SequenceMatcher(None, old[alo:ahi], new[blo:bhi], autojunk=False)
        a, b, size = found.find_longest_match()
        return Match(alo + a, blo + b, size)


def _anchor(
    old: Sequence[str], new: Sequence[str], olds: range, news: range
) -> tuple[int, int, int]:
    """Return the line nearest to the middle that stands once in both stretches, and its count, 0 or 1.

    A line whose neighbour is the same on both sides comes first: it has not been moved alone.
    """
    in_old, in_new = Counter(old[i] for i in olds), Counter(new[k] for k in news)
    where = {new[k]: k for k in news if in_new[new[k]] == 1}
    pairs = [(i, where[old[i]]) for i in olds if in_old[old[i]] == 1 and old[i] in where]
    middle = (olds.start + olds.stop) // 2
    steady = [(i, k) for i, k in pairs if old[i - 1] == new[k - 1]]
    nearest = min(steady or pairs, key=lambda pair: abs(pair[0] - middle), default=None)
    return (olds.start, news.start, 0) if nearest is None else (*nearest, 1)


def _span(begin: int, end: int) -> str:
    count = end - begin
    if count == 1:
        return str(begin + 1)
    return f"{begin + 1 if count else begin},{count}"


def _body(sign: str, line: str) -> str:
    return (
        f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
    )


def _lines(text: str) -> list[str]:
    """Cut after each line feed, as git does. `str.splitlines` cuts in more places."""
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop()[:-1]
    return [*lines, last] if last else lines


# Reading


class Texts(Struct, frozen=True):
    """What one section of a patch holds of a file."""

    old: str
    new: str


_HUNK = lazy(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")


def read(patch: str) -> dict[str, Texts]:
    """Return the texts in a patch by path (the new one, or the old one of a deleted file).

    Sections that can't be understood, and files that are not text, are left out.
    """
    found: dict[str, Texts] = {}
    lines = _lines(patch)
    at = 0
    while at < len(lines):
        if lines[at].startswith("diff --git "):
            at = _read_section(lines, at, found)
        else:
            at += 1
    return found


def _read_section(lines: list[str], at: int, found: dict[str, Texts]) -> int:
    path = _path_of_header(lines[at].rstrip("\n"))
    old: list[str] = []
    new: list[str] = []
    text = True
    at += 1
    while at < len(lines) and not lines[at].startswith("diff --git "):
        line = lines[at].rstrip("\n")
        if hunk := _HUNK.match(line):
            end = _read_hunk(lines, at + 1, int(hunk[1] or 1), int(hunk[2] or 1), old, new)
            if end is None:
                return at + 1
            at = end
            continue
        if line.startswith(("Binary files ", "GIT binary patch")):
            text = False
        path = _path_of_line(line) or path
        at += 1
    if text and path:
        found[path] = Texts("".join(old), "".join(new))
    return at


def _read_hunk(
    lines: list[str], at: int, olds: int, news: int, old: list[str], new: list[str]
) -> int | None:
    """Read a hunk's lines by its counts. Return the place after it, or None if it is broken."""
    touched: tuple[list[str], ...] = ()
    while at < len(lines) and (olds > 0 or news > 0 or lines[at].startswith("\\")):
        sign, body = lines[at][:1], lines[at][1:]
        if sign == "\\":
            for side in touched:
                side[-1] = side[-1].removesuffix("\n")
        elif sign == " ":
            touched, olds, news = (old, new), olds - 1, news - 1
        elif sign == "-":
            touched, olds = (old,), olds - 1
        elif sign == "+":
            touched, news = (new,), news - 1
        else:
            return None
        if sign != "\\":
            for side in touched:
                side.append(body)
        at += 1
    return at if olds == news == 0 else None


def _path_of_header(line: str) -> str | None:
    """Return the path in `diff --git X X`; where other lines name it too, they are less ambiguous."""
    names = line.removeprefix("diff --git ")
    if names.startswith('"'):
        return _unquote(names[: len(names) // 2])
    half = names[: len(names) // 2]
    return half if names == f"{half} {half}" else None


def _path_of_line(line: str) -> str | None:
    for begin in ("rename to ", "copy to "):
        if line.startswith(begin):
            return _unquote(line.removeprefix(begin))
    if line.startswith(("--- ", "+++ ")) and line[4:] != "/dev/null":
        return _unquote(line[4:].removesuffix("\t"))
    return None


# Paths, quoted as git quotes them: in double quotes, bytes beyond ASCII in octal

_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
_UNESCAPES = {letter: chr(code) for code, letter in _ESCAPES.items()}
_ESCAPED = lazy(rb'\\([0-7]{3}|[abtnvfr"\\])')


def _quote(path: str) -> str:
    raw = path.encode()
    if all(32 <= byte < 127 and byte not in (34, 92) for byte in raw):
        return path
    return '"' + "".join(_quote_byte(byte) for byte in raw) + '"'


def _quote_byte(byte: int) -> str:
    if byte in _ESCAPES:
        return "\\" + _ESCAPES[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def _unquote(path: str) -> str:
    if not (len(path) > 1 and path.startswith('"') and path.endswith('"')):
        return path
    raw = _ESCAPED.sub(
        lambda match: (
            bytes([int(match[1], 8) & 255])
            if match[1][:1].isdigit()
            else _UNESCAPES[match[1].decode()].encode()
        ),
        path[1:-1].encode(),
    )
    return raw.decode(errors="replace")


def _ended(path: str) -> str:
    """End a name that has a space with a tab, as git does, so that readers see where it ends."""
    return f"{path}\t" if " " in path else path
