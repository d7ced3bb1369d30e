"""The redactor of text, nested data and streams: the public class of this package.

`rules.py` has the rules, `scanner.py` finds secrets in bytes, `assignments.py` and
`secret_names.py` know secret names, `known_values.py` known values, `spans.py` has what stands in
a secret's place, `stream.py` redacts streams, `commands.py` decides what of a command stays shown.

Nested data is nearly always clean. So it is encoded as JSON, and that is searched once
(`patterns.in_json`). Only if there is something to look at does a `Rewriter` visit each text and name;
it copies what changes and leaves what doesn't as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import is_
from typing import Any, ClassVar, cast

import msgspec

from callsheet.redaction.commands import LONGEST, Runnable, is_inert
from callsheet.redaction.known_values import forms, secrets_of, secrets_of_mcp
from callsheet.redaction.patterns import UNCERTAIN, in_json, make_gate, secret_names
from callsheet.redaction.rules import (
    ID,
    InvalidRule,
    Rule,
    Settings,
    check,
    default_rules,
    read_settings,
    rules_of,
    table,
)
from callsheet.redaction.scanner import Budget, Scanner
from callsheet.redaction.secret_names import family_of, is_placeholder, scheme_length
from callsheet.redaction.spans import MARK, MARKS, Marks, Span
from callsheet.redaction.stream import StreamRedactor, Unfinished
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object, text_of_bytes

__all__ = [
    "InvalidRule", "Marks", "Redactor", "Rule", "Settings", "StreamRedactor", "default_rules",
    "family_of", "read_settings", "secrets_of", "secrets_of_mcp",
]  # fmt: skip

_encode = msgspec.json.Encoder().encode


class Redactor:
    """Finds secrets and puts marks in their place. May be used from any thread.

    `rules` stand in for the shipped ones. `known` are values that are secret wherever they stand,
    by name if it is a mapping. `allow` are values that are never secret; `re:` makes an entry a
    pattern.
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
        if rules is None:
            allow = (*allow, *self.settings.allow)
        for rule in rules or ():
            check(rule)
        self._rules = rules_of(self.settings) if rules is None else tuple(rules)
        self._known: dict[str, str] = {}
        self._allow = tuple(allow)
        self._marks = marks
        self.register(known)
        if rules is not None:  # what RE2 does not accept is refused here, not at the first text
            _ = self._scanner.gate

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        known: Mapping[str, str] | Iterable[str] = (),
    ) -> Redactor:
        """Return a redactor for the table `[tool.callsheet.redact]` of a settings file."""
        found = read_settings(settings)
        return cls(rules_of(found), known, found.allow)

    def register(self, known: Mapping[str, str] | Iterable[str]) -> None:
        """Add known values. Streams that are open already don't learn of them."""
        self._known |= _named(known)
        self._scanner = Scanner(self._rules, forms(self._known), self._allow)
        self._unfinished = Unfinished(self._scanner)
        self.__dict__.pop("_match_json", None)

    def text(self, text: str, *, runs: bool = False) -> tuple[str, int]:
        """Return a text without its secrets.

        Args:
            text: Any text.
            runs: Whether it may be run. Then all that a shell would act on stays (`commands.py`).

        Returns:
            The text with marks, and how many there are. Clean text comes back as it is.
        """
        run = Runnable(self._scanner, text) if runs else None
        rewriter = Rewriter(self._scanner, self._marks, run)
        return rewriter.text(text, runs=runs), rewriter.count

    def value(self, value: JsonValue, *, runs: bool = False) -> tuple[JsonValue, int]:
        """Return JSON data without its secrets.

        Args:
            value: Any JSON value.
            runs: Whether each text in it may be run. Without it, only a call's input, title and
                command are treated so.

        Returns:
            The data with marks, and how many there are. Clean data comes back as it is.
        """
        if type(value) is str:
            return self.text(value, runs=runs)
        if self.is_clean(value):
            return value, 0
        commands = [text for text in texts(value) if len(text) <= LONGEST]
        run = Runnable(self._scanner, "\n".join(commands))
        rewriter = Rewriter(self._scanner, self._marks, run)
        return rewriter.any(value, runs=runs), rewriter.count

    def is_clean(self, value: JsonValue) -> bool:
        """Return whether nothing in JSON data looks like a secret at first sight.

        This is fast; `found` is exact.
        """
        try:
            return self.is_clean_json(_encode(value))
        except UnicodeEncodeError:  # a lone surrogate
            return False

    def is_clean_json(self, data: bytes) -> bool:
        """Return whether nothing in encoded JSON looks like a secret at first sight, in one search.

        If so, `value` would leave it as it is. If not, `value` decides.

        Args:
            data: What `msgspec.json.encode` made of a value. JSON that is written in another way, with
                spaces or needless escapes, may hold secrets that are not found.
        """
        return self._match_json(data) is None

    @cached_property
    def _match_json(self) -> Callable[[bytes], object]:
        # Asked several times in each call's life, so it is RE2's own method, without a frame around it.
        patterns = [in_json(pattern) for pattern in self._scanner.patterns()]
        return make_gate((*patterns, secret_names(table().keys, _FLAGS), *UNCERTAIN)).match

    def found(self, value: JsonValue) -> dict[str, int]:
        """Return how many secrets each rule finds in JSON data.

        The secrets themselves are not part of the result.
        """
        if self.is_clean(value):
            return {}
        # The result is dropped, so it needs no marks that other texts share.
        rewriter = Rewriter(self._scanner, Marks())
        rewriter.any(value)
        return rewriter.rules

    def spared(self, text: str) -> str:
        """Return a text without what is allowed: what the user declared not to be secret."""
        allow = self._scanner.allow
        return allow.sub(b"", _bytes(text)).decode("utf-8", "surrogatepass") if allow else text

    def is_harmless(self, data: bytes) -> bool:
        """Return whether a text surely has no secret in it, and none that has begun at its end.

        This is fast: for text that comes in pieces. What is not harmless has to go through a `stream`.
        """
        return self._unfinished.is_harmless(data)

    def stream(self) -> StreamRedactor:
        """Begin a stream of bytes."""
        return StreamRedactor(self._scanner, self._unfinished, self._marks)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_marked(data: bytes, span: Span) -> bool:
    """Return whether a secret was hidden already, as far as a text that may be run allows it."""
    mark = MARK.match(data, span.start, span.end)
    return mark is not None and not is_inert(data, mark.end(), span.end)


