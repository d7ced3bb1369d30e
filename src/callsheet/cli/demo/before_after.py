"""The before and after: one poor agent, run twice at the same time, bare and behind `callsheet tap`.

Both runs are real: a client starts the agent (`poor_agent`), sends it a prompt, approves what it asks, and
shows its calls as an editor would. At the end, `callsheet check` judges both recordings.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from callsheet.cli.cards.board import TICK
from callsheet.cli.cards.card import mark
from callsheet.cli.demo import own_environment
from callsheet.cli.editors import typed_callsheet
from callsheet.cli.output import console_for, is_terminal, visible
from callsheet.describe import Describer, pick_locale
from callsheet.describe.i18n import DECIMAL_COMMA
from callsheet.observe.evidence import texts
from callsheet.observe.lines import read_lines
from callsheet.observe.model import FINAL, Json, many, obj, text
from callsheet.redaction.redactor import Redactor
from callsheet.report.humanize import bytes_text
from callsheet.report.json import JsonObject
from callsheet.testing import AgentClient

if TYPE_CHECKING:
    from callsheet.check.finding import Finding
    from callsheet.check.scorecard import Score

Phrase: TypeAlias = Callable[[str], str]

WIDE = 112
"""Columns from which on both runs stand side by side."""

LOW = 25
"""Rows of a terminal that has no room for a line more."""

PIPE_WIDTH = 100
PIPE_HEIGHT = 100
_KINDS = ("read", "edit", "search", "execute")
"""The kinds of the calls that are shown."""
_GOOD, _BAD = "green", "red"


class DemoRun:
    """One of the two runs: its client, and the cards of its calls as an editor folds them."""

    def __init__(
        self,
        name: str,
        command: list[str],
        directory: Path,
        phrase: Phrase,
        ready: asyncio.Barrier,
    ) -> None:
        self.name: str = name
        self.size: int = 0
        self.blind: int = 0
        self.is_over: bool = False
        self._phrase: Phrase = phrase
        self._ready: asyncio.Barrier = ready
        self._directory: str = str(directory)
        self._cards: dict[str, Json] = {}
        self._redactor: Redactor = Redactor(known={})
        self.client: AgentClient = AgentClient(
            command,
            cwd=str(directory),
            env=own_environment(directory),
            on_permission=self._approve,
            on_line=self._receive,
            timeout=30,
        )

    async def play(self) -> None:
        """Start the agent, and let it play its turn as soon as the other one is ready, too."""
        async with self.client as client:
            session = await client.new_session(self._directory)
            await self._ready.wait()
            await client.prompt(session, "Fix the basket.")
        self.is_over = True

    def score(self) -> tuple[Score, int]:
        """Return the figures of `callsheet check` for this run, and how many findings there are."""
        # Imported late: the first line is shown, and the agents start, half a second sooner.
        from callsheet.check.engine import RecordingChecker
        from callsheet.check.rules import RULES
        from callsheet.check.scorecard import Scorecard

        findings: list[Finding] = []
        card = Scorecard(RULES)

        def found(finding: Finding) -> None:
            card.found(finding, checker.subject[1])
            findings.append(finding)

        checker = RecordingChecker(RULES, on_finding=found, on_over=card.over)
        for line in read_lines(BytesIO(self.client.recording.to_bytes())):
            checker.feed(line)
        checker.finish()
        (agent,) = card.agents.values()
        return agent.all, len(findings)

    # What an editor does

    def _receive(self, line: bytes) -> None:
        params = obj(obj(msgspec.json.decode(line)).get("params"))
        update = obj(params.get("update"))
        key = text(update.get("toolCallId"))
        if key is None:
            return
        self.size += len(line)
        if update.get("sessionUpdate") == "tool_call":
            # An editor that receives an id again takes it for the call that it knows, and draws that anew.
            self._cards[key] = {**update, "replaces": key in self._cards}
        else:
            self._cards[key] = {**self._cards.get(key, {}), **update}

    def _approve(self, params: JsonObject) -> str:
        asked = obj(params.get("toolCall"))
        card = self._cards.setdefault(text(asked.get("toolCallId")) or "", {})
        card["asked"] = is_seen = bool(asked.get("rawInput"))
        self.blind += not is_seen
        return "allow_once"

    # How it looks

    def cards(self, elapsed: float) -> list[tuple[Text, Text]]:
        """Return the title and the facts of each card."""
        return [(self._title(card, elapsed), self._facts(card)) for card in self._cards.values()]

    def _title(self, card: Json, elapsed: float) -> Text:
        status = text(card.get("status")) or "pending"
        colour = {"completed": _GOOD, "failed": _BAD}.get(status, "yellow")
        title = Text(f"{mark(status, elapsed)} ", colour, no_wrap=True, overflow="ellipsis")
        return title.append(visible(text(card.get("title")) or ""), "bold default")

    def _facts(self, card: Json) -> Text:
        line = Text(no_wrap=True, overflow="ellipsis")
        for number, (fact, style) in enumerate(self._known(card)):
            line.append(" · " if number else "", "dim").append(fact, style)
        return line

    def _known(self, card: Json) -> Iterator[tuple[str, str]]:
        """Yield what a person sees of a call, and what is wrong with it."""
        phrase, notes = self._phrase, obj(obj(card.get("_meta")).get("callsheet"))
        kind, status = text(card.get("kind")), card.get("status")
        shown = "\n".join(texts(card.get("content")))
        is_known = {
            "demo_seen": bool(card.get("asked")),
            "demo_failure": notes.get("reason") == "exit_code",
            "demo_diff": any(obj(one).get("type") == "diff" for one in many(card.get("content"))),
            "demo_hidden": "[redacted:" in shown,
            "demo_ended": notes.get("reason") == "abandoned",
        }
        is_edited = status in FINAL and "old_string" in str(card.get("rawInput"))
        is_wrong = {
            "demo_blind": card.get("asked") is False,
            "demo_false_success": status == "completed" and "\nExit code: 1" in shown,
            "demo_replaces": bool(card.get("replaces")),
            "demo_no_diff": is_edited and not is_known["demo_diff"],
            "demo_secret": bool(self._redactor.found(shown)),
            "demo_never_ends": self.is_over and status not in FINAL,
        }
        if kind in _KINDS:
            yield phrase(f"demo_{kind}"), "dim"
        for facts, style in ((is_wrong, _BAD), (is_known, _GOOD)):
            yield from ((phrase(fact), style) for fact, is_so in facts.items() if is_so)


class BeforeAfter:
    """Both runs, and the screen that shows them."""

    def __init__(self, directory: Path, console: Console | None = None) -> None:
        self._locale: str = pick_locale(None, os.environ)
        self._phrase: Phrase = Describer(str(directory), locale=self._locale).phrase
        if console is None:
            plain = Console(width=PIPE_WIDTH, height=PIPE_HEIGHT, highlight=False, no_color=True)
            console = console_for() if is_terminal() else plain
        self._console: Console = console
        self._is_live: bool = console.is_terminal
        pace = "0.1" if self._is_live else "0"
        poor = [sys.executable, "-m", "callsheet.cli.demo.poor_agent", pace]
        options = ["--locale", self._locale, "--report", os.devnull, "--no-notice"]
        tapped = [sys.executable, "-m", "callsheet", "tap", *options, "--", *poor]
        phrase, ready = self._phrase, asyncio.Barrier(2)
        self.runs: tuple[DemoRun, DemoRun] = (
            DemoRun(phrase("demo_before"), poor, directory, phrase, ready),
            DemoRun(phrase("demo_after"), tapped, directory, phrase, ready),
        )

    async def show(self) -> int:
        """Play both runs, show them, and return how many findings the tapped one has."""
        self.show_intro()
        try:
            async with asyncio.TaskGroup() as playing:  # at its end, both agents have ended
                tasks = [playing.create_task(run.play()) for run in self.runs]
                if self._is_live:
                    await self._draw(tasks)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        return self.show_result()

    def show_intro(self) -> None:
        """Say what is shown, before anything else: into a pipe, nothing follows until both runs are over."""
        self._console.print(Text(self._phrase("demo_intro"), "dim"))

    def show_result(self) -> int:
        """Show both runs when they are over, and return how many findings the tapped one has."""
        self._console.print(self._columns(0))
        if self._is_wide or self._console.height > LOW:
            self._console.print()
        scores = [run.score() for run in self.runs]
        self._console.print(self._figures(scores))
        step = f"{typed_callsheet()} setup zed --tap {self._phrase('demo_your_agent')}"
        self._console.print(Text(f"\n{self._phrase('demo_next')}"), Text(step, "bold cyan"))
        return scores[1][1]

    async def _draw(self, playing: list[asyncio.Task[None]]) -> None:
        """Draw the cards until both runs are over."""
        elapsed = 0.0
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while not all(task.done() for task in playing):
                live.update(self._columns(elapsed), refresh=True)
                await asyncio.sleep(TICK)
                elapsed += TICK

    @property
    def _is_wide(self) -> bool:
        return self._console.width >= WIDE and self._is_live

    def _columns(self, elapsed: float) -> RenderableType:
        if self._is_wide:
            groups = [
                Group(*(line for card in run.cards(elapsed) for line in _two_lines(card)))
                for run in self.runs
            ]
            half = self._console.width // 2
            inside = self._console.options.update(width=half - 4)
            height = 2 + max(len(self._console.render_lines(one, inside)) for one in groups)
            panels = [
                Panel(group, title=run.name, border_style=style, width=half, height=height)
                for run, group, style in zip(self.runs, groups, (_BAD, _GOOD), strict=True)
            ]
            return Columns(panels, padding=0)
        parts: list[RenderableType] = []
        for run, style in zip(self.runs, (_BAD, _GOOD), strict=True):
            cards = run.cards(elapsed)
            width = 2 + max((title.cell_len for title, _ in cards), default=0)
            parts.append(Text(f"\n{run.name}", f"bold {style}"))
            for title, facts in cards:
                gap = " " * (width - title.cell_len)
                line = Text.assemble(title, gap, facts, no_wrap=True, overflow="ellipsis")
                parts.append(line)
        return Group(*parts)

    def _figures(self, scores: list[tuple[Score, int]]) -> Table:
        phrase = self._phrase
        table = Table.grid(padding=(0, 3))
        for justify in ("left", "right", "right"):
            table.add_column(justify=justify)
        (bare, before), (tapped, after) = scores
        one, two = self.runs
        rows: list[tuple[str, object, object]] = [
            ("demo_whole", f"{bare.clean}/{bare.calls}", f"{tapped.clean}/{tapped.calls}"),
            ("demo_open", bare.calls - bare.ended, tapped.calls - tapped.ended),
            ("demo_approvals", one.blind, two.blind),
            ("demo_secrets", bare.leaks, tapped.leaks),
            ("demo_bytes", self._bytes(one.size), self._bytes(two.size)),
            ("demo_findings", before, after),
        ]
        table.add_row("", Text(phrase("demo_bare"), _BAD), Text(phrase("demo_tapped"), _GOOD))
        for key, was, is_now in rows:
            table.add_row(phrase(key), Text(str(was), "bold"), Text(str(is_now), "bold"))
        return table

    def _bytes(self, size: int) -> str:
        text = bytes_text(size)
        return text.replace(".", ",") if self._locale in DECIMAL_COMMA else text


def _two_lines(card: tuple[Text, Text]) -> tuple[RenderableType, ...]:
    title, facts = card
    facts.no_wrap = False
    return title, Padding(facts, (0, 0, 0, 2))
