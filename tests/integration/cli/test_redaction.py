"""Rules and exceptions of the user's hold in every command; a project may add rules, and take none away."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callsheet.cli.settings import BadSettings, use_rules
from callsheet.redaction.redactor import Redactor, Settings
from callsheet.testing import AgentClient
from tests.integration.cli.conftest import Command
from tests.support.shells import CALLSHEET

RULE = """
[[{table}.rules]]
id = "{name}"
pattern = '{word}-[0-9]{{4}}'
literals = ["{word}-"]
examples = ["{word}-1234"]
"""
OWN = (
    '[redact]\nallow = ["ACME-0000", "ghp_allowed7Dummy3Sample9Never1Real2Made5U"]\noff = ["github-token"]\n'
    + RULE.format(table="redact", name="acme-badge", word="ACME")
)
PROJECT = RULE.format(table="tool.callsheet.redact", name="proj-badge", word="PROJ")
TOKEN = "ghp_Fake7Dummy3Sample9Never1Real2Made5Up4xy"
AWS = "AKIAFAKEDUMMYSAMPLE2"
TEXT = f"ACME-1234 ACME-0000 PROJ-5678 {TOKEN} {AWS}"
CALL = {
    "jsonrpc": "2.0",
    "method": "session/update",
    "params": {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "tool_call",
            "toolCallId": "c1",
            "title": "Reading a.txt",
            "kind": "read",
            "status": "completed",
            "rawInput": {"path": "a.txt"},
            "content": [{"type": "content", "content": {"type": "text", "text": TEXT}}],
        },
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user with settings, and a project with some of its own."""
    user = tmp_path / "config" / "callsheet" / "callsheet.toml"
    user.parent.mkdir(parents=True)
    user.write_text(OWN)
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "a.txt").write_text(TEXT)
    (project / "r.jsonl").write_text(json.dumps(CALL) + "\n")
    return tmp_path


def environ(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "XDG_CONFIG_HOME": str(home / "config"),
        "CALLSHEET_HISTORY": str(home / "h.sqlite"),
    }


def run(home: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CALLSHEET, *args],
        cwd=home / "project", env=environ(home) | env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def in_process(
    home: Path, command: Command, *args: str, **env: str
) -> subprocess.CompletedProcess[str]:
    return command(*args, cwd=home / "project", **environ(home) | env)


def by_agent(home: Path, _: Command) -> str:
    async def talk() -> list[bytes]:
        lines: list[bytes] = []
        command = [*CALLSHEET, "agent"]
        cwd = str(home / "project")
        async with AgentClient(
            command, cwd=cwd, env=environ(home), on_line=lines.append, timeout=120
        ) as client:
            session = await client.new_session(cwd)
            await client.prompt(session, "/read a.txt")
        return lines

    return b"\n".join(asyncio.run(talk())).decode()


def by_call(home: Path, command: Command) -> str:
    return in_process(home, command, "call", "read", "path=a.txt", "--format", "acp").stdout


def by_history(home: Path, command: Command) -> str:
    in_process(home, command, "call", "read", "path=a.txt")
    return in_process(home, command, "history", "export").stdout


def by_tap(home: Path, _: Command) -> str:
    return run(home, "tap", "--", "cat", "r.jsonl").stdout


def by_repair(home: Path, command: Command) -> str:
    return in_process(home, command, "repair", "r.jsonl").stdout


WAYS = [by_agent, by_call, by_history, by_tap, by_repair]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_users_rules_and_exceptions_hold_in_every_command(
    home: Path, way: Callable[[Path, Command], str], command: Command
) -> None:
    message = way(home, command)
    assert "[redacted:acme-badge" in message
    assert "[redacted:proj-badge" in message
    assert "[redacted:aws" in message
    assert "ACME-0000" in message
    assert TOKEN in message
    assert not any(secret in message for secret in ("ACME-1234", "PROJ-5678", AWS))


def test_a_file_that_is_named_holds_as_well(home: Path, command: Command) -> None:
    named = home / "named.toml"
    named.write_text(RULE.format(table="redact", name="other-badge", word="ACME"))
    done = in_process(home, command, "repair", "r.jsonl", CALLSHEET_CONFIG=str(named))
    assert "[redacted:other-badge" in done.stdout
    assert TOKEN not in done.stdout


def test_check_finds_what_the_users_rules_find(home: Path, command: Command) -> None:
    message = in_process(
        home, command, "check", "--select", "safety/secret", "--all", "r.jsonl"
    ).stdout
    assert "acme-badge" in message
    assert "proj-badge" in message


def test_check_makes_the_users_exceptions_as_well(home: Path, command: Command) -> None:
    content = {"type": "text", "text": "ghp_allowed7Dummy3Sample9Never1Real2Made5U ACME-0000"}
    call = json.loads(json.dumps(CALL))
    call["params"]["update"]["content"] = [{"type": "content", "content": content}]
    (home / "project" / "r.jsonl").write_text(json.dumps(call) + "\n")
    done = in_process(home, command, "check", "--select", "safety/secret", "r.jsonl")
    assert done.returncode == 0, done.stdout


