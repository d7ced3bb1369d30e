"""`callsheet history import`: recordings of any agent, with their times; once, however often; without secrets."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from callsheet.cli.demo import poor_agent
from tests.support import ROOT
from tests.support.stores import Cli

RECORDINGS = ROOT / "tests" / "recordings"
KIMI = RECORDINGS / "kimi-cli-1.51.0.mixed-none.jsonl"
ENDED = 1_700_000_000.0


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A recording that ended at a known time."""
    file = tmp_path / "kimi.jsonl"
    shutil.copy(KIMI, file)
    os.utime(file, (ENDED, ENDED))
    return file


def exported(cli: Cli) -> str:
    return cli("history", "export").out + cli("history", "sessions", "--format", "json").out


def test_calls_are_stored_whole_and_with_their_times(own: Cli, recording: Path) -> None:
    done = own("history", "import", str(recording))
    assert (done.code, done.out, done.err) == (0, "1 session, 11 calls imported\n", "")
    calls = json.loads(own("history", "--format", "json").out)
    assert "Editing src/app.py" in [call["title"] for call in calls]
    assert all(call["status"] in ("completed", "failed") for call in calls)
    times = [call["at"] for call in calls]
    assert len(set(times)) == len(times)
    assert all("2023-11-14T22:1" in str(time) for time in times)
    (session,) = json.loads(own("history", "sessions", "--format", "json").out)
    assert session["calls"] == 11


def test_to_import_it_again_changes_nothing(own: Cli, recording: Path) -> None:
    own("history", "import", str(recording))
    before = exported(own)
    other = shutil.copy(recording, recording.with_name("copy.jsonl"))
    done = own("history", "import", str(recording), str(other))
    assert (done.code, done.out) == (
        0,
        "0 sessions, 0 calls imported; 2 sessions there already\n",
    )
    assert exported(own) == before


def test_without_repair_it_is_another_session_as_the_agent_sent_it(
    own: Cli, recording: Path
) -> None:
    own("history", "import", str(recording))
    assert own("history", "import", "--no-repair", str(recording)).code == 0
    assert "StrReplaceFile: src/app.py" in own("history").out
    sessions = json.loads(own("history", "sessions", "--format", "json").out)
    assert sorted(one["calls"] for one in sessions) == [11, 11]


def test_no_secret_is_stored(own: Cli, tmp_path: Path) -> None:
    update = {
        "sessionUpdate": "tool_call",
        "toolCallId": "c",
        "title": f"echo {poor_agent.TOKEN}",
        "status": "completed",
    }
    params = {"sessionId": "s", "update": update}
    line = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(line) + "\n")
    assert own("history", "import", str(file), "--no-repair").code == 0
    text = exported(own)
    assert '"id"' in text
    assert poor_agent.TOKEN not in text
    assert json.loads(own("history", "--format", "json").out)[0]["durationMs"] is None


def test_what_can_not_be_read_is_named_and_the_rest_is_imported(own: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    data = KIMI.read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(data[:-100] + b"\nnot json\n")
    done = own("history", "import", str(tmp_path))
    assert done.code == 0
    assert "1 session, 11 calls imported" in done.out
    assert "empty.jsonl: not a recording: it is empty" in done.err
    assert "cut.jsonl: 2 lines not read (line " in done.err
    gone = own("history", "import", str(tmp_path / "gone.jsonl"))
    assert (gone.code, gone.out) == (2, "0 sessions, 0 calls imported\n")
    assert own("history", "import", str(tmp_path / "empty.jsonl")).code == 2


def test_an_imported_session_is_viewed_by_its_times(own: Cli, recording: Path) -> None:
    own("history", "import", str(recording))
    done = own("view", "last")
    assert done.code == 0
    assert "Kimi Code CLI 1.51.0 · 11 calls" in done.out
    assert sum("━" in line for line in done.out.splitlines()) == 11
    assert "permission  allowed by the user, after " in own("show", "last").out
