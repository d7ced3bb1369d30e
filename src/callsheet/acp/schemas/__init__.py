"""The official schemas of ACP, and validation of messages against them. Loaded when first needed.

`schemas/` holds them without their prose; `scripts/refresh_schemas.py` makes them. They are the unstable
ones, which include all of the stable ones: what agents may already send is not an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pkgutil import get_data  # importlib.resources takes long to import
from typing import Any, NamedTuple

import msgspec

VERSIONS = (1, 2)


class Breach(NamedTuple):
    """What is wrong with a value: where in it, and in plain words. Words of the message are not repeated."""

    path: tuple[str | int, ...]
    words: str


class Definition(NamedTuple):
    """What a message's params, or its result, must be."""

    name: str
    is_valid: Callable[[Any], bool]
    may_be_null: bool
    """Whether null will do, because nothing in it is required."""


@cache
def definition(version: int, what: tuple[str, bool]) -> Definition | None:
    """Return what a method's params must be, or its answer; None if the version has no such method."""
    name = _methods(version).get(what)
    if name is None:
        return None
    needs = _definitions(version)[name].get("required")
    return Definition(name, partial(_is_valid, validator(version, name).is_valid), not needs)


def is_valid(version: int, name: str, value: Any) -> bool:
    """Return whether a value matches its definition. One that is nested too deeply to check does not."""
    return _is_valid(validator(version, name).is_valid, value)


def _is_valid(judge: Callable[[Any], bool], value: Any) -> bool:
    try:
        return judge(value)
    except ValueError:
        return False


def breaches(version: int, name: str, value: Any) -> list[Breach]:
    """Return what is wrong with a value, by its definition. Of long lists, the beginning is looked at."""
    import jsonschema_rs

    judge = validator(version, name)
    try:
        found = list(_breaches_of(judge.iter_errors(_shortened(value))))
        if not found:  # it lies beyond what was looked at
            judge.validate(value)
    except jsonschema_rs.ValidationError as first:
        found = list(_breaches_of([first]))
    except (ValueError, RecursionError):
        return [Breach((), "it is nested too deeply")]
    return list(dict.fromkeys(found)) or [Breach((), f"it is not what `{name}` says")]


@cache
def _definitions(version: int) -> dict[str, Any]:
    data = get_data("callsheet.acp", f"schemas/v{version}.json") or b""
    return msgspec.json.decode(data)["$defs"]


@cache
def _methods(version: int) -> dict[tuple[str, bool], str]:
    found: dict[tuple[str, bool], str] = {}
    for name, schema in _definitions(version).items():
        if (
            "x-method" in schema
        ):  # a request comes before a notification of the same method, and asks less
            found.setdefault((schema["x-method"], name.endswith("Response")), name)
    return found


@cache
def validator(version: int, name: str) -> Any:
    """Return the validator of a definition."""
    import jsonschema_rs

    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": _definitions(version)})


_LONG = 64


def _shortened(value: Any) -> Any:
    """Return the value with long texts and lists cut: no definition limits the length of either.

    An error takes tens of kilobytes where a definition has many branches, and there is one for each item.
    """
    if isinstance(value, str):
        return value[:_LONG]
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_shortened(inner) for inner in value[:_LONG]]  # pyright: ignore[reportUnknownVariableType]
    return value


def _breaches_of(errors: Any) -> Iterator[Breach]:
    for error in errors:
        branches = getattr(error.kind, "context", None)
        if branches:
            yield from _of_branches(error, branches)
        else:
            yield Breach(tuple(error.instance_path), _words(error.kind))


def _of_branches(error: Any, branches: list[list[Any]]) -> Iterator[Breach]:
    """Yield what is wrong by the definition that is meant: the one whose tag fits."""
    here = len(error.instance_path)
    meant = [branch for branch in branches if not any(_is_tag(one, here) for one in branch)]
    if meant:
        yield from _breaches_of(min(meant, key=len))
        return
    tags = [one for branch in branches for one in branch if _is_tag(one, here)]
    names = ", ".join(dict.fromkeys(f"`{one.kind.expected_value}`" for one in tags))
    yield Breach(tuple(tags[0].instance_path), f"is none of those that there are: {names}")


def _is_tag(error: Any, here: int) -> bool:
    """Whether an error is that an object of a union has another tag."""
    return error.kind.name == "const" and len(error.instance_path) <= here + 1


_KINDS = {
    "string": "a text", "integer": "a whole number", "number": "a number", "object": "an object",
    "array": "a list", "boolean": "true or false", "null": "null",
}  # fmt: skip


def _words(kind: Any) -> str:
    """Return what an error means."""
    match kind.name:
        case "required":
            return f"`{_text(kind.property)}` is missing"
        case "type":
            return f"must be {' or '.join(_KINDS.get(str(one), str(one)) for one in kind.types)}"
        case "enum":
            return f"must be one of {', '.join(f'`{one}`' for one in kind.options)}"
        case "const":
            return f"must be `{kind.expected_value}`"
        case "minimum" | "exclusiveMinimum":
            return f"must be at least {kind.limit}"
        case "maximum" | "exclusiveMaximum":
            return f"must be at most {kind.limit}"
        case "minItems" | "minLength":
            return "must not be empty" if kind.limit == 1 else f"must have {kind.limit} at least"
        case "format":
            return f"must have the format `{kind.format}`"
        case _:
            return f"is not allowed there (`{kind.name}`)"


def _text(name: Any) -> str:
    return str(name).strip('"')
