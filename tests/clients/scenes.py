"""What every client plays with the agent, and what must have come of it, whichever client it was."""

from __future__ import annotations

import json
import os
import shutil
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from callsheet.acp import v1, v2
from callsheet.acp.codec import as_dict
from callsheet.check.runner import CLIENTS
from callsheet.testing import Recording, assert_every_call_ended, fold
from tests.support import SUPPORT, schemas

FOLDER = Path(__file__).parent
MODULES = FOLDER / "node_modules"
PATIENCE = 40
"""Seconds until a client that hangs is given up."""

SECRET = "ghp_" + "Zk3x9Qw7Lm2Rt8Vb5Nc1Yd6Hj4Pf0Sg3TuAe"
FIELDS = ("title", "kind", "status", "name", "content", "locations", "rawInput", "rawOutput")

READ, EDITED, RUN, PARALLEL = "reads", "edits", "runs", "runs three at once"
FAILED, DENIED, CANCELLED, LEAKED = "fails", "is denied", "is cancelled", "prints a secret"
ONE_CANCELLED, WITHDRAWN, TOLD = (
    "has one call cancelled",
    "is cancelled while it asks",
    "tells what it knows",
)


def needs_node(*packages: str) -> pytest.MarkDecorator:
    """Mark a test that needs Node, and these packages, which `make test` installs; it fails where CI=true."""
    missing = [name for name in packages if not (MODULES / name).exists()]
    reason = ""
    if shutil.which("node") is None:
        reason = "node is not on this machine"
    elif missing:
        reason = f"npm's {', '.join(missing)} is not installed; `make test` does that"
    return pytest.mark.skipif(bool(reason) and os.environ.get("CI") != "true", reason=reason)


def agent_command(version: int = 1) -> list[str]:
    own = ["--tools", str(FOLDER / "insight.py")]
    own += ["--handler", str(SUPPORT / "parallel_palette.py:ParallelPalette")]
    return [sys.executable, "-m", "callsheet", "agent", "--protocol", str(version), *own]


def recorded(command: list[str], place: Path) -> list[str]:
    """Return a command that runs an agent, and records it beside the workspace, in a file for each run."""
    folder = _recordings(place)
    folder.mkdir(exist_ok=True)
    return [sys.executable, "-m", "callsheet", "record", "-o", str(folder), "--", *command]


def _recordings(place: Path) -> Path:
    return place.with_name(f"{place.name}-recordings")


def hold_recordings(place: Path, at_least: int = 1) -> None:
    """Hold that the checker finds nothing in what was recorded, for any client."""
    paths = sorted(_recordings(place).iterdir())
    assert len(paths) >= at_least
    for path in paths:
        assert Recording.of(path).check(clients=CLIENTS) == [], path


def furnish(place: Path) -> Path:
    """Make the workspace that the scenes play in."""
    place.mkdir()
    (place / "notes.txt").write_text("one\ntwo\nthree\n")
    (place / "greeting.py").write_text('def greet():\n    return "hello"\n')
    (place / "token.txt").write_text(f"token: {SECRET}\n")
    return place


def scenes(version: int) -> list[dict[str, Any]]:
    """Return the prompts, and how the client is to answer and when to cancel."""
    played: list[dict[str, Any]] = [
        {"name": READ, "prompt": "/read notes.txt"},
        {"name": EDITED, "prompt": "/edit greeting.py old_text=hello new_text=goodbye"},
        {"name": RUN, "prompt": "!echo first; sleep 0.4; echo second"},
        {
            "name": PARALLEL,
            "prompt": "/parallel\n!sleep 1; echo a\n!sleep 1; echo b\n!sleep 1; echo c",
        },
        {"name": FAILED, "prompt": "!echo so far; exit 3"},
        {"name": DENIED, "prompt": "!touch forbidden", "answer": "reject_once"},
        {"name": CANCELLED, "prompt": "!echo begun; sleep 60", "cancel": "turn"},
        {"name": WITHDRAWN, "prompt": "!touch forbidden", "answer": "cancel"},
        {"name": LEAKED, "prompt": "!cat token.txt"},
    ]
    if version == 2:
        played.append({"name": ONE_CANCELLED, "prompt": "!sleep 60\n!echo after", "cancel": "call"})
    return [*played, {"name": TOLD, "prompt": f"/tell {version}"}]


