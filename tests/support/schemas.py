"""The official schemas as validators. Every message that a test makes passes through here (see conftest)."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema_rs

from tests.support import TESTS

FOLDER = TESTS / "schema"
NOTIFICATION = {1: "SessionNotification", 2: "UpdateSessionNotification"}


@cache
def validator(version: int, name: str) -> Any:
    schema = json.loads((FOLDER / f"v{version}" / "schema.json").read_text(encoding="utf-8"))
    return jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})


def check_update(version: int, update: dict[str, Any]) -> dict[str, Any]:
    """Return an update back if the official schema takes it, else raise."""
    check(version, NOTIFICATION[version], {"sessionId": "s", "update": update})
    return update


def check(version: int, name: str, value: Any) -> None:
    errors = [
        f"{e.instance_path}: {e.message}" for e in validator(version, name).iter_errors(value)
    ]
    assert not errors, f"not valid ACP v{version} {name}: {errors[:3]}\n{json.dumps(value)[:800]}"


@cache
def name_of(version: int, method: str, answer: bool = False) -> str:
    """Return the definition of a method's params, or of its answer."""
    schema = json.loads((FOLDER / f"v{version}" / "schema.json").read_text(encoding="utf-8"))
    (found,) = [
        name
        for name, one in schema["$defs"].items()
        if one.get("x-method") == method and name.endswith("Response") == answer
    ]
    return found
