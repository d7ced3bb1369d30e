"""Arguments as they are typed: `key=value`, and `--json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.tools.arguments import parse_json, property_of, value_of


def arguments_from(
    pairs: Iterable[str], given: str | None, schema: JsonObject | None
) -> dict[str, JsonValue]:
    """Return a tool's arguments; those of `key=value` win over those of `--json`."""
    return {**_from_json(given), **_from_pairs(pairs, schema or {})}


def _from_pairs(pairs: Iterable[str], schema: JsonObject) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{pair!r} is no argument; expected key=value")
        if key in found:
            raise click.UsageError(f"{key} is given twice")
        found[key] = value_of(text, property_of(schema, key), schema)
    return found


def _from_json(given: str | None) -> dict[str, JsonValue]:
    if given is None:
        return {}
    text, where = _read(given)
    try:
        value = parse_json(text)
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
    """Return the text that is meant, and where it is from."""
    if given != "-" and not given.startswith("@"):
        return given, "--json"
    path = "stdin" if given == "-" else given[1:]
    try:
        raw = sys.stdin.buffer.read() if given == "-" else Path(path).read_bytes()
        return raw.decode("utf-8-sig"), f"--json {given}"
    except (OSError, ValueError) as exc:
        why = getattr(exc, "strerror", None) or "it is not UTF-8"
        raise click.UsageError(f"--json: {path} can't be read: {why}") from None