class Seen:
    """What a client has seen, with the client's own fold of it."""

    def __init__(self, version: int, place: Path, data: dict[str, Any]) -> None:
        self.version: int = version
        self.place: Path = place
        self.data: dict[str, Any] = data
        self.lines: list[str] = data["lines"]
        self.messages: list[dict[str, Any]] = [json.loads(line) for line in data["lines"]]
        self.calls: dict[str, dict[str, Any]] = data["calls"]

    # The scenes

    def parts(self) -> dict[str, list[dict[str, Any]]]:
        """Return the agent's messages of each scene."""
        begin, parts = 0, dict[str, list[dict[str, Any]]]()
        for scene in self.data["scenes"]:
            parts[scene["name"]] = self.messages[begin : scene["lines"]]
            begin = scene["lines"]
        return parts

    def updates(self, scene: str) -> list[dict[str, Any]]:
        return [
            message["params"]["update"]
            for message in self.parts()[scene]
            if message.get("method") == "session/update"
        ]

    def ids(self, scene: str) -> list[str]:
        """Return the ids of the calls that a scene announced, in order."""
        return list(
            dict.fromkeys(u["toolCallId"] for u in self.updates(scene) if "toolCallId" in u)
        )

    def calls_of(self, scene: str) -> list[dict[str, Any]]:
        return [self.calls[key] for key in self.ids(scene)]

    def call_of(self, scene: str) -> dict[str, Any]:
        (call,) = self.calls_of(scene)
        return call

    def question(self, scene: str) -> dict[str, Any]:
        """Return the call that the client was asked about, as the question told it."""
        (asked,) = [one for one in self.data["permissions"] if one["scene"] == scene]
        return asked["toolCall"]

    def stop_reasons(self) -> dict[str, str]:
        return {scene["name"]: scene["stopReason"] for scene in self.data["scenes"]}

    def text_of(self, call: dict[str, Any]) -> str:
        """Return what a user reads in a call's card."""
        return "\n".join(self.text_in(item) for item in call["content"])

    def text_in(self, item: dict[str, Any]) -> str:
        """Return the text of an item of content."""
        if item["type"] == "terminal":
            pieces = self.data["terminals"][item["terminalId"]]["bytes"]
            return b"".join(b64decode(piece) for piece in pieces).decode()
        return item["content"]["text"] if item["type"] == "content" else ""


def hold(seen: Seen) -> None:
    """Hold whatever must be true of every client."""
    hold_traffic(seen)
    _the_client_knows_what_the_agent_knows(seen)
    _the_scenes_went_as_played(seen)
    hold_recordings(seen.place)


def hold_traffic(seen: Seen) -> None:
    """Hold whatever must be true of what a client is told, whichever scenes it has played."""
    _every_message_is_valid(seen)
    _the_client_folds_to_what_we_fold_to(seen)
    _every_scene_is_whole(seen)
    _the_user_is_asked_about_the_whole_call(seen)


def _every_message_is_valid(seen: Seen) -> None:
    asked = {m["id"]: m["method"] for m in seen.data["sent"] if "method" in m and "id" in m}
    assert len(asked) > len(seen.data["scenes"])
    for message in seen.messages:
        if "method" in message:
            name = schemas.name_of(seen.version, message["method"])
            schemas.check(seen.version, name, message["params"])
        else:
            name = schemas.name_of(seen.version, asked[message["id"]], answer=True)
            schemas.check(seen.version, name, message["result"])


def _the_client_folds_to_what_we_fold_to(seen: Seen) -> None:
    announce = (v1 if seen.version == 1 else v2).announce
    ours = {
        report.tool_call_id: _told(as_dict(announce(report)))
        for report in fold(seen.lines, version=seen.version)
    }
    theirs = {key: _told(call) for key, call in seen.calls.items()}
    assert list(theirs) == list(ours)
    for key, call in ours.items():
        assert theirs[key] == call


def _the_client_knows_what_the_agent_knows(seen: Seen) -> None:
    known = json.loads((seen.place / "reports.json").read_text())
    (last,) = seen.ids(TOLD)
    assert set(known) == set(seen.calls) - {last}
    for key, call in known.items():
        assert _without_terminals(call) == _without_terminals(seen.calls[key])


