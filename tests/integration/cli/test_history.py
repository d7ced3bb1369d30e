"""`callsheet history`: listed, filtered, counted, exported; and what is said when it can't be."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from callsheet import Session, ToolCallReport
from callsheet.cli.history import lookup
from callsheet.cli.history.lists import CallTable, short_id
from callsheet.cli.output import Page
from callsheet.history import Head, History, Query
from callsheet.history.amounts import ago
from callsheet.history.rows import Origin
from callsheet.history.sqlite import VERSION
from callsheet.history.store import Store
from callsheet.report.terminal import CallRecord
from tests.support import ROOT
from tests.support.shells import CALLSHEET, Terminal, without_escapes
from tests.support.stores import ONE, TWO, Cli

FIELDS = {"id", "session", "tool", "title", "kind", "status", "reason", "at", "durationMs", "bytes"}
FIELDS |= {"cwd", *Origin().facts()}


def listed(cli: Cli, *args: str) -> list[dict[str, object]]:
    done = cli("history", "--format", "json", *args)
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


# Listing


def test_json_has_the_fields_that_are_documented_the_newest_call_first(cli: Cli) -> None:
    calls = listed(cli)
    assert [call["tool"] for call in calls] == ["think", "write", "read", "bash", "bash", "read"]
    assert all(set(call) == FIELDS for call in calls)
    failed = calls[4]
    assert (failed["status"], failed["reason"], failed["session"]) == ("failed", "exit_code", ONE)
    assert str(failed["at"]).endswith("Z")
    assert isinstance(failed["durationMs"], float)
    assert int(str(failed["bytes"])) > 100


def test_into_a_pipe_go_lines_with_tabs_that_are_not_cut(cli: Cli) -> None:
    done = cli("history", "--session", ONE)
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [len(row) for row in rows] == [8] * 5
    assert [row[3:5] for row in rows[2:]] == [
        ["failed", "timeout"],
        ["failed", "exit_code"],
        ["completed", ""],
    ]
    assert rows[3][7] == "Running `echo needle in the hay; exit 3`"
    assert [row[0] for row in rows] == [call["id"] for call in listed(cli, "--session", ONE)]
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("options", "tools"),
    [
        (["--tool", "read"], ["read", "read"]),
        (["--status", "failed"], ["read", "bash", "bash"]),
        (["--status", "timeout"], ["bash"]),
        (["--status", "EXIT_CODE"], ["bash"]),
        (["--status", "tool_error"], ["read"]),
        (["--status", "open"], []),
        (["--status", "completed", "--tool", "write"], ["write"]),
        (["--since", "1h", "--limit", "2"], ["think", "write"]),
        (["--until", "1h"], []),
        (["--since", "2200-01-01"], []),
        (["--until", "2200-01-01T00:00:00Z", "--tool", "think"], ["think"]),
        (["--search", "needle hay", "--tool", "bash"], ["bash"]),
        (["--search", '"in hay"'], []),
        (["--session", "BBBBBB"], ["think"]),
        (["--session", "last"], ["think"]),
        (["--limit", "0"], ["think", "write", "read", "bash", "bash", "read"]),
    ],
)
def test_filters_choose_calls(cli: Cli, options: list[str], tools: list[str]) -> None:
    assert [call["tool"] for call in listed(cli, *options)] == tools


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--status", "done"], "is not one of 'open', 'pending', 'in_progress', 'paused'"),
        (["--since", "soon"], "expected an age (30min, 2h, 3d), a day"),
        (["--since", "1h", "--until", "2h"], "--since is not before --until"),
        (["--search", "!?"], "there is no word in it"),
        (["--limit", "-1"], "--limit"),
        (["--format", "xml"], "'table', 'json'"),
        (["--history", "mysql://x/y"], "expected sqlite:///PATH"),
        (["--history", "sqlite:///"], "it names no file"),
        (["--history", "postgresql://host"], "it names no database"),
        (["--tool", "bash", "sessions"], "options go after sessions: callsheet history sessions …"),
        (["lost"], "No such command 'lost'"),
        (["prune", "--older-than", "30"], "expected a number and a unit"),
        (["prune", "--max-size", "much"], "500MB, 2GB"),
        (["prune", "--keep-calls", "1"], "pass --yes"),
        (["prune", "--max-size", "80kB"], "an empty history takes about"),
        (["forget", "BBBB"], "pass --yes"),
        (["forget", TWO], "pass --yes"),
        (["forget"], "SESSION"),
    ],
)
def test_a_wrong_argument_is_named_with_what_is_right(
    cli: Cli, options: list[str], message: str
) -> None:
    done = cli("history", *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_what_nobody_has_done_is_reported_on_stderr(cli: Cli) -> None:
    done = cli("history", "--tool", "fetch")
    assert (done.code, done.out) == (0, "")
    assert "no call is like that" in done.err


def keep_many(url: str, calls: int, sessions: int = 1) -> None:
    """Keep calls that were never made, in so many sessions."""

    async def many() -> None:
        history = History(url)
        logs = [history.session(f"s{number}") for number in range(sessions)]
        for number in range(calls):
            report = ToolCallReport(f"c{number}", "t", title="x", status="completed")
            logs[number % sessions].send(deque([CallRecord(report)]))
        await history.close()

    asyncio.run(many())


@pytest.mark.parametrize("style", ["table", "json"])
def test_what_is_left_out_is_reported_where_nobody_has_asked_for_less(
    own: Cli, tmp_path: Path, style: str
) -> None:
    keep_many(f"sqlite:///{tmp_path}/h.sqlite", 54, sessions=51)
    done = own("history", "--format", style)
    assert len(done.out.splitlines()) == 50
    more = "callsheet: there are more than these 50; --limit 0 lists all\n"
    assert done.err == more
    for limit, count in ((54, 54), (7, 7), (0, 54)):
        done = own("history", "--format", style, "--limit", str(limit))
        assert (len(done.out.splitlines()), done.err) == (count, "")
    done = own("history", "sessions", "--format", style)
    assert len(done.out.splitlines()) == 50
    assert done.err == more
    done = own("history", "sessions", "--format", style, "--limit", "0")
    assert (len(done.out.splitlines()), done.err) == (51, "")
    assert own("history", "--tool", "t", "--session", "s3").err == ""


def test_ctrl_c_ends_a_long_list(own: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_many(f"sqlite:///{tmp_path}/h.sqlite", 30)
    heads = Store.heads

    def interrupted(store: Store, query: Query) -> list[Head]:
        if query.before is not None:
            signal.raise_signal(signal.SIGINT)
        return heads(store, query)

    monkeypatch.setattr(Store, "heads", interrupted)
    monkeypatch.setattr(lookup, "PAGE", 10)
    done = own("history")
    assert (done.code, len(done.out.splitlines())) == (130, 10)


# Where there is no history, or none that can be read


@pytest.mark.parametrize("command", [[], ["sessions"], ["stats"], ["export"]])
def test_no_history_yet_is_reported_kindly_and_is_no_failure(own: Cli, command: list[str]) -> None:
    done = own("history", *command)
    assert (done.code, done.out) == (0, "")
    assert "There is no history at" in done.err
    assert done.err.count("\n") == 1


def test_no_history_is_an_empty_array_for_machines(own: Cli) -> None:
    assert own("history", "--format", "json").out == "[]\n"
    assert own("history", "sessions", "--format", "json").out == "[]\n"


@pytest.mark.parametrize(
    "command",
    [["show", "last"], ["replay", "last"], ["history", "forget", "x"], ["history", "vacuum"]],
)
def test_what_is_looked_for_is_not_found_where_there_is_no_history(
    own: Cli, tmp_path: Path, command: list[str]
) -> None:
    assert own(*command).code == 1
    assert not (tmp_path / "h.sqlite").exists()
    off = own(*command, "--history", "off")
    assert (off.code, off.out) == (1, "")
    assert "no history is stored: it is off" in off.err


def test_an_empty_history_shows_how_calls_get_there(own: Cli, copy: str) -> None:
    assert own("history", "prune", "--keep-calls", "0", "--yes").code == 0
    done = own("history")
    assert (done.code, done.out) == (0, "")
    assert "Calls get there by `callsheet call`" in done.err
    assert "Calls get there by `callsheet call`" in own("history", "stats").err
    done = own("show", "last")
    assert (done.code, done.out) == (1, "")
    assert "there is no call 'last' in sqlite:///" in done.err


@pytest.mark.parametrize(
    "command",
    [["history"], ["show", "last"], ["replay", "last"], ["history", "prune", "--yes"],
     ["history", "vacuum"], ["history", "stats"]],
)  # fmt: skip
def test_a_store_that_can_t_be_read_is_reported_in_one_line_and_left_alone(
    stored: str, own: Cli, tmp_path: Path, command: list[str]
) -> None:
    file = tmp_path / "h.sqlite"
    file.write_text("something else entirely " * 9)
    done = own(*command)
    assert (done.code, done.out) == (1, "")
    assert "is damaged or no history" in done.err
    assert done.err.count("\n") == 1
    assert file.read_text().startswith("something else")
    shutil.copy(stored.removeprefix("sqlite:///"), file)
    with sqlite3.connect(file) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    done = own(*command)
    assert (done.code, done.out) == (1, "")
    assert "use the newer callsheet" in done.err
    assert done.err.count("\n") == 1


def test_a_server_without_its_package_shows_what_to_install(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    monkeypatch.setitem(sys.modules, "callsheet.history.postgres", None)
    done = cli("history", "--history", "postgresql://me:secret@localhost/x")
    assert (done.code, done.out) == (1, "")
    assert "callsheet[postgres]" in done.err
    assert "secret" not in done.err
    assert done.err.count("\n") == 1


def test_a_directory_is_reported_as_one(own: Cli, tmp_path: Path) -> None:
    for command in (["history"], ["history", "vacuum"], ["show", "last"]):
        done = own(*command, "--history", str(tmp_path))
        assert (done.code, done.out) == (1, "")
        message = f"{tmp_path} is a directory; name a file in it: {tmp_path}/history.sqlite."
        assert done.err == f"callsheet: {message}\n"
    done = own("call", "think", "thought=x", "--history", str(tmp_path))
    assert done.code == 0
    assert done.err == f"callsheet: history: {message} Nothing is kept.\n"
    assert list(tmp_path.iterdir()) == []


# Pipes, terminals


def test_a_reader_that_has_enough_ends_it_quietly(stored: str) -> None:
    line = f"{shlex.join(CALLSHEET)} history --limit 0 | head -1"
    done = subprocess.run(
        ["sh", "-c", line],
        env={**os.environ, "CALLSHEET_HISTORY": stored},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize("columns", [60, 120])
def test_on_a_terminal_every_call_is_one_row_of_its_width(
    stored: str, tmp_path: Path, columns: int
) -> None:
    terminal = Terminal(["history"], tmp_path, columns=columns, CALLSHEET_HISTORY=stored)
    assert terminal.end() == 0
    assert "\x1b[1;32m✓" in terminal.text
    assert "\x1b[1;31m✗" in terminal.text
    rows = without_escapes(terminal.text).strip().splitlines()
    assert all(cell_len(row) < columns for row in rows)
    assert len(rows) == 1 + 6
    assert sum("  exit code  " in row for row in rows) == 1
    assert sum("  timed out  " in row for row in rows) == 1
    assert sum("just now" in row or "s ago" in row for row in rows) == (6 if columns > 76 else 0)


class Tty(io.StringIO):
    """A terminal of which nobody knows the size but the environment."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def rendered(
    calls: list[Head], width: int, origins: Sequence[Origin] = (), *, who: bool = False
) -> list[str]:
    """Return the rows of a table, its heading first."""
    stream = Tty()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        all_origins = origins or [Origin()] * len(calls)
        listed = [(call, one, "/w") for call, one in zip(calls, all_origins, strict=True)]
        CallTable(who)(Page(stream), listed)
    return [row.rstrip() for row in without_escapes(stream.getvalue()).splitlines()]


