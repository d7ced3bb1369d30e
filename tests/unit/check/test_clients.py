"""What Zed, Toad and acpx would show wrongly: each rule has what breaks it, and what only looks like it."""

from __future__ import annotations

import io
from collections import Counter
from typing import Any

import pytest

from callsheet.check.engine import RecordingChecker, check_stream
from callsheet.check.finding import Finding
from callsheet.check.rules import RULES
from callsheet.check.rules.clients import MANY_LOCATIONS
from callsheet.observe import calls
from callsheet.observe.lines import read_lines
from tests.support.made_recordings import CLIENTS, RECORDINGS, content, found_by, recording_of, told

CLIENT_RULES = tuple(rule for rule in RULES if rule.clients)
CALL = {"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "pending"}
ENDED = {"tool_call_update": "c1", "status": "completed"}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.example], ids=lambda rule: rule.id)
def test_the_example_of_a_rule_breaks_it(rule: Any) -> None:
    assert found_by(rule.id, recording_of(rule.example))


def test_every_rule_about_a_client_has_an_example_and_holds_only_for_it() -> None:
    for rule in CLIENT_RULES:
        assert rule.example
        assert rule.id.startswith(f"client/{rule.clients[0]}-")
        data = io.BytesIO(recording_of(rule.example))
        assert not list(check_stream(data, rules=[rule]))


@pytest.mark.parametrize("rule", CLIENT_RULES, ids=lambda rule: rule.id)
def test_a_whole_call_breaks_no_rule(rule: Any) -> None:
    shown = content("import this")
    whole = {**ENDED, "content": [shown], "rawOutput": {"total_lines": 1}}
    assert not found_by(rule.id, told({**CALL, "locations": [{"path": "/code/a.py"}]}, whole))


@pytest.mark.parametrize("rule", CLIENT_RULES, ids=lambda rule: rule.id)
def test_nothing_is_said_of_v2_which_these_clients_do_not_speak(rule: Any) -> None:
    data = recording_of(rule.example).replace(b'"protocolVersion": 1', b'"protocolVersion": 2')
    assert not found_by(rule.id, data)


# Zed: how cards end


def turn(*lines: dict[str, Any], stop: str = "end_turn") -> bytes:
    return told(*lines).replace(b'"stopReason": "end_turn"', f'"stopReason": "{stop}"'.encode())


CANCEL = {"method": "session/cancel", "params": {"sessionId": "s1"}}


