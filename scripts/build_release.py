"""Build the wheel and the sdist twice, each time from a fresh clone, and check what comes out.

    python scripts/build_release.py [DIRECTORY]     # default: dist

Fails if the two builds differ in a byte, if the metadata lack something that the index shows, if a tracked
file is missing from the sdist, or if there is in the wheel what nobody needs to run it. What is not committed
is not built. Needs `pip install build`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email import message_from_bytes
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[1]
URLS = ("Homepage", "Documentation", "Changelog", "Issues")
FIELDS = ("Name", "Version", "Summary", "License-Expression", "Requires-Python", "Author")
UNNEEDED = (".po", ".pot", ".pyc")
NOT_IN_SDIST = (".ci/",)
"""Tracked files that only this repository needs."""


def main() -> None:
    """Build, print the digests, then what is wrong, and exit with 1 if anything is."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").absolute()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        first, second = (build(Path(folder, name)) for name in ("first", "second"))
        wrong = [f"{name}: two builds differ" for name in first if first[name] != second.get(name)]
        for name, data in first.items():
            (target / name).write_bytes(data)
            print(f"{sha256(data).hexdigest()}  {name}")
    for path in (target / name for name in first):
        wrong += wheel_faults(path) if path.suffix == ".whl" else sdist_faults(path)
    for line in wrong:
        print(f"release: {line}", file=sys.stderr)
    sys.exit(bool(wrong))


def build(folder: Path) -> dict[str, bytes]:
    """Return what a fresh clone of the last commit builds, by name."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder / "clone")], check=True)
    stamp = git("log", "-1", "--format=%ct").strip()  # so that a build is as old as its commit
    command = [sys.executable, "-m", "build", "--outdir", str(folder / "dist"), "."]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": stamp}
    done = subprocess.run(
        command, cwd=folder / "clone", env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"release: {' '.join(command[1:3])} has failed:\n{done.stdout}{done.stderr}")
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


def wheel_faults(path: Path) -> list[str]:
    """Return what is wrong with a wheel."""
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        found = message_from_bytes(
            wheel.read(next(name for name in names if name.endswith(".dist-info/METADATA")))
        )
    urls = {one.partition(",")[0] for one in found.get_all("Project-URL", [])}
    return [
        *(f"{path.name} has {name}" for name in names if name.endswith(UNNEEDED)),
        *(f"the metadata have no {field}" for field in FIELDS if not found[field]),
        *(f"[project.urls] in pyproject.toml has no {url}" for url in URLS if url not in urls),
    ]


def sdist_faults(path: Path) -> list[str]:
    """Return what an sdist lacks, or has too much of."""
    with tarfile.open(path) as sdist:
        inside = {one.name.partition("/")[2] for one in sdist.getmembers() if one.isfile()}
    tracked = {name for name in git("ls-files").splitlines() if not name.startswith(NOT_IN_SDIST)}
    return [
        *(f"{path.name} lacks {name}" for name in sorted(tracked - inside)),
        *(f"{path.name} has {name}" for name in sorted(inside - tracked - {"PKG-INFO"})),
    ]


def git(*arguments: str) -> str:
    """Return what git prints."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main()
