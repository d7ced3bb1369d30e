"""How the calls of recordings were reported, in figures: for each agent, and for each of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct, field

from callsheet.check.finding import CheckRule, Finding, shown
from callsheet.check.rules.size import net_bytes
from callsheet.observe.events import CallClosed
from callsheet.observe.model import ObservedCall, obj, text

MOST_TOOLS = 500
"""Tools of an agent that are counted apart. Their names are the agent's, and may be without end."""

OTHERS = "others"
LEAK = "leak"
ADVICE = "advice"
ERROR = "error"
_MOST_OPEN = 50_000
LARGE = 1000
"""Net bytes of a call from which on its bytes on the wire count: each message has an overhead."""

_NAME = re.compile(r"[A-Za-z_][\w:-]{0,60}").fullmatch


class Score(Struct):
    """Figures of some calls. Sizes are those of the large calls only; advice counts apart from the rest."""

    calls: int = 0
    ended: int = 0
    complete: int = 0
    clean: int = 0
    wrong: int = 0
    """Calls with an error, which is more than a warning."""
    advised: int = 0
    leaks: int = 0
    wire_bytes: int = 0
    net_bytes: int = 0

    def add(self, call: ObservedCall, net: int, found: set[str]) -> None:
        """Count a call in, with its net bytes. `found` are the categories of what is wrong with it."""
        self.calls += 1
        self.ended += call.ended is not None
        self.complete += "complete" not in found
        self.clean += not found - {ADVICE}
        self.wrong += ERROR in found
        self.advised += ADVICE in found
        self.leaks += LEAK in found
        if net >= LARGE:
            self.net_bytes += net
            self.wire_bytes += call.wire_bytes

    @property
    def amplification(self) -> float | None:
        """Bytes on the wire for each net byte; None if there were no large calls."""
        return self.wire_bytes / self.net_bytes if self.net_bytes else None


class AgentScore(Struct):
    """One agent: all of its calls, and those of each tool."""

    name: str
    all: Score = field(default_factory=Score)
    tools: dict[str, Score] = field(default_factory=dict[str, Score])


class Scorecard:
    """Counts calls as they close. `rules` are those that apply: what they don't look for is not shown."""

    def __init__(self, rules: Iterable[CheckRule]) -> None:
        self.agents: dict[str, AgentScore] = {}
        held = tuple(rules)
        self.judges_complete: bool = any(rule.category == "complete" for rule in held)
        self.judges_leaks: bool = any(is_leak(rule.id) for rule in held)
        self._found: dict[tuple[str, str, int], set[str]] = {}

    def begin(self) -> None:
        """Begin a recording: calls of others are over."""
        self._found.clear()

    def found(self, finding: Finding, first: int) -> None:
        """Note what is wrong with the call that begins on line `first`."""
        if finding.call is None or len(self._found) > _MOST_OPEN:
            return
        its = self._found.setdefault((finding.session or "", finding.call, first), set())
        its.add(ADVICE if finding.severity == "advice" else finding.rule.partition("/")[0])
        if finding.severity == "error":
            its.add(ERROR)
        if is_leak(finding.rule):
            its.add(LEAK)

    def over(self, event: CallClosed) -> None:
        """Count a call that is over."""
        call = event.call
        found = self._found.pop((call.session.id, call.id, call.first), set())
        agent = self._agent(event.connection.agent)
        tool = tool_of(call)
        if tool not in agent.tools and len(agent.tools) >= MOST_TOOLS:
            tool = OTHERS
        net = net_bytes(call)
        agent.all.add(call, net, found)
        agent.tools.setdefault(tool, Score()).add(call, net, found)

    def _agent(self, name: str) -> AgentScore:
        name = _shown_name(name) or "unknown agent"
        if name not in self.agents:
            self.agents[name] = AgentScore(name)
        return self.agents[name]


def is_leak(rule: str) -> bool:
    """Whether a rule is about secrets in clear."""
    return rule.startswith("safety/") and "secret" in rule


def tool_of(call: ObservedCall) -> str:
    """Return the name of a call's tool, or what is nearest to it."""
    claude = obj(obj(call.fields.get("_meta")).get("claudeCode"))
    named = call.name or text(claude.get("toolName"))
    if named:
        return _shown_name(named)
    title = text(call.opening.get("title")) or ""
    if _NAME(title):
        return title
    return f"({_shown_name(text(call.fields.get('kind')) or 'other')})"


@lru_cache(1024)
def _shown_name(name: str) -> str:
    return shown(name)


# The card


class ScorecardRow(Struct, frozen=True):
    """A row of the card. Those of tools stand below the one of their agent."""

    name: str
    is_tool: bool
    cells: tuple[str, ...]


HEADS = ("calls", "ended", "complete", "clean", "faulty", "advised", "wire", "leaks")
LEGEND = (
    "Counts of calls. CLEAN: no errors, no warnings. FAULTY: with errors. ADVISED: with advice. "
    "WIRE: bytes sent per byte of content. LEAKS: with secrets in the clear."
)
"""What the heads mean."""


def rows(summary: Scorecard, most_tools: int | None = None) -> Iterator[ScorecardRow]:
    """Return the rows of the card. With `most_tools`, of each agent only the tools that were called most."""
    for agent in summary.agents.values():
        yield ScorecardRow(agent.name, False, _cells(agent.all, summary))
        tools = sorted(agent.tools.items(), key=lambda item: (-item[1].calls, item[0]))
        for name, score in tools[:most_tools]:
            yield ScorecardRow(name, True, _cells(score, summary))
        left = len(tools) - (most_tools or len(tools))
        if left > 0:
            yield ScorecardRow(f"… and {left} more", True, ("",) * len(HEADS))


def _cells(score: Score, summary: Scorecard) -> tuple[str, ...]:
    wire = score.amplification
    return (
        f"{score.calls:,}",
        _share(score.ended, score.calls),
        _share(score.complete, score.calls) if summary.judges_complete else "–",
        _share(score.clean, score.calls),
        f"{score.wrong:,}",
        f"{score.advised:,}",
        "–" if wire is None else f"{wire:,.1f}×" if wire < 99.95 else f"{wire:,.0f}×",
        f"{score.leaks:,}" if summary.judges_leaks else "–",
    )


def _share(part: int, whole: int) -> str:
    """Return a share; what is not all is never shown as all, and what is not nothing never as nothing."""
    percent = round(100 * part / whole) if whole else 100
    if part != whole:
        percent = min(percent, 99)
    if part:
        percent = max(percent, 1)
    return f"{percent} %"


def markdown(summary: Scorecard, totals: str) -> str:
    """Return the card for a README, or a comment of CI."""
    lines = [
        "| agent, tool | calls | ended | complete | clean | with errors | with advice "
        "| bytes sent per byte | with secrets |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows(summary):
        name = _escaped(row.name)
        name = name if row.is_tool else f"**{name}**"
        lines.append(f"| {' | '.join((name, *row.cells))} |")
    return "\n".join([*lines, "", f"{_escaped(totals)} Checked by `callsheet check`.", ""])


def _escaped(name: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&#])", r"\\\1", name)
