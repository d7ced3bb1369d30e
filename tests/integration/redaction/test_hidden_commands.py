"""No mark hides a command that would run: what bash runs of a call, it would run of the call as it is shown."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from callsheet.history import Query, StoredCall, store_at
from callsheet.redaction.redactor import Redactor
from callsheet.tap.context import TapSettings
from callsheet.tap.offline import Repairs
from tests.support.agent_client import choose, doing, play, play_process
from tests.support.injections import Case, cases, runs
from tests.support.made_recordings import announced, asked, opening
from tests.support.redaction import SHAPES
from tests.support.sizes import sized
from tests.support.tap_harness import Message, Tapped

SEED = 1717
ASK = "session/request_permission"
KNOWN = ["hunter2-known-value", "p@ss$word;known"]

needs_bash = pytest.mark.skipif(not Path("/bin/bash").exists(), reason="bash is the judge")


def changed(seed: int, count: int) -> list[Case]:
    """Return generated calls in which something is hidden."""
    redactor = Redactor(known=KNOWN)
    made = cases(seed, 4 * count, KNOWN)
    return [case for case in made if redactor.value(case.given, runs=True)[1]][:count]


def commands(seed: int, count: int) -> list[str]:
    """Return generated commands in which something is hidden, with nothing around them."""
    return [case.command for case in changed(seed, count)]


def unshown(told: list[str], shown: list[str], directory: Path) -> list[str]:
    """Return the markers that run of commands, but not of what is shown of them."""
    return sorted(runs(told, directory) - runs(shown, directory))


@needs_bash
def test_nothing_runs_that_is_not_shown(tmp_path: Path) -> None:
    redactor = Redactor(known=KNOWN)
    made = cases(SEED, sized(10_000, 200), KNOWN)
    shown = [redactor.value(case.given, runs=True)[0] for case in made]
    pairs = [
        (case.command, case.command_of(value))
        for case, value in zip(made, shown, strict=True)
        if value != case.given
    ]
    assert len(pairs) > len(made) / 3
    told = [command for command, _ in pairs]
    run = runs(told, tmp_path)
    assert len(run) > len(told) / 5, "the injections don't run at all"
    assert sorted(run - runs([command for _, command in pairs], tmp_path)) == []


@needs_bash
@pytest.mark.parametrize("version", [1, 2])
async def test_an_agent_asks_about_all_that_would_run(tmp_path: Path, version: int) -> None:
    told = commands(SEED + version, sized(150, 8))

    async def turn(_: object, turn: Any) -> None:
        for command in told:
            await turn.run("bash", {"command": command})

    async with play(handler=doing(turn), version=version) as client:
        client.on[ASK] = choose("reject_once")
        await client.prompt(await client.new_session(tmp_path))
    calls = [one.get("toolCall") or one["subject"]["toolCall"] for one in client.asked(ASK)]
    assert len(calls) == len(told)
    announced = [client.calls[call["toolCallId"]] for call in calls]
    for shown in (calls, announced):
        assert unshown(told, [call["rawInput"]["command"] for call in shown], tmp_path) == []


@needs_bash
@pytest.mark.parametrize("repair", [True, False])
def test_a_tap_asks_about_all_that_would_run(tmp_path: Path, repair: bool) -> None:
    made = changed(SEED + 3, sized(300, 20))
    calls, contents = list[Message](), list[str]()
    for case in made:
        command = case.command
        content = [{"type": "content", "content": {"type": "text", "text": command}}]
        tap = Tapped(repair=repair)
        tap.agent(announced(title="Run it", kind="execute", name="bash", rawInput=case.given))
        tap.agent(asked(title=command, kind="execute", rawInput=case.given, content=content))
        (found,) = [one for one in tap.wait(1).heard() if one.get("method") == ASK]
        calls.append(found["params"]["toolCall"])
        contents += [one["content"]["text"] for one in calls[-1]["content"][-1:]]
    told = [case.command for case in made]
    shown = [case.command_of(call["rawInput"]) for case, call in zip(made, calls, strict=True)]
    assert unshown(told, shown, tmp_path) == []
    plain = [command for command in told if "\x1b" not in command]
    said = [text for command, text in zip(told, contents, strict=True) if "\x1b" not in command]
    assert unshown(plain, said, tmp_path) == []


@needs_bash
def test_a_repaired_recording_reports_all_that_would_run(tmp_path: Path) -> None:
    told = commands(SEED + 4, sized(200, 15))
    messages = opening()
    for number, command in enumerate(told):
        messages.append(announced(f"c{number}", kind="execute", rawInput={"command": command}))
    recording = b"".join(json.dumps(message).encode() + b"\n" for message in messages)
    repairs = Repairs(TapSettings(locale="en"), spill=False)
    lines = [json.loads(line) for line in repairs.repaired(io.BytesIO(recording))]
    updates = [one["params"]["update"] for one in lines if one.get("method") == "session/update"]
    shown = [one["rawInput"]["command"] for one in updates if "rawInput" in one]
    assert len(shown) == len(told)
    assert unshown(told, shown, tmp_path) == []


@needs_bash
async def test_the_history_keeps_what_was_approved_and_ran(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    command = ': "Authorization: Bearer aB3dE6gH9jK2mN5p$(echo >ran)"'
    async with play_process("--history", url) as client:
        client.on[ASK] = choose("allow_once")
        session = await client.new_session(tmp_path)
        await client.prompt(session, f"!{command}")
    assert (tmp_path / "ran").exists()
    (asked_about,) = client.asked(ASK)
    shown = asked_about["toolCall"]["rawInput"]
    assert "$(echo >ran)" in shown["command"]
    assert "aB3dE6gH9jK2mN5p" not in shown["command"]
    store = store_at(url)
    store.open(write=False)
    (head,) = store.heads(Query(session_id=session))
    kept = store.timeline(session)
    store.close()
    assert "$(echo >ran)" in head.title
    assert shown in [
        entry.record.report.raw_input for entry in kept if isinstance(entry, StoredCall)
    ]


# What is hidden still


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.id)
def test_a_secret_that_is_inert_is_hidden_whole_in_a_command(shape: Any) -> None:
    redactor = Redactor()
    command = f"cd /srv && {shape.text}"
    whole, shown = redactor.text(command)[0], redactor.text(command, runs=True)[0]
    if all(char.isalnum() or char in "_.+=~%@:/^!#*?[]-" for char in shape.secret):
        assert shown == whole
    for word in shape.secret.split():
        has_all = any(c.isdigit() for c in word) and any(c.isupper() for c in word)
        if has_all and len(word) >= 24 and not word.startswith("$"):
            assert word not in shown


def shown_of(command: str) -> str:
    return Redactor(known=KNOWN).text(command, runs=True)[0]


@pytest.mark.parametrize(
    ("command", "gone", "stays"),
    [
        ('curl -H "Authorization: Bearer aB3dE6gH9jK2$(id>/tmp/pwn)" h', "aB3dE6gH9jK2", "$(id>/tmp/pwn)"),
        ('curl -b "a=1; sid=aB3dE6gH9jK2mN5" -H "Cookie: x=1; sid=zB3dE6gH9jK2mN5; y=2" h', "zB3dE6gH9jK2mN5", "curl -b"),
        ('cd x; curl -H "Cookie: x=1; sid=zB3dE6gH9jK2mN5; y=2" h', "zB3dE6gH9jK2mN5", "; y=2"),
        ("PASSWORD=aB3dE6gH9jK2; mysql -p$PASSWORD", "aB3dE6gH9jK2", "mysql -p$PASSWORD"),
        ("PASSWORD=/tmp/evil; $PASSWORD", "", "/tmp/evil"),
        ("DB_PASSWORD= evil now", "", "evil now"),
        ("env {DB_PASSWORD=aB3dE6gH9,evil}", "aB3dE6gH9", ",evil}"),
        ("PASSWORD='aB3$(curl -H \"Authorization: Bearer zB3dE6gH9jK2mN5\" h)'", "zB3dE6gH9jK2mN5", "$(curl"),
        ("perl -e 'print password=>qx/evil1/'", "", "qx/evil1/"),
        ("ruby -e 'password=%x/evil1/'", "", "%x/evil1/"),
        ("git -c alias.apitoken='!evil1' apitoken", "", "!evil1"),
        ("echo hunter2-known-value;evil", "hunter2", ";evil"),
        ("echo 'p@ss$word;known';evil", "p@ss$word", ";evil"),
    ],
)  # fmt: skip
def test_the_literal_part_of_a_secret_is_hidden(command: str, gone: str, stays: str) -> None:
    shown = shown_of(command)
    assert stays in shown
    assert not gone or gone not in shown
    assert shown_of(shown) == shown, "redacting twice changes nothing"


def test_what_came_of_a_call_is_hidden_whole() -> None:
    """It is not run. But the command is, wherever in the data it stands."""
    text = 'PASSWORD="aB3dE6gH9$(evil)"'
    value, _ = Redactor().value({"stdout": text, "command": text, "rawInput": {"any": text}})
    assert "evil" not in value["stdout"]  # type: ignore[index,operator]
    assert "$(evil)" in value["command"]  # type: ignore[index,operator]
    assert "$(evil)" in value["rawInput"]["any"]  # type: ignore[index,operator,call-overload]


def test_the_checker_takes_what_must_be_shown_for_no_secret() -> None:
    redactor = Redactor()
    shown = redactor.value({"command": 'PASSWORD="aB3dE6gH9$(evil)"'}, runs=True)[0]
    assert redactor.found(shown) == {}
    assert redactor.found({"command": 'PASSWORD="aB3dE6gH9$(evil)"'})


@pytest.mark.parametrize(
    "secret", ["password=hunter{}x", "--password s3cret{}", "$2b$12$abcdefghi{}"]
)
def test_a_crowd_of_secrets_hides_no_command(secret: str) -> None:
    crowd = "; ".join(secret.format(number) for number in range(2_500))
    shown = Redactor().text(f"{crowd}; rm -rf src; {crowd}", runs=True)[0]
    assert "; rm -rf src; " in shown


def test_what_is_too_long_for_a_command_is_hidden_as_any_other_text() -> None:
    text = "password=hunter2x\n" * 10_000
    assert Redactor().text(text, runs=True) == Redactor().text(text)
