"""Counts the marks that redaction would leave in other people's files, and shows a sample to judge by hand.

Run it over code and docs in which no secrets are: `python scripts/count_marks.py PATH…`.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from callsheet.redaction.redactor import Redactor

SEED = 17
SAMPLE = 40
LARGEST = 400_000


def texts(paths: list[str]) -> Iterator[tuple[Path, str]]:
    """Return the files that are text, and not large."""
    for root in map(Path, paths):
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                try:
                    yield path, path.read_text(encoding="utf-8")
                except (UnicodeDecodeError, OSError):
                    continue


def main(paths: list[str]) -> None:
    """Print the counts, and some of the lines that are changed."""
    redactor = Redactor()
    counts: Counter[str] = Counter()
    lines: list[str] = []
    size = 0
    for path, text in texts(paths):
        size += len(text.encode())
        for rule, count in redactor.found(text).items():
            counts[rule] += count
        for before, after in zip(
            text.split("\n"), redactor.text(text)[0].split("\n"), strict=False
        ):
            if "[redacted:" in after and before != after:
                lines.append(f"{path}: {before.strip()[:160]}")
                break
    total = counts.total()
    print(f"{size / 1e6:.1f} MB, {total} marks, {total / max(size, 1) * 1e6:.2f} per MB")
    for rule, count in counts.most_common():
        print(f"{count:6d} {rule}")
    random.Random(SEED).shuffle(lines)
    print("\n".join(lines[:SAMPLE]))


if __name__ == "__main__":
    main(sys.argv[1:])
