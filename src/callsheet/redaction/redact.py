"""Takes secrets out of text, nested data and streams. The front door; the work is done beside it.

`rules.py` has the rules, `engines.py` the fast search, `scan.py` the findings, `pairs.py` and `keys.py`
telling names, `known.py` known values, `marks.py` what stands in a secret's place, `stream.py` streams.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, cast

from callsheet.redaction.budget import Budget
from callsheet.redaction.keys import family_of
from callsheet.redaction.known import forms, secrets_of, secrets_of_mcp
from callsheet.redaction.marks import MARK, MARKS, Marks
from callsheet.redaction.nested import APART, Rewriter, leaves, texts
from callsheet.redaction.rules import (
    ID,
    InvalidRule,
    Rule,
    Settings,
    check,
    default_rules,
    read_settings,
    rules_of,
)
from callsheet.redaction.runnable import LONGEST, Runnable, is_inert
from callsheet.redaction.scan import Scanner
from callsheet.redaction.spans import Span
from callsheet.redaction.stream import QuickCheck, StreamRedactor
from callsheet.redaction.unfinished import Unfinished
from callsheet.report.json import JsonValue

__all__ = [
    "InvalidRule", "Marks", "QuickCheck", "Redactor", "Rule", "Settings", "StreamRedactor", "default_rules",
    "family_of", "read_settings", "secrets_of", "secrets_of_mcp",
]  # fmt: skip


_REMEMBERED = 65_536
"""A longer text is not kept alive only to know it again."""

_TEXTS = 64
"""Texts that are known again at most, with what was found in them."""


class Redactor:
    """Finds secrets and puts marks in their place. May be used from any thread.

    `rules` stand in for the shipped ones. `known` are values that are secret wherever they stand, by
    name if it is a mapping. `allow` are values that are never secret; `re:` makes an entry a pattern.
    """

    settings: ClassVar[Settings] = Settings()
    """What the user has set. It holds in all that are made without rules of their own."""

    def __init__(
        self,
        rules: Sequence[Rule] | None = None,
        known: Mapping[str, str] | Iterable[str] = (),
        allow: Iterable[str] = (),
        marks: Marks = MARKS,
    ) -> None:
        for rule in rules or ():
            check(rule)
        if rules is None:
            rules, allow = rules_of(self.settings), (*allow, *self.settings.allow)
        self._rules = tuple(rules)
        self._known: dict[str, str] = {}
        self._allow = tuple(allow)
        self._marks = marks
        self._compile(_named(known))
        self._clean: str | None = None
        self._told: dict[str, tuple[str, ...]] = {}

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        known: Mapping[str, str] | Iterable[str] = (),
    ) -> Redactor:
        """Make one from `[tool.callsheet.redact]` of a parsed `pyproject.toml`, or a file like it."""
        found = read_settings(settings)
        return cls(rules_of(found), known, found.allow)

    def register(self, known: Mapping[str, str] | Iterable[str]) -> None:
        """Add known values. Streams that are open already don't learn of them."""
        self._compile(_named(known))
        self._clean = None
        self._told = {}

    def text(self, text: str, *, runs: bool = False) -> tuple[str, int]:
        """Return the text without its secrets, and how many there were. Clean text comes back as it is.

        Of a text that `runs`, or may, all that a shell would act on stays; see `runnable.py`.
        """
        run = Runnable(self._scanner, text) if runs and len(text) <= LONGEST else None
        return self._text(text, run, run.budget if run else None)

    def _text(
        self, text: str, run: Runnable | None = None, budget: Budget | None = None
    ) -> tuple[str, int]:
        if text is self._clean:  # content and raw output are often one and the same
            return text, 0
        data = text.encode() if text.isascii() else text.encode("utf-8", "surrogatepass")
        spans = self._scanner.spans(data, budget)
        if not spans:
            self._clean = text if len(text) <= _REMEMBERED else None
            return text, 0
        if run is not None and len(data) <= LONGEST:
            spans = run.hidden(data, spans)
        if not spans:
            return text, 0
        return self._marked(data, spans).decode("utf-8", "surrogatepass"), len(spans)

    def value(self, value: JsonValue, *, runs: bool = False) -> tuple[JsonValue, int]:
        """Return JSON data without its secrets, and how many there were. Clean data comes back as it is.

        With `runs`, each text in it is taken for one that may be run; without, only what is known as a
        call's input, title or command is.
        """
        if type(value) is str:
            return self.text(value, runs=runs)
        joined = leaves(value)
        if joined is not None and (not joined or self.text(joined)[0] is joined):
            return value, 0
        commands = [text for text in texts(value) if len(text) <= LONGEST]
        run = Runnable(self._scanner, APART.join(commands))
        shared = {"budget": run.budget}
        running = Rewriter(
            partial(self._text, run=run, **shared), partial(self._mark, run=run, **shared)
        )
        if runs:
            return running.any(value)
        on_text, on_secret = partial(self._text, **shared), partial(self._mark, **shared)
        return Rewriter(on_text, on_secret, running).any(value)

    def is_clean(self, value: JsonValue) -> bool:
        """Whether nothing in JSON data looks like a secret at first sight. Quick; `found` says it exactly."""
        joined = leaves(value)
        return joined is not None and self.passes(joined)

    def found(self, value: JsonValue) -> dict[str, int]:
        """Say which rules find secrets in JSON data, and how many. The secrets themselves are not told."""
        counts: dict[str, int] = {}
        is_plain = self.passes(APART.join(texts(value)))
        budget = Budget()

        def on_text(text: str) -> tuple[str, int]:
            for rule in () if is_plain else self._rules_in(text, budget):
                counts[rule] = counts.get(rule, 0) + 1
            return text, 0

        def on_secret(family: str, secret: str, _: str) -> None:
            span = self._named(family, _bytes(secret), budget)
            if span is not None and not _is_marked(_bytes(secret), span):
                counts[span.rule] = counts.get(span.rule, 0) + 1

        Rewriter(on_text, on_secret).any(value)
        return counts

    def passes(self, text: str) -> bool:
        """Whether nothing in a text looks like a secret at first sight. Quick; `text` says it exactly."""
        return not self._scanner.finds(text.encode("utf-8", "surrogatepass"))

    def spared(self, text: str) -> str:
        """Return a text without what is allowed: what the user says is no secret."""
        for entry in self._allow:
            is_pattern = entry.startswith("re:")
            text = re.sub(entry[3:], "", text) if is_pattern else text.replace(entry, "")
        return text

    def quick_check(self) -> QuickCheck:
        """Return a check of a text that comes in pieces. What does not pass is for a `stream` to judge.

        As in an open stream, values that are registered later are not known.
        """
        return QuickCheck(self._unfinished)

    def _rules_in(self, text: str, budget: Budget) -> tuple[str, ...]:
        """Return the rules of the secrets in a text. It is remembered: contents come more than once."""
        found = self._told.get(text)
        if found is None:
            data = _bytes(text)
            spans = self._scanner.spans(data, budget)
            found = tuple(span.rule for span in spans if not _is_marked(data, span))
            if len(text) <= _REMEMBERED:
                if len(self._told) >= _TEXTS:
                    self._told.clear()
                self._told[text] = found
        return found

    def stream(self) -> StreamRedactor:
        """Begin a stream of bytes."""
        return StreamRedactor(self._scanner, self._unfinished, self._marks)

    def _compile(self, known: Mapping[str, str]) -> None:
        self._known |= known
        self._scanner = Scanner(self._rules, forms(self._known), self._allow)
        self._unfinished = Unfinished(self._scanner)

    def _marked(self, data: bytes, spans: Sequence[Span]) -> bytes:
        parts: list[bytes] = []
        place = 0
        for span in spans:
            parts += (data[place : span.start], self._marks.mark(span.rule, span.secret))
            place = span.end
        return b"".join([*parts, data[place:]])

    def _mark(
        self,
        family: str,
        secret: str,
        name: str,
        run: Runnable | None = None,
        budget: Budget | None = None,
    ) -> str | None:
        """Return a value that its name betrays with marks, unless it is allowed."""
        data = _bytes(secret)
        span = self._named(family, data, budget)
        if span is None:
            return None
        spans: Sequence[Span] = (span,)
        if run is not None and len(data) <= LONGEST:
            spans = run.hidden_in_value(span, data, name)
        return self._marked(data, spans).decode("utf-8", "surrogatepass") if spans else None

    def _named(self, family: str, data: bytes, budget: Budget | None) -> Span | None:
        """Return a value as the secret that its name betrays; None if it is allowed."""
        if self._scanner.allows(data):
            return None
        spans = self._scanner.spans(data, budget)
        if len(spans) == 1 and spans[0].end - spans[0].start == len(data):
            return spans[0]
        return Span(0, len(data), family, 2, data)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_marked(data: bytes, span: Span) -> bool:
    """Whether a secret was hidden already, as far as a text that may be run allows it."""
    mark = MARK.match(data, span.start, span.end)
    return mark is not None and not is_inert(data, mark.end(), span.end)


def _named(known: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Return each value a name that can stand in a mark."""
    if isinstance(known, str):
        raise InvalidRule("known: one text was given; give a mapping, or a list of texts")
    if isinstance(known, Mapping):
        return {_name(name): value for name, value in cast("Mapping[str, str]", known).items()}
    return {f"known{number or ''}": value for number, value in enumerate(known)}


def _name(name: str) -> str:
    cleaned = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in name)[:64]
    return cleaned if ID.fullmatch(cleaned) else "known"
