"""Values as people type them, given as a tool's schema asks for them.

A value is JSON where it parses as a type that the schema asks for, else it is text. So `5` is a number
where a number is wanted, and text where text is wanted.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from callsheet.report.json import JsonObject, JsonValue, is_list, is_object

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_DEEPEST = 16
"""References and choices that are followed into a schema. More is a circle."""


def value_of(text: str, wanted: JsonObject, root: JsonObject) -> JsonValue:
    """Return a value as a schema asks for it: JSON if that fits, else text."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return text
    return value if accepts(value, wanted, root) else text


def accepts(value: JsonValue, schema: JsonObject, root: JsonObject, deep: int = 0) -> bool:
    """Whether a value is of a type that a schema asks for. Whether it is right is for the tool to say."""
    if deep > _DEEPEST:
        return False
    if isinstance(reference := schema.get("$ref"), str):
        return accepts(value, _referred(reference, root), root, deep + 1)
    for key in ("anyOf", "oneOf"):
        if is_list(options := schema.get(key)):
            return any(accepts(value, one, root, deep + 1) for one in options if is_object(one))
    if is_list(parts := schema.get("allOf")):
        return all(accepts(value, one, root, deep + 1) for one in parts if is_object(one))
    if "const" in schema or is_list(schema.get("enum")):
        allowed: list[Any] = [schema["const"]] if "const" in schema else schema["enum"]
        return any(type(one) is type(value) for one in allowed)
    names = schema.get("type")
    if names is None:
        return True
    return any(_is_a(value, name) for name in (names if is_list(names) else [names]))


def property_of(schema: JsonObject, name: str) -> JsonObject:
    """Return what a schema says of one argument."""
    properties = schema.get("properties")
    wanted = properties.get(name) if is_object(properties) else None
    return wanted if is_object(wanted) else {}


def _is_a(value: JsonValue, name: JsonValue) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(str(name), ()))


def _referred(reference: str, root: JsonObject) -> JsonObject:
    found: JsonValue = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if is_object(found) else None
    return found if is_object(found) else {}


def parse_json(text: str) -> JsonValue:
    """Read JSON. NaN and Infinity are none, and are a `ValueError`."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