def _without_terminals(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call but for its output: v1 clients are shown text where the agent has a terminal."""
    told = _told(call)
    if call["kind"] == "execute":
        told.pop("content", None)
    return told


def _told(call: dict[str, Any]) -> dict[str, Any]:
    return {field: call[field] for field in FIELDS if field in call}


def _every_scene_is_whole(seen: Seen) -> None:
    """Hold that at the end of each turn, every call that it announced has ended, and no other was touched."""
    known: set[str] = set()
    for scene in seen.parts():
        ended = assert_every_call_ended(seen.updates(scene))
        assert not known & set(ended), f"{scene}: a call of an earlier turn"
        known |= set(ended)
    assert known == set(seen.calls)
    first = next(i for i, m in enumerate(seen.messages) if m.get("method") == "session/update")
    told = [m["result"].get("sessionId") for m in seen.messages[:first] if "result" in m]
    assert any(told), "an update came before the answer to session/new"


def _the_user_is_asked_about_the_whole_call(seen: Seen) -> None:
    for asked in seen.data["permissions"]:
        assert asked["known"] is not None, "asked about a call that was not announced"
        assert _told(asked["toolCall"]) == _told(asked["known"])
        kinds = [option["kind"] for option in asked["options"]]
        assert kinds == ["allow_once", "allow_always", "reject_once", "reject_always"]


def _the_scenes_went_as_played(seen: Seen) -> None:
    cancelled = "failed" if seen.version == 1 else "cancelled"
    _reads(seen)
    _edits(seen)
    _runs(seen)
    _runs_in_parallel(seen)
    failed = seen.call_of(FAILED)
    assert (failed["status"], _reason(failed)) == ("failed", "exit_code")
    assert "so far" in seen.text_of(failed)
    assert "3" in seen.text_of(failed)
    denied = seen.call_of(DENIED)
    assert (denied["status"], _reason(denied)) == ("failed", "denied")
    assert not (seen.place / "forbidden").exists()
    for scene in (CANCELLED, WITHDRAWN):
        stopped = seen.call_of(scene)
        assert (stopped["status"], _reason(stopped)) == (cancelled, "cancelled")
    _leaks_nothing(seen)
    ends = seen.stop_reasons()
    assert {ends.pop(CANCELLED), ends.pop(WITHDRAWN)} == {"cancelled"}
    assert set(ends.values()) == {"end_turn"}


def _reason(call: dict[str, Any]) -> str | None:
    return call["_meta"]["callsheet"].get("reason")


def _reads(seen: Seen) -> None:
    call = seen.call_of(READ)
    assert (call["kind"], call["status"], call["name"]) == ("read", "completed", "read")
    assert call["title"] == "Reading notes.txt"
    assert call["rawInput"] == {"path": "notes.txt"}
    assert [place["path"] for place in call["locations"]] == [str(seen.place / "notes.txt")]
    assert "three" in seen.text_of(call)
    assert READ not in [one["scene"] for one in seen.data["permissions"]]


def _edits(seen: Seen) -> None:
    old, new = 'def greet():\n    return "hello"\n', 'def greet():\n    return "goodbye"\n'
    call, path = seen.call_of(EDITED), str(seen.place / "greeting.py")
    assert (call["kind"], call["status"], call["name"]) == ("edit", "completed", "edit")
    assert (seen.place / "greeting.py").read_text() == new
    for told in (seen.question(EDITED), call):
        (diff,) = [item for item in told["content"] if item["type"] == "diff"]
        if seen.version == 1:
            assert (diff["path"], diff["oldText"], diff["newText"]) == (path, old, new)
        else:
            assert [(one["operation"], one["path"]) for one in diff["changes"]] == [
                ("modify", path)
            ]
            assert '-    return "hello"\n+    return "goodbye"\n' in diff["patch"]["text"]


def _runs(seen: Seen) -> None:
    call = seen.call_of(RUN)
    assert (call["kind"], call["status"], call["name"]) == ("execute", "completed", "bash")
    assert call["rawInput"]["command"] in call["title"]
    text = seen.text_of(call)
    assert text.index("first") < text.index("second")
    live = _live_outputs(seen, RUN)
    assert any("first" in piece and "second" not in piece for piece in live), live


def _live_outputs(seen: Seen, scene: str) -> list[str]:
    """Return the pieces of output that came while the call was running."""
    pieces: list[str] = []
    for update in seen.updates(scene):
        if update.get("status") in ("completed", "failed", "cancelled"):
            break
        if update["sessionUpdate"] == "terminal_output_chunk":
            pieces.append(b64decode(update["data"]).decode())
        elif seen.version == 1 and update["sessionUpdate"] == "tool_call_update":
            pieces += [seen.text_in(item) for item in update.get("content") or ()]
            pieces.append((update.get("_meta") or {}).get("terminal_output", {}).get("data", ""))
    return pieces


def _runs_in_parallel(seen: Seen) -> None:
    calls = seen.calls_of(PARALLEL)
    assert [call["status"] for call in calls] == ["completed"] * 3
    for call, said in zip(calls, "abc", strict=True):
        assert said in seen.text_of(call)
    times = [call["_meta"]["callsheet"] for call in calls]
    assert max(time["startedAt"] for time in times) < min(time["endedAt"] for time in times)


def _leaks_nothing(seen: Seen) -> None:
    call = seen.call_of(LEAKED)
    assert call["status"] == "completed"
    assert "token: " in seen.text_of(call)
    assert call["_meta"]["callsheet"]["redactions"] >= 1
    assert SECRET not in "\n".join(seen.lines) + "\n".join(map(seen.text_of, seen.calls.values()))
