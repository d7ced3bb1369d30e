"""Long lists of commands: cleaned aside, told in their order, and nobody waits for them."""

from __future__ import annotations

import json
from typing import Any

from callsheet.tap.command_lists import LONG
from tests.support.made_recordings import SESSION, announced, asked, updated
from tests.support.tapped import Tapped, kinds, line_of

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
HINTS = "Use --token TOKEN, or password: yours; Authorization: Bearer <token>, secret=$SECRET. "


def commands(size: int, said: str = HINTS) -> dict[str, Any]:
    """Return an update with commands of about so many bytes, whose words look like secrets."""
    listed: list[dict[str, Any]] = [
        {"name": f"command-{number}", "description": said * 2}
        for number in range(size // (len(said) * 2 + 50))
    ]
    update = {"sessionUpdate": "available_commands_update", "availableCommands": listed}
    params = {"sessionId": SESSION, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def test_a_request_for_permission_overtakes_a_long_list_of_commands() -> None:
    tap = Tapped().agent(announced(), commands(560_000), asked())
    assert kinds(tap.heard()) == ["tool_call", "session/request_permission"]
    assert kinds(tap.wait(60).heard()) == ["available_commands_update"]


def test_a_list_without_secrets_passes_as_it_came() -> None:
    line = line_of(commands(560_000, "Does something useful. "))
    assert Tapped().agent(line).wait(60).lines() == [line]


def test_a_secret_in_a_long_list_is_hidden() -> None:
    message = commands(2 * LONG)
    listed = message["params"]["update"]["availableCommands"]
    for place in (0, len(listed) // 2, -1):
        listed[place]["description"] += SECRET
    message["params"]["update"]["_meta"] = {"note": SECRET}
    tap = Tapped().agent(message).wait(60)
    (heard,) = tap.heard()
    assert SECRET not in json.dumps(heard)
    told = heard["params"]["update"]["availableCommands"]
    assert [one["name"] for one in told] == [one["name"] for one in listed]
    assert tap.account.hidden == 4


def test_lists_keep_their_order_also_the_short_and_the_empty_ones() -> None:
    sizes = (560_000, 1000, 3 * LONG, 0, 500)
    tap = Tapped().agent(*map(commands, sizes)).wait(120)
    told = [len(one["params"]["update"]["availableCommands"]) for one in tap.heard()]
    sent = [len(commands(size)["params"]["update"]["availableCommands"]) for size in sizes]
    assert told == sent


def test_what_is_no_list_is_cleaned_at_once() -> None:
    message = commands(0)
    message["params"]["update"]["availableCommands"] = {"x" * LONG: f"token {SECRET}"}
    heard = Tapped().agent(message).lines()
    assert len(heard) == 1
    assert SECRET.encode() not in heard[0]


def test_nothing_is_lost_when_the_agent_goes() -> None:
    tap = Tapped().agent(commands(560_000), commands(560_000)).gone()
    assert kinds(tap.heard()) == ["available_commands_update"] * 2
    assert kinds(Tapped().agent(updated(), commands(560_000)).gone().heard())[-1] == (
        "available_commands_update"
    )
