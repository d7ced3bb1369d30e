"""Rules about safety: no secrets, no tricks with characters, no terminal that is not there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from callsheet.observe.lines import parse_line
from callsheet.redaction.redactor import Redactor
from callsheet.redaction.rules import fill
from tests.support import RECORDINGS
from tests.support.talk import Talk, everything, findings, rules

TOKEN = fill("ghp_{alnum:36}")


def turn(version: int = 1) -> Talk:
    return Talk(version).opened().prompt()


def content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


# Secrets

PLACES = [
    {"title": f"Run curl -H {TOKEN}"},
    {"content": content(f"out: {TOKEN}\n")},
    {"rawInput": {"command": f"echo {TOKEN}"}},
    {"rawOutput": {"stdout": [{"deep": TOKEN}]}},
    {"_meta": {"claudeCode": {"toolResponse": TOKEN}}},
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: next(iter(place)))
def test_a_secret_is_found_and_not_shown(place: dict[str, Any]) -> None:
    (finding,) = findings(turn().call("a", "completed", **place).stop(), "safety")
    assert (finding.rule, finding.field) == ("safety/secret", f"update.{next(iter(place))}")
    assert "github-token" in finding.message
    assert TOKEN not in str(finding)
    assert TOKEN[5:15] not in str(finding)


def test_a_secret_is_reported_once_for_a_call_and_a_rule() -> None:
    talk = turn()
    for key in "ab":
        talk.call(key, "in_progress", title=TOKEN).call(key, content=content(TOKEN))
        talk.call(key, "completed", rawOutput={"password": "hunter2-hunter2", "text": TOKEN})
    found = Counter(
        (one.call, one.message.split(": ")[1].split(",")[0]) for one in findings(talk, "safety")
    )
    assert found == {(key, rule): 1 for key in "ab" for rule in ("github-token", "password")}


def test_a_secret_in_a_permission_request_and_in_a_terminal() -> None:
    talk = turn().question("a", title="Run", rawInput={"command": f"echo {TOKEN}"}).decide().stop()
    (finding,) = findings(talk, "safety")
    assert finding.field == "params.toolCall.rawInput"
    talk = turn(2).update("terminal_update", terminalId="t", command="ls")
    talk.update("terminal_output_chunk", terminalId="t", data=f"x\n{TOKEN}\n")
    assert "safety/secret" in rules(talk, "safety")


@pytest.mark.parametrize("step", [1, 7, 40])
def test_a_secret_in_a_text_that_grows_is_found(step: int) -> None:
    whole = "a line of output\n" * 20 + f"export TOKEN={TOKEN}\n" + "more\n" * 20
    talk = turn().call("a", "in_progress")
    for end in range(step, len(whole) + step, step):
        talk.call("a", content=content(whole[:end]))
    found = {one.message for one in findings(talk.call("a", "completed").stop(), "safety")}
    assert any("github-token" in message for message in found)


def test_a_key_of_many_lines_in_a_text_that_grows_is_found() -> None:
    key = (
        f"-----BEGIN RSA PRIVATE KEY-----\n{fill('{b64lines:20}')}\n-----END RSA PRIVATE KEY-----\n"
    )
    whole = "some output\n" * 50 + key
    talk = turn().call("a", "in_progress")
    for end in range(600, len(whole) + 60, 60):
        talk.call("a", content=content(whole[:end]))
    assert "safety/secret" in rules(talk, "safety")


def test_what_is_redacted_or_only_looks_like_a_secret_is_none() -> None:
    redactor = Redactor()
    told = {"command": f"curl -H 'Authorization: Bearer {TOKEN}'", "password": "hunter2-hunter2"}
    clean, _ = redactor.value(told)
    text, _ = redactor.text(f"export GITHUB_TOKEN={TOKEN}\n")
    talk = turn().call("a", "in_progress", rawInput=clean, content=content(text))
    talk.call(
        "a", "completed", rawOutput={"password": "${PASSWORD}", "max_tokens": 4096, "sha": "a" * 40}
    )
    assert rules(talk.stop(), "safety") == []


def test_what_the_agent_says_and_what_the_client_sends_are_not_about_calls() -> None:
    talk = turn().update("agent_message_chunk", content={"type": "text", "text": TOKEN})
    talk.note("client", "_x", {"token": TOKEN})
    assert rules(talk.stop(), "safety") == []


# Characters


@pytest.mark.parametrize("sign", ["\x1b[2J", "\x07", "\x00", "\x7f", "\x9b"])
def test_control_characters_in_a_title(sign: str) -> None:
    (finding,) = findings(turn().call("a", "completed", title=f"Run{sign}").stop(), "safety")
    assert (finding.rule, finding.field) == ("safety/control-characters", "update.title")


def test_lines_tabs_and_signs_of_all_languages_are_no_control_characters() -> None:
    title = "Lesen\tvon\r\n“Größe” 読む 👩‍💻 \u200b"
    assert rules(turn().call("a", "completed", title=title).stop(), "safety") == []


@pytest.mark.parametrize("sign", ["\u202e", "\u2066"])
def test_characters_that_turn_the_text_around(sign: str) -> None:
    talk = turn().call("a", "pending", title="Run", rawInput={"command": f"rm {sign}x"})
    talk.question("a", title=f"Run {sign}").decide().call("a", "completed").stop()
    assert [one.field for one in findings(talk, "safety")] == [
        "update.rawInput.command", "params.toolCall.title",
    ]  # fmt: skip


def test_text_from_right_to_left_turns_nothing_around() -> None:
    talk = turn().call("a", "completed", title="קריאת קובץ", rawInput={"command": "echo שלום"})
    assert rules(talk.stop(), "safety") == []


@pytest.mark.parametrize("sign", ["\x1b[31m", "\x00"])
def test_escape_sequences_in_text_are_reported_once(sign: str) -> None:
    talk = turn().call("a", "in_progress", content=content(f"{sign}red"))
    (finding,) = findings(
        talk.call("a", "completed", content=content(f"{sign}rot")).stop(), "safety"
    )
    assert (finding.rule, finding.field) == ("safety/raw-escapes", "update.content")


def test_escape_sequences_belong_into_a_terminal() -> None:
    told = {
        "terminal_info": {"terminal_id": "t"},
        "terminal_output": {"terminal_id": "t", "data": "\x1b[31m"},
    }
    talk = turn().call(
        "a", "in_progress", content=[{"type": "terminal", "terminalId": "t"}], _meta=told
    )
    talk.call("a", "completed", rawOutput="\x1b[0m")
    assert rules(talk.stop(), "safety") == []


@pytest.mark.parametrize("half", ["\\ud83d", "\\udc00", "\\ud83d\\ud83d", "\\uD83Dx"])
def test_half_of_a_surrogate_pair_is_found_and_the_rest_is_read(half: str) -> None:
    raw = [line.raw for line in turn().call("a", "completed", title="HALF").stop().lines()]
    lines = [
        parse_line(number, data.replace(b"HALF", half.encode()))
        for number, data in enumerate(raw, 1)
    ]
    assert [(one.rule, one.line) for one in everything(lines)] == [("safety/lone-surrogate", 6)]


@pytest.mark.parametrize("whole", ["\\ud83d\\ude00", "\\\\ud83d", "\\u00e9"])
def test_whole_pairs_and_what_only_looks_like_a_half_are_fine(whole: str) -> None:
    raw = [line.raw for line in turn().call("a", "completed", title="WHOLE").stop().lines()]
    lines = [
        parse_line(number, data.replace(b"WHOLE", whole.encode()))
        for number, data in enumerate(raw, 1)
    ]
    assert everything(lines) == []


# Terminals

SHOWN = [{"type": "terminal", "terminalId": "t"}]


@pytest.mark.parametrize("version", [1, 2])
def test_a_terminal_that_nobody_has_made_is_reported_once(version: int) -> None:
    talk = turn(version).call("a", "in_progress", title="Run", content=SHOWN)
    (finding,) = findings(talk.call("a", "completed", content=SHOWN).stop(), "safety")
    assert (finding.rule, finding.field) == ("safety/unknown-terminal", "update.content")


def test_terminals_that_were_made() -> None:
    made = turn()
    key = made.ask("agent", "terminal/create", {"sessionId": "s", "command": "ls"})
    made.answer("client", key, {"terminalId": "t"}).call("a", "completed", content=SHOWN).stop()
    told = (
        turn()
        .call("a", "completed", content=SHOWN, _meta={"terminal_info": {"terminal_id": "t"}})
        .stop()
    )
    newer = (
        turn(2)
        .update("terminal_update", terminalId="t")
        .call("a", "completed", title="Run", content=SHOWN)
    )
    assert [rules(one, "safety") for one in (made, told, newer.stop())] == [[], [], []]


def test_terminals_are_not_missed_where_they_could_have_been_made_before() -> None:
    talk = turn().call("a", "completed", content=SHOWN).stop()
    assert rules(talk.lines("agent"), "safety") == []
    assert rules(talk.lines()[4:], "safety") == []
    loaded = Talk().hello()
    key = loaded.ask("client", "session/load", {"sessionId": "s", "cwd": "/w", "mcpServers": []})
    assert (
        rules(loaded.call("a", "completed", content=SHOWN).answer("agent", key, {}), "safety") == []
    )


# Real agents


@pytest.mark.parametrize(
    ("name", "calls", "count"),
    [("claude-agent-acp-0.99.1", 3, 15), ("gemini-cli-0.61.0", 1, 3)],
)
def test_the_secrets_of_real_agents(name: str, calls: int, count: int) -> None:
    found = findings(RECORDINGS / "safety" / f"{name}.secrets-none.jsonl", "safety")
    assert {one.rule for one in found} == {"safety/secret"}
    assert (len({one.call for one in found}), len(found)) == (calls, count)


def test_real_agents_without_secrets() -> None:
    for path in RECORDINGS.glob("*.jsonl"):
        assert rules(path, "safety") == []
