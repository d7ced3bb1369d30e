"""The pytest plugin: the fixture `acp_recording`, and the file and the findings of it if the test fails.

It is loaded in every run of pytest where callsheet is installed. So it imports nothing of callsheet before it
is used, and a recording that can't be saved never breaks a run.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from callsheet.testing.recordings import Recording

_STORED = pytest.StashKey["tuple[Recording, Path]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that chooses where recordings are saved."""
    parser.getgroup("callsheet").addoption(
        "--acp-recordings",
        metavar="DIR",
        default=None,
        help="Save what `acp_recording` has recorded here, also of tests that pass.",
    )


@pytest.fixture
def acp_recording(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Recording:
    """Record an agent's traffic, to be checked: `assert acp_recording.check() == []`.

    Pass it to `AgentClient(…, recording=acp_recording)`. If the test fails, its report names the file of the
    recording.
    """
    from callsheet.testing.recordings import Recording

    recording = Recording()
    request.node.stash[_STORED] = recording, tmp_path_factory.mktemp("acp") / "recording.jsonl"
    return recording


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Save the recording of a failed test, and add its path and findings to the test's report."""
    outcome: Any = yield
    stored = item.stash.get(_STORED, None)
    if stored is None or call.when != "call":
        return
    try:
        _attach(item, outcome.get_result(), *stored)
    except Exception as exc:  # noqa: BLE001 - a report without a recording is better than none
        outcome.get_result().sections.append(("ACP recording", f"not saved: {exc}"))


def _attach(item: pytest.Item, report: pytest.TestReport, recording: Recording, path: Path) -> None:
    wanted: str | None = item.config.getoption("--acp-recordings", None)
    if wanted is not None:
        name = re.sub(r"[^\w.-]+", "_", item.nodeid).strip("_")[-150:]
        path = Path(wanted) / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not report.failed:
        return
    lines = [str(recording.save(path))]
    for finding in recording.found:
        where = f", call {finding.call}" if finding.call else ""
        lines.append(
            f"line {finding.line}{where}: {finding.severity} {finding.rule}: {finding.message}"
        )
    report.sections.append(("ACP recording", "\n".join(lines)))