def test_a_wide_table_says_who_where_that_differs_and_any_if_it_is_wanted() -> None:
    calls = [head(index, title="Reading a.py", name="search") for index in range(2)]
    ada = Origin(user="ada", host="build7", agent="Claude Agent", agent_version="0.99.1")
    same, other = [ada, ada], [ada, replace(ada, user="", host="")]
    assert "USER" not in rendered(calls, 120, same)[0]
    names, first, second = rendered(calls, 120, other)
    assert re.search(r"USER +ID$", names)
    assert " ada@build7 " in first
    assert " unknown " in second
    assert "USER" not in rendered(calls, 99, other)[0]
    names, first, _ = rendered(calls, 80, same, who=True)
    assert re.search(r"USER +AGENT +ID$", names)
    assert re.search(r" ada@build7 +Claude Agent 0.99.1 ", first)


@pytest.mark.parametrize("columns", [30, 40, 50])
def test_on_a_narrow_terminal_every_call_has_its_title_and_its_id(columns: int) -> None:
    calls = [head(index, title="Reading some/long/path.py", name="search") for index in range(3)]
    names, *rows = rendered(calls, columns)
    assert [row.endswith(f"T4{index:06}") for index, row in enumerate(rows)] == [True] * 3
    assert all("Reading" in row for row in rows)
    assert all(len(row) <= columns for row in rows)
    assert {"CALL", "ID"} <= set(names.split()) <= {"CALL", "END", "ID"}


