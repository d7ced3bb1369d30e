"""Spill files on a real disk: private, capped, aged, whole or not at all; a bad disk fails nothing."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import resource
import shlex
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.limits.limits import bound_report
from callsheet.limits.truncation import Spill, truncated
from callsheet.report.content import ResourceLink, TextContent
from callsheet.runtime.spill_store import SpillStore, default_directory
from tests.support.needs import needs

TEXT = "".join(f"line {n}: some text, é\n" for n in range(5000))


@pytest.fixture
def store(tmp_path: Path) -> SpillStore:
    return SpillStore(tmp_path / "cache" / "spill")


def names(store: SpillStore) -> list[str]:
    return sorted(file.name for file in store.directory.iterdir() if file.name != ".lock")


def mode(path: Path | str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def spill(size: int, char: str = "x") -> Spill:
    return Spill(char * size)


# What is kept


def test_what_was_cut_is_kept_whole_and_named(store: SpillStore) -> None:
    raw = {"rows": ["y" * 500] * 100}
    plan = bound_report({"content": (TextContent(TEXT),), "raw_output": raw})
    fields, records = store.finish(plan)
    content, output = records
    assert Path(content["spill"]).read_text(encoding="utf-8") == TEXT
    assert Path(content["spill"]).stat().st_size == content["totalBytes"]
    assert json.loads(Path(output["spill"]).read_bytes()) == raw
    links = [item for item in fields["content"] if isinstance(item, ResourceLink)]
    assert [link.uri for link in links] == [
        Path(record["spill"]).as_uri() for record in (content, output)
    ]
    note = truncated(records)
    assert note
    assert list(note) == ["field", "keptBytes", "totalBytes", "spill", "others"]
    assert store.failures == 0


def test_files_have_the_ending_of_what_they_hold(store: SpillStore) -> None:
    spills = [Spill("a"), Spill({"a": 1}, "application/json"), Spill(b"\x89", "image/png")]
    spills += [Spill(b"?", "application/x-unknown"), Spill("# a", "text/x-python")]
    found = [Path(store.keep(item) or "").suffix for item in spills]
    assert found == [".txt", ".json", ".png", ".bin", ".txt"]


def test_directory_and_files_are_their_owners_alone(store: SpillStore) -> None:
    before = os.umask(0)
    try:
        path = store.keep(spill(10))
    finally:
        os.umask(before)
    assert path
    assert mode(path) == 0o600
    assert mode(store.directory) == 0o700
    assert mode(store.directory / ".lock") == 0o600


def test_a_directory_that_others_could_read_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert SpillStore(tmp_path).keep(spill(10))
    assert mode(tmp_path) == 0o700


def test_a_link_in_the_place_of_the_directory_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = SpillStore(tmp_path / "link")
    assert store.keep(spill(10)) is None
    assert store.failures == 1
    assert list((tmp_path / "real").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_directory_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    store = SpillStore(tmp_path / "theirs")
    assert store.keep(spill(10)) is None
    assert "somebody else" in str(store.last_error)


def test_other_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "thesis.txt"
    mine.write_text("x" * 5000)
    os.utime(mine, (0, 0))
    (tmp_path / "spill-notes.txt").write_text("x")
    (tmp_path / "spill-0123456789abcdef0123456789abcdef.txt").symlink_to(mine)
    store = SpillStore(tmp_path, max_bytes=100, max_files=1)
    for _ in range(3):
        assert store.keep(spill(80))
    assert mine.read_text() == "x" * 5000
    assert (tmp_path / "spill-notes.txt").exists()


def test_only_spills_of_its_own_are_forgotten(store: SpillStore, tmp_path: Path) -> None:
    ours, kept = store.keep(spill(10)), store.keep(spill(10))
    assert ours is not None
    assert kept is not None
    other = tmp_path / Path(ours).name
    note = store.directory / "note.txt"
    for file in (other, note):
        file.write_text("of somebody else")
    around = str(store.directory / ".." / store.directory.name / Path(kept).name)
    asked = [ours, str(other), str(note), around, "", "relative.txt", ours]
    assert store.forget(asked) == 1
    assert not Path(ours).exists()
    assert all(file.exists() for file in (other, note, Path(kept)))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other directories")
def test_the_directory_by_default_is_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_directory() == Path("/x/callsheet/spill")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_directory().is_absolute()
    assert default_directory().parts[-2:] == ("callsheet", "spill")


# How much, how long


def test_the_oldest_go_first_when_there_is_too_much(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, max_bytes=1000)
    paths = [store.keep(spill(300)) for _ in range(3)]
    for age, path in zip((30, 20, 10), paths, strict=True):
        assert path
        moment = Path(path).stat().st_mtime - age
        os.utime(path, (moment, moment))
    newest = store.keep(spill(500))
    assert newest
    assert names(store) == sorted(Path(str(path)).name for path in (paths[2], newest))


def test_what_is_larger_than_the_store_is_not_kept_and_costs_nobody_their_place(
    tmp_path: Path,
) -> None:
    store = SpillStore(tmp_path, max_bytes=1000)
    first = store.keep(spill(900))
    assert store.keep(spill(1001)) is None
    assert first
    assert Path(first).exists()
    assert SpillStore(tmp_path, max_files=0).keep(spill(1)) is None


def test_there_are_never_too_many_files(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, max_files=5)
    for _ in range(12):
        assert store.keep(spill(1))
    assert len(names(store)) == 5


def test_old_files_go(tmp_path: Path) -> None:
    clock = [1_000_000_000.0]
    store = SpillStore(tmp_path, max_age=60, now=lambda: clock[0])
    old = store.keep(spill(10))
    assert old
    os.utime(old, (clock[0], clock[0]))
    half = tmp_path / ".spill-0123456789abcdef0123456789abcdef"
    half.write_bytes(b"left by a process that died")
    os.utime(half, (clock[0], clock[0]))
    clock[0] += 59
    second = store.keep(spill(10))
    assert second
    assert len(names(store)) == 3
    clock[0] += 2
    third = store.keep(spill(10))
    assert third
    assert names(store) == sorted([Path(second).name, Path(third).name])


def test_a_spill_that_had_to_make_room_for_the_next_is_not_named(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, max_bytes=120_000)
    raw = {"rows": ["y" * 500] * 200}
    plan = bound_report({"content": (TextContent("z" * 100_000),), "raw_output": raw})
    fields, records = store.finish(plan)
    assert ["spill" in record for record in records] == [False, True]
    links = [item for item in fields["content"] if isinstance(item, ResourceLink)]
    assert len(links) == 1
    assert all(Path(record["spill"]).exists() for record in records if "spill" in record)


# A bad disk


def fails(store: SpillStore) -> None:
    """Hold that a call goes on without its file."""
    plan = bound_report({"content": (TextContent(TEXT),)})
    fields, records = store.finish(plan)
    assert [type(item) for item in fields["content"]] == [TextContent]
    assert "spill" not in records[0]
    assert store.failures == 1
    assert store.last_error


def test_a_place_that_can_not_be_made_fails_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    fails(SpillStore(tmp_path / "file" / "spill"))
    fails(SpillStore("/proc/callsheet/spill"))
    fails(SpillStore(tmp_path / ("x" * 300)))
    fails(SpillStore(tmp_path / "not\udcffunicode"))
    fails(SpillStore(tmp_path / "nul\0"))


def in_a_process(code: str, *args: str, prefix: tuple[str, ...] = ()) -> str:
    # No bytecode: what these processes may write is cut short, and others would read half a file.
    command = [*prefix, sys.executable, "-B", "-c", textwrap.dedent(code), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


WRITE = """
    import sys
    from pathlib import Path
    from callsheet.limits.truncation import Spill
    from callsheet.runtime.spill_store import SpillStore

    store = SpillStore(sys.argv[1])
    small = store.keep(Spill("x" * 1000))
    large = store.keep(Spill("x" * 500_000))
    names = [file.name for file in store.directory.iterdir() if file.name != ".lock"]
    print(bool(small), bool(large), store.failures, len(names), store.last_error)
