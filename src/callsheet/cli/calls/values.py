"""Arguments as they are typed: `key=value`, and `--json`.

A value is JSON where it parses as a type that the tool's schema asks for, else it is text. So
`limit=5` is a number, `path=5` is text, and `env={"A":"1"}` is an object.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

import click

from callsheet.report.values import JsonObject, JsonValue, is_list, is_object

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


def arguments_from(
    pairs: Iterable[str], given: str | None, schema: JsonObject | None
) -> dict[str, JsonValue]:
    """Give a tool's arguments; those of `key=value` win over those of `--json`."""
    return {**_from_json(given), **_from_pairs(pairs, schema or {})}


def _from_pairs(pairs: Iterable[str], schema: JsonObject) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is no argument; expected key=value")
        if key in found:
            raise click.UsageError(f"{key} is given twice")
        properties = schema.get("properties")
        wanted = properties.get(key) if is_object(properties) else None
        found[key] = value_of(text, wanted if is_object(wanted) else {}, schema)
    return found


def value_of(text: str, wanted: JsonObject, root: JsonObject) -> JsonValue:
    """Give a value as a schema asks for it: JSON if that fits, else text."""
    try:
        value = _parse(text)
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


def _is_a(value: JsonValue, name: JsonValue) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES.get(str(name), ()))


def _referred(reference: str, root: JsonObject) -> JsonObject:
    found: JsonValue = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if is_object(found) else None
    return found if is_object(found) else {}


def _from_json(given: str | None) -> dict[str, JsonValue]:
    if given is None:
        return {}
    text, where = _read(given)
    try:
        value = _parse(text)
    except json.JSONDecodeError as exc:
        place = f"line {exc.lineno} column {exc.colno}"
        raise click.UsageError(f"{where}: not JSON: {exc.msg} at {place}") from None
    except (ValueError, RecursionError) as exc:
        raise click.UsageError(f"{where}: not JSON: {exc}") from None
    if not is_object(value):
        raise click.UsageError(
            f"{where}: expected an object of arguments such as "
            f'{{"path": "a.py"}}, got {type(value).__name__}'
        )
    return dict(value)


def _read(given: str) -> tuple[str, str]:
    """Give the text that is meant, and where it is from."""
    if given != "-" and not given.startswith("@"):
        return given, "--json"
    path = "stdin" if given == "-" else given[1:]
    try:
        raw = sys.stdin.buffer.read() if given == "-" else Path(path).read_bytes()
        return raw.decode("utf-8-sig"), f"--json {given}"
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is not UTF-8"
        raise click.UsageError(f"--json: {path} can't be read: {why}") from None


def _parse(text: str) -> JsonValue:
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