BAD: dict[str, tuple[str, str]] = {
    "pattern": ("[[redact.rules]]\nid = 'x'\npattern = '['\n", "rule 'x'"),
    "look-around": ("[[redact.rules]]\nid = 'x'\npattern = 'a(?=b)'\n", "rule 'x'"),
    "nested repeats": ("[[redact.rules]]\nid = 'x'\npattern = '(?:a+)+b'\n", "rule 'x'"),
    "not for re2": ("[[redact.rules]]\nid = 'x'\npattern = '(?>a+)b'\n", "re2"),
    "no least number": ("[[redact.rules]]\nid = 'x'\npattern = 'ab{,5}'\n", "write {0,n}"),
    "key": ("[redact]\nalow = []\n", "alow"),
    "type": ("[redact]\nallow = 3\n", "allow"),
    "off": ("[redact]\noff = ['no-such-rule']\n", "no-such-rule"),
    "exception": ("[redact]\nallow = ['re:[']\n", "allow"),
    "table": ("redact = 3\n", "[redact] is not a table"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_bad_entry_in_the_users_file_is_named(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.toml"
    monkeypatch.setenv("CALLSHEET_CONFIG", str(file))
    file.write_text(BAD[how][0])
    with pytest.raises(BadSettings) as caught:
        use_rules(tmp_path)
    assert str(file) in str(caught.value)
    assert BAD[how][1] in str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [["agent"], ["tap", "--", "echo", "hi"], ["call", "think", "thought=x"], ["repair", "r.jsonl"], ["check", "r.jsonl"]],
    ids=lambda arguments: arguments[0],
)  # fmt: skip
def test_a_bad_rule_of_the_users_stops_a_command_at_its_start(
    home: Path, command: Command, arguments: list[str]
) -> None:
    file = home / "config/callsheet/callsheet.toml"
    file.write_text(BAD["pattern"][0])
    as_process = arguments[0] in ("agent", "tap")
    done = run(home, *arguments) if as_process else in_process(home, command, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(file) in done.stderr
    assert "rule 'x'" in done.stderr


# Projects


@pytest.fixture
def redactor_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Redactor]]:
    before = Redactor.settings
    monkeypatch.setenv("CALLSHEET_CONFIG", str(tmp_path / "own.toml"))

    def made(project: str, own: str = "") -> Redactor:
        (tmp_path / "pyproject.toml").write_text(project)
        (tmp_path / "own.toml").write_text(own)
        use_rules(tmp_path)
        return Redactor()

    yield made
    Redactor.settings = before


WEAKER = [
    '[tool.callsheet.redact]\nallow = ["re:.+"]\n',
    '[tool.callsheet.redact]\noff = ["aws-access-key"]\nallow = ["ACME-1234"]\n',
    "[[tool.callsheet.redact.rules]]\nid = 'aws-access-key'\npattern = 'nothing'\nliterals = ['nothing']\n",
    "[[tool.callsheet.redact.rules]]\nid = 'acme-badge'\npattern = 'nothing'\nliterals = ['nothing']\n",
    "[[tool.callsheet.redact.rules]]\nid = 'all'\npattern = '.+'\n",
    "[[tool.callsheet.redact.rules]]\nid = 'all'\npattern = '[a-z]+'\nliterals = ['r']\n",
    "[tool.callsheet]\nredact = 3\n",
    "[tool.callsheet.redact]\nrules = 3\n",
    "[tool.callsheet.redact]\nrules = [3]\n",
    *(text.replace("redact", "tool.callsheet.redact") for text, _ in BAD.values() if text[0] == "["),
]  # fmt: skip


@pytest.mark.parametrize("project", WEAKER)
def test_a_project_takes_no_rule_away_and_stops_nothing(
    redactor_of: Callable[..., Redactor], project: str, capsys: pytest.CaptureFixture[str]
) -> None:
    own = RULE.format(table="redact", name="acme-badge", word="ACME")
    message = redactor_of(project, own).text(f"rm -rf /x; ACME-1234 {AWS}")[0]
    assert message.startswith("rm -rf /x; [redacted:")
    assert "ACME-1234" not in message
    assert AWS not in message
    assert "pyproject.toml: [tool.callsheet.redact" in capsys.readouterr().err


def test_one_bad_rule_of_a_project_does_not_take_the_others_along(
    redactor_of: Callable[..., Redactor],
) -> None:
    bad = "[[tool.callsheet.redact.rules]]\nid = 'x'\npattern = '['\n"
    assert redactor_of(bad + PROJECT).text("PROJ-5678")[0].startswith("[redacted:proj-badge")


def test_a_redactor_with_rules_of_its_own_has_no_others(
    redactor_of: Callable[..., Redactor],
) -> None:
    redactor_of("", RULE.format(table="redact", name="acme-badge", word="ACME"))
    assert Redactor([]).text("ACME-1234")[0] == "ACME-1234"
    assert Redactor.from_settings({}).text("ACME-1234")[0] == "ACME-1234"
    assert Redactor.settings != Settings()
