"""What a rule is and what it finds, and how texts of a recording are quoted in findings.

A rule is a small pure function of one kind of event (`callsheet.observe.events`), registered by `@rule`
under an id; its severity, texts and example are data, in `rules/rules.toml`. The function returns the
`Violation`s that it sees, without knowing where it is; the engine makes a `Finding` of each, with the
session, the call and the line of the event.

Findings are shown to the user, and what they quote may be hostile or secret. So every text of a recording
passes through `quoted`, `shown` or `safe`: on one line, bounded, without control characters and secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct

from callsheet.describe.titles import fit
from callsheet.redaction.redactor import Redactor, Settings

Severity: TypeAlias = Literal["error", "warning", "advice"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "advice")
CATEGORIES = ("lifecycle", "complete", "order", "size", "safety", "client", "schema", "recording")

LONGEST = 60
"""Characters of a quoted text at most."""

LONGEST_MESSAGE = 400
"""Characters of an id or a message at most."""

WINDOW = 4096
"""Characters that are searched for secrets, of a text that is cut to far fewer."""


class Violation(Struct, frozen=True):
    """What a rule reports about an event. `line` is that of the event, unless it is set.

    `field` is where in the message it is: `update.title`, `params.toolCall.rawInput`.
    """

    message: str
    field: str | None = None
    line: int | None = None
    once: str | None = None
    """If set, the rule reports this key only once per call, or per recording where there is no call."""


Violations: TypeAlias = Violation | Iterable[Violation] | None
Check = TypeVar("Check", bound=Callable[[Any], Violations])


class CheckRule(Struct, frozen=True, kw_only=True):
    """One rule: `check` is called with each event of a type in `events`."""

    id: str
    severity: Severity
    events: tuple[type, ...]
    title: str
    protocol: str
    """What the protocol says about it."""
    harm: str
    """Why the user suffers from it."""
    fix: str
    """How to correct it."""
    check: Callable[[Any], Violations]
    fields: frozenset[str] = frozenset()
    """If there are any, it sees only those updates that arrive which have one of them."""
    screen: Callable[[Any], object] | None = None
    """For a rule that judges a message by itself: whether it may find anything in an event.

    What was sent before can only excuse what such a rule finds, never make it worse.
    """
    clients: tuple[str, ...] = ()
    """The clients that it is about. Such a rule applies only if one of them is asked for."""
    example: str = ""
    """Lines that break it: messages, or updates of a session that begin with the kind and id of a call."""

    @property
    def category(self) -> str:
        """The part of the id before the slash."""
        return self.id.partition("/")[0]


class Finding(Struct, frozen=True, kw_only=True):
    """One violation of a rule in a recording. `line` counts from 1."""

    rule: str
    severity: Severity
    session: str | None
    call: str | None
    line: int
    field: str | None
    message: str


CHECKS: dict[str, dict[str, Any]] = {}
"""The functions that `rule` has registered, with their events and fields, by the ids of their rules."""


def rule(
    rule_id: str,
    *events: type,
    fields: Iterable[str] = (),
    screen: Callable[[Any], object] | bool = False,
) -> Callable[[Check], Check]:
    """Register a function as the check of the rule with this id.

    Args:
        rule_id: The id, as in `rules.toml`.
        events: The types of the events that it is called with.
        fields: It sees only those `UpdateArrived` whose update has one of them.
        screen: See `CheckRule.screen`; True if the check itself is fast enough for that.
    """

    def register(check: Check) -> Check:
        screens = (check if screen else None) if isinstance(screen, bool) else screen
        held = {"events": events, "check": check, "fields": frozenset(fields), "screen": screens}
        CHECKS[rule_id] = held
        return check

    return register


# Quoting


def quoted(value: str, longest: int = LONGEST) -> str:
    """Return a text as `shown`, between quotation marks."""
    return f"“{shown(value, longest)}”"


def shown(value: str, longest: int = LONGEST) -> str:
    """Return a text for the user: redacted, then cut. Half a secret would not be recognised."""
    redacted, _ = redactor().text(value[:WINDOW])
    return fit(redacted, longest)


@lru_cache(maxsize=4096)
def safe(value: str) -> str:
    """Return an id or a message as it is, unless it has a secret or a control character, or is long."""
    if len(value) <= LONGEST_MESSAGE and value.isprintable() and redactor().is_clean(value):
        return value
    return shown(value, LONGEST_MESSAGE)


def redactor() -> Redactor:
    """Return the redactor for the user's settings."""
    return _redactor(Redactor.settings)


@lru_cache(maxsize=1)
def _redactor(settings: Settings) -> Redactor:  # noqa: ARG001
    return Redactor()
