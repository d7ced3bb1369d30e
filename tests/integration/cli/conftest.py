"""A filled history for the tests of the command line, and the command line in this process."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from callsheet.cli import main, settings
from callsheet.redaction.redactor import Redactor
from tests.support.stores import Cli, cli_in_process, fill

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A history that nobody changes."""
    directory = tmp_path_factory.mktemp("stored")
    url = f"sqlite:///{directory}/h.sqlite"
    asyncio.run(fill(url, directory))
    return url


@pytest.fixture
def copy(stored: str, tmp_path: Path) -> str:
    """A history of this test's own, with the same calls."""
    file = tmp_path / "h.sqlite"
    shutil.copy(stored.removeprefix("sqlite:///"), file)
    return f"sqlite:///{file}"


@pytest.fixture
def cli(stored: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line with the filled history."""
    return cli_in_process(capsys, monkeypatch, stored)


@pytest.fixture
def own(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line with a history that is this test's own, in `h.sqlite`."""
    return cli_in_process(capsys, monkeypatch, f"sqlite:///{tmp_path}/h.sqlite")


@pytest.fixture
def command(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Command]:
    """Run a command in this process, as a process would: `command(*args, cwd=…, NAME=value)`.

    Descriptors are captured, too, since `callsheet call` writes to these.
    """
    before = Redactor.settings

    def run(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
        settings._warned.clear()
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["callsheet", *args])
            capfd.readouterr()
            with pytest.raises(SystemExit) as ended:
                main()
            out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return subprocess.CompletedProcess(args, ended.value.code, out, err)

    yield run
    Redactor.settings = before
