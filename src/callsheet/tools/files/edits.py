"""Find a text in a file and replace it, or explain why that can't be done, so that the next attempt succeeds.

Line endings are ignored when searching: a text with LF is found in a file with CRLF. The replacement receives
the line endings of the text that it replaces. Everything else must match character by character: nothing is
guessed. A text that is not there is reported with the lines that are most like it. They are found in linear
time: windows of as many lines as the text has are rated by the rare words that they share with it, and only
the best few are compared in full.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher, unified_diff
from io import StringIO
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from callsheet.report.patterns import lazy
from callsheet.tools.files.text_encoding import newline_of, presentable, with_newlines

TextSpan: TypeAlias = "tuple[int, int]"
"""Where a part of a text begins and ends."""

_MAX_COMPARED = 1000
"""Lines of one change that are compared in their order; in a larger one, lines that moved are unchanged."""

# Searching


def find_spans(text: str, wanted: str, *, replace_all: bool) -> list[TextSpan]:
    """Return where a text occurs, with any line endings. Unless all are replaced, overlaps count, too."""
    lines = wanted.replace("\r\n", "\n").split("\n")
    pattern = re.compile(r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, lines)))
    spans = [found.span() for found in pattern.finditer(text)]
    if len(spans) == 1 and not replace_all:
        again = pattern.search(text, spans[0][0] + 1)
        spans += [again.span()] if again else []
    return spans


# Replacing


class LineChanges(NamedTuple):
    """The first line of a new text that differs, and how many were added and removed."""

    first: int
    added: int
    removed: int


class Change(NamedTuple):
    """A text after some of its parts were replaced, and the lines that this has changed."""

    text: str
    lines: LineChanges


def replace(text: str, spans: Sequence[TextSpan], new: str) -> Change:
    """Replace parts of a text. The spans must be in order."""
    style, parts, last = newline_of(text), list[str](), 0
    for begin, end in spans:
        parts += [text[last:begin], _in_style(new, text[begin:end], style)]
        last = end
    changed = "".join([*parts, text[last:]])
    # Only whole lines from the first replaced part to the last one are compared.
    begin = text.rfind("\n", 0, spans[0][0]) + 1
    after = text.find("\n", last) + 1
    rest = len(text) - after if after else 0
    lines = line_changes(text[begin : len(text) - rest], changed[begin : len(changed) - rest])
    return Change(changed, lines._replace(first=text.count("\n", 0, begin) + lines.first))


def _in_style(new: str, old: str, style: str) -> str:
    """Return the replacement with the line endings of the text that it replaces, or of the file."""
    windows = old.count("\r\n")
    others = old.count("\n") - windows
    if windows and not others:
        style = "\r\n"
    elif others and not windows:
        style = "\n"
    return with_newlines(new, style)


def line_changes(old: str, new: str) -> LineChanges:
    """Compare two texts line by line."""
    before, after = (StringIO(text, newline="\n").readlines() for text in (old, new))
    pairs = enumerate(zip(before, after, strict=False))
    same = next((at for at, (one, two) in pairs if one != two), min(len(before), len(after)))
    first = max(1, min(same + 1, len(after)))  # a change may remove the end
    del before[:same], after[:same]
    while before and after and before[-1] == after[-1]:
        del before[-1], after[-1]
    if max(len(before), len(after)) > _MAX_COMPARED:
        common = (Counter(before) & Counter(after)).total()
    else:
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        common = sum(block.size for block in matcher.get_matching_blocks())
    return LineChanges(first, len(after) - common, len(before) - common)


# Why a text can't be replaced

_PLACES = 10
_LINES = 24
"""Lines that are shown of the nearest text."""

_WIDTH = 300
_WINDOWS = 12
_ALIKE = 0.5
"""Similarity below which nothing is shown."""

_MAX_TEXT = 4 << 20
"""Characters of a file that are searched for the nearest text."""

_MAX_WANTED = 20_000
_MAX_TOKENS = 1000

_NUMBERED = lazy(r"^[ \t]*\d+→", re.MULTILINE)
_WORD = lazy(r"\w+")
_TOKEN = lazy(r"\w+|[^\w\s]")


def not_unique(text: str, spans: Sequence[TextSpan], shown: str) -> str:
    """Return the message that lists the occurrences of a text that should occur only once."""
    lines = text.split("\n")
    numbers = [text.count("\n", 0, begin) + 1 for begin, _ in spans[:_PLACES]]
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


def not_found(text: str, wanted: str, shown: str) -> str:
    """Return the message that a text is not in a file, with the lines that are most like it."""
    text, wanted = text.replace("\r\n", "\n"), wanted.replace("\r\n", "\n")
    if (bare := _NUMBERED.sub("", wanted)) != wanted and bare in text:
        return f"old_text is not in {shown}: leave out the line numbers that read shows"
    wanted = wanted[:_MAX_WANTED]
    nearest = find_nearest(text[:_MAX_TEXT], wanted)
    if nearest is None:
        return f"old_text is not in {shown}, and nothing is much like it. Read the file to see what is there"
    last = nearest.first + nearest.text.count("\n")
    where = f"line {last:,}" if last == nearest.first else f"lines {nearest.first:,}–{last:,}"
    only_space = nearest.alike == 1
    how = "only white space differs" if only_space else f"{nearest.alike:.0%} alike"
    both = wanted.strip("\n").split("\n"), nearest.text.split("\n")
    marked = list(unified_diff(*both, n=len(both[1]), lineterm=""))[3:]
    render = _visible if only_space else _short
    lines = [f"{line[0]} {(_short if line[0] == ' ' else render)(line[1:])}" for line in marked]
    if len(lines) > _LINES:
        lines[_LINES:] = ["…"]
    heading = f"old_text is not in {shown}. The nearest is at {where} ({how})."
    return "\n".join([heading, "In old_text (-) and in the file (+):", *lines])


class NearestText(NamedTuple):
    """The lines of a file that are most like a text: their first number, and how alike they are, up to 1."""

    first: int
    text: str
    alike: float


def find_nearest(text: str, wanted: str) -> NearestText | None:
    """Return the lines that are most like a text, if some are. Both texts have LF as line endings."""
    lines, height = text.split("\n"), wanted.strip("\n").count("\n") + 1
    before = [0.0, *accumulate(_line_scores(text, wanted, len(lines)))]
    windows = [
        (before[min(len(lines), first + height)] - before[first], -first)
        for first in range(max(1, len(lines) - height + 1))
    ]
    # `SequenceMatcher` stores what it knows of its second text, so that is the one that stays.
    matcher = SequenceMatcher[str](None, "", _TOKEN.findall(wanted)[:_MAX_TOKENS], autojunk=False)
    best: NearestText | None = None
    for score, first in sorted(windows, reverse=True)[:_WINDOWS]:
        found = "\n".join(lines[-first : -first + height])
        matcher.set_seq1(_TOKEN.findall(found)[:_MAX_TOKENS])
        if score and matcher.quick_ratio() > max(_ALIKE, best.alike if best else 0):
            alike = matcher.ratio()
            if alike > max(_ALIKE, best.alike if best else 0):
                best = NearestText(-first + 1, found, alike)
    return best


def _line_scores(text: str, wanted: str, lines: int) -> list[float]:
    """Return a score for each line by the words that it shares; rare and long words score higher."""
    words = set(_WORD.findall(wanted))
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    places = [(word[0], word.start()) for word in _WORD.finditer(text) if word[0] in words]
    often = Counter(word for word, _ in places)
    scores = [0.0] * lines
    for word, line in {(word, bisect_right(starts, at) - 1) for word, at in places}:
        scores[line] += len(word) / often[word]
    return scores


def _short(line: str) -> str:
    line, more = presentable(line.removesuffix("\r")), len(line) - _WIDTH
    return line if more <= 0 else f"{line[:_WIDTH]}… [{more:,} more characters]"


def _visible(line: str) -> str:
    """Return a line in quotes, so that white space at its ends and tabs are visible."""
    return f'"{_short(line)}"'.replace("\t", "\\t").replace("\u00a0", "\\u00a0")