"""


def test_a_file_that_may_not_grow_further_is_not_kept(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
    out = in_a_process(limit + textwrap.dedent(WRITE), str(tmp_path / "spill"))
    assert out.startswith("True False 1 1 OSError: [Errno 27]")


def in_a_namespace(command: str) -> tuple[str, ...]:
    """Run something where a file system of one's own can be mounted, without being root."""
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", f'{command} && exec "$@"', "sh")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    prefix = in_a_namespace(f"mount -t tmpfs -o size=256k tmpfs {shlex.quote(str(tmp_path))}")
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    return tmp_path


@needs("unshare")
def test_a_full_disk_fails_nothing_and_leaves_nothing_behind(place: Path) -> None:
    prefix = in_a_namespace(f"mount -t tmpfs -o size=256k tmpfs {place}")
    out = in_a_process(WRITE, str(place / "spill"), prefix=prefix)
    assert out.startswith("True False 1 1 OSError: [Errno 28] No space left on device")


@needs("unshare")
def test_a_read_only_disk_fails_nothing(place: Path) -> None:
    (place / "spill").mkdir(mode=0o700)
    prefix = in_a_namespace(f"mount --bind {place} {place} && mount -o remount,ro,bind {place}")
    out = in_a_process(WRITE, str(place / "spill"), prefix=prefix)
    assert out.startswith("False False 2 0 OSError: [Errno 30] Read-only file system")


