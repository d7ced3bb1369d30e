"""`callsheet repair` and `callsheet check` of every recording, through the command line."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from .files import Items, decoded
from .parts import forget_marks, main
from .surroundings import surroundings, without_place

TESTS = Path(__file__).parents[1]
CHECKOUT = TESTS.parent
OWN = "recordings/own"


def shared() -> Path | None:
    """Return the folder of the shared recordings, which lies beside the checkout or above, if there is one."""
    above = (CHECKOUT.parent, CHECKOUT.parent.parent)
    return next((path for one in above if (path := one / "shared" / "recordings").is_dir()), None)


def found() -> dict[str, list[Path]]:
    """Return the recordings that are here, by the name of their golden file."""
    groups = {OWN: sorted((TESTS / "recordings").rglob("*.jsonl"))}
    folder = shared()
    for path in sorted(folder.glob("*-*/*.jsonl")) if folder else ():
        groups.setdefault(f"recordings/{path.parent.name}", []).append(path)
    return groups


def make(group: str, paths: Sequence[Path]) -> Items:
    """Return what is made of the recordings of a group."""
    items: Items = {}
    base = TESTS / "recordings" if group == OWN else paths[0].parent
    with surroundings() as place:
        for path in paths:
            name = path.relative_to(base).as_posix()
            original, repaired = place / "recording.jsonl", place / "repaired.jsonl"
            original.write_bytes(path.read_bytes())
            written = _run("repair", original.name)
            repaired.write_bytes(written)
            items[f"{name}: repair"] = without_place(decoded(written), place)
            for what, file in (("check", original), ("check repaired", repaired)):
                text = decoded(_run("check", file.name, "--format", "json"))
                items[f"{name}: {what}"] = without_place(text, place)
    return items


def _run(*arguments: str) -> bytes:
    """Run a command line in this process. Return what it writes to stdout."""
    forget_marks()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with (
        patch.object(sys, "argv", ["callsheet", *arguments]),
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    out.flush()
    err.flush()
    if code not in (0, 1):
        said = err.buffer.getvalue().decode(errors="replace")
        raise RuntimeError(f"callsheet {' '.join(arguments)} ended with {code}: {said}")
    return out.buffer.getvalue()
