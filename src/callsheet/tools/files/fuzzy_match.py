"""Explain why a text can't be replaced, so that the next attempt succeeds: near misses, or all occurrences.

Near misses are found in three ways, the most certain first. A wrong copy: the text occurs once line numbers,
escapes or entities are undone. The same letters: it occurs except for white space, case or typographic
characters, which one search over the squeezed text finds. The most words in common: windows of lines that
share rare words with it, compared in full.

All of them are linear in the size of the file, except for the comparison of a few windows.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from callsheet.tools.files.edits import Finder, TextSpan
from callsheet.tools.files.text_encoding import presentable

MAX_MISSES = 3
"""Maximum number of near misses that are reported."""

_WINDOWS = 12
_ALIKE = 0.5
_MAX_TEXT = 4 << 20
"""Characters of a file that are searched for shared words."""

_MAX_WANTED = 20_000
"""Characters of a wanted text whose words are searched for."""

_FEW_CHARACTERS = 240

_LOOKS = {
    "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "´": "'",
    "“": '"', "”": '"', "„": '"', "″": '"', "«": '"', "»": '"',
    "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "−": "-",
    "\u200b": " ", "\ufeff": " ", "\u00ad": " ",
}  # fmt: skip
_LOOK_ALIKES = str.maketrans(_LOOKS)
_NUMBERED = re.compile(r"^[ \t]*\d+(?:→|\t|: )", re.MULTILINE)
_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\"": '"', r"\'": "'", r"\\": "\\"}
_ESCAPE = re.compile(r"\\[nt\"'\\]")
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|[^\w\s]")


class NearMiss(NamedTuple):
    """A place where a text almost occurs: lines from `first` on, their similarity, and the differences."""

    first: int
    found: str
    alike: float
    differs: tuple[str, ...]

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self.first + self.found.rstrip("\n").count("\n")


def near_misses(text: str, wanted: str) -> list[NearMiss]:
    """Return the places where a text almost occurs. Both texts must have LF as line endings."""
    if not wanted.strip():
        return []
    misses = _wrong_copies(text, wanted) or _apart(list(_same_letters(text, wanted)))
    return misses or _shared_words(text[:_MAX_TEXT], wanted[:_MAX_WANTED])


# Wrong copies


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPES[found[0]], text)


_COPIES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("line numbers: leave out those that read shows", lambda text: _NUMBERED.sub("", text)),
    (r"escapes: old_text has \n or the like where the file has the character", _unescaped),
    ("entities: old_text has &lt; or the like where the file has the character", html.unescape),
)


def _wrong_copies(text: str, wanted: str) -> list[NearMiss]:
    for what, mend in _COPIES:
        mended = mend(wanted)
        if mended != wanted and mended.strip() and (at := text.find(mended)) >= 0:
            return [NearMiss(_line_at(text, at), mended, 1.0, (what,))]
    if not (text.isascii() and wanted.isascii()):
        return _other_composition(text, wanted)
    return []


def _other_composition(text: str, wanted: str) -> list[NearMiss]:
    """Find a text whose accents are composed in another way, line by line."""
    whole, part = (unicodedata.normalize("NFC", side) for side in (text, wanted))
    at = whole.find(part) if (whole, part) != (text, wanted) else -1
    if at < 0:
        return []
    first, count = _line_at(whole, at), part.rstrip("\n").count("\n") + 1
    found = "\n".join(text.split("\n")[first - 1 : first - 1 + count])
    return [NearMiss(first, found, 1.0, ("how accents are composed (Unicode normalisation)",))]


def _line_at(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


# The same letters


def _squeezed(text: str) -> str:
    """Remove white space, case and typography. Each remaining character is still one character."""
    plain = text if text.isascii() else text.translate(_LOOK_ALIKES)
    lower = plain.lower()
    return "".join((lower if len(lower) == len(plain) else plain).split())


def _same_letters(text: str, wanted: str) -> Iterator[NearMiss]:
    letters = _squeezed(wanted)
    lines = text.split("\n")
    squeezed = [_squeezed(line) for line in lines]
    ends = list(accumulate(map(len, squeezed)))
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    whole, at = "".join(squeezed), -1
    for _ in range(MAX_MISSES):
        at = whole.find(letters, at + 1) if letters else -1
        if at < 0:
            return
        begin = _unsqueezed(at, lines, ends, starts)
        end = _unsqueezed(at + len(letters) - 1, lines, ends, starts) + 1
        begin, end = _with_white_space(text, begin, end, wanted)
        found = text[begin:end]
        yield NearMiss(_line_at(text, begin), found, 1.0, differences(found, wanted))


def _unsqueezed(at: int, lines: list[str], ends: list[int], starts: list[int]) -> int:
    """Return the offset in the text for a character of the squeezed text."""
    number = bisect_right(ends, at)
    left = at - (ends[number - 1] if number else 0)
    for place, character in enumerate(lines[number].translate(_LOOK_ALIKES)):
        if not character.isspace():
            if not left:
                return starts[number] + place
            left -= 1
    raise AssertionError("a squeezed line has no more characters than the line")


def _with_white_space(text: str, begin: int, end: int, wanted: str) -> tuple[int, int]:
    """Extend a place by the white space around it, where the wanted text has some too."""
    if wanted[0].isspace():
        while begin > 0 and text[begin - 1] in " \t":
            begin -= 1
    if wanted[-1].isspace():
        while end < len(text) and text[end] in " \t":
            end += 1
        if end < len(text) and wanted.endswith("\n"):
            end += 1
    return begin, end


def _each_line(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "\n".join(change(line) for line in text.split("\n"))


_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("white space at the ends of lines", _each_line(str.rstrip)),
    ("indentation", _each_line(str.lstrip)),
    ("blank lines", lambda text: re.sub(r"\n\s*\n", "\n", text.strip("\n"))),
    ("spaces within lines", _each_line(lambda line: re.sub(r"(?<=\S)[^\S\n]+(?=\S)", "", line))),
    ("quotes, dashes or other look-alikes", lambda text: text.translate(_LOOK_ALIKES)),
    ("upper and lower case", str.lower),
)


def differences(found: str, wanted: str) -> tuple[str, ...]:
    """Return the kinds of differences between two texts of the same letters."""
    if _levelled(found) != _levelled(wanted):
        return ("line breaks",)
    needed = [what for what, _ in _LEVELS if _levelled(found, what) != _levelled(wanted, what)]
    if "indentation" in needed and (("\t" in found) != ("\t" in wanted)):
        has, lacks = ("the file", "old_text") if "\t" in found else ("old_text", "the file")
        needed[needed.index("indentation")] = f"indentation ({has} has tabs, {lacks} has spaces)"
    return tuple(needed) or ("white space",)


def _levelled(text: str, but: str = "") -> str:
    """Return a text with all kinds of differences removed, except for one."""
    for what, level in _LEVELS:
        text = text if what == but else level(text)
    return text


# The most words in common


def _shared_words(text: str, wanted: str) -> list[NearMiss]:
    lines, height = text.split("\n"), wanted.strip("\n").count("\n") + 1
    scores = _line_scores(text, wanted, len(lines))
    if scores is None:
        return []
    before = [0.0, *accumulate(scores)]
    windows = [
        (before[min(len(lines), first + height)] - before[first], first)
        for first in range(max(1, len(lines) - height + 1))
    ]
    best = sorted(windows, key=lambda window: (-window[0], window[1]))[:_WINDOWS]
    compare = _comparer(wanted)
    judged: list[NearMiss] = []
    for score, first in best:
        if score > 0:
            found = "\n".join(lines[first : first + height])
            judged.append(NearMiss(first + 1, found, compare(found), ()))
    judged.sort(key=lambda miss: -miss.alike)
    return _apart([miss for miss in judged if miss.alike >= _ALIKE])


def _line_scores(text: str, wanted: str, lines: int) -> list[float] | None:
    """Return a score for each line by the words that it shares; rare and long words score higher."""
    words = set(_WORD.findall(wanted.lower()))
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    lower = text.lower()
    places = [
        (found[0], found.start())
        for found in _WORD.finditer(lower if len(lower) == len(text) else text)
        if found[0] in words
    ]
    if not places:
        return None
    often = Counter(word for word, _ in places)
    scores = [0.0] * lines
    for word, line in {(word, bisect_right(starts, at) - 1) for word, at in places}:
        scores[line] += len(word) / often[word]
    return scores


def _comparer(wanted: str) -> Callable[[str], float]:
    """Return a function that rates similarity to `wanted`: by characters if it is short, else by tokens."""
    short = len(wanted) <= _FEW_CHARACTERS

    def parts(text: str) -> list[str]:
        text = text.strip()
        return list(text[: 2 * _FEW_CHARACTERS]) if short else _TOKEN.findall(text)[:1000]

    matcher: SequenceMatcher[str] = SequenceMatcher(autojunk=False)
    matcher.set_seq2(parts(wanted))

    @cache
    def compare(found: str) -> float:
        matcher.set_seq1(parts(found))
        return matcher.ratio() if matcher.quick_ratio() >= _ALIKE else 0.0

    return compare


def _apart(misses: list[NearMiss]) -> list[NearMiss]:
    """Drop near misses that overlap a better one."""
    apart: list[NearMiss] = []
    for miss in misses:
        if all(miss.last < other.first or miss.first > other.last for other in apart):
            apart.append(miss)
    return apart[:MAX_MISSES]


# Messages

_PLACES = 10
_LINES = 24
"""Lines that are shown of one near miss."""

_WIDTH = 300


def not_unique(finder: Finder, spans: Sequence[TextSpan], shown: str) -> str:
    """Return the message that lists the occurrences of a text that should occur only once."""
    lines = finder.text.split("\n")
    numbers = [finder.line(span) for span in spans[:_PLACES]]
    places = [f"{number}→{_short(lines[number - 1])}" for number in numbers]
    if len(spans) > _PLACES:
        places.append(f"… and {len(spans) - _PLACES:,} more")
    return "\n".join(
        [
            f"old_text is in {shown} {len(spans):,} times, so it is not clear which is meant. Give more of "
            "the lines around it, or set replace_all. It begins in these lines:",
            *places,
        ]
    )


def not_found(flat: str, wanted: str, shown: str) -> str:
    """Return the message that a text is not in a file, and where something like it is.

    Args:
        flat: The file's text, with LF only.
        wanted: The text.
        shown: How the message calls the file.
    """
    wanted = wanted.replace("\r\n", "\n")
    misses = near_misses(flat, wanted)
    if not misses:
        return f"old_text is not in {shown}, and nothing is much like it. Read the file to see what is there"
    lines = list(_described(misses[0], wanted))
    if len(misses) > 1:
        lines.append(f"Much the same: {', '.join(map(_where, misses[1:]))}.")
    return "\n".join([f"old_text is not in {shown}.", *lines])


def _where(miss: NearMiss) -> str:
    if miss.first == miss.last:
        return f"line {miss.first:,}"
    return f"lines {miss.first:,}–{miss.last:,}"


def _described(miss: NearMiss, wanted: str) -> Iterator[str]:
    where = _where(miss)
    if miss.differs:
        yield f"It is almost at {where}; it differs in {' and '.join(miss.differs)}."
    else:
        yield f"The nearest is at {where} ({miss.alike:.0%} alike)."
    yield "In old_text (-) and in the file (+):"
    yield from _compared(wanted.strip("\n").split("\n"), miss)


def _compared(wanted: list[str], miss: NearMiss) -> Iterator[str]:
    found = miss.found.strip("\n").split("\n")
    left = _LINES
    for mark, line in _marked(wanted, found):
        if not left:
            yield "…"
            return
        left -= 1
        yield f"{mark} {_visible(line) if miss.differs and mark != ' ' else _short(line)}"


def _marked(wanted: list[str], found: list[str]) -> Iterator[tuple[str, str]]:
    """Return the lines of both, each marked with where it is."""
    matcher = SequenceMatcher(None, wanted, found, autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            yield from ((" ", line) for line in found[c:d])
            continue
        yield from (("-", line) for line in wanted[a:b])
        yield from (("+", line) for line in found[c:d])


def _short(line: str) -> str:
    line = presentable(line.removesuffix("\r"))
    return (
        line
        if len(line) <= _WIDTH
        else f"{line[:_WIDTH]}… [{len(line) - _WIDTH:,} more characters]"
    )


def _visible(line: str) -> str:
    """Return a line in quotes, so that white space at its ends and tabs are visible."""
    return f'"{_short(line)}"'.replace("\t", "\\t").replace("\u00a0", "\\u00a0")
