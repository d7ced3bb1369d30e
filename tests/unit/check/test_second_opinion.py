"""The checker's own evidence: what a fault in the tap's code hides from the tap, the checker still finds."""

from __future__ import annotations

import ast
import inspect
import string
from io import BytesIO
from random import Random
from typing import Any

import pytest

from callsheet.check import second_opinion
from callsheet.check.engine import check_stream
from callsheet.check.second_opinion import secrets_in
from callsheet.redaction.redactor import Redactor
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.made_recordings import OURS, told
from tests.support.sizes import sized

MIXED = string.ascii_letters + string.digits


def drawn(random: Random, length: int, alphabet: str = MIXED) -> str:
    """Return characters drawn by lot, of which some are digits and some of either case."""
    return "aB3" + "".join(random.choices(alphabet, k=length - 5)) + "7Z"


def secrets(random: Random) -> list[str]:
    """Return texts that show a secret each, of all sorts that are known."""
    upper = string.ascii_uppercase + string.digits
    return [
        f"ghp_{drawn(random, 36)}",
        f"github_pat_{drawn(random, 70)}",
        f"glpat-{drawn(random, 20)}",
        f"AKIA7{''.join(random.choices(upper, k=14))}Q",
        f"AIza{drawn(random, 35)}",
        f"xoxb-1{drawn(random, 30)}",
        f"sk_live_{drawn(random, 24)}",
        f"sk-ant-api03-{drawn(random, 60)}",
        f"sk-{drawn(random, 48)}",
        f"npm_{drawn(random, 36)}",
        f"pypi-AgEI{drawn(random, 60)}",
        f"eyJ{drawn(random, 20)}.eyJ{drawn(random, 30)}.{drawn(random, 30)}",
        f"-----BEGIN RSA PRIVATE KEY-----\n  1\u2192{drawn(random, 64)}\n",
        f"postgres://admin:{drawn(random, 12)}@db.example/prod",
        f"DEPLOY_TOKEN={drawn(random, 30)}",
        f'api_key: "{drawn(random, 30)}"',
        f"password = {drawn(random, 10)}",
    ]


def test_all_sorts_of_secrets_are_found_wherever_they_stand() -> None:
    random = Random(18)
    for _ in range(sized(200, 10)):
        for secret in secrets(random):
            for value in (
                secret,
                f"before {secret} after",
                {"a": [{"b": secret}]},
                {"output": f"1\t{secret}\n2\tx"},
            ):
                assert secrets_in(value), secret
    assert secrets_in({"api_key": drawn(random, 32)})


@pytest.mark.parametrize(
    "value",
    [
        "token = next(tokens); password = getpass(); secret: str",
        "GITHUB_TOKEN=$TOKEN PASSWORD=${PASSWORD1} token=[redacted:github-token#2]",
        "https://user:[redacted:password]@host https://user:password@host http://a:8080/@x",
        {"token": "[redacted:token]", "max_tokens": 4096, "password": "********"},
        "sk-learn ghp_short AKIAIOSFODNN eyJ.eyJ. -----BEGIN PUBLIC KEY-----",
        "-----BEGIN PRIVATE KEY-----\n[redacted:private-key]\n-----END PRIVATE KEY-----",
        {"access_key": "/home/dev/projects/app/keys/release2024/signing"},
        "commit 9f2c1d7e3b5a4c6d8e0f1a2b3c4d5e6f7a8b9c0d token: the next word",
    ],
)
def test_what_is_no_secret_is_not_found(value: Any) -> None:
    assert secrets_in(value) == set()


def see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Break the tap's readers, which the checker asks, too."""
    monkeypatch.setattr(Redactor, "is_clean", lambda *_: True)
    monkeypatch.setattr(Redactor, "found", lambda *_: {})


def errors_after_repair(data: bytes, rule: str) -> int:
    settings = TapSettings(locale="en", redact=False)
    repaired = b"".join(Repairs(settings, spill=False).repaired(BytesIO(data)))
    return sum(one.rule == rule for one in check_stream(BytesIO(repaired)))


def test_a_tap_that_hides_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    see_nothing(monkeypatch)
    for secret in secrets(Random(18)):
        call = {"tool_call": "c1", "title": "Read a", "kind": "read", "status": "completed"}
        call["content"] = [{"type": "content", "content": {"type": "text", "text": secret}}]  # type: ignore[assignment]
        assert errors_after_repair(told(call), "safety/secret") == 1, secret
    leaky = [path for path in OURS if path.parent.name == "safety"]
    assert leaky
    for path in leaky:
        assert errors_after_repair(path.read_bytes(), "safety/secret")


ENDS: list[dict[str, Any]] = [
    {"rawOutput": {"exit_code": 3, "output": "no"}},
    {"rawOutput": {"exitCode": 127}},
    {"rawOutput": {"output": "no", "metadata": {"exit": 3}}},
    {"rawOutput": {"returncode": -9}},
    {"rawOutput": "no\nExit code: 2"},
    {"content": "no such file\nEXIT_CODE: 3"},
    {"content": "(exit 127)"},
    {"content": "no\n[Command exited with code 3]"},
    {"content": "Command failed with exit code 2."},
    {"content": "Error: process exited with status 1"},
    {"content": "```\nno\n```\nexit status 4"},
]


@pytest.mark.parametrize("end", ENDS)
def test_an_exit_code_is_found_wherever_agents_write_it(end: dict[str, Any]) -> None:
    found = check_stream(BytesIO(ended(end, "make test; exit 3")))
    assert [one.rule for one in found].count("complete/exit-code") == 1


@pytest.mark.parametrize(
    ("end", "command"),
    [
        ({"rawOutput": {"exit_code": 0}}, "make"),
        ({"rawOutput": {"exit_code": 1}}, "grep -n x a.py"),
        ({"content": "EXIT_CODE: 3"}, "cat result.txt"),
        ({"content": "exit code: 2"}, "./run; echo exit code: $?"),
        ({"content": "It is said that exit code 2 means misuse."}, "man bash"),
        ({"rawOutput": {"exit": "west", "status": 2}}, "./game"),
        ({"rawOutput": {"exit_code": True}}, "make"),
    ],
)
def test_what_does_not_report_a_failure_is_none(end: dict[str, Any], command: str) -> None:
    assert errors_after_repair(ended(end, command), "complete/exit-code") == 0


def ended(end: dict[str, Any], command: str) -> bytes:
    """Return a recording of a command that is told as completed."""
    call = {"tool_call": "c1", "title": command, "kind": "execute", "status": "completed", **end}
    call["rawInput"] = {"command": command}
    if isinstance(said := end.get("content"), str):
        call["content"] = [{"type": "content", "content": {"type": "text", "text": said}}]
    return told(call)


def test_the_evidence_shares_no_code_with_what_it_judges() -> None:
    tree = ast.parse(inspect.getsource(second_opinion))
    names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in names if name.startswith("callsheet")]
