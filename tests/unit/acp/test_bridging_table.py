"""The table of the bridge covers both official schemas, and the document shows just that."""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

import pytest

from callsheet.tap.bridging.direction import Direction
from callsheet.tap.bridging.table import V1_AGENT, V2_AGENT, Table
from callsheet.tap.bridging.v1_agent import V1Agent
from callsheet.tap.bridging.v2_agent import V2Agent
from tests.support import ROOT, schemas

BOTH = pytest.mark.parametrize(
    ("table", "agent", "make"), [(V1_AGENT, 1, V1Agent), (V2_AGENT, 2, V2Agent)], ids=["v1", "v2"]
)


@cache
def definitions(version: int) -> dict[str, Any]:
    path = schemas.FOLDER / f"v{version}" / "schema.json"
    return json.loads(path.read_text(encoding="utf-8"))["$defs"]


def methods(version: int, side: str) -> set[str]:
    """Return the methods that one side serves."""
    found = definitions(version).values()
    sides = (side, "protocol")
    return {one["x-method"] for one in found if one.get("x-side") in sides}


def kinds(version: int) -> set[str]:
    union = definitions(version)["SessionUpdate"]
    tags = [
        one.get("properties", {}).get("sessionUpdate", {})
        for one in union.get("oneOf") or union["anyOf"]
    ]
    return {tag["const"] for tag in tags if "const" in tag}


@BOTH
def test_every_method_and_every_update_is_decided(
    table: Table, agent: int, make: type[Direction]
) -> None:
    client = 3 - agent
    assert set(table.client) == methods(client, "agent")
    assert set(table.agent) == methods(agent, "client")
    assert set(table.updates) == kinds(agent)
    assert len(table.client) > 12


@BOTH
def test_the_code_does_what_the_table_says(table: Table, agent: int, make: type[Direction]) -> None:
    direction = make(lambda: "id")
    beside = ("initialize", "session/update")  # the greeting, and the way to all updates
    for rows, handlers in (
        (table.client, {**direction.calls, **direction.answers}),
        (table.agent, direction.requests),
        (table.updates, direction.updates),
    ):
        for name, row in rows.items():
            if row.deed in ("translated", "answered"):
                assert name in handlers or name in beside, name
            elif row.deed in ("refused", "with the calls"):
                assert name not in handlers, name
        assert set(handlers) <= set(rows)
    refused = [
        row for row in (*table.client.values(), *table.agent.values()) if row.deed == "refused"
    ]
    assert all(row.words for row in refused), "who is refused is told why"


def test_the_document_shows_the_table() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import list_bridge
    finally:
        sys.path.pop(0)
    text = list_bridge.DOCUMENT.read_text(encoding="utf-8")
    assert text == list_bridge.with_lists(text), "run `make diagrams`"
    for table in (V1_AGENT, V2_AGENT):
        assert all(
            f"| `{name}` |" in text for name in (*table.client, *table.agent, *table.updates)
        )