def test_a_long_title_has_the_room_that_there_is() -> None:
    calls = [head(0, title="x" * 300), head(1)]
    widths = [rendered(calls, width)[1].count("x") for width in (40, 80, 110, 120)]
    assert widths == sorted(widths)
    assert widths[0] > 20


def test_no_color_takes_the_colours_away(stored: str, tmp_path: Path) -> None:
    terminal = Terminal(["history"], tmp_path, CALLSHEET_HISTORY=stored, NO_COLOR="1")
    assert terminal.end() == 0
    assert "\x1b[1m✓" in terminal.text
    assert "\x1b[1;3" not in terminal.text


def head(index: int, session: str = ONE, title: str = "Reading a.py", **other: object) -> Head:
    fields: dict[str, object] = {
        "session_id": session,
        "call_id": f"call_01M7HAN69442ZCWESZFT4{index:06}",
        "position": index,
        "name": "read",
        "title": title,
        "kind": "read",
        "status": "completed",
        "reason": None,
        "at": 1000.0 + index,
        "updated_at": 1000.0,
        "duration_ms": 3.0,
        "size": 9,
    }
    return Head(**(fields | other))  # type: ignore[arg-type]


def test_no_row_is_wider_than_the_terminal_whatever_a_title_is() -> None:
    titles = ["", "x" * 300, "日本語" * 60, "a\nb\tc\x1b[31m", "e\u0301" * 80]
    calls = [
        head(index, f"s{index % 2}", title, name=name, status=status, reason=reason)
        for index, title in enumerate(titles)
        for name in ("read", "mcp__server__" + "tool" * 20)
        for status, reason in (
            ("completed", None), ("failed", "tool_error"), ("in_progress", None),
            ("cancelled", "cancelled"), ("pending", None), ("paused", None),
        )
    ]  # fmt: skip
    for width in range(40, 200, 21):
        rows = rendered(calls, width)
        assert len(rows) == 1 + len(calls)
        assert max(map(cell_len, rows)) <= width
        assert not any("\x1b" in row for row in rows)


