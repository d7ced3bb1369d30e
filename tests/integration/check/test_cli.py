"""`callsheet check` on the command line: text, exit codes, pipes, terminals, paths that aren't there."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from callsheet.check.rules import RULES
from callsheet.cli import main
from tests.support.made_recordings import RECORDINGS, told

CALLSHEET = [sys.executable, "-m", "callsheet"]
CALL = {"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed"}
RUNNING = {**CALL, "status": "in_progress"}
TWICE = ("--select", "lifecycle/announced-twice")


class Done(NamedTuple):
    """What a command line gave."""

    returncode: int
    stdout: str
    stderr: str


Check = Callable[..., Done]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """Run a command line in this process, as the program does."""

    def run(*args: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["callsheet", "check", *map(str, args)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(cast("int", ended.value.code), out, err)

    return run


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A recording in which ten calls are announced twice, one of them six times."""
    calls = [{**RUNNING, "tool_call": f"c{n}", "title": f"Reading {n}.py"} for n in range(10)]
    ends = [{"tool_call_update": f"c{n}", "status": "completed"} for n in range(10)]
    path = tmp_path / "bad.jsonl"
    path.write_bytes(told(*calls, *calls, *calls[:1] * 4, *ends))
    return path


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    path = tmp_path / "clean.jsonl"
    path.write_bytes(told(CALL))
    return path


def test_findings_name_the_call_the_line_the_field_the_rule_and_the_fix(
    check: Check, bad: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bad.parent)
    done = check(bad.name, *TWICE)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "bad.jsonl  example 1, ACP 1, 10 calls"
    assert lines[1] == "  Reading 0.py  c0"
    assert re.match(r"    error   lifecycle/announced-twice  \S", lines[2])
    assert lines[3] == '            bad.jsonl:16  update.toolCallId = "c0"'
    assert lines[4].startswith("            fix: Send `tool_call` once")
    assert lines[5] == "  Reading 1.py  c1"
    assert sum("fix: " in line for line in lines) == 1
    assert "  … and 11 × lifecycle/announced-twice (--all writes them out)" in lines
    assert lines[-1] == "1 recording, 10 calls: 14 errors."
    assert any(re.match(r"example 1 +10 +100 % +–", line) for line in lines)
    assert "\x1b" not in done.stdout


def test_all_writes_everything_out(check: Check, bad: Path) -> None:
    done = check(bad, *TWICE, "--all")
    assert done.stdout.count("lifecycle/announced-twice") == 14


