"""`callsheet demo`, the before and after, as a real process: into a pipe, on terminals, in other languages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from callsheet.cli.demo import poor_agent
from tests.support.processes import linux, new_token, wait_until_gone, with_token
from tests.support.shells import CALLSHEET, Terminal, without_escapes

BEFORE = ["✓ Bash", "✓ Edit", "✓ Bash", "⠋ Grep"]
AFTER = [
    "✓ Reading src/basket.py",
    "✗ Running `pytest -v tests`",
    "✓ Editing src/basket.py",
    "✓ Running `cat .env`",
    "✗ Searching for 'def total' in src",
]


def demo(**env: str) -> str:
    """Run the demo into a pipe, and return what it writes."""
    done = subprocess.run(
        [*CALLSHEET, "demo"],
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8", **env},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def figures(text: str) -> list[tuple[str, str]]:
    """Return the two last columns of the table: bare and tapped."""
    return re.findall(r"  (\S+(?: kB)?)  +(\S+(?: kB)?)\n", text.partition("tapped\n")[2])


def test_a_poor_agent_becomes_a_good_one() -> None:
    text = demo()
    before, _, after = text.partition("Behind callsheet tap\n")
    for titles, shown in ((BEFORE, before), (AFTER, after)):
        assert re.search(".*\n".join(map(re.escape, titles)), shown)
    whole, still_open, blind, secrets, _, findings = figures(text)
    assert whole == ("0/5", "5/5")
    assert still_open == blind == secrets == ("1", "0")
    assert int(findings[0]) > 20
    assert findings[1] == "0"
    assert text.endswith("callsheet tap -- YOUR-AGENT\n")
    assert poor_agent.TOKEN not in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("columns", "rows"), [(120, 40), (80, 24)])
def test_it_fits_a_terminal_and_moves(columns: int, rows: int) -> None:
    terminal = Terminal(["demo"], Path.cwd(), columns=columns, LC_ALL="C.UTF-8")
    assert terminal.end() == 0
    shown = terminal.text
    assert len(set("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏") & set(shown)) > 3
    lines = [without_escapes(line) for line in re.split(r"[\r\n]+", shown)]
    assert max(map(cell_len, lines)) <= columns
    last = without_escapes(shown.rpartition("What your editor shows")[2])
    assert last.count("\n") < rows - 2
    assert ("╭" in shown) is (columns == 120)


def test_every_language_shows_it_without_a_word_of_english() -> None:
    german = demo(LC_ALL="de_DE.UTF-8")
    assert "Suche nach „def total“ in src" in german
    assert "Vollständig gemeldete Aufrufe" in german
    for english in ("Calls", "Secrets", "blind\n", "Reading", "never", "Sent"):
        assert english not in german


@linux
def test_a_signal_ends_both_agents_and_removes_the_directory(tmp_path: Path) -> None:
    token = new_token()
    env = {**os.environ, "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*CALLSHEET, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as child:
        assert child.stderr is not None
        until = time.monotonic() + 20
        while len(with_token(token, but=child.pid)) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        assert child.stderr.read() == b""
        assert child.wait(timeout=30) == 130
    assert wait_until_gone(token) == []
    assert not list(tmp_path.glob("callsheet-demo-*"))


def test_nothing_is_kept(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    demo(CALLSHEET_HISTORY=f"sqlite:///{history}")
    assert not history.exists()