def test_long_ids_are_shortened_to_their_end() -> None:
    assert short_id("toolu_1") == "toolu_1"
    assert short_id("call_01M7HAN69442ZCWESZFT4000001") == "T4000001"


def test_times_are_reported_as_people_show_them() -> None:
    day = 86400
    ages = [0, 12, 125, 3 * 3600, 5 * day, 29 * day]
    reported = ["just now", "12 s ago", "2 min ago", "3 h ago", "5 d ago", "29 d ago"]
    assert [ago(1e9 - age, 1e9) for age in ages] == reported
    assert ago(1e9 - 90 * day, 1e9).startswith("2001-06")


# Sessions, figures, export


def test_sessions_are_listed_the_last_used_first(cli: Cli) -> None:
    found = json.loads(cli("history", "sessions", "--format", "json").out)
    assert [(one["id"], one["calls"]) for one in found] == [(TWO, 1), (ONE, 5)]
    assert found[1]["title"] == "Fix the parser"
    lines = cli("history", "sessions", "--limit", "1").out.splitlines()
    assert [line.split("\t")[0] for line in lines] == [TWO]


def test_stats_count_calls_failures_and_bytes(cli: Cli) -> None:
    found = json.loads(cli("history", "stats", "--format", "json").out)
    assert (found["calls"], found["failed"], found["open"], found["sessions"]) == (6, 3, 0, 2)
    assert 0 < found["storedBytes"] < found["bytes"]
    assert found["savedBytes"] == found["bytes"] - found["storedBytes"]
    assert found["fileBytes"] > 0
    bash = next(tool for tool in found["tools"] if tool["tool"] == "bash")
    assert (bash["calls"], bash["failed"]) == (2, 2)
    assert bash["p95Ms"] >= bash["p50Ms"] > 0
    text = cli("history", "stats", "--tool", "bash").out
    assert "2, 2 (100%) failed" in text
    assert "think" not in text