def _named(known: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    """Return each value under a name that can stand in a mark."""
    if isinstance(known, str):
        raise InvalidRule("known: one text; pass a mapping, or a list of texts")
    if isinstance(known, Mapping):
        return {_name(name): value for name, value in cast("Mapping[str, str]", known).items()}
    return {f"known{number or ''}": value for number, value in enumerate(known)}


def _name(name: str) -> str:
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "-", name)[:64]
    return cleaned if ID.fullmatch(cleaned) else "known"


_LONG_NAME = 12
_NAMING = ("name", "key", "header")
_HOLDING = frozenset({"secret", "credential", "cookie", "authorization", "password"})
"""Under such a name, whatever a list or an object holds is secret."""
_RUN = frozenset({"rawInput", "command", "cmd", "script"})
"""Under such a name is what may be run, and so is a call's title."""


def texts(value: JsonValue) -> list[str]:
    """Return all texts, including long names, whatever the names mean."""
    found: list[str] = []
    waiting: list[JsonValue] = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            found.append(item)
        elif is_object(item):
            found += [key for key in item if len(key) > _LONG_NAME]
            waiting += item.values()
        elif is_list(item):
            text = text_of_bytes(item)
            waiting += item if text is None else [text]
    return found


class Rewriter:
    """Puts marks in place of the secrets in a text, or in all parts of a value.

    Each method returns the same object where nothing changes. `run` decides what of a command may be
    hidden; without it, no part is treated as one.
    """

    def __init__(self, scanner: Scanner, marks: Marks, run: Runnable | None = None) -> None:
        self._scanner = scanner
        self._marks = marks
        self._run = run
        self._budget: Budget = run.budget if run else Budget()  # one for all parts of a value
        self.count: int = 0
        """How many marks were put."""
        self.rules: dict[str, int] = {}
        """How many secrets each rule has found that were not hidden already."""

    def text(self, text: str, *, runs: bool = False) -> str:
        """Rewrite a text. `runs` is whether it may be run."""
        data = _bytes(text)
        spans = self._scanner.search(data, self._budget)[0]
        if spans and runs and self._run is not None and len(data) <= LONGEST:
            spans = self._run.hidden(data, spans)
        self.count += len(spans)
        return self._marked(data, spans) if spans else text

    def any(
        self, value: JsonValue, family: str = "", name: str = "", *, runs: bool = False
    ) -> JsonValue:
        """Rewrite a value of any kind. With a family, its name marks it as secret, whatever it looks like."""
        if type(value) is str:
            if family:
                return self._named(family, value, name, runs=runs)
            return self.text(value, runs=runs)
        if type(value) is int and family == "password" and value > 999:
            mark = self._secret(family, text := str(value), name, runs=runs)
            return value if mark is text else mark
        held = family if family in _HOLDING else ""
        if is_object(value):
            return self._object(value, held, runs=runs)
        return self._list(value, held, name, runs=runs) if is_list(value) else value

    def _object(self, value: JsonObject, held: str, *, runs: bool) -> JsonObject:
        named = next((value[key] for key in _NAMING if type(value.get(key)) is str), "")
        found: JsonObject = {}
        same = True
        for key, inner in value.items():
            title = named if key == "value" and named else key
            family = family_of(key) or family_of(title) or held
            is_run = runs or key in _RUN or (key == "title" and "toolCallId" in value)
            new = self.any(inner, family, title, runs=is_run)
            name = self.text(key, runs=runs) if len(key) > _LONG_NAME else key
            while name in found:  # two secrets may share a mark, but nothing may vanish
                name += "+"
            found[name] = new
            same = same and new is inner and name is key
        return value if same else found

    def _list(self, value: list[JsonValue], held: str, name: str, *, runs: bool) -> JsonValue:
        text = text_of_bytes(value)
        if text is not None:
            new = self.any(text, held, name, runs=runs)
            return value if new is text else new
        found: list[JsonValue] = []
        family = held
        for item in value:
            found.append(self.any(item, family, name, runs=runs))
            flag = _flag_family(value, item)
            family, name = (flag, str(item)) if flag else (held, name)
        return value if all(map(is_, found, value)) else found

    def _named(self, family: str, value: str, name: str, *, runs: bool) -> str:
        """Rewrite a text whose name marks it as secret."""
        data = _bytes(value)
        scheme = scheme_length(data) if family in ("authorization", "token") else 0
        if family == "user":
            scheme = data.find(b":") + 1
            if not scheme:
                return self.text(value, runs=runs)
            family = "password"
        if is_placeholder(data[scheme:]):
            return value
        mark = self._secret(family, rest := value[scheme:], name, runs=runs)
        return value if mark is rest else value[:scheme] + mark

    def _secret(self, family: str, secret: str, name: str, *, runs: bool) -> str:
        """Rewrite a value that its name betrays."""
        data = _bytes(secret)
        if self._scanner.allows(data):
            return secret
        spans = self._scanner.search(data, self._budget)[0]
        if len(spans) != 1 or spans[0].end - spans[0].start < len(data):
            spans = (Span(0, len(data), family, 2, data),)
        if runs and self._run is not None and len(data) <= LONGEST:
            spans = self._run.hidden_in_value(spans[0], data, name)
        self.count += bool(spans)
        return self._marked(data, spans) if spans else secret

    def _marked(self, data: bytes, spans: Sequence[Span]) -> str:
        parts: list[bytes] = []
        place = 0
        for span in spans:
            parts += (data[place : span.start], self._marks.mark(span.rule, span.secret))
            place = span.end
            if not _is_marked(data, span):
                self.rules[span.rule] = self.rules.get(span.rule, 0) + 1
        return b"".join([*parts, data[place:]]).decode("utf-8", "surrogatepass")


def _flag_family(command: list[JsonValue], flag: JsonValue) -> str:
    """Return the family of the secret after this flag, in a command that is a list of words, or ""."""
    if type(flag) is not str or not flag.startswith("-") or "=" in flag:
        return ""
    if flag in _USER_FLAGS and "curl" in command[:3]:
        return "user"
    program = str(command[0]).rpartition("/")[2]
    if flag in _SHORT_FLAGS.get(program, ()):
        return "password"
    return family_of(flag.lstrip("-"))


_USER_FLAGS = ("-u", "--user", "-U", "--proxy-user")
_SHORT_FLAGS = {
    "sshpass": ("-p",), "redis-cli": ("-a",), "docker": ("-p",), "podman": ("-p",), "helm": ("-p",),
    "mongosh": ("-p",), "mongo": ("-p",), "mongodump": ("-p",), "sqlcmd": ("-P",), "ldapsearch": ("-w",),
}  # fmt: skip
_FLAGS = frozenset(chain(_USER_FLAGS, *_SHORT_FLAGS.values()))
