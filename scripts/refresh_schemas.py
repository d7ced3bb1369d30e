"""Fetch the official ACP schemas anew into tests/schema, and without their prose into the checker.

They come out of the npm package `@agentclientprotocol/sdk`, which ships them. Give a version to
move to; without one, the version that tests/schema/VERSION names is fetched again, and the files
must not change.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PACKAGE = "@agentclientprotocol/sdk"
ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tests" / "schema"
SHIPPED = ROOT / "src" / "callsheet" / "acp" / "schemas"
UNSTABLE = "schema.unstable.json"
"""All that is official: the stable schema, and what agents may already send of the next one."""
PROSE = ("description", "title", "default", "discriminator", "x-docs-ignore")


def shipped(data: bytes) -> str:
    """Return the definitions of a schema without its prose: what a validator needs."""
    definitions = {name: _bare(one) for name, one in json.loads(data)["$defs"].items()}
    return json.dumps({"$defs": definitions}, separators=(",", ":")) + "\n"


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {}
    for key, value in schema.items():
        if key == "properties":  # names of fields, which may be called as words of the schema are
            found[key] = {name: _bare(one) for name, one in value.items()}
        elif key in ("const", "enum", "required", "x-method", "x-side"):
            found[key] = value
        elif key not in PROSE and not key.startswith("x-"):
            found[key] = _bare(value)
    return found


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
                for name in ("schema.json", UNSTABLE):
                    member = archive.extractfile(f"package/schema/{protocol}/{name}")
                    if member is None:
                        sys.exit(f"refresh_schemas: {PACKAGE} {version} has no {protocol}/{name}")
                    (TARGET / protocol / name).write_bytes(member.read())
                data = (TARGET / protocol / UNSTABLE).read_bytes()
                (SHIPPED / f"{protocol}.json").write_text(shipped(data))
    (TARGET / "VERSION").write_text(f"{PACKAGE} {version}\n")
    print(f"tests/schema holds the schemas of {PACKAGE} {version}")


if __name__ == "__main__":
    main()
