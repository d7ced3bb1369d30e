"""Validate arguments against a tool's schema, and parse arguments from text.

`Checker` raises `InvalidArguments`; its messages state what would be valid, so that a model can correct its
call. `value_of` parses a value that a user typed: `5` is a number where the schema asks for a number, and
text where it asks for text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from callsheet.report.json import JsonObject, JsonValue, is_list, is_object
from callsheet.tools.errors import InvalidArguments

_MOST_PROBLEMS = 5
_LONGEST_VALUE = 80
_OF_TYPE = ("type", "enum", "const", "anyOf", "oneOf")


class Checker:
    """Validate arguments against one schema."""

    def __init__(self, tool: str, schema: JsonObject) -> None:
        import jsonschema_rs

        self._tool: str = tool
        self._schema: JsonObject = schema
        self._validator: Any = jsonschema_rs.validator_for(schema)

    def __call__(self, arguments: object) -> None:
        """Raise `InvalidArguments` if the arguments don't match the schema."""
        if not is_object(arguments):
            raise InvalidArguments(
                f"{self._tool}: expected the arguments as an object, got {_type(arguments)}; "
                + self._wanted()
            )
        try:
            if self._validator.is_valid(arguments):
                return
            errors = list(self._validator.iter_errors(arguments))
        except ValueError as exc:  # not JSON: a key that is not a string, NaN
            raise InvalidArguments(f"{self._tool}: the arguments are not JSON: {exc}") from None
        problems = list(dict.fromkeys(self._message(arguments, error) for error in errors))
        left = len(problems) - _MOST_PROBLEMS
        message = "; ".join(problems[:_MOST_PROBLEMS]) + (f"; and {left} more" if left > 0 else "")
        raise InvalidArguments(f"{self._tool}: {message}")

    def _wanted(self) -> str:
        names = ", ".join(self._schema.get("properties", ()))
        return f"{self._tool} takes {names}" if names else f"{self._tool} takes no arguments"

    def _message(self, arguments: JsonObject, error: Any) -> str:
        where, kind = place(error.instance_path), _kind(error)
        schema = _schema_at(self._schema, error.schema_path)
        properties = schema.get("properties", {})
        if kind == "additionalProperties":
            inside = f"{where}." if where else ""
            unknown = [
                (f"{inside}{name}", nearest(name, properties)) for name in error.kind.unexpected
            ]
            known = f"known: {', '.join(properties) or 'none'}"
            return "; ".join(
                f"unknown argument {name} ({f'did you mean {near[0]!r}?' if near else known})"
                for name, near in unknown
            )
        if kind == "required":
            missing = str(error.kind.property).strip('"')
            wanted = expected(_resolve(self._schema, properties.get(missing, {})))
            message = f"missing argument: {f'{where}.' if where else ''}{missing} ({wanted})"
            return message if where or arguments else f"{message}; {self._wanted()}"
        got = _shown(error.instance)
        return f"{where or 'the arguments'}: expected {expected(schema)}, got {got}"


def _kind(error: Any) -> str:
    """Return the keyword of a schema that a value breaks."""
    return error.kind.name if hasattr(error.kind, "name") else type(error.kind).__name__


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return up to `most` known names that are similar to `name`, best match first."""
    by_key = {_key(one): one for one in known}
    found = get_close_matches(_key(name), by_key, n=most, cutoff=0.6)
    if not found and len(name) >= 3:
        found = [key for key in by_key if _key(name) in key or key in _key(name)][:most]
    return [by_key[key] for key in found]


def _key(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


_TYPE_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def expected(schema: JsonObject) -> str:
    """Return an English description of what a schema allows."""
    if "enum" in schema:
        return "one of " + ", ".join(_shown(value) for value in schema["enum"])
    if "const" in schema:
        return _shown(schema["const"])
    options = schema.get("anyOf") or schema.get("oneOf")
    if is_list(options):
        return " or ".join(dict.fromkeys(expected(option) for option in options))
    kinds = schema.get("type")
    names = [
        _TYPE_NAMES.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds or [])
    ]
    message = " or ".join(names) or "something else"
    return message + _bounds(schema)


def _bounds(schema: JsonObject) -> str:
    parts = [
        ("minimum", "from {} on"),
        ("exclusiveMinimum", "above {}"),
        ("maximum", "up to {}"),
        ("exclusiveMaximum", "below {}"),
        ("minLength", "of at least {} characters"),
        ("maxLength", "of at most {} characters"),
        ("minItems", "with at least {} items"),
        ("maxItems", "with at most {} items"),
        ("pattern", "that matches {}"),
    ]
    message = [text.format(schema[key]) for key, text in parts if key in schema]
    if schema.get("minLength") == 1:
        message[message.index("of at least 1 characters")] = "that is not empty"
    return " " + ", ".join(message) if message else ""


def _schema_at(root: JsonObject, path: Sequence[str | int]) -> JsonObject:
    """Return the schema that a value violates: the one that contains the keyword at the end of the path."""
    schema: JsonValue = root
    for step in list(path)[:-1]:
        if is_object(schema) and "$ref" in schema and step not in schema:
            schema = _resolve(root, schema)
        if step == "$ref":
            continue
        if is_object(schema) and step in schema:
            schema = schema[str(step)]
        elif is_list(schema) and isinstance(step, int) and step < len(schema):
            schema = schema[step]
        else:
            return {}
    return _resolve(root, schema) if is_object(schema) else {}


def _resolve(root: JsonObject, schema: JsonObject) -> JsonObject:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        return root.get("$defs", {}).get(reference[len("#/$defs/") :], {})
    return schema


def place(path: Sequence[str | int]) -> str:
    """Return a place in a value, such as `prompt[0].text`."""
    message = ""
    for step in path:
        message += f"[{step}]" if isinstance(step, int) else f".{step}" if message else step
    return message


def _type(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def value_of(text: str, name: str, schema: JsonObject) -> JsonValue:
    """Return the value of an argument that was typed: as JSON if that is what the schema asks for, else text.

    A value of the right type that is wrong otherwise is parsed, too, so that the error is about the value.
    """
    import jsonschema_rs

    try:
        value = parse_json(text)
        validator: Any = jsonschema_rs.validator_for({**schema, "required": []})
        errors = list(validator.iter_errors({name: value}))
    except (ValueError, RecursionError):
        return text
    return text if any(_kind(error) in _OF_TYPE for error in errors) else value


def parse_json(text: str) -> JsonValue:
    """Parse JSON. Raise `ValueError` for NaN and Infinity too, which are not valid JSON."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
