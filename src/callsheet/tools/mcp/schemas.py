"""The schemas that servers bring. They are somebody else's, so nothing that they name is fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs

from callsheet.report.json import JsonValue


class Unusable(ValueError):
    """A schema can't be used to check anything."""


def compiled(schema: Mapping[str, Any]) -> Callable[[JsonValue], str | None]:
    """Make a check of a schema: it gives what is wrong with a value, or None. Raises `Unusable`."""
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except (ValueError, TypeError, RecursionError) as exc:
        raise Unusable(str(exc).splitlines()[0] if str(exc) else type(exc).__name__) from None

    def check(value: JsonValue) -> str | None:
        try:
            validator.validate(value)
        except jsonschema_rs.ValidationError as exc:
            where = "/".join(map(str, exc.instance_path))
            return f"{where}: {exc.message}" if where else exc.message
        return None

    return check


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")