def test_a_clean_recording_exits_with_0_also_from_stdin(
    check: Check, clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (clean, "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(clean.read_bytes())))
        done = check(path, *TWICE)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("\n1 recording, 1 call: nothing found.\n")


def test_what_can_not_be_read_is_reported_and_the_rest_is_checked(
    check: Check, bad: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    done = check(tmp_path / "no.jsonl", bad, tmp_path / "empty", *TWICE, "--format", "json")
    assert done.returncode == 2
    assert "no.jsonl: No such file or directory" in done.stderr
    assert "empty: there are no recordings in it (*.jsonl, *.ndjson, *.log)" in done.stderr
    (recording,) = json.loads(done.stdout)["recordings"]
    assert recording["path"] == str(bad)
    assert len(recording["findings"]) == 14


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name a recording"),
        (("x", "--select", "lifecycle/announce-twice"), "did you mean lifecycle/announced-twice"),
        (("x", "--ignore", "lifecycle,,nonsense"), "there is no rule 'nonsense'"),
        (("x", "--explain", "nosuch"), "there is no rule 'nosuch'; --rules lists all"),
        (("x", "--explain", "anounced-twice"), "did you mean lifecycle/announced-twice"),
        (("x", "--client", "emacs"), "emacs"),
        (("x", "--update-baseline"), "--baseline FILE"),
        (("--card", "x", "--format", "json"), "leave out --format json"),
        (("x", "--baseline", "/nowhere/b.json"), "--update-baseline makes it"),
        (("x", *TWICE, "--ignore", "lifecycle"), "no rule is left"),
    ],
)
def test_bad_usage_exits_with_2_and_says_what_would_be_right(
    check: Check, args: Any, said: str
) -> None:
    done = check(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_severity_is_the_least_that_counts(check: Check, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(told({**CALL, "title": "Reading __init__.py", "status": "completed"}))
    only = ("--client", "zed", "--select", "client")
    assert check(path, *only).returncode == 1
    assert check(path, *only, "--severity", "error").returncode == 0


def test_a_baseline_is_made_used_and_brought_up_to_date(
    check: Check, bad: Path, tmp_path: Path
) -> None:
    known = tmp_path / "known.json"
    args = (bad, *TWICE, "--baseline", known)
    made = check(*args, "--update-baseline")
    assert (made.returncode, made.stderr) == (0, f"callsheet: {known} now has 14 findings\n")
    assert check(*args).returncode == 0
    bad.write_bytes(
        told({**RUNNING, "tool_call": "new", "title": "ls"}, {**CALL, "tool_call": "new"})
    )
    done = check(*args)
    assert done.returncode == 1
    assert "1 recording, 1 call: 1 error." in done.stdout
    assert "can't be found any more" in done.stderr
    assert "gone: lifecycle/announced-twice in bad.jsonl" in done.stderr
    assert check(*args, "--update-baseline").returncode == 0
    assert check(*args).stderr == ""


def test_a_rule_is_explained_and_all_are_listed(check: Check) -> None:
    done = check("--explain", "client/zed-not-found")
    assert done.returncode == 0
    for part in ("error", "--client zed", "Protocol:", "Why:", "Fix:", "Example:", '{"tool_call_'):
        assert part in done.stdout
    listed = check("--rules").stdout
    every = check("--explain", "all").stdout
    assert all(rule.id in listed and rule.fix in every for rule in RULES)


def test_the_card_can_go_into_a_readme(check: Check, bad: Path) -> None:
    done = check(bad, *TWICE, "--format", "markdown")
    assert done.returncode == 1
    head, rule, first, *_ = done.stdout.splitlines()
    assert head.startswith("| agent, tool | calls | ended |")
    assert re.fullmatch(r"\|[-:|]+\|", rule)
    assert first.startswith("| **example 1** | 10 | 100 % |")
    assert check("--card", bad, *TWICE).stdout.count("announced-twice") == 0


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit"])
def test_a_file_that_is_no_recording_is_refused_and_the_others_are_checked(
    check: Check, form: str, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "b.log").write_bytes(b"")
    (tmp_path / "c.log").write_bytes(told(CALL)[:-40])
    (tmp_path / "d.log").write_bytes(b'Dear all,\n{"a": 1}\n')
    done = check(tmp_path, "--format", form)
    assert done.returncode == 2
    for name, why in (("a", "no ACP messages"), ("b", "empty"), ("d", "no ACP messages")):
        assert f"{name}.log: not a recording: it" in done.stderr
        assert why in done.stderr
    assert "Traceback" not in done.stderr
    if form == "text":
        assert "1 call, cut off in the last line" in done.stdout
        assert "1 recording, 1 call: " in done.stdout
    alone = check(tmp_path / "d.log", "--format", form, "--select", "size")
    assert alone.returncode == 2
    assert "nothing found" not in alone.stdout


def test_each_use_of_an_id_has_its_own_head_and_advice_stands_apart(
    check: Check, tmp_path: Path
) -> None:
    file = tmp_path / "used-again.jsonl"
    uses = [
        {"tool_call": "c0", "title": title, "kind": kind, "status": status}
        for title, kind, status in (("Read", "read", "pending"), ("Bash", "execute", "pending"))
        for status in (status, "completed")
    ]
    for one in uses[1::2]:
        one["tool_call_update"] = one.pop("tool_call")
    file.write_bytes(told(*uses))
    done = check(file)
    heads = [line.strip() for line in done.stdout.splitlines() if re.match(r"  \S", line)]
    calls = [head for head in heads if head.endswith(("c0", "c0, second use"))]
    assert calls == ["Bash  c0, second use", "Read  c0"]  # the worst first
    severities = re.findall(r"^    (error|warning|advice) ", done.stdout, re.MULTILINE)
    assert severities[0] == "error"
    assert severities[-1] == "advice"
    assert "advice" not in severities[: severities.index("advice")]
    assert len({*severities[severities.index("advice") :]}) == 1


def test_a_secret_in_a_title_and_a_bell_are_not_shown(check: Check, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    path = tmp_path / "a.jsonl"
    titled = {**RUNNING, "title": f"curl {secret} \x07\x1b[31m"}
    path.write_bytes(told(titled, titled))
    done = check(path, *TWICE)
    assert done.returncode == 1
    assert "curl " in done.stdout
    assert secret not in done.stdout
    assert not re.search(r"[\x07\x1b]", done.stdout)


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    process = subprocess.Popen(
        [*CALLSHEET, "check", str(RECORDINGS), "--all", "--client", "zed", "--format", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr as stderr:
        assert stderr.read() == b""
    assert process.wait(60) in (0, 1)


def on_terminal(*args: object, env: dict[str, str] | None = None, columns: int = 80) -> str:
    """Return what a terminal is sent."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (30, columns))
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        [*CALLSHEET, "check", *map(str, args)],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env=plain | {"TERM": "xterm-256color"} | (env or {}),
    )
    os.close(slave)
    said = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(master)
    process.wait(60)
    return said.decode()


def test_a_terminal_gets_colours_and_lines_that_fit(bad: Path) -> None:
    said = on_terminal(bad, *TWICE, columns=60)
    assert "\x1b[1;31merror" in said
    plain = re.sub(r"\x1b\[[\d;]*m", "", said)
    # A place is for clicking, so it is not wrapped.
    assert max(len(line) for line in plain.splitlines() if "bad.jsonl:" not in line) <= 60
    assert "14 errors." in plain
    assert re.search(r"CALLS +ENDED +CLEAN +FAULTY +LEAKS", plain)
    assert re.search(r"^example 1 +\d", plain, re.M)


def test_no_color_is_obeyed(bad: Path) -> None:
    said = on_terminal(bad, *TWICE, env={"NO_COLOR": "1"})
    assert "14 errors." in said
    assert not re.search(r"\x1b\[[\d;]*3\dm", said)


def test_interrupting_it_exits_with_130() -> None:
    process = subprocess.Popen(
        [*CALLSHEET, "check", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        # More than a pipe holds: when it is written, it is being read.
        process.stdin.write(told(CALL) * 400)
        process.stdin.flush()
        for _ in range(10):  # one that comes just before a read waits for its end
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
                break
        assert process.returncode == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
