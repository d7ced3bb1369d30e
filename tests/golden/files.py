"""How golden data is kept, and how a difference is shown.

A file has items, each with a name and a text. It is plain text, with a line `=== NAME` before each item,
or the same compressed with Zstandard if it is large. Bytes that are not UTF-8 are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

import zstandard

DATA = Path(__file__).parent / "data"
AGAIN = (
    "If this change is meant, make the golden outputs anew (make goldens), and read the difference."
)

Items = dict[str, str]
"""Texts by the names of their items."""

_HEAD = "=== "
_PLAIN = 24 * 1024
"""Bytes that a file has at most as plain text."""

_MOST_ITEMS, _MOST_LINES, _MOST_COMPARED = 8, 12, 400
_BEFORE, _WIDTH = 60, 200


def decoded(data: bytes) -> str:
    """Return bytes as a text that keeps them all."""
    return data.decode("utf-8", "surrogateescape")


def write(name: str, items: Mapping[str, str]) -> bool:
    """Write the items of a file. Return whether they are others than before."""
    if (DATA / f"{name}.txt").exists() != (DATA / f"{name}.zst").exists() and read(name) == items:
        return False
    for item, text in items.items():
        if _HEAD in {line[: len(_HEAD)] for line in text.split("\n")} or "\n" in item:
            raise ValueError(f"{name}: {item}: a line begins as the head of an item does")
    whole = "".join(f"{_HEAD}{item}\n{text}\n" for item, text in items.items())
    data = whole.encode("utf-8", "surrogateescape")
    plain, packed = DATA / f"{name}.txt", DATA / f"{name}.zst"
    plain.parent.mkdir(parents=True, exist_ok=True)
    plain.unlink(missing_ok=True)
    packed.unlink(missing_ok=True)
    if len(data) <= _PLAIN:
        plain.write_bytes(data)
    else:
        packed.write_bytes(zstandard.ZstdCompressor(level=19).compress(data))
    return True


def read(name: str) -> Items:
    """Return the items of a file; none if there is no such file."""
    plain, packed = DATA / f"{name}.txt", DATA / f"{name}.zst"
    if plain.exists():
        data = plain.read_bytes()
    elif packed.exists():
        data = zstandard.ZstdDecompressor().decompress(packed.read_bytes())
    else:
        return {}
    items: Items = {}
    for part in ("\n" + decoded(data)).split("\n" + _HEAD)[1:]:
        item, _, text = part.partition("\n")
        items[item] = text
    if items:  # the last item ends with the file
        items[item] = text.removesuffix("\n")
    return items


def names(under: str) -> list[str]:
    """Return the names of all files of a folder."""
    return sorted(f"{under}/{file.stem}" for file in (DATA / under).glob("*.*"))


def differences(name: str, expected: Mapping[str, str], made: Mapping[str, str]) -> str:
    """Say what differs, with a short diff for each item; nothing if all is the same."""
    different = [item for item in {**expected, **made} if expected.get(item) != made.get(item)]
    if not different:
        return ""
    said = [f"{name}: {len(different)} of {len(expected)} golden outputs differ"]
    for item in different[:_MOST_ITEMS]:
        if item not in made:
            said.append(f"--- {item}: is not made any more")
        elif item not in expected:
            said.append(f"+++ {item}: is new, and not in the data")
        else:
            said += [f"--- {item} (golden)", f"+++ {item} (now)"]
            said += _diff(expected[item].split("\n"), made[item].split("\n"))
    if len(different) > _MOST_ITEMS:
        said.append(
            f"… and {len(different) - _MOST_ITEMS} more: {', '.join(different[_MOST_ITEMS:])[:500]}"
        )
    return "\n".join([*said, AGAIN]).encode("utf-8", "backslashreplace").decode()


def _diff(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Yield a unified diff without context, of the first lines that differ, around the difference."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    old, new = old[first : first + _MOST_COMPARED], new[first : first + _MOST_COMPARED]
    left = _MOST_LINES
    for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if left <= 0:
            yield "…"
            return
        yield f"@@ -{first + i + 1},{j - i} +{first + k + 1},{m - k} @@"
        for before, after in list(zip_longest(old[i:j], new[k:m]))[:left]:
            start = max(0, _same(before or "", after or "") - _BEFORE)
            for sign, line in (("-", before), ("+", after)):
                if line is not None:
                    yield sign + _cut(line, start)
            left -= 1


def _same(one: str, other: str) -> int:
    """Return how many characters two lines have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _cut(line: str, start: int) -> str:
    end = start + _WIDTH
    return ("…" if start else "") + line[start:end] + ("…" if len(line) > end else "")
