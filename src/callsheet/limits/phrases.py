"""What is said in the place of something that was left out.

The texts are English here. Who speaks to people in other languages passes `phrases`: a function that
is given a key and its numbers, or a mapping of templates. A phrase that is missing or can't be
formed is said in English: a notice never fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

Phrases: TypeAlias = Callable[..., str] | Mapping[str, str] | None

ELLIPSIS = "…"
"""Stands where there is no room to say more. Also the key, in an object, of what was left out of it."""

ENGLISH: dict[str, str] = {
    "text_cut": "… {bytes:,} bytes left out …",
    "lines_cut": "… {bytes:,} bytes ({lines:,} lines) left out …",
    "items_cut": "… {count:,} items left out …",
    "keys_cut": "… {count:,} keys left out …",
    "too_deep": "… nested too deep …",
    "cycle": "… contains itself …",
    "data_cut": "{mime}: {bytes:,} bytes left out",
    "link_name": "the whole {field} ({bytes:,} bytes)",
}
"""Every key, with the values that it is given."""

_SINGULAR: dict[str, str] = {
    "text_cut": "… 1 byte left out …",
    "lines_cut": "… {bytes:,} bytes (1 line) left out …",
    "items_cut": "… 1 item left out …",
    "keys_cut": "… 1 key left out …",
}
_COUNTED = {"text_cut": "bytes", "lines_cut": "lines", "items_cut": "count", "keys_cut": "count"}

_LONGEST = 200


def say(phrases: Phrases, key: str, **values: int | str) -> str:
    """Return the phrase for a key: one line of valid text, never too long for a notice."""
    try:
        said = _ask(phrases, key, values) if phrases is not None else english(key, **values)
        said = " ".join(said.encode("utf-8", "replace").decode().splitlines())
    except Exception:  # noqa: BLE001 - a translation is somebody else's code
        said = english(key, **values)
    return said if said and len(said) <= _LONGEST else english(key, **values)


def english(key: str, **values: int | str) -> str:
    """Return the English phrase for a key."""
    single = key in _COUNTED and values[_COUNTED[key]] == 1
    return (_SINGULAR if single else ENGLISH)[key].format(**values)


def _ask(
    phrases: Callable[..., str] | Mapping[str, str], key: str, values: dict[str, int | str]
) -> str:
    if callable(phrases):
        return phrases(key, **values)
    return phrases[key].format(**values)