def ask(outcome: str) -> tuple[dict[str, Any], dict[str, Any]]:
    options = [{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]
    params = {"sessionId": "s1", "options": options, "toolCall": {"toolCallId": "c1"}}
    answer = {"outcome": {"outcome": "selected", "optionId": outcome}}
    return (
        {"id": 9, "method": "session/request_permission", "params": params},
        {"id": 9, "result": answer},
    )


SPINS = "client/zed-spins-for-ever"


def test_a_card_that_nothing_ends_spins() -> None:
    (finding,) = found_by(SPINS, turn(CALL))
    assert (finding.call, finding.line) == ("c1", 6)
    assert "pending" in finding.message


def test_zed_ends_cards_by_itself_when_the_user_cancels_or_rejects() -> None:
    assert not found_by(SPINS, turn(CALL, CANCEL))
    assert not found_by(SPINS, turn(CALL, stop="cancelled"))
    assert not found_by(SPINS, turn(CALL, *ask("n")))


def test_a_card_spins_again_if_it_is_told_to_run_after_that() -> None:
    running = {"tool_call_update": "c1", "status": "in_progress"}
    assert found_by(SPINS, turn(CALL, CANCEL, running))
    assert found_by(SPINS, turn(CALL, *ask("n"), running))
    assert found_by(SPINS, turn(CALL, *ask("y")))


def test_a_call_is_not_called_endless_while_its_turn_goes_on() -> None:
    cut_off = b"\n".join(turn(CALL).splitlines()[:-1])
    assert not found_by(SPINS, cut_off)


# Zed: which card


def test_an_update_of_a_call_that_was_asked_for_has_a_card() -> None:
    update = {**ENDED, "title": "ls"}
    assert found_by("client/zed-not-found", told(update))
    assert not found_by("client/zed-not-found", told(*ask("y"), update))


def test_what_was_announced_before_the_recording_began_may_have_a_card() -> None:
    from_the_middle = b"\n".join(told(ENDED).splitlines()[4:])
    assert not found_by("client/zed-not-found", from_the_middle)


def test_a_second_announcement_of_a_running_call_rewrites_no_old_card() -> None:
    assert not found_by("client/zed-rewritten-card", told(CALL, CALL, ENDED))
    (finding,) = found_by("client/zed-rewritten-card", told(CALL, ENDED, CALL, ENDED))
    assert finding.line == 8


# What Zed makes of titles


@pytest.mark.parametrize(
    "title",
    [
        "Reading src/__init__.py",
        "Searching for *TODO* in src",
        "Searching for <div>",
        "Searching for a&amp;b",
        "[a](b) in src",
        "# of lines",
        "- a.py",
    ],
)
def test_a_title_that_markdown_changes(title: str) -> None:
    assert found_by("client/zed-markdown-title", told({**CALL, "title": title}, ENDED))


@pytest.mark.parametrize(
    "title",
    [
        "Reading my_file_name.py",
        "Finding *.py",
        "2 * 3 * 4",
        r"Searching for \*TODO\* in src",
        r"Reading src/\_\_init\_\_.py",
        "Searching for `__init__ *x*`",
        "a < b and c > d",
        "Reading a.py\n*the* second line is not shown",
        "~/a and ~/b",
        "R&D",
    ],
)
def test_a_title_that_markdown_leaves_alone(title: str) -> None:
    assert not found_by("client/zed-markdown-title", told({**CALL, "title": title}, ENDED))


def test_titles_of_commands_and_edits_are_not_rendered() -> None:
    for kind in ("execute", "edit"):
        data = told({**CALL, "title": "cat *x* __y__", "kind": kind}, ENDED)
        assert not found_by("client/zed-markdown-title", data)


def test_a_title_that_is_replayed_is_found_once_and_shows_no_secret() -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    titled = {**CALL, "title": f"*grep* {secret}"}
    (finding,) = found_by(
        "client/zed-markdown-title", told(titled, {**ENDED, "title": titled["title"]})
    )
    assert secret not in finding.message


# Zed: output, follow, terminals


def test_output_that_is_shown_is_not_called_hidden() -> None:
    hidden = "client/zed-hidden-output"
    preview = {**CALL, "content": [content("a.py and more")]}
    raw = {**ENDED, "rawOutput": "a.py"}
    diff = {"type": "diff", "path": "/code/a", "oldText": None, "newText": "x"}
    assert not found_by(hidden, told(CALL, raw))  # there is no content
    assert not found_by(hidden, told(preview, raw))  # it is in the content
    assert not found_by(hidden, told({**CALL, "content": [diff]}, raw))
    assert not found_by(hidden, told(preview, {**ENDED, "rawOutput": {"exit_code": 0}}))
    assert found_by(hidden, told(preview, {**ENDED, "rawOutput": "b.py"}))
    live = {"tool_call_update": "c1", "content": [content("```\na.py\n```")]}
    assert not found_by(
        hidden, told(CALL, live, {**ENDED, "rawOutput": {"message": "Exit code 0"}})
    )


def at(*paths: str) -> bytes:
    return told({**CALL, "locations": [{"path": path} for path in paths]}, ENDED)


def test_follow_goes_to_the_last_location() -> None:
    rule = "client/zed-follow-nowhere"
    assert not found_by(rule, at("/code/a.py"))
    assert not found_by(rule, at("/etc/hosts"))  # there is no better one
    assert not found_by(rule, at("/etc/hosts", "/code/a.py"))
    assert not found_by(rule, at(r"C:\work\a.py"))
    (outside,) = found_by(rule, at("/code/a.py", "/etc/hosts"))
    assert outside.field == "update.locations[1].path"
    assert found_by(rule, at("/code/a.py", "/workshop/a.py"))
    assert found_by(rule, at("a.py"))


def test_few_locations_are_not_many() -> None:
    most = MANY_LOCATIONS
    assert not found_by("client/zed-many-locations", at(*[f"/code/{n}" for n in range(most)]))
    assert found_by("client/zed-many-locations", at(*[f"/code/{n}" for n in range(most + 1)]))


def terminal(key: str) -> dict[str, Any]:
    return {**CALL, "content": [{"type": "terminal", "terminalId": key}]}


def test_terminals_that_the_client_made_or_received_are_known() -> None:
    rule = "client/zed-unknown-terminal"
    made = (
        {"id": 8, "method": "terminal/create", "params": {"sessionId": "s1", "command": "make"}},
        {"id": 8, "result": {"terminalId": "t1"}},
    )
    info = {"terminal_info": {"terminal_id": "t1", "cwd": "/code"}}
    assert not found_by(rule, told(*made, terminal("t1"), ENDED))
    assert not found_by(rule, told({**terminal("t1"), "_meta": info}, ENDED))
    (finding,) = found_by(rule, told(*made, terminal("t2"), ENDED))
    assert finding.field == "update.content[0].terminalId"


def test_output_of_a_terminal_that_was_reported_is_live() -> None:
    rule = "client/zed-no-live-output"
    info = {"terminal_info": {"terminal_id": "t1", "cwd": "/code"}}
    output = {**ENDED, "_meta": {"terminal_output": {"terminal_id": "t1", "data": "x"}}}
    assert not found_by(rule, told({**terminal("t1"), "_meta": info}, output))
    assert len(found_by(rule, told(terminal("t1"), output, output))) == 1


# Toad and acpx


def test_a_diff_with_old_text_null_is_shown() -> None:
    diff = {"type": "diff", "path": "/code/a", "newText": "x"}
    rule = "client/toad-no-diff"
    assert not found_by(rule, told({**CALL, "content": [{**diff, "oldText": None}]}, ENDED))
    again = {**ENDED, "content": [diff]}
    assert len(found_by(rule, told({**CALL, "content": [diff]}, again))) == 1


def test_content_or_no_output_makes_no_empty_card() -> None:
    rule = "client/toad-empty-card"
    output = {**ENDED, "rawOutput": "x"}
    assert found_by(rule, told(CALL, output))
    assert not found_by(rule, told(CALL, {**output, "content": [content("x")]}))
    assert not found_by(rule, told(CALL, {**ENDED, "rawOutput": {"exit_code": 0}}))
    from_the_middle = b"\n".join(told(CALL, output).splitlines()[6:])
    assert not found_by(rule, from_the_middle)  # content may have come before


def test_a_diff_of_v2_lacks_no_old_text() -> None:
    changes = [{"operation": "modify", "path": "/code/a"}]
    diff = {"type": "diff", "changes": changes, "patch": "@@ -1 +1 @@"}
    data = told({**CALL, "content": [diff]}, ENDED)
    assert not found_by("client/toad-no-diff", b"\n".join(data.splitlines()[5:]))


def test_output_under_a_key_that_acpx_knows_is_printed() -> None:
    rule = "client/acpx-unknown-output"
    known = ({"stdout": "x"}, {"stdout": "", "cwd": "/code"}, {"result": {"deep": ["x"]}})
    for raw in (*known, {"exit_code": 0}, "x", {}):
        assert not found_by(rule, told(CALL, {**ENDED, "rawOutput": raw}))
    (finding,) = found_by(rule, told(CALL, {**ENDED, "rawOutput": {"listing": "x", "size": 1}}))
    assert "listing, size" in finding.message


# Real agents


AGREED = {
    "claude-agent-acp-0.99.1.dupid-none": {"client/zed-rewritten-card": 8},
    "codex-acp-0.16.0.dupid-none": {"client/zed-rewritten-card": 2, "client/toad-empty-card": 4},
    "codex-acp-0.16.0.mixed-none": {
        "client/toad-empty-card": 7,
        "client/toad-no-diff": 1,
    },
    "fast-agent-0.10.48.dupid-none": {},
    "fast-agent-0.10.48.mixed-none": {"client/zed-spins-for-ever": 5},
    "gemini-cli-0.61.0.dupid-none": {"client/zed-rewritten-card": 2},
    "gemini-cli-0.61.0.mixed-none": {},
    "kimi-cli-1.51.0.mixed-none": {},
    "opencode-1.18.33.dupid-none": {"client/zed-rewritten-card": 2},
}


@pytest.mark.parametrize("name", AGREED)
def test_what_is_found_in_a_real_recording_was_agreed_on_by_hand(name: str) -> None:
    with (RECORDINGS / f"{name}.jsonl").open("rb") as stream:
        counts = Counter(
            one.rule for one in check_stream(stream, rules=CLIENT_RULES, clients=CLIENTS)
        )
    assert dict(counts) == AGREED[name]


def test_each_call_that_is_over_is_reported_once_be_it_let_go_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "KEEP_ENDED", 10)
    lines = [{**CALL, "tool_call": f"c{n}", "status": "completed"} for n in range(50)]
    over: list[str] = []
    found: list[Finding] = []
    checker = RecordingChecker(
        (), on_finding=found.append, on_over=lambda one: over.append(one.call.id)
    )
    *before, last = read_lines(io.BytesIO(told(*lines)))
    for line in before:
        checker.feed(line)
    assert over == [f"c{n}" for n in range(40)]
    checker.feed(last)
    checker.finish()
    assert not found
    assert sorted(over) == sorted(f"c{n}" for n in range(50))
