"""The documents are true: each example works, pasted alone; links lead somewhere; what is made is fresh.

- A `python` block runs in an empty directory; a `text` block right below one is what it prints.
- An `sh` block runs in one, too, with the files that the page names above their blocks (`agent.py`:).
- A `console` block has commands after `$`, and below each what it prints.

`…` stands for anything in a line, and alone for any lines. Agents that the pages only make up (`my-agent`) exist here.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from callsheet import Session
from callsheet.check.engine import check_stream
from callsheet.describe.i18n import LOCALES
from callsheet.runtime.consumer import Consumer
from callsheet.testing import AgentClient, Recorder
from tests.support import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"^(?:`([\w.-]+)`:\n\n)?^```(\w+)\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
ELSEWHERE = ("make ", "pip ")
"""Commands that change the machine, or take the whole repository."""


FRAMEWORKS = "docs/how-to/frameworks.md"
"""Its examples run where the framework is: `make adapters` runs all of them."""


class Example(NamedTuple):
    """A block, the file that it is named as, the output that stands below it, and all files of its page."""

    page: str
    line: int
    file: str
    language: str
    body: str
    printed: str
    files: dict[str, str]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def name(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()


def examples_of(document: Path) -> list[Example]:
    text = document.read_text(encoding="utf-8")
    found = list(BLOCK.finditer(text))
    files = {one[1]: one[3] for one in found if one[1]}
    return [
        Example(
            name(document),
            text.count("\n", 0, one.start()) + 1,
            *(part or "" for part in one.groups()),
            files,
        )
        for one in found
    ]


EXAMPLES = [one for document in DOCUMENTS for one in examples_of(document)]
COMMANDS = [
    one
    for one in EXAMPLES
    if one.language in ("sh", "console") and one.page not in ("README.md", "CONTRIBUTING.md")
]  # the README has tests of its own


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory, in a home of its own, where `callsheet` is installed."""
    home, bin_directory, directory = (tmp_path / part for part in ("home", "bin", "empty"))
    for made in (home, bin_directory, directory):
        made.mkdir()
    agent = bin_directory / "my-agent"
    agent.write_text(f"#!/bin/sh\nexec {sys.executable} -m callsheet agent --history off\n")
    agent.chmod(0o755)
    monkeypatch.setenv("HOME", str(home))
    path = (str(bin_directory), str(Path(sys.executable).parent), os.environ["PATH"])
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CALLSHEET_HISTORY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(directory)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return directory


@pytest.mark.parametrize("example", [one for one in EXAMPLES if one.language == "python"], ids=str)
def test_an_example_runs_alone_and_prints_what_the_page_says(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[Consumer, list[bytes]] = {}
    take: Any = Consumer._take

    def taken(consumer: Consumer) -> bool:
        is_more = take(consumer)
        if is_more and consumer.sink.peer is not None:
            sent.setdefault(consumer, []).extend(consumer._sending)
        return is_more

    monkeypatch.setattr(Consumer, "_take", taken)
    namespace = {"__name__": "example" if example.file else "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(example.body, str(example), "exec"), namespace)
        except ModuleNotFoundError as exc:
            if example.page != FRAMEWORKS or (exc.name or "").startswith("callsheet"):
                raise
            pytest.skip(f"{exc.name} is not installed; make adapters")
    if example.printed:
        assert_same(out.getvalue(), example.printed)
    for lines in sent.values():
        found = check_stream(io.BytesIO(b"".join(lines)))
        assert [one for one in found if one.rule != "lifecycle/cut-off"] == []


@pytest.mark.parametrize("example", COMMANDS, ids=str)
def test_commands_work_when_pasted(example: Example, place: Path) -> None:
    if "\nlast" in example.body.replace(" ", "\n"):  # there was a call before
        run("callsheet call think thought=so", place)
    for file, text in example.files.items():
        (place / file).write_text(text)
    if example.language == "sh":
        lines = [line for line in example.body.splitlines() if not line.startswith(ELSEWHERE)]
        printed = run("\n".join(lines), place)
        if example.printed:
            assert_same(printed, example.printed)
        return
    for part in example.body.removeprefix("$ ").split("\n$ "):
        command, _, says = part.partition("\n")
        printed = run(command, place, *((0, 1) if "callsheet check" in command else (0,)))
        assert_same(printed, says)


@pytest.mark.parametrize("command", ["callsheet agent ", "python program.py"])
async def test_the_agents_of_the_quickstart_answer_an_editor(command: str, place: Path) -> None:
    (found,) = (
        line
        for one in COMMANDS
        if one.page == "docs/quickstart/agent.md"
        for line in one.body.splitlines()
        if line.startswith(command)
    )
    for one in examples_of(ROOT / "docs" / "quickstart" / "agent.md"):
        if one.file:
            (place / one.file).write_text(one.body)
    served = found.partition(" --prompt ")[0].split()
    async with AgentClient(served, cwd=str(place)) as client:
        session = await client.new_session(str(place))
        assert await client.prompt(session, "agent.py") == "end_turn"
    (call,) = client.fold()
    assert (call.status.value, "agent.py" in call.title) == ("completed", True)
    assert client.recording.check() == []


def run(script: str, place: Path, *codes: int) -> str:
    done = subprocess.run(
        ["sh", "-ec", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=place,
    )
    assert done.returncode in (codes or (0,)), done.stdout + done.stderr
    return done.stdout


def assert_same(printed: str, says: str) -> None:
    """Compare output with a page; `…` stands for anything in a line, and alone for any lines."""
    pattern = "\n".join(
        r"(?s:.*?)" if line == "…" else ".*".join(map(re.escape, line.split("…")))
        for line in says.strip().splitlines()
    )
    assert re.fullmatch(pattern, printed.strip()), f"the page says\n{says}\nbut it is\n{printed}"


@pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.language in ("bash", "zsh", "fish")], ids=str
)
def test_completion_is_set_up_by_what_the_page_says(example: Example, place: Path) -> None:
    shell = shutil.which(example.language)
    if shell is not None:
        done = subprocess.run([shell, "-ec", example.body], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "_callsheet_completion" in run(
        f"_CALLSHEET_COMPLETE={example.language}_source callsheet", place
    )


@pytest.mark.parametrize(
    "example", [one for one in EXAMPLES if one.language in ("json", "toml")], ids=str
)
def test_settings_can_be_read(
    example: Example, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if example.language == "json":
        json.loads(example.body)
        return
    tomllib.loads(example.body)
    (place / "callsheet.toml").write_text(example.body)
    monkeypatch.setenv("CALLSHEET_CONFIG", "callsheet.toml")
    run("callsheet call think thought=so", place)
    run("callsheet history", place, 0, 1)  # 2 is a wrong setting, 1 a history that is not there


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", text):
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), path
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [
                re.sub(r"[^\w\- ]", "", head).lower().replace(" ", "-") for head in heads
            ]


def test_every_page_that_the_code_names_exists() -> None:
    sources = [
        path
        for folder in ("src", "scripts", "tests", ".ci", "bench")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".toml", "")
        and path.is_file()
        and "node_modules" not in path.parts
    ]
    named = {
        page
        for path in sources
        for page in re.findall(
            r"\bdocs/(?:[\w-]+/)*[\w-]+\.(?:md|svg)\b", path.read_text("utf-8", "replace")
        )
    }
    assert [page for page in named - {"docs/github.md"} if not (ROOT / page).exists()] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page != "README.md" and f"({page})" not in index] == []


