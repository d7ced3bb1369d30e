"""What the agent may do without asking: the modes that a user can choose from, in their language."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from callsheet.report.json import JsonObject

if TYPE_CHECKING:
    from callsheet.tools.permits import Mode

MODES: dict[str, Mode] = {"ask": "ask", "edits": "edits", "all": "allow", "read_only": "deny"}
"""ACP's ids of the modes, and what each means to a session."""

OPTION = "permission"
"""The id of the config option that says the same."""

Phrase = Callable[..., str]


def mode_id(mode: Mode) -> str:
    """Return the id of a mode."""
    return next(key for key, value in MODES.items() if value == mode)


def mode_state(current: str, phrase: Phrase) -> JsonObject:
    """Return ACP v1's `modes`."""
    return {
        "currentModeId": current,
        "availableModes": [
            {
                "id": key,
                "name": phrase(f"mode_{key}"),
                "description": phrase(f"mode_{key}_means"),
            }
            for key in MODES
        ],
    }


def config_options(current: str, phrase: Phrase, version: int) -> list[JsonObject]:
    """Return ACP's `configOptions`."""
    options: list[Any] = [
        {"value": key, "name": phrase(f"mode_{key}"), "description": phrase(f"mode_{key}_means")}
        for key in MODES
    ]
    return [
        {
            "id" if version == 1 else "configId": OPTION,
            "name": phrase("mode"),
            "category": "mode",
            "type": "select",
            "currentValue": current,
            "options": options,
        }
    ]
