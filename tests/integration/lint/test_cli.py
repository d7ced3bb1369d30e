"""`callsheet lint`: text, JSON, patches, exit codes, paths that aren't there; on a real terminal, too."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from click.testing import CliRunner

from callsheet.cli.app import app
from callsheet.lint import RULES
from tests.support.shells import CALLSHEET, without_escapes

BAD = """\
from callsheet import Call, ToolResult, tool


@tool
def t(call: Call, x: str) -> ToolResult:
    'Do it.'
    if not x:
        return ToolResult(call.id, "t", False, error="no x")
    return call.success("")
"""
BY_HAND = next(rule for rule in RULES if rule.id == "result/by-hand")
CLEAN = BAD.replace('ToolResult(call.id, "t", False, error="no x")', 'call.error("no x")').replace(
    '""', '"Done."'
)


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.py"
    path.write_text(BAD)
    return path


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def lint(*args: object, cwd: Path | None = None) -> Done:
    """Run the command in this process: what is under test here is what it prints and returns."""
    with contextlib.chdir(cwd or "."):
        done = CliRunner().invoke(app, ["lint", *map(str, args)], standalone_mode=False)
    if isinstance(done.exception, click.UsageError):
        shown = io.StringIO()
        done.exception.show(shown)
        return Done(done.exception.exit_code, done.stdout, shown.getvalue())
    if done.exception is not None:
        raise done.exception
    return Done(done.return_value, done.stdout, done.stderr)


def test_findings_are_reported_with_place_rule_reason_and_fix(bad: Path) -> None:
    done = lint("bad.py", cwd=bad.parent)
    assert (done.returncode, done.stderr) == (1, "")
    first, fix, second, *_ = done.stdout.splitlines()
    assert first == "bad.py:8:16: result/by-hand a result is built by hand: ToolResult(…)"
    assert fix == '    fix: write call.error("no x") [--fix]'
    assert second.startswith("bad.py:9:12: result/success-without-output ")
    assert done.stdout.endswith("\n\n1 file: 2 findings, of which --fix can fix 1.\n")
    assert "\x1b" not in done.stdout


def test_clean_code_exits_with_0(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text(CLEAN)
    done = subprocess.run(
        [*CALLSHEET, "lint", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 file: nothing found.\n", "")


def test_json_has_everything(bad: Path) -> None:
    done = lint(bad, "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    reported = json.loads(done.stdout)
    assert reported["files"] == 1
    assert reported["rules"] == [rule.id for rule in RULES]
    assert (reported["fixed"], reported["problems"]) == ([], [])
    first, second = reported["findings"]
    assert first == {
        "rule": "result/by-hand",
        "path": str(bad),
        "line": 8,
        "column": 16,
        "message": "a result is built by hand: ToolResult(…)",
        "why": BY_HAND.why,
        "fix": 'write call.error("no x")',
        "fixable": True,
    }
    assert (second["rule"], second["fixable"]) == ("result/success-without-output", False)


def test_fix_writes_and_shows_what_it_changed(bad: Path) -> None:
    done = lint(bad, "--fix")
    assert done.returncode == 1  # the success without output is left
    assert f'{bad}:8:16: fixed result/by-hand: call.error("no x")\n' in done.stdout
    assert done.stdout.endswith("1 file: 1 finding fixed, 1 finding.\n")
    assert bad.read_text() == BAD.replace(
        'ToolResult(call.id, "t", False, error="no x")', 'call.error("no x")'
    )
    again = lint(bad, "--fix", "--ignore", "result/success-without-output")
    assert (again.returncode, again.stdout) == (0, "1 file: nothing found.\n")


def test_fix_as_json_shows_what_was_fixed_and_what_is_left(bad: Path) -> None:
    reported = json.loads(lint(bad, "--fix", "--format", "json").stdout)
    assert [finding["rule"] for finding in reported["fixed"]] == ["result/by-hand"]
    assert [finding["rule"] for finding in reported["findings"]] == [
        "result/success-without-output"
    ]


def test_rules_are_chosen_and_left_out_by_id_and_category(bad: Path) -> None:
    def rules(*args: str) -> list[str]:
        reported = json.loads(lint(bad, "--format", "json", *args).stdout)
        return [finding["rule"] for finding in reported["findings"]]

    assert rules("--select", "result/by-hand") == ["result/by-hand"]
    assert rules("--select", "result") == rules()
    assert rules("--select", "result/swallowed,result/by-hand") == ["result/by-hand"]
    assert rules("--ignore", "result/by-hand", "--ignore", "result/swallowed") == [
        "result/success-without-output"
    ]
    assert rules("--ignore", "result/") == []


def test_the_json_names_only_the_rules_that_were_held(bad: Path) -> None:
    reported = json.loads(lint(bad, "--format", "json", "--select", "result/swallowed").stdout)
    assert reported["rules"] == ["result/swallowed"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_explained(rule) -> None:
    done = lint("--explain", rule.id)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{rule.id}\n{rule.title}.\n")
    assert rule.why in done.stdout
    assert rule.bad.splitlines()[-1] in done.stdout
    assert rule.good.splitlines()[-1] in done.stdout


def test_all_rules_are_explained_at_once() -> None:
    done = lint("--explain", "all")
    assert [done.stdout.count(f"{rule.title}.\n") for rule in RULES] == [1] * len(RULES)


def test_a_projects_settings_choose_rules_and_files_and_a_flag_beats_them(bad: Path) -> None:
    def rules(*args: str) -> list[str]:
        reported = json.loads(lint(".", "--format", "json", *args, cwd=bad.parent).stdout)
        return [f"{one['path']}:{one['rule']}" for one in reported["findings"]]

    settings = bad.parent / "pyproject.toml"
    by_hand, mute = "bad.py:result/by-hand", "bad.py:result/success-without-output"
    settings.write_text('[tool.callsheet.lint]\nselect = ["result"]\nignore = ["result/by-hand"]\n')
    assert rules() == [mute]
    assert rules("--ignore", "result/swallowed") == [by_hand, mute]
    assert rules("--select", "tool") == []
    (bad.parent / "made" / "deep").mkdir(parents=True)
    (bad.parent / "made" / "deep" / "bad.py").write_text(BAD)
    settings.write_text('[tool.callsheet.lint]\nexclude = ["made/", "nothing.py"]\n')
    assert rules() == [by_hand, mute]
    settings.write_text('[tool.callsheet.lint]\nexclude = ["made/*/bad.py", "./nothing"]\n')
    assert rules() == [by_hand, mute]
    settings.write_text('[tool.callsheet.lint]\nexclude = ["bad.py"]\n')
    assert rules() == []
    assert lint("bad.py", cwd=bad.parent).returncode == 1  # what is named is linted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.callsheet.lint]\nselects = []\n", "`selects`; it has select, ignore, exclude"),
        ("[tool.callsheet.lint]\nselect = 'result'\n", "Expected `array`"),
        ("[tool.callsheet.lint]\nignore = ['result/by-hands']\n", "did you mean result/by-hand?"),
        ("[tool.callsheet.lnt]\n", "did you mean [tool.callsheet.lint]?"),
        ("[tool.callsheet.lint\n", "not valid TOML"),
    ],
)
def test_a_mistake_in_a_projects_settings_is_an_error(bad: Path, text: str, told: str) -> None:
    (bad.parent / "pyproject.toml").write_text(text)
    done = lint("bad.py", cwd=bad.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_wrong_rule_is_named_with_the_nearest(bad: Path) -> None:
    for option in ("--select", "--ignore", "--explain"):
        done = lint(bad, option, "result/by-hands")
        assert (done.returncode, done.stdout) == (2, "")
        assert "no rule 'result/by-hands'; did you mean result/by-hand?" in done.stderr


def test_bad_usage_exits_with_2() -> None:
    for arguments in (
        [],
        ["--format", "xml", "."],
        ["--fast", "."],
    ):
        done = lint(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Usage: ")


def test_a_missing_path_is_named_and_the_rest_is_linted(bad: Path) -> None:
    done = lint("nowhere.py", "bad.py", cwd=bad.parent)
    assert done.returncode == 2
    assert done.stderr == "callsheet: nowhere.py: No such file or directory\n"
    assert "bad.py:8:16" in done.stdout


def test_a_syntax_error_is_named_with_its_place_and_the_rest_is_linted(bad: Path) -> None:
    (bad.parent / "broken.py").write_text("x = 1\ndef f(:\n")
    done = lint(".", cwd=bad.parent)
    assert done.returncode == 2
    assert done.stderr.startswith("callsheet: broken.py:2:7: invalid syntax (as Python 3.")
    assert "bad.py:8:16" in done.stdout
    reported = json.loads(lint(".", "--format", "json", cwd=bad.parent).stdout)
    assert (reported["problems"][0]["path"], reported["problems"][0]["line"]) == ("broken.py", 2)


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x = '\xff'\n")
    (tmp_path / "b.py").write_bytes(b"# coding: klingon\n")
    (tmp_path / "c.py").write_bytes(b"x = '\0'\n")
    os.mkfifo(tmp_path / "d.py")
    done = lint(*sorted(tmp_path.iterdir()))
    assert done.returncode == 2
    for name in ("a.py", "b.py", "c.py", "d.py"):
        assert f"{name}" in done.stderr
    assert "not a regular file" in done.stderr
    assert "Traceback" not in done.stderr


def test_directories_are_searched_but_not_what_is_not_the_projects_own(tmp_path: Path) -> None:
    for name in ("a", "a/b", ".git", ".venv/lib", "env/lib", "node_modules/x", "__pycache__"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.py").write_text(BAD)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "a" / "notes.txt").write_text("no code")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    reported = json.loads(lint(".", "a", "--format", "json", cwd=tmp_path).stdout)
    assert reported["files"] == 2
    assert {finding["path"] for finding in reported["findings"]} == {"a/x.py", "a/b/x.py"}
    inside = json.loads(lint(".venv", "--format", "json", cwd=tmp_path).stdout)
    assert inside["files"] == 1  # what is named is linted, whatever it's called


def test_linted_code_is_never_run(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{BAD}")
    assert lint("--fix", path, cwd=tmp_path).returncode == 1
    assert not (tmp_path / "ran").exists()


def test_findings_are_coloured_on_a_terminal_only(bad: Path) -> None:
    for variables, is_coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        shown = on_a_terminal("lint", str(bad), **variables)
        assert ("\x1b[31mresult/by-hand" in shown) is is_coloured
        assert ":16:" in shown


def test_a_place_is_never_wrapped_on_a_terminal(bad: Path) -> None:
    deep = bad.parent / "/".join(["a_long_name_of_a_directory"] * 5)
    deep.mkdir(parents=True)
    path = bad.rename(deep / "bad.py")
    for option, end in (("--format=text", " "), ("--fix", " fixed")):
        shown = without_escapes(on_a_terminal("lint", option, str(path)))
        assert f"{path}:8:16:{end}" in shown


def test_a_terminal_obeys_nothing_that_stands_in_the_code(tmp_path: Path) -> None:
    path = tmp_path / "a\x1b[2J.py"
    path.write_text(BAD.replace("no x", "no \x1b[2J\x9b"))
    for option in ("--format=text", "--fix"):
        shown = on_a_terminal("lint", option, str(path))
        assert "\x1b[2J" not in shown
        assert "\x9b" not in shown
        assert "�[2J" in shown


def on_a_terminal(*args: str, **variables: str) -> str:
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    with subprocess.Popen(
        [*CALLSHEET, *args], stdout=terminal, stderr=terminal, env=environment
    ) as child:
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(controller, 65536):
                shown += chunk
        except OSError:  # Linux says so when the other end is closed
            pass
        os.close(controller)
        assert child.wait(timeout=60) == 1
    return shown.decode()


def test_what_is_not_there_is_not_said_to_be_clean(tmp_path: Path) -> None:
    done = lint("nope.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "callsheet: nope.py: No such file or directory\n"
    done = lint(".", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "callsheet: there are no Python files in .\n"


@pytest.mark.parametrize("key", ["select", "ignore"])
def test_a_rule_that_the_settings_name_wrongly_is_named_with_them(bad: Path, key: str) -> None:
    (bad.parent / "pyproject.toml").write_text(f"[tool.callsheet.lint]\n{key} = ['by-hand']\n")
    done = lint("bad.py", cwd=bad.parent)
    assert done.returncode == 2
    assert (
        f"[tool.callsheet.lint] {key}: there is no rule 'by-hand'; did you mean result/by-hand?"
        in done.stderr
    )
