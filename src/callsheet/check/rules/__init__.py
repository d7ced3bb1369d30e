"""All rules: the functions of the modules here, together with their texts in `rules.toml`.

To add a rule, write a function with `@rule("category/name", EventType)` in the module of its subject, and
its texts under the same id in `rules.toml`; then run `make diagrams`, which lists it in docs/check.md.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.resources import files
from typing import Any

from callsheet.check.finding import CHECKS, CheckRule
from callsheet.observe.model import obj
from callsheet.observe.tracker import CALLS

for _name in [
    "clients",
    "completeness",
    "completeness_files",
    "lifecycle",
    "order",
    "recording",
    "safety",
    "schema",
    "size",
]:
    import_module(f"{__name__}.{_name}")  # which registers its functions in `CHECKS`


def _load() -> Iterator[CheckRule]:
    table = tomllib.loads(files(__name__).joinpath("rules.toml").read_text("utf-8"))
    if lone := CHECKS.keys() ^ table.keys():
        raise LookupError(f"a function or its texts in rules.toml are missing: {sorted(lone)}")
    for rule_id, texts in table.items():
        events, check = CHECKS[rule_id]
        for_clients = tuple[str, ...](texts.pop("clients", ()))
        yield CheckRule(id=rule_id, events=events, check=check, clients=for_clients, **texts)


RULES: tuple[CheckRule, ...] = tuple(_load())
"""In the order of `rules.toml`, which is that of findings about one event, and of all lists."""

# An example is lines of JSON. One with a `method`, a `result` or an `error` is a message. Any other is the
# update of a `session/update`, or its beginning: `{"tool_call": "c1", "title": "…"}`.

SESSION = "s1"
BEFORE: tuple[dict[str, Any], ...] = (
    {"id": 0, "method": "initialize", "params": {"protocolVersion": 1}},
    {"id": 0, "result": {"protocolVersion": 1, "agentInfo": {"name": "example", "version": "1"}}},
    {"id": 1, "method": "session/new", "params": {"cwd": "/code", "mcpServers": []}},
    {"id": 1, "result": {"sessionId": SESSION}},
    {"id": 2, "method": "session/prompt", "params": {"sessionId": SESSION, "prompt": []}},
)
AFTER: tuple[dict[str, Any], ...] = ({"id": 2, "result": {"stopReason": "end_turn"}},)


def recording_of(example: str) -> bytes:
    """Return the recording of a whole turn in which the lines of an example are sent."""
    messages = [_message(json.loads(line)) for line in example.splitlines() if line.strip()]
    return b"".join(
        json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        for message in (*BEFORE, *messages, *AFTER)
    )


def _message(line: Any) -> dict[str, Any]:
    fields = obj(line)
    if fields.keys() & {"method", "result", "error"}:
        return fields
    for kind in CALLS:
        if kind in fields:
            rest = {key: value for key, value in fields.items() if key != kind}
            fields = {"sessionUpdate": kind, "toolCallId": fields[kind], **rest}
    return {"method": "session/update", "params": {"sessionId": SESSION, "update": fields}}
