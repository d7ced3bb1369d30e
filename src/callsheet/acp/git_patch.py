"""Text patches as git writes them, for the diffs of ACP v2.

`write` makes the patch of some changes; `read` returns the texts that a patch holds. ACP's rules
for paths: absolute, no `a/` and `b/`, `/dev/null` for the missing side, quoted as git quotes.

How much context a patch has: small files (`WHOLE_UP_TO`) are written whole, so that both texts can
be read back, byte for byte. Around the changes of larger ones
stand three lines, as usual; what is read back then are the changed places.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

from msgspec import Struct

from callsheet.report.content import FileChange
from callsheet.report.patterns import lazy

WHOLE_UP_TO = 8 * 1024
CONTEXT = 3
MATCH_UP_TO = 250_000
"""Lines × lines that are matched with care; what is larger is cut first, or shown as replaced."""

_Opcode = tuple[str, int, int, int, int]


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
    hunks = list(_hunks(_lines(old or ""), _lines(new or ""), _context(old, new)))
    if hunks:
        head.append(f"--- {_ended(before)}\n+++ {_ended(after)}\n")
    return "".join(head + hunks)


def _context(old: str | None, new: str | None) -> int | None:
    return None if len(old or "") + len(new or "") <= WHOLE_UP_TO else CONTEXT


def _hunks(old: list[str], new: list[str], context: int | None) -> Iterator[str]:
    for group in _groups(_opcodes(old, new), context):
        (_, a, _, c, _), (_, _, b, _, d) = group[0], group[-1]
        yield f"@@ -{_span(a, b)} +{_span(c, d)} @@\n"
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (_body(" ", line) for line in old[i:j])
            else:
                yield from (_body("-", line) for line in old[i:j])
                yield from (_body("+", line) for line in new[k:m])


def _opcodes(old: list[str], new: list[str]) -> list[_Opcode]:
    """Match two lists of lines. Equal ends are set aside first, which leaves little to match."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    a, b, c, d = head, len(old) - tail, head, len(new) - tail
    middle = _joined(_matched(old, new, (a, b, c, d)))
    ends: list[_Opcode] = [("equal", 0, a, 0, c), ("equal", b, len(old), d, len(new))]
    return [op for op in (ends[0], *middle, ends[1]) if op[2] > op[1] or op[4] > op[3]]


def _matched(old: list[str], new: list[str], span: tuple[int, int, int, int]) -> Iterator[_Opcode]:
    """Match a stretch of each. One too large is cut where a line stands once in both."""
    a, b, c, d = span
    if a == b or c == d:
        if a < b or c < d:
            yield ("delete" if c == d else "insert", a, b, c, d)
        return
    if (b - a) * (d - c) <= MATCH_UP_TO:
        matcher = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
        yield from ((tag, i + a, j + a, k + c, m + c) for tag, i, j, k, m in matcher.get_opcodes())
        return
    anchors = _anchors(old, new, span)
    if not anchors:
        yield ("replace", a, b, c, d)
        return
    for i, k in anchors:
        yield from _matched(old, new, (a, i, c, k))
        yield ("equal", i, i + 1, k, k + 1)
        a, c = i + 1, k + 1
    yield from _matched(old, new, (a, b, c, d))


def _anchors(
    old: list[str], new: list[str], span: tuple[int, int, int, int]
) -> list[tuple[int, int]]:
    """Return the lines that stand once in both, as many as keep their order."""
    a, b, c, d = span
    once_old, once_new = Counter(old[a:b]), Counter(new[c:d])
    where = {new[k]: k for k in range(c, d) if once_new[new[k]] == 1}
    pairs = [(i, where[old[i]]) for i in range(a, b) if once_old[old[i]] == 1 and old[i] in where]
    # The longest row of pairs that rise on both sides: for each length, the one that ends lowest.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, k) in enumerate(pairs):
        length = bisect_left(ends, k)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [k]
        last[length : length + 1] = [index]
    found: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]


def _joined(opcodes: Iterable[_Opcode]) -> list[_Opcode]:
    """Join adjacent opcodes of the same kind."""
    joined: list[_Opcode] = []
    for tag, i, j, k, m in opcodes:
        if joined and joined[-1][0] == tag:
            joined[-1] = (tag, joined[-1][1], j, joined[-1][3], m)
        else:
            joined.append((tag, i, j, k, m))
    return joined


def _groups(opcodes: list[_Opcode], context: int | None) -> Iterator[list[_Opcode]]:
    """Cut long stretches of equal lines down to the context around changes."""
    if all(op[0] == "equal" for op in opcodes):
        return
    if context is None:
        yield opcodes
        return
    group: list[_Opcode] = []
    last = len(opcodes) - 1
    for index, (tag, i, j, k, m) in enumerate(opcodes):
        if tag != "equal":
            group.append((tag, i, j, k, m))
            continue
        before = context if index else 0
        after = context if index < last else 0
        if j - i <= before + after:
            group.append((tag, i, j, k, m))
            continue
        if before:
            yield [*group, (tag, i, i + before, k, k + before)]
        group = [(tag, j - after, j, m - after, m)] if after else []
    if group:
        yield group


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
