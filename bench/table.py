"""What a subject found: rows to read, figures to keep, and claims that hold or don't."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

Figures: TypeAlias = dict[str, object]


class Claim(NamedTuple):
    """Something that the bench must show, and what it did show."""

    text: str
    figure: float
    limit: float
    at_least: bool = False
    unit: str = "×"

    @property
    def holds(self) -> bool:
        """Whether the figure is on the right side of the limit."""
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def __str__(self) -> str:
        mark, sign = "✓" if self.holds else "✗", "≥" if self.at_least else "≤"
        missed = "" if self.holds else "   MISSED"
        figure, limit = f"{self.figure:#.3g}{self.unit}", f"{self.limit:g}{self.unit}"
        return f"{mark} {self.text}: {figure} (must be {sign} {limit}){missed}"


class Subject(NamedTuple):
    """One part of the bench, done."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    claims: Sequence[Claim]
    notes: Sequence[str]
    kept: Figures

    def figures(self) -> Figures:
        """Return what goes into results.json."""
        claims = [
            {
                "claim": claim.text,
                "figure": round(claim.figure, 3),
                "must_be": f"{'≥' if claim.at_least else '≤'} {claim.limit:g}{_unit(claim)}",
                "holds": claim.holds,
            }
            for claim in self.claims
        ]
        return {**self.kept, "claims": claims, "notes": list(self.notes)}


def _unit(claim: Claim) -> str:
    return "" if claim.unit == "×" else claim.unit


def show(subject: Subject) -> None:
    """Print a subject as a table: the first column to the left, figures to the right."""
    lines = [subject.head, *subject.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(subject.head))]
    print(f"\n{subject.title}")
    _show_line(subject.head, widths)
    print("  " + "  ".join("─" * width for width in widths))
    for row in subject.rows:
        _show_line(row, widths)
    for note in subject.notes:
        print(f"  · {note}")
    print(end="", flush=True)


def _show_line(cells: Sequence[str], widths: Sequence[int]) -> None:
    first, *others = (
        cell.rjust(width) if column else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    print("  " + "  ".join([first, *others]).rstrip())


def show_claims(subjects: Iterable[Subject]) -> None:
    """Print what must be shown, one line each, and how many of these were missed."""
    claims = [claim for subject in subjects for claim in subject.claims]
    print("\nMust show")
    for claim in claims:
        print(f"  {claim}")
    missed = sum(not claim.holds for claim in claims)
    print(f"  {len(claims) - missed} of {len(claims)} hold.\n")
