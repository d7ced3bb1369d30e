"""Parts of the page that have a twin in Python: the same examples are run against both."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from callsheet.history.rows import SOURCES, UNKNOWN, Origin
from callsheet.report.humanize import bytes_text, duration_text, money_text
from callsheet.ui.trace import who
from tests.support import ROOT

FILTERS = """
import { matcher } from "./filter.js";
print(({ calls, examples, now, workspaces }) => examples.map(({ filter }) => {
  const { test, wrong } = matcher(filter, { epoch: 0, sessions: workspaces }, now);
  return { ids: calls.filter(test).map((call) => call.id), wrong: wrong.map((text) => text.split(": ")[0]) };
}));
"""
AMOUNTS = """
import { bytes, durationText, money } from "./format.js";
print((amounts) => amounts.map((n) => [bytes(n), durationText(n), money(n / 1e5, "USD"), money(n, "EUR")]));
"""
WHO = """
import { whoText } from "./who.js";
print((all) => all.map((who) => whoText(who)));
"""
TITLES = """
import { shortTitle } from "./model.js";
print((examples) => examples.map(([title, cwd]) => shortTitle({ title, session: "s" }, { sessions: { s: cwd } })));
"""
COMPARED = """
import { comparedRows } from "./model.js";
const id = (call) => call?.id ?? null;
print(([a, b]) => comparedRows(a, b).map(({ left, right, differs }) => [id(left), id(right), differs]));
"""
AXIS = """
import { axisLabels } from "./scale.js";
print((examples) => examples.map(([times, hasTimes]) => axisLabels(times, 0, hasTimes)));
"""
TICKS = """
import { scaleOf, ticksOf } from "./scale.js";
print((examples) => examples.map(([spans, part, hasTimes]) => {
  const calls = spans.map(([announced, ended]) => ({ announced, ended }));
  const scale = scaleOf({ calls, turns: [], messages: [], hasTimes });
  return ticksOf(scale, part, 1000, hasTimes).map((time) => Math.round((time - scale.begin) * 1000) / 1000);
}));
"""
COMMANDS = """
import { commandOf } from "./model.js";
print((calls) => calls.map((call) => commandOf(call)));
"""
MOMENTS = """
import { at } from "./model.js";
print(([call, times]) => times.map((time) => at(call, time)));
"""
RULES = """
import { brokenRules } from "./model.js";
print((findings) => brokenRules(findings).map(({ rule, count }) => [rule, count]));
"""


def run_script(script: str, data: Any) -> Any:
    """Run a script beside the page's own, and return what its function makes of the data."""
    node = shutil.which("node")
    if node is None:
        reason = "no node on this machine"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    print_ = "import { readFileSync } from 'node:fs';\n"
    print_ += "const print = (f) => console.log(JSON.stringify(f(JSON.parse(readFileSync(0)))));\n"
    done = subprocess.run(
        [node, "--input-type=module", "-e", print_ + script],
        input=json.dumps(data),
        cwd=ROOT / "ui" / "src",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def traced(given: dict[str, Any]) -> dict[str, Any]:
    """Return a call of the table as the page knows it."""
    is_open = given["status"] in ("pending", "in_progress")
    ended = None if is_open else given["at"] + (given["durationMs"] or 0) / 1000
    text = {"type": "content", "content": {"type": "text", "text": given["output"]}}
    asked = given["permission"]
    known = {"user": "", "host": "", "client": "", "source": "", **given.get("who", {})}
    known["client"] = f"{known['client']} {known.pop('client_version', '')}".strip()
    if is_open:  # the index of words has a call only when it has ended
        given = {**given, "title": "", "input": "", "paths": []}
    return {
        **given,
        "who": {**known, "agent": given["agent"]},
        "announced": given["at"],
        "ended": ended,
        "input": {"value": given["input"]},
        "content": [text] if given["output"] else [],
        "locations": [{"path": path} for path in given["paths"]],
        "approvals": [{"asked": 0, **asked}] if asked else [],
    }


def test_the_page_filters_as_the_history_does() -> None:
    table = json.loads((ROOT / "tests" / "data" / "filters.json").read_text())
    calls = sorted(map(traced, table["calls"]), key=lambda call: call["announced"])
    found = run_script(FILTERS, {**table, "calls": calls})
    expected = [
        {"filter": one["filter"], "ids": one["ids"], "wrong": one.get("wrong", [])}
        for one in table["examples"]
    ]
    assert [
        {"filter": one["filter"], **got} for one, got in zip(table["examples"], found, strict=True)
    ] == expected


def test_the_page_writes_amounts_as_the_terminal_does() -> None:
    amounts = [n / 4 for n in range(4000)] + [999.4, 999.5, 1000, 1049, 1250, 1750, 9949, 9950]
    amounts += [10**k * n for k in range(3, 10) for n in (1, 2.25, 5.995, 9.96)]
    amounts += [0, 0.1, 4.9, 99_449, 99_500, 1_234_567_890]
    expected = [
        [bytes_text(n), duration_text(n), money_text(n / 1e5, "USD"), money_text(n, "EUR")]
        for n in amounts
    ]
    assert run_script(AMOUNTS, amounts) == expected


def test_the_page_says_who_as_the_terminal_does() -> None:
    some = Origin(user="ada", agent="Claude Agent", agent_version="0.99.1", client="Zed")
    origins = [UNKNOWN, some, replace(some, user="", host="build7", client_version="0.213")]
    origins += [replace(some, host="build7", source=source) for source in (*SOURCES, "mail")]
    shown = run_script(WHO, [asdict(who(origin)) for origin in origins])
    assert shown[0] == ""
    assert shown[4] == "ada on build7, Claude Agent 0.99.1 in Zed, through the tap"
    assert [text or "unknown" for text in shown] == [origin.text for origin in origins]


def test_neighbours_on_the_axis_of_time_differ() -> None:
    examples = {
        "far": ([0, 1.4, 61], True, ["0 ms", "1.4 s", "1 min 01 s"]),
        "close": ([1.41, 1.44, 1.47], True, ["1.41 s", "1.44 s", "1.47 s"]),
        "the same": ([1.4, 1.4], True, ["1.400 s", ""]),
        "late": ([61, 61.2, 3785.25], True, ["1:01.0", "1:01.2", "1:03:05.3"]),
        "lines": ([1, 1.2, 2], False, ["line 1", "", "line 2"]),
    }
    labels = run_script(AXIS, [[times, has_times] for times, has_times, _ in examples.values()])
    assert dict(zip(examples, labels, strict=True)) == {
        name: expected for name, (_, _, expected) in examples.items()
    }


def test_the_axis_of_time_has_round_times_where_there_is_room() -> None:
    whole, day = [0, 1], 86_400
    examples = {
        "one part": ([[5, 6]], whole, True, [0, 0.2, 0.4, 0.6, 0.8]),
        "a part of it": ([[5, 6]], [0.5, 0.6], True, [0.5, 0.52, 0.54, 0.56, 0.58]),
        "minutes": ([[0, 200]], whole, True, [0, 30, 60, 90, 120, 150, 180]),
        "around a break of days": ([[0, 1], [9 * day, 9 * day + 1]], whole, True,
                                   [0, 0.5, 9 * day, 9 * day + 0.5]),
        "lines": ([[1, 4]], whole, False, [0, 1, 2]),
        "instants": ([[5, 5], [6, 6], [9, 9]], whole, False, [0, 1, 2, 3]),
        "an instant": ([[1, 1]], whole, True, [0, 0.2, 0.4, 0.6, 0.8]),
    }  # fmt: skip
    ticks = run_script(TICKS, [one[:3] for one in examples.values()])
    assert dict(zip(examples, ticks, strict=True)) == {
        name: expected for name, (*_, expected) in examples.items()
    }


def test_a_row_names_paths_from_the_directory_of_the_session() -> None:
    examples = [
        ("Edit /home/dev/app/src/a.py", "/home/dev/app", "Edit src/a.py"),
        ("grep x '/home/dev/app'", "/home/dev/app/", "grep x '.'"),
        ("List /home/dev/app/", "/home/dev/app", "List ."),
        ("Copy /home/dev/app/a to /home/dev/app/b", "/home/dev/app", "Copy a to b"),
        ("cat /var/tmp/a /tmp/a", "/tmp", "cat /var/tmp/a a"),
        ("cat /home/dev/apple", "/home/dev/app", "cat /home/dev/apple"),
        ("cat /a+b/c /aab/c", "/a+b", "cat c /aab/c"),
        ("cat /etc/passwd", "/", "cat /etc/passwd"),
        ("cat etc", "", "cat etc"),
    ]
    titles = run_script(TITLES, [[title, cwd] for title, cwd, _ in examples])
    assert titles == [expected for _, _, expected in examples]


def test_calls_of_two_agents_are_aligned_by_tool_and_title_then_tool_then_kind() -> None:
    def trace(cwd: str, *calls: tuple[str, str, str]) -> dict[str, Any]:
        rest = {"session": "s", "status": "completed", "announced": 0, "ended": 1}
        made = [{"id": i + n, "name": n, "kind": k, "title": i, **rest} for i, n, k in calls]
        return {"sessions": {"s": cwd}, "calls": made}

    left = trace("/a", ("Edit /a/x", "edit", "edit"), ("Look", "Grep", "search"), ("ls", "sh", "execute"),
                 ("Odd", "one", "other"))  # fmt: skip
    right = trace("/b", ("Edit /b/x", "edit", "edit"), ("Read y", "read", "read"),
                  ("Find", "rg", "search"), ("pwd", "sh", "execute"), ("Odd", "two", "other"))  # fmt: skip
    assert run_script(COMPARED, [left, right]) == [
        ["Edit /a/xedit", "Edit /b/xedit", []],
        [None, "Read yread", ["only right"]],
        ["LookGrep", "Findrg", ["title"]],
        ["lssh", "pwdsh", ["title"]],
        ["Oddone", None, ["only left"]],
        [None, "Oddtwo", ["only right"]],
    ]


def test_a_command_that_is_copied_has_nothing_that_a_terminal_acts_on() -> None:
    odd = "it's\x1b[201~\n\r\t\x7f\x9b\u202e\u2028\U000e0041 ok é"
    names = ["mcp__git__log", "bash\x1b[201~\nrm", "--cwd=/", "a b", "", None]
    shown = run_script(COMMANDS, [{"name": name, "input": {"x": odd}} for name in names])
    assert shown[1:] == [None] * 5
    assert shown[0].replace("é", "e").isprintable()
    *words, given = shlex.split(shown[0])
    assert words == ["callsheet", "call", "mcp__git__log", "--json"]
    assert json.loads(given) == {"x": odd}


def test_a_stored_call_has_not_ended_before_its_end_when_it_is_replayed() -> None:
    update = {"sessionUpdate": "tool_call", "title": "T", "status": "failed", "content": [1]}
    call = {
        "announced": 1,
        "started": 2,
        "firstOutput": None,
        "ended": 5,
        "approvals": [],
        "title": "T",
        "status": "cancelled",
        "reason": "cancelled",
        "content": [1],
        "frames": [{"time": 1, "message": {"params": {"update": update}}}],
    }
    seen = run_script(MOMENTS, [call, [1, 2, 4, 5, None]])
    assert [one["status"] for one in seen] == ["pending", "in_progress", "in_progress"] + ["cancelled"] * 2  # fmt: skip
    assert [one["ended"] for one in seen] == [None, None, None, 5, 5]
    assert [one["content"] for one in seen] == [[], [], [], [1], [1]]


def test_all_broken_rules_are_listed_the_worst_first() -> None:
    many = [{"rule": f"size/{n}", "severity": "warning"} for n in range(12)]
    advice = [{"rule": "complete/kind", "severity": "advice"}] * 3
    worst = [{"rule": "lifecycle/end", "severity": "error"}]
    rules = run_script(RULES, [*advice, *many, many[5], *worst])
    assert rules[:2] == [["lifecycle/end", 1], ["size/5", 2]]
    assert (rules[-1], len(rules)) == (["complete/kind", 3], 14)
