"""Config options and modes. v1 has both, and often says the same by both; v2 has options only.

For a client of v2, the modes of an agent become an option, unless the agent has one of the category `mode`.
For a client of v1, the option of that category is told as modes too, since many of them know nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.acp.blocks import as_list, as_object
from callsheet.observe.values import many
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object

from .making import as_text
from .translated import Translated

MODE = "mode"
"""The category, and the id of the option that is made of modes."""

_ON, _OFF = "true", "false"


def read(value: JsonValue) -> list[JsonObject]:
    """Return options as objects, whatever else is in them."""
    return [as_object(one, "configOption") for one in as_list(value or [], "configOptions")]


# For a client of v2


def for_v2(value: JsonValue, said: Translated) -> list[JsonObject]:
    """Return options of v1 for v2."""
    return [told for one in read(value) if (told := _for_v2(one, said)) is not None]


def _for_v2(option: JsonObject, said: Translated) -> JsonObject | None:
    told = _renamed(option, "id", "configId")
    if not is_list(option.get("options")):
        return told
    choices = [kept for choice in option["options"] if (kept := _choice_for_v2(choice))]
    if choices:
        return {**told, "options": choices}
    said.lose("option without a choice")
    return None


def _choice_for_v2(choice: JsonValue) -> JsonObject | None:
    told = as_object(choice, "option")
    if "group" not in told:
        return told
    return _renamed(told, "group", "groupId") if told.get("options") else None


def with_modes(options: list[JsonObject], modes: JsonObject | None) -> list[JsonObject]:
    """Return options of v2 with the one that is made of v1's modes, if one is needed."""
    made = None if modes is None or mode_option(options) else _option_of(modes, options)
    return options if made is None else [*options, made]


def _option_of(modes: JsonObject, options: Sequence[JsonObject]) -> JsonObject | None:
    choices: list[JsonObject] = [
        _renamed(as_object(one, "mode"), "id", "value")
        for one in as_list(modes.get("availableModes"), "availableModes")
    ]
    if not choices:
        return None
    taken = [one.get("configId") for one in options]
    return {
        "configId": MODE if MODE not in taken else f"_{MODE}",
        "name": "Mode",
        "category": MODE,
        "type": "select",
        "currentValue": as_text(modes.get("currentModeId"), "currentModeId"),
        "options": choices,
    }


def mode_option(options: Sequence[JsonObject]) -> JsonObject | None:
    """Return the option, of v2, by which the mode is chosen."""
    return next((one for one in options if one.get("category") == MODE and _choices(one)), None)


def with_value(options: list[JsonObject], key: str, value: str) -> list[JsonObject]:
    """Return options with another value of one."""
    return [
        {**one, "currentValue": value} if one.get("configId") == key else one for one in options
    ]


# For a client of v1


def for_v1(value: JsonValue, said: Translated, *, booleans: bool) -> list[JsonObject]:
    """Return options of v2 for v1. `booleans` says that the client knows true and false."""
    found = (_for_v1(one, said, booleans) for one in read(value))
    return [told for told in found if told is not None]


def _for_v1(option: JsonObject, said: Translated, booleans: bool) -> JsonObject | None:
    kind, told = option.get("type"), _renamed(option, "configId", "id")
    if kind == "boolean":
        return told if booleans else _as_choice(told)
    if kind != "select":
        said.lose(f"option of type {kind}")
        return None
    choices = [as_object(one, "option") for one in as_list(option.get("options"), "options")]
    return {**told, "options": [_renamed(one, "groupId", "group") for one in choices]}


def _as_choice(option: JsonObject) -> JsonObject:
    choices = [{"value": _ON, "name": "On"}, {"value": _OFF, "name": "Off"}]
    value = _ON if option.get("currentValue") else _OFF
    return {**option, "type": "select", "currentValue": value, "options": choices}


def modes_of(options: Sequence[JsonObject]) -> JsonObject | None:
    """Return v1's modes, of the option of v2 that chooses between them."""
    option = mode_option(options)
    if option is None:
        return None
    modes = [_renamed(one, "value", "id") for one in _choices(option)]
    return {"currentModeId": option.get("currentValue"), "availableModes": modes}


def value_for_v2(params: JsonObject, options: Sequence[JsonObject]) -> JsonObject:
    """Return the params of v1's `session/set_config_option` for v2; `options` are those of v2."""
    value = params.get("value")
    if isinstance(value, bool):
        return {**params, "type": "boolean"}
    key = params.get("configId")
    chosen = next((one for one in options if one.get("configId") == key), None)
    if chosen is not None and chosen.get("type") == "boolean" and value in (_ON, _OFF):
        return {**params, "type": "boolean", "value": value == _ON}
    return {**params, "type": "id"}


def has_choice(option: JsonObject, value: JsonValue) -> bool:
    """Whether an option can have a value."""
    return any(one.get("value") == value for one in _choices(option))


def _choices(option: JsonObject) -> list[JsonObject]:
    """Return what can be chosen, in groups or not."""
    found: list[JsonObject] = []
    for one in many(option.get("options")):
        if is_object(one):
            inner = one.get("options")
            found += [i for i in inner if is_object(i)] if is_list(inner) else [one]
    return found


def _renamed(value: JsonObject, old: str, new: str) -> JsonObject:
    if old not in value:
        return value
    return {new if name == old else name: field for name, field in value.items()}