def reference() -> Any:
    """Return the script that writes what is made from the code."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import write_reference
    finally:
        sys.path.pop(0)
    return write_reference


def test_what_is_made_from_the_code_is_fresh() -> None:
    script = ROOT / "scripts" / "write_reference.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_made_part_is_in_a_page_and_a_stale_one_is_noticed() -> None:
    script = reference()
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    parts = [found[2] for page in pages for found in script.MARK.finditer(page)]
    assert sorted(parts) == sorted(script.PARTS)
    (page,) = (page for page in pages if "stateDiagram" in page)
    assert script.written(page.replace("paused --> in_progress", "")) == page
    assert "    completed --> failed" not in script.lifecycle()


async def test_all_notes_of_a_call_are_in_the_page_on_them() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder], permission="deny") as session:
        await session.run("bash", {"command": "ls"})
        async with session.batch("All", total=1, summary=True) as batch:
            async with batch.call("deploy", {"password": "hunter2!"}, custom={"a": 1}) as call:
                call.start()
                call.pause()
                call.progress(1, 2, "half")
                await session.flush()
                async with call.call("log", {}, alias="toolu_1", depends_on=[call]) as part:
                    part.start()
                    part.succeed("line\n" * 100_000)
                call.resume()
                call.succeed("done")
    sent = [update.get("_meta", {}).get("callsheet", {}) for update in recorder.updates]
    keys = {key for notes in sent for key in notes}
    page = (ROOT / "docs" / "reference" / "meta.md").read_text(encoding="utf-8")
    assert len(keys) > 12
    assert [key for key in keys if f"`{key}`" not in page] == []


def test_the_languages_of_titles_are_listed() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert [code for code in LOCALES if f" {code}" not in page] == []


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake test\nmake check\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


ROW = re.compile(r"^\| ([RS]\d+) \| (.+?) \| (.*?) ?\| (.+) \|$", re.MULTILINE)
REQUIREMENTS = ROW.findall((ROOT / "tests" / "requirements.md").read_text(encoding="utf-8"))


def test_every_point_of_the_requirements_is_in_the_table_once() -> None:
    points = [f"R{n}" for n in range(1, 64)] + [f"S{n}" for n in range(1, 22)]
    assert [row[0] for row in REQUIREMENTS] == points


@pytest.mark.parametrize("row", REQUIREMENTS, ids=lambda row: row[0])
def test_what_the_requirements_name_exists(row: tuple[str, str, str, str]) -> None:
    _, _, where, held = row
    for file in re.findall(r"`([^`]+)`", where):
        assert (ROOT / "src" / "callsheet" / file).exists() or (ROOT / file).exists(), file
    tests = re.findall(r"`([\w/]+\.py)::(\w+)`", held)
    for file, test in tests:
        source = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {test}\(", source, re.MULTILINE), test
    assert tests or "not built yet" in held or "`make bench`" in held
    assert bool(where) or held == "not built yet"
