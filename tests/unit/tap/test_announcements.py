"""When a tap announces a call: with its input, for as long as that may still be on its way."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from callsheet.tap.hold import ANNOUNCEMENT, ARGUMENTS, LONGEST
from tests.support.made_recordings import Message, announced, asked, completed, updated, words
from tests.support.sizes import sized
from tests.support.tap_harness import Tapped, kinds, told, updates

BARE: Message = {
    "name": "bash",
    "title": "bash",
    "kind": "execute",
    "rawInput": {},
    "locations": [],
}
COMMAND = {"command": "ls"}
TOOLS: list[tuple[str, str, dict[str, Any]]] = [
    ("bash", "execute", {"command": 'grep -rn "a\\"b" src | head', "timeout": 30}),
    ("bash", "execute", {"cwd": "/code", "command": "make test"}),
    ("read_file", "read", {"path": "/code/src/app.py", "offset": 3}),
    ("write_file", "edit", {"path": "/code/a.md", "content": "# A\n\n" + "line\n" * 60}),
    ("edit_file", "edit", {"path": "/code/a.py", "old_string": "a\n", "new_string": "b\n"}),
    ("grep", "search", {"pattern": "TODO|FIXME", "path": "src"}),
    ("web_fetch", "fetch", {"url": "https://example.com/a?b=c"}),
    ("my_own_tool", "other", {"description": "ähnlich", "name": "x"}),
]


def opened(messages: list[Message]) -> list[Message]:
    return [one for one in updates(messages) if one["sessionUpdate"] == "tool_call"]


def test_an_announcement_without_input_waits_for_it() -> None:
    tap = Tapped().agent(announced(**BARE)).wait(0.9)
    assert tap.heard() == []
    (first,) = updates(tap.agent(updated(rawInput=COMMAND)).heard())
    assert (first["sessionUpdate"], first["rawInput"]) == ("tool_call", COMMAND)


@pytest.mark.parametrize(
    ("status", "patience"), [("pending", ARGUMENTS), ("in_progress", ANNOUNCEMENT)]
)
def test_a_call_that_may_run_is_announced_sooner(status: str, patience: float) -> None:
    tap = Tapped().agent(announced(**{**BARE, "status": status}))
    assert tap.wait(patience - 0.001).heard() == []
    assert kinds(tap.wait(0.002).heard()) == ["tool_call"]


def test_updates_that_report_no_input_do_not_end_the_wait() -> None:
    tap = Tapped().agent(announced(**BARE), updated(title="Terminal"), updated(_meta={"a": 1}))
    assert tap.wait(0.5).heard() == []
    tap.agent(updated(rawInput=COMMAND))
    assert opened(tap.heard())[0]["rawInput"] == COMMAND


def test_output_ends_the_wait() -> None:
    tap = Tapped().agent(announced(**BARE), updated(status="in_progress", content=words("out")))
    assert kinds(tap.heard()) == ["tool_call", "tool_call_update"]


def test_the_end_of_a_call_ends_the_wait() -> None:
    tap = Tapped().agent(announced(**BARE), completed(content=words("out")))
    assert [status for _, status in told(tap.heard())] == ["pending", "in_progress", "completed"]


def test_arguments_without_end_do_not_hide_a_call() -> None:
    tap = Tapped().agent(announced(**BARE))
    said = '{"command": "'
    while not (heard := tap.wait(0.5).heard()):
        said += "x" * 100
        tap.agent(updated(status="in_progress", content=words(said)))
    assert tap.now <= LONGEST + 0.5
    assert kinds(heard)[0] == "tool_call"


def test_a_permission_request_about_a_call_does_not_announce_those_after_it() -> None:
    """As kimi-cli asks about the first of two calls while the second is still being written."""
    tap = Tapped().agent(announced("a", rawInput=COMMAND), announced("b", **BARE), asked("a"))
    assert [key for key, _ in told(tap.heard())] == ["a"]
    tap.agent(updated("b", rawInput=COMMAND))
    assert [one["rawInput"] for one in opened(tap.heard())] == [COMMAND]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: f"{tool[0]}-{next(iter(tool[2]))}")
def test_a_call_whose_arguments_stream_is_announced_with_them(
    tool: tuple[str, str, dict[str, Any]],
) -> None:
    """Wherever the pieces are cut, whenever they come, and whatever the status says meanwhile."""
    name, kind, given = tool
    rng = random.Random(f"{name} {kind}")
    for _ in range(sized(200, 8)):
        tap = Tapped().agent(
            announced(name="", title=name, kind=kind, without=("rawInput", "locations"))
        )
        said = json.dumps(given, ensure_ascii=rng.random() < 0.5)
        at, runs = 0, rng.randrange(4)
        while at < len(said):
            at += rng.randint(1, max(2, len(said) // 3))
            tap.wait(rng.choice([0.0, 0.01, 0.052, 0.16]))
            status = {"status": "in_progress"} if (runs := runs - 1) < 0 else {}
            tap.agent(updated(**status, content=words(said[:at])))
        tap.agent(completed(content=words("done")))
        (first,) = opened(tap.wait(1).heard())
        shown = first["rawInput"]
        assert shown, said
        assert shown.items() <= given.items()
        assert kind != "execute" or shown["command"] == given["command"]
