"""Where the history is and how much is kept: flags, environment, files. And `callsheet call`, which keeps its calls."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from callsheet.cli import settings
from callsheet.cli.settings import BadSettings
from callsheet.history import KEEP, BadUrl, Retention
from callsheet.history.amounts import BadAmount, parse_age, parse_moment, parse_size
from callsheet.history.url import file_of
from tests.integration.cli.conftest import Command
from tests.support.shells import CALLSHEET


def environ(home: Path, **more: str) -> dict[str, str]:
    return {
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CONFIG_HOME": str(home / "config"),
        **more,
    }


def history_settings(
    flag: str | None = None, *, environ: dict[str, str], cwd: str | Path = "."
) -> tuple[str | None, Retention]:
    """Return the settings of the history in an environment that has just these of our variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CALLSHEET_CONFIG", "CALLSHEET_HISTORY"):
            patch.delenv(name, raising=False)
        for name, value in environ.items():
            patch.setenv(name, value)
        return settings.history_settings(flag, cwd=cwd)


def toml(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


# Which one holds


def test_without_a_word_it_is_in_the_user_s_data_directory(tmp_path: Path) -> None:
    url, keep = history_settings(environ=environ(tmp_path), cwd=tmp_path)
    assert url == f"sqlite:///{tmp_path}/data/callsheet/history.sqlite"
    assert keep == KEEP


def test_a_flag_beats_the_environment_beats_a_file(tmp_path: Path) -> None:
    user = toml(tmp_path / "config/callsheet/callsheet.toml", '[history]\nurl = "/of/user.db"\n')
    project = tmp_path / "project"
    deep = project / "src" / "deep"
    deep.mkdir(parents=True)
    env = environ(tmp_path)

    def url(flag: str | None = None, **more: str) -> str | None:
        return history_settings(flag, environ=env | more, cwd=deep)[0]

    assert url() == "/of/user.db"
    toml(project / "pyproject.toml", "[tool.other]\nx = 1\n")
    assert url() == "/of/user.db"
    toml(project / "pyproject.toml", '[tool.callsheet.history]\nurl = "sqlite:///kept/h.db"\n')
    assert url() == f"{project}/kept/h.db"
    toml(project / "src" / "pyproject.toml", "[project]\nname = 'x'\n")
    assert url() == f"{project}/kept/h.db"
    named = toml(tmp_path / "named.toml", '[tool.callsheet.history]\nurl = "off"\n')
    assert url(CALLSHEET_CONFIG=str(named)) is None
    assert url(CALLSHEET_CONFIG=str(user)) == "/of/user.db"
    assert url(CALLSHEET_CONFIG=str(named), CALLSHEET_HISTORY="/of/env.db") == "/of/env.db"
    assert url("/of/flag.db", CALLSHEET_HISTORY="off") == "/of/flag.db"
    assert url("off", CALLSHEET_HISTORY="/of/env.db") is None


def test_a_file_shows_how_much_is_stored(tmp_path: Path) -> None:
    file = toml(
        tmp_path / "c.toml",
        '[history]\nmax_age = "2w"\nmax_calls = 7\nmax_bytes = "1.5GB"\n',
    )
    env = environ(tmp_path, CALLSHEET_CONFIG=str(file), CALLSHEET_HISTORY="/x.db")
    url, keep = history_settings(environ=env)
    assert url == "/x.db"
    assert (keep.max_age, keep.max_calls, keep.max_bytes) == (14 * 86400, 7, 1_500_000_000)
    toml(file, '[history]\nmax_age = "none"\n')
    keep = history_settings(environ=env)[1]
    assert (keep.max_age, keep.max_calls) == (None, KEEP.max_calls)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[history\n", "not valid TOML"),
        (
            '[history]\nmax_aeg = "1d"\n',
            "[history] Object contains unknown field `max_aeg`; it has url, max_age",
        ),
        ("[history]\nx = 1\n", "it has url, max_age, max_calls, max_bytes"),
        ("[histroy]\nx = 1\n", "[histroy]: did you mean [history]?"),
        (
            "[tool.callsheet.hitsory]\nx = 1\n",
            "[tool.callsheet.hitsory]: did you mean [tool.callsheet.history]?",
        ),
        ("history = 3\n", "[history] is not a table"),
        ("[tool.callsheet]\nhistory = 3\n", "[tool.callsheet.history] is not a table"),
        ("[history]\nurl = 5\n", "[history] Expected `str | null`, got `int` - at `$.url`"),
        ('[history]\nmax_age = "90"\n', "max_age = '90': expected a number and a unit"),
        ('[history]\nmax_bytes = "big"\n', "max_bytes = 'big': expected a number of bytes"),
        ('[history]\nmax_bytes = "100kB"\n', "max_bytes = '100kB': expected 1MB or more"),
        ('[history]\nmax_calls = "many"\n', "max_calls = 'many': expected a number of calls"),
        ("[history]\nmax_calls = -1\n", "max_calls = '-1': expected a number of calls"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_what_is_wrong(
    tmp_path: Path, text: str, message: str
) -> None:
    file = toml(tmp_path / "c.toml", text)
    with pytest.raises(BadSettings) as caught:
        history_settings(environ=environ(tmp_path, CALLSHEET_CONFIG=str(file)))
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"gone\.toml can't be read: No such file"):
        history_settings(environ=environ(tmp_path, CALLSHEET_CONFIG=str(tmp_path / "gone.toml")))
    with pytest.raises(BadUrl, match="scheme"):
        history_settings(environ=environ(tmp_path, CALLSHEET_HISTORY="ftp://x"))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("45s", 45), ("30min", 1800), ("2 h", 7200), ("1.5H", 5400), ("3d", 259200), ("1w", 604800)],
)  # fmt: skip
def test_ages_are_read_as_people_write_them(text: str, seconds: float) -> None:
    assert parse_age(text) == seconds
    assert parse_moment(text, 1e9) == 1e9 - seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("12", 12), ("500MB", 500_000_000), ("1 GiB", 1 << 30), ("1.5k", 1500), ("0b", 0)],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_moments_have_a_zone_or_are_meant_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_moment("2001-09-09T01:46:40Z", 0) == 1e9
    assert parse_moment("2001-09-09T03:46:40+02:00", 0) == 1e9
    day = parse_moment("2001-09-09", 0)
    assert parse_moment("today", day + 3600) == day
    assert day - 26 * 3600 < parse_moment("yesterday", day + 3600) < day - 22 * 3600


