"""The handler that plays a script: every kind of step, and the errors of scripts that are wrong."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from callsheet.agent.script import BadScript, read_script, script_of
from callsheet.report.status import ToolCallStatus
from tests.support.stage import Stage


def stage_of(tmp_path: Path, script: Any) -> Stage:
    return Stage(tmp_path, script_of(script)(), permission="allow")


async def test_every_kind_of_step_is_played(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    script = [
        {"say": "Looking."},
        {"think": "Where is it?"},
        {"plan": ["Read", {"content": "Change", "status": "in_progress", "priority": "high"}]},
        {"run": "read", "arguments": {"path": "a.txt"}, "alias": "toolu_01"},
        {
            "parallel": [
                {"run": "bash", "arguments": {"command": "echo hi; exit 3"}, "alias": "toolu_02"},
                {"run": "read", "arguments": {"path": "b.txt"}},
                {"run": "list"},
            ]
        },
        {"usage": {"used": 5, "size": 10}},
        {"stop": "refusal"},
        {"say": "never said"},
    ]
    stage = stage_of(tmp_path, script)
    async with stage.session:
        assert await stage.prompt("go") == "refusal"
        assert (stage.said, stage.thought) == (["Looking."], ["Where is it?"])
        assert stage.plans == [["pending", "in_progress"]]
        assert [name for name, _ in stage.calls] == ["read", "bash", "read", "list"]
        assert stage.session.get("toolu_01") is stage.session.reports[0]
        assert stage.session.get("toolu_02") is stage.session.reports[1]
        batches = [report.notes.get("batchId") for report in stage.session.reports]
        assert batches[0] is None
        assert batches[1] is not None
        assert len(set(batches[1:])) == 1
        assert stage.updates == [{"sessionUpdate": "usage_update", "used": 5, "size": 10}]


async def test_a_list_is_played_for_every_prompt(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, [{"say": "again"}])
    async with stage.session:
        for _ in range(3):
            assert await stage.prompt("go") is None
            assert stage.words == "again"


async def test_turns_are_played_one_by_one_and_then_end(tmp_path: Path) -> None:
    make = script_of({"turns": [[{"say": "one"}], [], [{"say": "three"}]]})
    for handler in (make(), make()):  # each session begins anew
        stage = Stage(tmp_path, handler)
        said = []
        async with stage.session:
            for _ in range(4):
                await stage.prompt("go")
                said.append(stage.words)
        assert said == ["one", "", "three", "The script has 3 turns, and has ended."]


async def test_wait_takes_its_time_and_can_be_cancelled(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, [{"wait": 0.05}, {"wait": 60}])
    async with stage.session:
        began = time.monotonic()
        turn = asyncio.ensure_future(stage.prompt("go"))
        await asyncio.sleep(0.1)
        assert not turn.done()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert time.monotonic() - began < 5


async def test_an_unknown_tool_is_a_failed_call(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, [{"run": "nothing_like_it"}])
    async with stage.session:
        await stage.prompt("go")
        assert stage.session.reports[0].status is ToolCallStatus.FAILED


VERBS = "expected one of run, say, think, plan, parallel, wait, usage, stop"


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (5, "Expected `object | array`, got `int`"),
        ({}, "Object missing required field `turns`"),
        ({"turns": [], "more": 1}, "Object contains unknown field `more`"),
        ({"turns": [5]}, "Expected `array`, got `int` - at `$.turns[0]`"),
        ({"turns": [[], [{"say": 1}]]}, "Expected `str | null`, got `int` - at `$.turns[1][0].say`"),
        (["x"], "Expected `object`, got `str` - at `$[0]`"),
        ([{}], f"{VERBS}, got nothing - at `$[0]`"),
        ([{"shout": "x"}], "Object contains unknown field `shout` - at `$[0]`"),
        ([{"say": "a", "think": "b"}], f"{VERBS}, got say, think - at `$[0]`"),
        ([{"say": "a", "alias": "b"}], f"{VERBS}, got say, alias - at `$[0]`"),
        ([{"run": "a", "say": "b"}], f"{VERBS}, got run, say - at `$[0]`"),
        ([{"run": ""}], "Expected `str` of length >= 1 - at `$[0].run`"),
        ([{"run": "a", "args": {}}], "Object contains unknown field `args` - at `$[0]`"),
        ([{"run": "a", "arguments": []}], "Expected `object | null`, got `array` - at `$[0].arguments`"),
        ([{"say": "a"}, {"wait": -1}], "Expected `float` >= 0.0 - at `$[1].wait`"),
        ([{"plan": [{}]}], "Object missing required field `content` - at `$[0].plan[0]`"),
        ([{"plan": ["a", {"content": "b", "status": "done"}]}], "Invalid enum value 'done' - at `$[0].plan[1].status`"),
        ([{"parallel": []}], "Expected `array` of length >= 1 - at `$[0].parallel`"),
        ([{"parallel": [{"run": "a"}, {"say": "b"}]}], "parallel: expected steps that run a tool - at `$[0]`"),
        ([{"usage": {"used": 1}}], "Object missing required field `size` - at `$[0].usage`"),
        ([{"stop": "bored"}], "Invalid enum value 'bored' - at `$[0].stop`"),
    ],
)  # fmt: skip
def test_a_wrong_script_names_the_place(script: Any, message: str) -> None:
    with pytest.raises(BadScript) as raised:
        script_of(script)
    assert str(raised.value) == message


def test_a_file_that_is_no_script_is_named(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    with pytest.raises(BadScript, match=r"script\.json: No such file"):
        read_script(str(file))
    file.write_text("[{")
    with pytest.raises(BadScript, match=r"script\.json: not JSON: "):
        read_script(str(file))
    file.write_text(json.dumps([{"say": 5}]))
    with pytest.raises(BadScript, match=r"script\.json: Expected `str.* - at `\$\[0\]\.say`"):
        read_script(str(file))
    file.write_text(json.dumps([{"say": "hello"}]))
    assert read_script(str(file))().commands([]) == ()
