"""Fetch the official ACP schemas anew into tests/schema.

They come out of the npm package `@agentclientprotocol/sdk`, which ships them. Give a version to
move to; without one, the version that tests/schema/VERSION names is fetched again, and the files
must not change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@agentclientprotocol/sdk"
TARGET = Path(__file__).resolve().parent.parent / "tests" / "schema"


def main() -> None:
    """Fetch the package, take the schemas out, note the version."""
    if shutil.which("npm") is None:
        sys.exit("refresh_schemas: npm is needed to fetch the package, and is not on PATH")
    version = sys.argv[1] if len(sys.argv) > 1 else (TARGET / "VERSION").read_text().split()[1]
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(
            ["npm", "pack", "--silent", f"{PACKAGE}@{version}"],
            cwd=folder, check=True, capture_output=True, text=True,
        )  # fmt: skip
        with tarfile.open(Path(folder) / packed.stdout.split()[-1]) as archive:
            for protocol in ("v1", "v2"):
                member = archive.extractfile(f"package/schema/{protocol}/schema.json")
                if member is None:
                    sys.exit(f"refresh_schemas: {PACKAGE} {version} has no schema for {protocol}")
                (TARGET / protocol / "schema.json").write_bytes(member.read())
    (TARGET / "VERSION").write_text(f"{PACKAGE} {version}\n")
    print(f"tests/schema holds the schemas of {PACKAGE} {version}")


if __name__ == "__main__":
    main()