@pytest.mark.parametrize(
    "text", ["", "x", "5", "5y", "-5d", "1e9d", "2026-13-01", "٣d", "9" * 400 + "d"]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(BadAmount):
        parse_moment(text, 1e9)


# `callsheet call` keeps what it does


@pytest.mark.parametrize("style", ["pretty", "acp", "result"])
def test_a_call_is_stored_and_nothing_more_is_reported(
    tmp_path: Path, command: Command, style: str
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    where = ["--history", "h.sqlite"]
    done = command("call", "read", "path=a.txt", "--format", style, *where, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads(command("history", "--format", "json", *where, cwd=tmp_path).stdout)
    assert (found["tool"], found["status"], found["title"]) == (
        "read",
        "completed",
        "Reading a.txt",
    )
    if style == "acp":
        reported = [json.loads(line)["params"] for line in done.stdout.splitlines()]
        assert {one["sessionId"] for one in reported} == {found["session"]}
        assert {one["update"]["toolCallId"] for one in reported} == {found["id"]}


def test_secrets_of_a_call_are_not_stored(tmp_path: Path, command: Command) -> None:
    secret = "ghp_" + "a1B2" * 9
    (tmp_path / "a.txt").write_text(secret)
    done = command(
        "call", "read", "path=a.txt", "--format", "result", "--history", "h.db", cwd=tmp_path
    )
    assert secret in done.stdout
    whole = command("history", "export", "--history", "h.db", cwd=tmp_path).stdout
    assert "[redacted" in whole
    assert secret not in whole


@pytest.mark.parametrize("how", ["off", "flag"])
def test_a_call_can_stay_out_of_the_history(tmp_path: Path, command: Command, how: str) -> None:
    options = ["--history", "off"] if how == "flag" else []
    env = {"CALLSHEET_HISTORY": "off" if how == "off" else "h.sqlite"}
    done = command("call", "think", "thought=x", *options, cwd=tmp_path, **env)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://x/y", ", or off. The call is not stored."),
        ("/proc/nowhere/h.sqlite", "can't be made"),
    ],
)
def test_a_broken_history_is_reported_once_and_does_not_break_the_call(
    tmp_path: Path, command: Command, url: str, message: str
) -> None:
    done = command("call", "think", "thought=x", cwd=tmp_path, CALLSHEET_HISTORY=url)
    assert done.returncode == 0
    assert done.stdout.startswith("Thinking\nx\ncompleted")
    problem, *outcome = done.stderr.splitlines()
    assert problem.startswith("callsheet: history: ")
    assert message in problem
    assert all("written the next time" in line for line in outcome)


def test_a_broken_settings_file_does_not_break_a_call_but_names_itself(
    tmp_path: Path, command: Command
) -> None:
    toml(tmp_path / "pyproject.toml", "[tool.callsheet.history]\nurl = 1\n")
    env = {"CALLSHEET_HISTORY": ""}
    done = command("call", "think", "thought=x", cwd=tmp_path, **env)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert str(tmp_path / "pyproject.toml") in done.stderr
    listed = command("history", cwd=tmp_path, **env)
    assert (listed.returncode, listed.stdout.count("\n")) == (0, 1)
    assert listed.stderr.count(str(tmp_path / "pyproject.toml")) == 1


def test_a_url_that_was_typed_wrong_is_bad_usage(tmp_path: Path, command: Command) -> None:
    done = command("call", "think", "thought=x", "--history", "ftp://x", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--history" in done.stderr


def test_a_history_that_another_process_holds_is_not_waited_for_long(
    tmp_path: Path, command: Command
) -> None:
    env = {"CALLSHEET_HISTORY": str(tmp_path / "h.sqlite")}
    command("call", "think", "thought=first", cwd=tmp_path, **env)
    db = sqlite3.connect(tmp_path / "h.sqlite", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    done = as_process("call", "think", "thought=second", cwd=tmp_path, **env)
    db.execute("ROLLBACK")
    db.close()
    assert done.returncode == 0
    assert "completed" in done.stdout
    assert done.stderr.count("is locked by") <= 1, "it is said once, if at all before the end"
    assert "1 entry for " in done.stderr
    assert "h.sqlite will be written the next time, from" in done.stderr
    again = command("call", "think", "thought=third", cwd=tmp_path, **env)
    assert "Wrote 1 entry that earlier processes could not write.\n" in again.stderr
    assert command("history", cwd=tmp_path, **env).stdout.count("\n") == 3


def test_settings_of_the_project_hold_for_a_call_in_it(tmp_path: Path, command: Command) -> None:
    toml(tmp_path / "pyproject.toml", '[tool.callsheet.history]\nurl = "own/h.sqlite"\n')
    done = command("call", "think", "thought=x", cwd=tmp_path, CALLSHEET_HISTORY="")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "own" / "h.sqlite").exists()
    listed = command("history", cwd=tmp_path, CALLSHEET_HISTORY="")
    assert listed.stdout.count("\n") == 1


@pytest.mark.parametrize(
    "url", ["postgresql://evil.example/db", "/elsewhere/h.db", "../h.db", "~/h.db"]
)
def test_a_project_can_not_send_the_history_elsewhere(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    toml(project / "pyproject.toml", f'[tool.callsheet.history]\nurl = "{url}"\nmax_calls = 0\n')
    own = environ(tmp_path)
    assert history_settings(environ=own, cwd=project) == history_settings(environ=own, cwd="/")
    assert "a project can name a file inside of it, or off" in capsys.readouterr().err
    named = {"CALLSHEET_CONFIG": str(project / "pyproject.toml")}
    history_settings(environ=named, cwd=project)  # whoever names it trusts it
    assert history_settings("off", environ={}, cwd=project)[0] is None


def test_a_link_in_a_project_does_not_lead_out_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    (tmp_path / "own").mkdir()
    project.mkdir()
    (project / "data").symlink_to("../own")
    toml(project / "pyproject.toml", '[tool.callsheet.history]\nurl = "data/h.db"\nmax_calls = 0\n')
    assert history_settings(environ={}, cwd=project)[1] == KEEP
    assert "a project can name a file inside of it, or off" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["h%41.db", "sqlite:///h%2541.db"])
def test_a_projects_directory_may_have_any_name(tmp_path: Path, url: str) -> None:
    project = tmp_path / "100%41"
    project.mkdir()
    toml(project / "pyproject.toml", f'[tool.callsheet.history]\nurl = "{url}"\n')
    found, _ = history_settings(environ={}, cwd=project)
    assert found is not None
    assert file_of(found) == project / "h%41.db"


def test_nobodys_home_is_a_bad_url() -> None:
    with pytest.raises(BadUrl, match="nobody's home"):
        history_settings("~no_such_user/h.db", environ={})


def test_a_projects_limits_are_not_for_the_users_history(tmp_path: Path):
    toml(tmp_path / "pyproject.toml", "[tool.callsheet.history]\nmax_calls = 0\n")
    assert history_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path)[1] == KEEP
    toml(tmp_path / "pyproject.toml", '[tool.callsheet.history]\nurl = "h.db"\nmax_calls = 7\n')
    assert history_settings(environ={}, cwd=tmp_path)[1].max_calls == 7


def test_tables_of_others_are_left_alone(tmp_path: Path):
    toml(tmp_path / "pyproject.toml", "[tool.callsheet.redact]\nx = 1\n[tool.callsheet.later]\n")
    assert history_settings(environ={"HOME": str(tmp_path)}, cwd=tmp_path)[1] == KEEP


def test_a_project_that_shows_nothing_of_it_leaves_the_users_history_alone(tmp_path: Path) -> None:
    toml(tmp_path / "config/callsheet/callsheet.toml", '[history]\nurl = "/of/user.db"\n')
    toml(tmp_path / "pyproject.toml", "[tool.callsheet.redact]\n")
    assert history_settings(environ=environ(tmp_path), cwd=tmp_path)[0] == "/of/user.db"


def test_a_project_ends_at_the_root_of_its_repository(tmp_path: Path) -> None:
    toml(tmp_path / "pyproject.toml", '[tool.callsheet.history]\nurl = "h.db"\n')
    inner = tmp_path / "repository" / "src"
    inner.mkdir(parents=True)
    assert history_settings(environ={}, cwd=inner)[0] == str(tmp_path / "h.db")
    (tmp_path / "repository" / ".git").mkdir()
    assert history_settings(environ={}, cwd=inner)[0] != str(tmp_path / "h.db")
    toml(inner.parent / "pyproject.toml", '[tool.callsheet.history]\nurl = "h.db"\n')
    assert history_settings(environ={}, cwd=inner)[0] == str(inner.parent / "h.db")


# Files of a project that are no settings at all

BROKEN: dict[str, bytes] = {
    "merge": b"<<<<<<< HEAD\n[tool.callsheet.history]\n=======\nurl = 'x'\n>>>>>>> other\n",
    "latin-1": "[project]\nauthors = ['J\xf6rg']\n".encode("latin-1"),
    "utf-16": "[tool.callsheet]\n".encode("utf-16"),
    "nul": b"[tool.callsheet]\0\n",
    "binary": bytes(range(256)) * 20,
    "deep": b"a = " + b"[" * 50_000,
    "number": b"a = " + b"9" * 20_000,
    "cut": b'[tool.callsheet.history]\nurl = "',
    "twice": b"[tool.callsheet]\n[tool.callsheet]\n",
    "number for a table": b"[tool]\ncallsheet = 3\n",
    "list for a table": b"[[tool.callsheet]]\nx = 1\n",
    "text for a table": b"[tool.callsheet]\nhistory = 'off'\n",
    "no such key": b"[tool.callsheet.history]\nmax_aeg = '1d'\n",
    "no such table": b"[tool.callsheet.histroy]\n",
    "wrong type": b"[tool.callsheet.history]\nurl = 3\n",
    "wrong amount": b"[tool.callsheet.history]\nmax_calls = 'lots'\n",
    "wrong scheme": b"[tool.callsheet.history]\nurl = 'ftp://x'\n",
    "no home": b"[tool.callsheet.history]\nurl = '~nobody-here/x'\n",
    "nul in a path": b'[tool.callsheet.history]\nurl = "a\\u0000b"\n',
}
ODD = ("directory", "fifo", "loop", "dangling", "device")
FINE: dict[str, bytes] = {
    "bom": b"\xef\xbb\xbf[tool.callsheet.history]\nurl = 'off'\n",
    "crlf": b"[tool.callsheet.history]\r\nurl = 'off'\r\n",
    "tool is no table": b"tool = 3\n",
    "empty": b"",
}


def spoil(file: Path, how: str) -> None:
    file.unlink(missing_ok=True)
    if how in BROKEN:
        file.write_bytes(BROKEN[how])
    elif how == "directory":
        file.mkdir()
    elif how == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to({"loop": file.name, "dangling": "gone", "device": "/dev/zero"}[how])


@pytest.mark.parametrize("how", [*BROKEN, *ODD])
def test_a_project_s_broken_file_is_warned_of_once_and_left_out(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = environ(tmp_path)
    spoil(tmp_path / "pyproject.toml", how)
    for _ in range(3):
        assert history_settings(environ=own, cwd=tmp_path) == history_settings(environ=own, cwd="/")
    message = capsys.readouterr().err
    assert (message.count("\n"), message.count("pyproject.toml")) == (1, 1)
    # The same file, named by the user, is an error.
    named = own | {"CALLSHEET_CONFIG": str(tmp_path / "pyproject.toml")}
    if how not in ("wrong scheme", "no home", "nul in a path"):
        with pytest.raises(BadSettings, match=r"pyproject\.toml"):
            history_settings(environ=named, cwd=tmp_path)


@pytest.mark.parametrize("how", FINE)
def test_what_is_only_unusual_is_read(
    tmp_path: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_bytes(FINE[how])
    url, _ = history_settings(environ=environ(tmp_path), cwd=tmp_path)
    assert (url is None) is (b"off" in FINE[how])
    assert capsys.readouterr().err == ""


def as_process(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CALLSHEET, *args],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("how", ["merge", "latin-1", "deep", "wrong scheme", "directory", "fifo"])
def test_a_project_s_broken_file_stops_no_call(tmp_path: Path, command: Command, how: str) -> None:
    spoil(tmp_path / "pyproject.toml", how)
    done = command("call", "think", "thought=x", cwd=tmp_path, CALLSHEET_HISTORY="")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pyproject.toml") == 1


@pytest.mark.parametrize(
    ("command", "how"),
    [
        (["agent"], "fifo"),
        (["agent", "--locale", "de"], "merge"),
        (["tap", "--", "echo", "hi"], "wrong scheme"),
    ],
    ids=["agent", "agent by click", "tap"],
)
def test_nor_what_an_editor_starts(tmp_path: Path, command: list[str], how: str) -> None:
    spoil(tmp_path / "pyproject.toml", how)
    done = as_process(*command, cwd=tmp_path, CALLSHEET_HISTORY="")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("pyproject.toml") == 1
    assert command[0] != "tap" or done.stdout == "hi\n"


@pytest.mark.parametrize("command", [["agent"], ["tap", "--", "echo", "hi"]])
def test_a_file_that_the_user_named_and_is_broken_is_an_error(
    tmp_path: Path, command: list[str]
) -> None:
    file = toml(tmp_path / "mine.toml", "[history\n")
    done = as_process(*command, cwd=tmp_path, CALLSHEET_HISTORY="", CALLSHEET_CONFIG=str(file))
    assert (done.returncode, str(file) in done.stderr) == (2, True)
    assert done.stdout == ""