def test_stats_are_of_the_calls_that_are_asked_for(cli: Cli) -> None:
    def counted(*filters: str) -> tuple[int, int, int]:
        found = json.loads(cli("history", "stats", "--format", "json", *filters).out)
        return found["calls"], found["sessions"], found["messages"]

    assert counted() == (6, 2, 2)
    assert counted("--status", "completed", "--tool", "think") == (1, 1, 0)
    assert counted("--status", "completed") == (3, 2, 2)
    assert counted("--session", ONE) == (5, 1, 2)
    assert counted("--tool", "fetch") == (0, 0, 0)
    done = cli("history", "stats", "--tool", "fetch")
    assert (done.code, done.out) == (0, "")
    assert done.err == "callsheet: no call is like that; `callsheet history` lists all\n"


def test_export_returns_every_call_whole_as_a_line(cli: Cli, tmp_path: Path) -> None:
    calls = [json.loads(line) for line in cli("history", "export").out.splitlines()]
    assert [one["toolCallId"] for one in calls] == [one["id"] for one in listed(cli)]
    assert calls[4]["rawInput"] == {"command": "echo needle in the hay; exit 3"}
    assert calls[4]["terminals"][0]["tail"] == "needle in the hay\n"
    assert calls[4]["sessionId"] == ONE
    file = tmp_path / "out.jsonl"
    file.write_text("older")
    done = cli("history", "export", "--tool", "bash", "-o", str(file))
    assert (done.code, done.out) == (0, "")
    assert "2 calls in" in done.err
    assert [json.loads(line)["name"] for line in file.read_text().splitlines()] == ["bash"] * 2
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["out.jsonl"]


def test_csv_is_quoted_and_no_cell_is_a_formula(tmp_path: Path, own: Cli) -> None:
    title = '=HYPERLINK("x"),\n"quoted"'

    async def odd() -> None:
        history = History(f"sqlite:///{tmp_path}/h.sqlite")
        log = history.session(ONE)
        async with Session(ONE, sinks=[log]) as session:
            for text in (title, "+1", "-1", "@x", "plain, with a comma"):
                async with session.call("t", {}, title=text) as one:
                    one.start()
                    one.succeed("")
        await history.close()

    asyncio.run(odd())
    done = own("history", "export", "--format", "csv")
    rows = list(csv.DictReader(done.out.splitlines(keepends=True)))
    assert set(rows[0]) == FIELDS
    reported = [row["title"] for row in rows]
    assert reported[:4] == ["plain, with a comma", "'@x", "'-1", "'+1"]
    assert reported[4].startswith("'=HYPERLINK(")
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())


