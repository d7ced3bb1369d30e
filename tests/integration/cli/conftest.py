"""A filled history for the tests of the command line, and the command line in this process."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.support.histories import Cli, cli_in_process, fill


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A history that nobody changes."""
    directory = tmp_path_factory.mktemp("kept")
    url = f"sqlite:///{directory}/h.sqlite"
    asyncio.run(fill(url, directory))
    return url


@pytest.fixture
def copy(kept: str, tmp_path: Path) -> str:
    """A history of this test's own, with the same calls."""
    file = tmp_path / "h.sqlite"
    shutil.copy(kept.removeprefix("sqlite:///"), file)
    return f"sqlite:///{file}"


@pytest.fixture
def cli(kept: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line with the filled history."""
    return cli_in_process(capsys, monkeypatch, kept)


@pytest.fixture
def own(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line with a history that is this test's own, in `h.sqlite`."""
    return cli_in_process(capsys, monkeypatch, f"sqlite:///{tmp_path}/h.sqlite")
