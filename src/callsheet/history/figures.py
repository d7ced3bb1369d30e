"""Figures of what was used: calls, turns, tokens and costs, by who or what used them.

What nobody has reported is None here and never 0, and each figure says of how many turns it is. Costs are
apart by currency, and say how much of them is an estimate.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from callsheet.history.call_records import column_text
from callsheet.history.database import Values
from callsheet.history.queries import Conditions, Reader, guarded
from callsheet.history.rows import UNKNOWN, Query
from callsheet.report.humanize import money_text

By: TypeAlias = Literal["agent", "user", "day", "model", "session"]
BY: tuple[By, ...] = get_args(By)

COUNTS = ("input_tokens", "output_tokens", "cached_read_tokens", "cached_write_tokens")

# The fields of a filter that a turn has as a call has them.
_OF_TURNS = frozenset(("user", "host", "agent", "client", "source", "session", "workspace", "at"))


class Cost(Struct):
    """What some turns have cost in one currency; `estimated` is the part of it that is no agent's own."""

    currency: str
    amount: float = 0.0
    estimated: float = 0.0
    turns: int = 0

    def __str__(self) -> str:
        """Return it as people see it."""
        text = money_text(self.amount, self.currency)
        return f"≈ {text}" if self.estimated else text


class Used(Struct):
    """What one agent, user, day, model or session has used. `name` is empty if it is not known.

    `counted` is how many turns have reported tokens, and `total_tokens` is theirs in all.
    """

    name: str
    calls: int = 0
    failed: int = 0
    turns: int = 0
    counted: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_read_tokens: int | None = None
    cached_write_tokens: int | None = None
    total_tokens: int | None = None
    costs: list[Cost] = field(default_factory=list[Cost])

    def add(self, other: Used) -> None:
        """Add what another one has used."""
        for name in ("calls", "failed", "turns", "counted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in (*COUNTS, "total_tokens"):
            one, two = getattr(self, name), getattr(other, name)
            setattr(self, name, two if one is None else one + (two or 0))
        for cost in other.costs:
            mine = next((one for one in self.costs if one.currency == cost.currency), None)
            if mine is None:
                self.costs.append(replace(cost))
                continue
            mine.amount += cost.amount
            mine.estimated += cost.estimated
            mine.turns += cost.turns

    @property
    def summary(self) -> str:
        """Its tokens and costs in a few words; empty if none were reported."""
        tokens = [] if self.total_tokens is None else [f"{self.total_tokens:,} tokens"]
        return ", ".join([*tokens, *map(str, self.costs)])


def unfit(query: Query) -> list[str]:
    """Return the conditions of a query that only calls can meet, and no turns."""
    only = {"tool": query.tool, "status": query.status, "search": query.search}
    names = [f"--{name}" for name, value in only.items() if value is not None]
    return names + [f"{one.field}:" for one in query.terms if one.field not in _OF_TURNS]


class UsageReader(Reader):
    """The part of a store that adds up what was used."""

    @guarded
    def used_by(self, by: By, query: Query = Query()) -> list[Used]:  # noqa: B008 - it is frozen
        """Return what was used, by whom or what; whoever has cost or used most comes first, days in order.

        Args:
            by: What to tell apart. A day is one of UTC.
            query: Which calls and turns. Only its session and times count, and terms that `unfit` lets pass.
        """
        group = {
            "day": self.db.day.format("c.at"),
            "session": "c.session_id",
            "model": "c.model",
        }.get(by, "c.origin")
        where = self._where(query)
        found: dict[str, Used] = {}
        rows = [
            *self._called(group if by != "model" else "t.model", where),
            *self._turned(group, where),
        ]
        names: dict[Any, str] = {}
        if group == "c.origin":
            keys = {key for key, _ in rows if key is not None}
            self._know_origins(keys)
            names = {key: getattr(self._origins.get(key, UNKNOWN), by) for key in keys}
        for key, used in rows:
            name = names.get(key, "") if by in ("agent", "user") else str(key or "")
            found.setdefault(name, Used(name)).add(used)
        if by == "day":
            return [found[name] for name in sorted(found)]
        return sorted(found.values(), key=_most)

    @guarded
    def used_in(self, session_ids: Iterable[str]) -> dict[str, Used]:
        """Return what the turns of sessions have used. A session without turns is not among them."""
        keys = [column_text(one) for one in session_ids]
        found: dict[str, Used] = {}
        for sql in (_TURNS, _COSTS):
            where = "c.session_id IN ({})"
            made = sql.format(group="c.session_id", where=where)
            for row in self.db.fetch_in(made, keys):
                used = _of_turns(row) if sql is _TURNS else _of_costs(row)
                found.setdefault(str(row[0]), Used(str(row[0]))).add(used)
        return found

    def _called(self, group: str, where: Conditions) -> list[tuple[Any, Used]]:
        turns = _THEIR_TURNS if group.startswith("t.") else ""
        sql = _CALLS.format(group=group, turns=turns, where=where)
        return [
            (row[0], Used("", calls=int(row[1]), failed=int(row[2] or 0)))
            for row in self.db.fetch(sql, *where.values)
        ]

    def _turned(self, group: str, where: Conditions) -> list[tuple[Any, Used]]:
        turns = self.db.fetch(_TURNS.format(group=group, where=where), *where.values)
        costs = self.db.fetch(_COSTS.format(group=group, where=where), *where.values)
        return [
            *((row[0], _of_turns(row)) for row in turns),
            *((row[0], _of_costs(row)) for row in costs),
        ]


_THEIR_TURNS = "LEFT JOIN turns t ON t.session_id = c.session_id AND t.key = c.turn"

_CALLS = """
SELECT {group}, count(*), sum(CASE WHEN c.status = 'failed' THEN 1 ELSE 0 END)
FROM calls c {turns} WHERE {where} GROUP BY {group}
"""

_ALL = "coalesce(c.total_tokens, c.input_tokens + c.output_tokens)"
_TURNS = f"""
SELECT {{group}}, count(*), count({_ALL}), {", ".join(f"sum(c.{one})" for one in COUNTS)}, sum({_ALL})
FROM turns c WHERE {{where}} GROUP BY {{group}}
"""

_COSTS = """
SELECT {group}, c.currency, sum(c.cost), sum(CASE WHEN c.cost_source = 'estimated' THEN c.cost ELSE 0 END),
    count(*)
FROM turns c WHERE {where} AND c.cost IS NOT NULL GROUP BY {group}, c.currency
"""


def _of_turns(row: Values) -> Used:
    tokens = [None if one is None else int(one) for one in row[3:]]
    counts = dict(zip((*COUNTS, "total_tokens"), tokens, strict=True))
    return Used("", turns=int(row[1]), counted=int(row[2]), **counts)  # pyright: ignore[reportArgumentType]


def _of_costs(row: Values) -> Used:
    currency = str(row[1] or "")
    return Used("", costs=[Cost(currency, float(row[2]), float(row[3]), int(row[4]))])


def _most(used: Used) -> tuple[float, int, int, str]:
    cost = max((one.amount for one in used.costs), default=0.0)
    return -cost, -(used.total_tokens or 0), -used.calls, used.name
