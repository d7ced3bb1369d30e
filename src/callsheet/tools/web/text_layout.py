"""Lay out text in blocks: paragraphs, headings, lists, quotes, code. Independent of HTML.

Text is added in pieces; white space in it collapses, except in code. The caller marks where blocks begin and
end; an empty block adds nothing.
"""

from __future__ import annotations

import re

_SPACE = re.compile(r"[ \t\n\r\f\v\u00a0]+")
_DEEPEST = 8
"""Levels of lists and quotes that are shown; each costs space on every line."""

_MARK = "\x00"  # where a line break stands while the line is made; no text has it


class _List:
    __slots__ = ("has_items", "number")

    def __init__(self, number: int | None) -> None:
        self.number: int | None = number
        self.has_items: bool = False


class _Quote:
    __slots__ = ()


class Layout:
    """Lines of text that grow."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._parts: list[str] = []
        self._around: list[_List | _Quote] = []
        self._lists: int = 0
        self._before: str = ""
        self._bullet: str = ""
        self._heading: int = 0
        self._is_apart: bool = False
        self._code: list[str] | None = None
        self._language: str = ""
        self._span: int | None = None
        self.size: int = 0
        self.has_text: bool = False

    def text(self) -> str:
        """Return all that was laid out."""
        return "\n".join(self._lines).strip("\n")

    def finish(self) -> None:
        """End what is open."""
        if self._code is not None:
            self.end_code()
        self.block()

    # Text

    def add(self, data: str) -> None:
        """Add text to the block."""
        data = data.replace(_MARK, "\ufffd") if _MARK in data else data
        self.size += len(data)
        (self._parts if self._code is None else self._code).append(data)

    def line_break(self) -> None:
        """Go on in a new line of the same block."""
        if self._code is not None:
            self._code.append("\n")
        else:
            self._parts.append(_MARK)

    def mark(self) -> int:
        """Return the place in the block where a link begins."""
        return len(self._parts)

    def link(self, url: str, begin: int) -> None:
        """Make what came since `begin` a link, if it is still in one block and has text."""
        if self._code is not None or self._span is not None:
            return
        text = _SPACE.sub(" ", "".join(self._parts[begin:]).replace(_MARK, " ")).strip()
        if text:
            before = " " if self._parts[begin][:1].isspace() else ""
            after = " " if self._parts[-1][-1:].isspace() else ""
            shown = f"<{url}>" if text == url else f"[{text}]({url})"
            self._parts[begin:] = [f"{before}{shown}{after}"]
            self.size += len(url)

    def begin_span(self, language: str) -> None:
        """Begin code within a line; or, in a block of code, name its language."""
        if self._code is None:
            self._span = len(self._parts)
        elif not self._language:
            self._language = language

    def end_span(self) -> None:
        """End code within a line."""
        begin, self._span = self._span, None
        if begin is None or self._code is not None or begin > len(self._parts):
            return
        text = _SPACE.sub(" ", "".join(self._parts[begin:]).replace(_MARK, " ")).strip()
        if text:
            ticks = "`" * (_longest_run(text) + 1)
            pad = " " if text[0] == "`" or text[-1] == "`" else ""
            self._parts[begin:] = [f"{ticks}{pad}{text}{pad}{ticks}"]

    def take(self) -> str:
        """Return the text of the block on one line, and remove it from the layout."""
        text = _SPACE.sub(" ", "".join(self._parts).replace(_MARK, " ")).strip()
        self._parts, self._span = [], None
        return text

    # Blocks

    def block(self) -> None:
        """End the block, if one has begun."""
        if self._code is not None:
            return
        self._flush()
        self._heading = 0
        self._is_apart = True

    def heading(self, level: int) -> None:
        """Begin a heading."""
        self.block()
        self._heading = level

    def rows(self, lines: list[str]) -> None:
        """Add lines that stand together as they are."""
        self.block()
        for line in lines:
            self._put(line)
        self._is_apart = True

    def begin_code(self, language: str) -> None:
        """Begin a block of code, where white space counts."""
        if self._code is None:
            self.block()
            self._code, self._language = [], language

    def end_code(self) -> None:
        """End a block of code."""
        if self._code is None:
            return
        text, self._code = "".join(self._code), None
        lines = text.replace("\r\n", "\n").strip("\n").split("\n")
        if text.strip():
            fence = "`" * max(3, _longest_run(text) + 1)
            for line in (fence + self._language, *lines, fence):
                self._put(line)
        self._language, self._is_apart = "", True

    def begin_quote(self) -> None:
        """Begin a quotation."""
        self.block()
        self._around.append(_Quote())

    def end_quote(self) -> None:
        """End a quotation, and what is open in it."""
        self._end(_Quote)

    # Lists

    def begin_list(self, number: int | None) -> None:
        """Begin a list; `number` is the first one's, if they are counted."""
        self.block()
        self._is_apart = not self._lists
        self._around.append(_List(number))
        self._lists += 1

    def end_list(self) -> None:
        """End a list, and what is open in it."""
        self._end(_List)
        self._is_apart = not self._lists

    def item(self) -> None:
        """Begin an item of a list."""
        was_apart = self._is_apart
        self.block()
        around = self._around[-1] if self._around else None
        self._bullet = "- "
        if isinstance(around, _List):
            # Items stand together; the first one stands apart from what is before the list.
            self._is_apart = was_apart and not around.has_items
            around.has_items = True
            if around.number is not None:
                self._bullet = f"{around.number}. "
                around.number += 1

    def end_item(self) -> None:
        """End an item."""
        self.block()
        self._is_apart = not self._lists
        self._bullet = ""

    def _end(self, kind: type[_List | _Quote]) -> None:
        self.block()
        if any(isinstance(level, kind) for level in self._around[-_DEEPEST:]):
            while not isinstance(self._pop(), kind):
                pass
        elif self._around:
            self._pop()
        self._bullet = ""

    def _pop(self) -> _List | _Quote:
        level = self._around.pop()
        self._lists -= isinstance(level, _List)
        return level

    # Lines

    def _flush(self) -> None:
        text = _SPACE.sub(" ", "".join(self._parts))
        self._parts, self._span = [], None
        lines = [line.strip() for line in text.split(_MARK)]
        # Of empty lines, one is enough, and none at either end.
        lines = [line for at, line in enumerate(lines) if line or (at and lines[at - 1])]
        if lines and not lines[-1]:
            lines.pop()
        if not lines:
            return
        if self._heading:
            self._put("#" * self._heading + " " + " ".join(filter(None, lines)))
            return
        for line in lines:
            self._put(line)

    def _put(self, line: str) -> None:
        first, rest = self._prefixes()
        if self._is_apart and self._lines:
            # What is around both lines is around the empty one between them, too.
            shorter, longer = sorted((rest, self._before), key=len)
            self._lines.append(shorter.rstrip() if longer.startswith(shorter) else "")
        self._is_apart, self._before = False, rest
        self._lines.append((first + line).rstrip())
        self.has_text = True
        self.size += len(first) + 1

    def _prefixes(self) -> tuple[str, str]:
        """Return what stands before the next line, and before the ones after it."""
        bullet, self._bullet = self._bullet, ""
        around = self._around[:_DEEPEST]
        prefix = "".join(["> " if isinstance(level, _Quote) else "  " for level in around])
        if not bullet:
            return prefix, prefix
        outer = prefix[:-2] if around and isinstance(around[-1], _List) else prefix
        return outer + bullet, prefix


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
