"""`callsheet demo`, the before and after, as a real process: into a pipe, on terminals, in other languages."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from callsheet.cli.demo import poor_agent
from callsheet.cli.demo.before_after import BeforeAfter
from callsheet.describe.i18n import LOCALES
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
    *_, last = text.split("\n\n")
    assert re.fullmatch(
        r"In front of your own agent: \S*callsheet setup zed --tap YOUR-AGENT\n", last
    )
    assert poor_agent.TOKEN not in text
    assert "\x1b" not in text


def test_its_first_line_does_not_wait_for_the_agents() -> None:
    with subprocess.Popen(
        [*CALLSHEET, "demo"],
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith(b"One poor agent, run twice")
        fds, _, _ = select.select([child.stdout], [], [], 0)
        assert not fds  # the rest is yet to come
        assert b"Behind callsheet tap" in child.stdout.read()


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


ENGLISH = re.compile(
    r"\b(calls?|secrets? (in|hidden)|approved|reading|read|execute|edit\b(?!or)|search|never|sent|your|tapped)\b",
    re.I,
)


@pytest.mark.parametrize("locale", LOCALES)
async def test_every_language_fits_80_columns_and_24_lines(
    locale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", locale)
    # Where callsheet is on PATH: elsewhere, the last line names its path, and may be two.
    (tmp_path / "callsheet").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    out = io.StringIO()
    # Terminals may leave the last column free.
    console = Console(width=79, file=out, highlight=False, no_color=True)
    assert await BeforeAfter(tmp_path, console).show() == 0
    text = out.getvalue()
    assert "…" not in text  # nothing is cut
    assert text.count("\n") < 24  # the prompt takes the last line
    # What the agent itself says is in its own words.
    own = re.sub("✓ (Bash|Edit)|⠋ Grep|`.*?`|(^|-- ?).*callsheet tap.*", "", text)
    assert bool(ENGLISH.search(own)) is (locale == "en")


def test_a_language_that_we_do_not_have_is_english() -> None:
    assert demo(LC_ALL="pl_PL.UTF-8").splitlines()[0] == demo().splitlines()[0]


@linux
@pytest.mark.parametrize("started", [1, 2, 3, 4])
def test_a_signal_ends_both_agents_and_removes_the_directory(started: int, tmp_path: Path) -> None:
    token = new_token()
    env = {**os.environ, "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [*CALLSHEET, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as child:
        assert child.stderr is not None
        until = time.monotonic() + 20
        while len(with_token(token, but=child.pid)) < started and time.monotonic() < until:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        assert child.stderr.read() == b""
        assert child.wait(timeout=30) == 130
    assert wait_until_gone(token) == []
    assert not list(tmp_path.glob("callsheet-demo-*"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_as_soon_as_there_is_a_directory_leaves_none(number: int, tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    for _ in range(3):
        with subprocess.Popen([*CALLSHEET, "demo"], stdout=subprocess.DEVNULL, env=env) as child:
            until = time.monotonic() + 20
            while not list(tmp_path.glob("callsheet-demo-*")) and time.monotonic() < until:
                time.sleep(0.0005)
            child.send_signal(number)
            assert child.wait(timeout=30) == 128 + number
        assert not list(tmp_path.glob("callsheet-demo-*"))


@linux
@pytest.mark.parametrize("shown", ["What your editor shows", "Reading src/basket.py"])
def test_ctrl_c_ends_it_without_a_trace(shown: str, tmp_path: Path) -> None:
    token = new_token()
    env = {"LC_ALL": "C.UTF-8", "CALLSHEET_TEST_TOKEN": token, "TMPDIR": str(tmp_path)}
    terminal = Terminal(["demo"], tmp_path, **env)
    terminal.until(shown)
    terminal.type("\x03")  # all processes of the terminal receive it
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text
    assert "Error" not in terminal.text
    assert wait_until_gone(token) == []
    assert not list(tmp_path.iterdir())


def test_nothing_is_kept(tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    demo(CALLSHEET_HISTORY=f"sqlite:///{history}")
    assert not history.exists()


@pytest.mark.parametrize("part", [[], ["agent"]])
def test_the_users_settings_do_not_change_it(part: list[str], tmp_path: Path) -> None:
    settings = tmp_path / "callsheet.toml"
    settings.write_text("history = 3\n")  # a mistake
    env = {**os.environ, "LC_ALL": "C.UTF-8", "CALLSHEET_CONFIG": str(settings)}
    done = subprocess.run(
        [*CALLSHEET, "demo", *part], capture_output=True, timeout=60, check=False, env=env
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_directory_that_cannot_be_made_is_named_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run(
        [*CALLSHEET, "demo", "--keep", tmp_path / "file" / "recordings"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"callsheet: {tmp_path}/file/recordings: Not a directory\n"
