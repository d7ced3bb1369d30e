"""Raw inputs and outputs that grow are not sent again and again."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.tap.hold import PACE, STILL
from tests.support.made_recordings import Message, announced, completed, updated
from tests.support.tap_harness import Tapped, updates

LONG = "x" * 2000


def running(**given: Any) -> Tapped:
    call = {"title": "Writing a.py", "kind": "edit", "name": "write", "locations": []}
    tap = Tapped().agent(announced(**call, status="in_progress", rawInput=given))
    assert len(updates(tap.heard())) == 1
    return tap


def sent(tap: Tapped, name: str) -> list[Any]:
    return [one[name] for one in updates(tap.heard()) if name in one]


def grown(tap: Tapped, *values: str) -> Tapped:
    for value in values:
        tap.agent(updated(rawInput={"path": "/a.py", "content": value})).wait(PACE)
    return tap


def test_an_input_that_grows_waits_until_the_call_moves() -> None:
    tap = grown(running(path="/a.py", content=LONG), LONG + "y", LONG + "yz")
    assert sent(tap, "rawInput") == []
    assert sent(tap.agent(completed()), "rawInput") == [{"path": "/a.py", "content": LONG + "yz"}]


def test_an_input_that_grows_no_more_is_sent_after_a_while() -> None:
    tap = running(path="/a.py", content=LONG)
    for number in (1, 2):
        grown(tap, LONG + "y" * number)
        assert sent(tap.wait(STILL - 2 * PACE), "rawInput") == []
        assert sent(tap.wait(3 * PACE), "rawInput") == [
            {"path": "/a.py", "content": LONG + "y" * number}
        ]


@pytest.mark.parametrize("then", [{"content": "short"}, {"content": "y" * 2000}, {"more": 1}])
def test_what_is_short_new_or_another_is_sent_at_once(then: Message) -> None:
    tap = running(path="/a.py", content="s").wait(PACE)
    given = {"path": "/a.py", **then}
    assert sent(tap.agent(updated(rawInput=given)).wait(PACE), "rawInput") == [given]


def test_an_output_is_sent_when_the_call_moves() -> None:
    tap = running(path="/a.py", content="s")
    for output in ("a", "ab", LONG, "another"):
        tap.agent(updated(rawOutput=output)).wait(PACE)
    assert sent(tap, "rawOutput") == []
    assert sent(tap.agent(completed(rawOutput="another")), "rawOutput") == ["another"]
