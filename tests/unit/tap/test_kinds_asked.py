"""No client asks less because of a kind that we filled in: generated calls, with and without the tap.

The oracle is a client that folds an agent's own messages as ACP says. At every moment before a call's end,
the kind that a client behind the tap knows must be at least as strict as the one it would know without.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from callsheet.describe import Describer
from callsheet.describe.classify import known_names
from tests.support.made_recordings import (
    Message,
    announced,
    asked,
    completed,
    decided,
    opening,
    updated,
)
from tests.support.sizes import sized
from tests.support.tap_harness import Tapped

SEED = 17_002
CASES = sized(10_000, 250)
PER_TAP = 25

RANKS = {
    **dict.fromkeys(("read", "search", "fetch", "think"), 0),
    **dict.fromkeys(("edit", "move", "delete", "switch_mode"), 1),
    "execute": 3,
}
"""How strict a kind is; all others, and none, are as `other`: 2."""

AGENTS = (
    "somebody",
    "kimi",
    "codex-acp",
    "gemini-cli",
    "opencode",
    "goose",
    "hermes",
    "fast-agent",
)
NAMES = (
    *("read_file", "ReadFile", "Read", "grep", "glob", "fetch", "think", "search", "ls", "cat"),
    *("write_file", "edit", "delete", "move", "str_replace_editor", "bash", "Shell", "task"),
    *("get_status", "list_and_run", "fs_read", "fs/read_text_file", "terminal_output", "lookup"),
    *("mcp__x__read_file", "mcp__x__search", "server/read_file", "developer__tree", "x.get"),
    *("use_mcp_tool", "frobnicate", "", "   ", "process", "BashOutput", "http_request"),
)
COMMANDS = (
    *("cat /etc/passwd | head -1", "ls", "git status", "rg x", "curl https://x", "rm -rf x"),
    *("head -1 a.py", "cd a && cat b", "view", "echo $(id)", "find . -name x", ["cat", "a"]),
)
STATUSES = ("pending", "in_progress", "in_progress", "completed", "failed")
"""Some agents ask about a call that they have called done."""

KINDS = (
    *(None, None, None, None, "other", "other", "read", "search", "think", "fetch", "edit"),
    *("delete", "execute", "switch_mode", "nonsense", "", "_deploy", 7),
)


def rank(kind: object) -> int:
    return RANKS.get(kind, 2) if isinstance(kind, str) else 2


def fields(rng: random.Random) -> Message:
    """Return some of what an agent may tell of a call."""
    made: Message = {}
    name = rng.choice(NAMES)
    title = rng.choice((name, f"Reading {name}", "Read file", "x", f"{name}: a.py", "cat a.py"))
    made["title"] = title or "Tool"
    if rng.random() < 0.6:
        made["name"] = name
    if rng.random() < 0.8:
        made["rawInput"] = given(rng)
    if (kind := rng.choice(KINDS)) is not None:
        made["kind"] = kind
    if rng.random() < 0.1:
        made["_meta"] = {"callsheet": {"kind": rng.choice(("read", "_x", "think"))}}
    if rng.random() < 0.1:
        made["_meta"] = {"annotations": {"readOnlyHint": True}, "toolName": rng.choice(NAMES)}
    return made


def given(rng: random.Random) -> Any:
    """Return an input: of a file, a command, both, nested, or as text."""
    command = rng.choice(COMMANDS)
    key = rng.choice(("command", "cmd", "script", "commands", "commandLine", "shell_command"))
    made: Any = rng.choice(
        (
            {"path": "a.py"},
            {"url": "https://x.org"},
            {"pattern": "x", "path": "."},
            {key: command},
            {key: command, "path": "a.py"},
            {"steps": [{"tool": "bash", "input": {key: command}}]},
            {"tool_name": "read", "server_name": "x", "arguments": {key: command}},
            {"path": "a.py", "options": {key: command}},
            {},
        )
    )
    return json.dumps(made) if rng.random() < 0.1 else made


def script(rng: random.Random, key: str) -> list[Message]:
    """Return what an agent says of one call, asking at least once, up to its end."""
    said = [tell(announced(key), fields(rng))]
    for _ in range(rng.randrange(3)):
        part = fields(rng)
        chosen = rng.sample(sorted(part), rng.randrange(len(part) + 1))
        status = {"status": rng.choice(STATUSES)} if rng.random() < 0.5 else {}
        said.append(updated(key, **{name: part[name] for name in chosen}, **status))
    about = fields(rng)
    chosen = rng.sample(sorted(about), rng.randrange(len(about) + 1))
    said.insert(rng.randrange(len(said) + 1), asked(key, **{one: about[one] for one in chosen}))
    return said


def tell(message: Message, told: Message) -> Message:
    """Return an announcement that tells just this."""
    made = copy.deepcopy(message)
    update = made["params"]["update"]
    for name in ("title", "name", "kind", "rawInput", "locations"):
        update.pop(name, None)
    update.update(told)
    return made


class Client:
    """The kinds of calls as a client knows them, each folded as ACP says."""

    def __init__(self) -> None:
        self.kinds: dict[str, object] = {}
        self.ended: set[str] = set()

    def hears(self, message: Message) -> str | None:
        params = message.get("params", {})
        call = params.get("toolCall") or params.get("update") or {}
        key = call.get("toolCallId")
        if key is None:
            return None
        self.kinds.setdefault(key, None)
        if call.get("status") in ("completed", "failed"):
            self.ended.add(key)
        if call.get("kind") is not None:
            self.kinds[key] = call["kind"]
        return key


def hello(agent: str) -> list[Message]:
    """Return the messages before the first call, of an agent of this name."""
    messages = copy.deepcopy(opening())
    for message in messages:
        if "agentInfo" in message.get("result", {}):
            message["result"]["agentInfo"]["name"] = agent
    return messages


def tapped(agent: str) -> Tapped:
    tap = Tapped(begun=False)
    tap.judge = None
    for message in hello(agent):
        (tap.client if "method" in message else tap.agent)(message)
    tap.lines()
    return tap


def test_no_kind_of_ours_makes_a_client_ask_less() -> None:
    rng = random.Random(SEED)
    questions = 0
    for number in range(CASES):
        if number % PER_TAP == 0:
            tap = tapped(rng.choice(AGENTS))
        key = f"c{number}"
        bare, behind = Client(), Client()
        said = script(rng, key)
        for message in said:
            tap.agent(message).wait(rng.choice((0.0, 0.0, 0.2)))
            bare.hears(message)
            # An agent that asks about what it has called done, asks on a new card.
            least = (
                rank(bare.kinds[key]) if key not in bare.ended else min(rank(bare.kinds[key]), 2)
            )
            shown = json.dumps([SEED, number, said])
            told: set[str] = set()
            for heard in tap.heard():
                about = behind.hears(heard)
                told |= set() if about is None else {about}
                if about is not None and "toolCall" in heard["params"]:
                    questions += 1
                    assert "kind" in heard["params"]["toolCall"], shown
                    assert rank(behind.kinds[about]) >= least, shown
            for about in told - behind.ended:
                assert rank(behind.kinds[about]) >= least, shown
        tap.client(decided("yes")).agent(completed(key)).wait(0.3).lines()
    assert questions >= CASES * 0.9


@pytest.mark.parametrize("kind", [None, "other", "nonsense"])
def test_a_command_that_is_asked_about_is_execute(kind: str | None) -> None:
    """The call by which this was found: a client that approves reads approved it."""
    told: Message = {"title": "Shell", "rawInput": {"command": "cat /etc/passwd | head -1"}}
    if kind is not None:
        told["kind"] = kind
    tap = Tapped().agent(tell(announced(), told), asked(title="Shell"))
    requests = [one for one in tap.heard() if one.get("id") == "p1"]
    assert [one["params"]["toolCall"]["kind"] for one in requests] == ["execute"]


def test_a_kind_that_could_spare_a_permission_request_is_reported_at_the_end() -> None:
    told = {"title": "ReadFile", "rawInput": {"path": "/code/a.py"}}
    tap = Tapped().agent(tell(announced(), told), asked(title="ReadFile"))
    client = Client()
    for message in tap.heard():
        client.hears(message)
    assert client.kinds == {"c1": "other"}
    tap.client(decided("yes")).agent(completed()).wait(1)
    for message in tap.heard():
        client.hears(message)
    assert client.kinds == {"c1": "read"}


def test_what_a_name_or_a_server_claims_is_no_kind_that_passes_unasked() -> None:
    rng = random.Random(SEED)
    describe = Describer("/w")
    words = ("read", "get", "list", "search", "find", "fetch", "think", "view", "show", "status")
    known = sorted(known_names())
    for _ in range(CASES):
        tool = "_".join(rng.sample(words, rng.randrange(1, 4)))
        name = rng.choice((f"mcp__x__{tool}", f"x/{tool}", f"{tool}_it", rng.choice(known), tool))
        raw = given(rng)
        hints = {"readOnlyHint": True, "title": "Read"} if rng.random() < 0.5 else None
        kind = describe(name, raw, annotations=hints).kind
        if rank(kind) == 0:
            assert hints is None, name
            assert name.replace("_", "").lower() in known_names(), name
            assert not runs(raw), (name, raw)


def runs(raw: Any) -> bool:
    """Whether an input has a command, found in its text: the oracle knows nothing of keys and depths."""
    written = raw if isinstance(raw, str) else json.dumps(raw)
    editor = '"view"' in written and '"path"' in written
    return not editor and any(json.dumps(one) in written for one in COMMANDS)
