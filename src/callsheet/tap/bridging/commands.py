"""The slash commands that an agent offers. In v2, they and their input have a type."""

from __future__ import annotations

from callsheet.acp.blocks import as_list, as_object
from callsheet.report.json import JsonObject, JsonValue, is_object

from .translated import Translated


def for_v2(value: JsonValue) -> list[JsonObject]:
    """Return commands of v1 for v2."""
    return [_for_v2(as_object(one, "command")) for one in as_list(value, "availableCommands")]


def _for_v2(command: JsonObject) -> JsonObject:
    told = {**command, "type": "command"}
    if is_object(command.get("input")):
        told["input"] = {**command["input"], "type": "text"}
    return told


def for_v1(value: JsonValue, said: Translated) -> list[JsonObject]:
    """Return commands of v2 for v1. Those of other types are left out."""
    told: list[JsonObject] = []
    for one in as_list(value, "availableCommands"):
        command = as_object(one, "command")
        if command.get("type") == "command":
            told.append(_for_v1(command, said))
        else:
            said.lose(f"command of type {command.get('type')}")
    return told


def _for_v1(command: JsonObject, said: Translated) -> JsonObject:
    told = {name: field for name, field in command.items() if name not in ("type", "input")}
    given = command.get("input")
    if is_object(given) and given.get("type") == "text":
        told["input"] = {name: field for name, field in given.items() if name != "type"}
    elif given is not None:
        said.lose("input of a command")
    return told