def test_a_file_that_can_t_be_written_is_reported(cli: Cli, tmp_path: Path) -> None:
    done = cli("history", "export", "-o", str(tmp_path / "no" / "such"))
    assert done.code == 1
    assert "can't be written: No such file or directory" in done.err


# What runs no more


def test_what_a_crash_has_left_open_is_reported_as_abandoned(tmp_path: Path, own: Cli) -> None:
    url = f"sqlite:///{tmp_path}/h.sqlite"
    with subprocess.Popen(
        [*CALLSHEET, "call", "bash", "command=sleep 60"],
        env={**os.environ, "CALLSHEET_HISTORY": url},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=tmp_path,
    ) as child:
        stop = time.monotonic() + 20
        while not [one for one in _quiet(own) if one["status"] == "in_progress"]:
            assert time.monotonic() < stop
            time.sleep(0.05)
        child.kill()
    (found,) = listed(own)
    assert (found["status"], found["reason"]) == ("failed", "abandoned")


def _quiet(cli: Cli) -> list[dict[str, object]]:
    return json.loads(cli("history", "--format", "json").out)


# What was used

RECORDED = ("claude-agent-acp-0.99.1", "codex-acp-0.16.0", "gemini-cli-0.61.0")


@pytest.fixture
def used(own: Cli) -> Cli:
    """The command line with a history of three agents, of which each reports something else."""
    files = [str(ROOT / "tests" / "recordings" / f"{one}.mixed-none.jsonl") for one in RECORDED]
    assert own("history", "import", *files).code == 0
    return own


def test_stats_by_agent_have_costs_estimates_and_what_was_not_reported(used: Cli) -> None:
    lines = used("history", "stats", "--by", "agent").out.splitlines()
    (claude,), (codex,), (gemini,) = (
        [line for line in lines if name in line] for name in ("claude", "codex", "gemini")
    )
    assert lines[0].split() == ["AGENT", "CALLS", "FAILED", "TURNS", "INPUT", "OUTPUT", "COST"]
    assert claude.split()[-1].startswith("$0.00")
    assert codex.endswith("not reported  not reported  not reported")
    assert "≈ $0.00" in gemini
    assert lines[-1].startswith("≈ Estimated, as agents report no cost. Prices now: genai-prices ")


def test_stats_by_anything_are_json_as_well_with_null_for_what_is_not_known(used: Cli) -> None:
    for by in ("agent", "user", "day", "model", "session"):
        found = json.loads(used("history", "stats", "--by", by, "--format", "json").out)
        assert sum(one["turns"] for one in found) == 3
        assert sum(one["calls"] for one in found) > 3
    models = json.loads(used("history", "stats", "--by", "model", "--format", "json").out)
    codex = next(one for one in models if one["name"].startswith("gpt"))
    assert (codex["inputTokens"], codex["totalTokens"], codex["costs"]) == (None, None, [])
    sessions = json.loads(used("history", "sessions", "--format", "json").out)
    costs = [one["usage"]["costs"] for one in sessions]
    assert sorted(len(one) for one in costs) == [0, 1, 1]
    assert used("history", "stats", "--by", "day", "--since", "2000-01-01", "--until", "2001-01-01")
    assert (
        "no call is like that"
        in used("history", "stats", "--by", "day", "--until", "2001-01-01").err
    )


def test_stats_by_somebody_refuse_what_no_turn_has(used: Cli) -> None:
    done = used("history", "stats", "--by", "user", "--tool", "bash", "--filter", "kind:read")
    assert done.code == 2
    assert "--by user counts whole turns, which have no --tool, kind:" in " ".join(done.err.split())
