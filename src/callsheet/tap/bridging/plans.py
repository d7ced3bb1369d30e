"""Plans. v1 has one for each session, v2 any number, by their ids."""

from __future__ import annotations

from callsheet.acp.blocks import as_list, as_object
from callsheet.report.json import JsonObject

from .making import as_text
from .translated import Translated

PLAN = "plan"
"""The id of the only plan that an agent of v1 has."""

MANY = 64
"""Plans of a session that are remembered."""

_PRIORITIES = ("high", "medium", "low")
_STATUSES = ("pending", "in_progress", "completed")


def for_v2(update: JsonObject) -> JsonObject:
    """Return a plan of v1 for v2."""
    rest = {name: field for name, field in update.items() if name != "entries"}
    plan: JsonObject = {"type": "items", "planId": PLAN, "entries": update.get("entries")}
    return {**rest, "sessionUpdate": "plan_update", "plan": plan}


class Plans:
    """The plans of one session of v2, which a client of v1 is shown as one."""

    def __init__(self) -> None:
        self._plans: dict[str, list[JsonObject]] = {}

    def for_v1(self, update: JsonObject, said: Translated) -> list[JsonObject]:
        """Return the plan of v1 that there is after an update of v2."""
        plan = as_object(update.get("plan"), "plan")
        key = as_text(plan.get("planId"), "planId")
        if plan.get("type") != "items":
            said.lose(f"plan of type {plan.get('type')}")
            if self._plans.pop(key, None) is None:
                return []
        else:
            entries = [as_object(one, "entry") for one in as_list(plan.get("entries"), "entries")]
            told = [_entry(one, said) for one in entries if one.get("status") != "cancelled"]
            if key not in self._plans and len(self._plans) >= MANY:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = told
        rest = {name: field for name, field in update.items() if name != "plan"}
        merged = [entry for entries in self._plans.values() for entry in entries]
        return [{**rest, "sessionUpdate": "plan", "entries": merged}]


def _entry(entry: JsonObject, said: Translated) -> JsonObject:
    """Return an entry with words that v1 knows."""
    priority, status = entry.get("priority"), entry.get("status")
    if priority in _PRIORITIES and status in _STATUSES:
        return entry
    said.lose("entry of a plan")
    return {
        **entry,
        "priority": priority if priority in _PRIORITIES else "medium",
        "status": status if status in _STATUSES else "pending",
    }