def test_a_directory_without_the_right_to_write_fails_nothing(tmp_path: Path) -> None:
    code = """
        import os, sys
        from callsheet.limits.truncation import Spill
        from callsheet.runtime.spill_store import SpillStore

        spill = Spill("x")
        if os.geteuid() == 0:
            os.setuid(65534)  # root may write anywhere
        for place in sys.argv[1:]:
            store = SpillStore(place)
            print(store.keep(spill), store.failures, store.last_error)
    """
    tmp_path.chmod(0o500)
    try:
        out = in_a_process(code, str(tmp_path), str(tmp_path / "spill"))
    finally:
        tmp_path.chmod(0o700)
    assert [line[:23] for line in out.splitlines()] == ["None 1 PermissionError:"] * 2


@pytest.fixture
def few_files() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_process_without_free_file_handles_fails_nothing(
    store: SpillStore, few_files: None
) -> None:
    assert store.keep(spill(10)) is None
    assert "Errno 24" in str(store.last_error)


def test_a_lock_that_is_never_given_back_delays_but_does_not_hang(store: SpillStore) -> None:
    import fcntl

    assert store.keep(spill(10))
    with (store.directory / ".lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert store.keep(spill(10)) is None
    assert len(names(store)) == 1
    assert store.keep(spill(10))


# Many at once


def hammer(directory: str, count: int, size: int) -> list[Any]:
    store = SpillStore(directory, max_bytes=40 * size, max_files=1000)
    return [store.keep(Spill(f"{os.getpid():>7} " * (size // 8))) for _ in range(count)]


def test_processes_can_share_a_directory_within_its_cap(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        kept = pool.starmap(hammer, [(str(tmp_path), 100, 2000)] * 2)
    paths = [path for some in kept for path in some if path]
    assert len(paths) == len(set(paths)) > 150
    files = [file for file in tmp_path.iterdir() if file.name != ".lock"]
    assert all(re.fullmatch(r"spill-[0-9a-f]{32}\.txt", file.name) for file in files)
    assert 30 <= len(files) <= 40
    assert {file.stat().st_size for file in files} == {2000}
    for file in files:
        words = set(file.read_text().split())
        assert len(words) == 1


def test_threads_can_share_a_store(store: SpillStore) -> None:
    paths: list[str | None] = []

    def work() -> None:
        paths.extend(store.keep(spill(100)) for _ in range(25))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({path for path in paths if path}) == 100 - store.failures
    assert len(names(store)) == 100 - store.failures


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    """Look at every file that shows up while others are written: none is ever half there."""
    store = SpillStore(tmp_path, max_files=1)
    size = 30_000_000
    seen: set[int] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            with contextlib.suppress(FileNotFoundError):
                seen.update(file.stat().st_size for file in store.directory.glob("spill-*"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(4):
        assert store.keep(spill(size))
    done.set()
    watcher.join()
    assert seen == {size}
