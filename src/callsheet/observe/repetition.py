"""Find what is sent of a call more than once: unchanged, or grown a little each time.

v1 has no way to append to content, so agents that show live output send all of it again with each update,
and the bytes grow with the square of the output. `note_repetition` counts that. `news` returns what is new
in a value, so that the same text is searched for secrets only once.
"""

from __future__ import annotations

from typing import Any

from callsheet.observe.lines import RecordedLine
from callsheet.observe.model import Json, ObservedCall, Repetition

FIELDS = ("content", "rawInput", "rawOutput")

_SMALL = 512
"""A message of fewer bytes repeats nothing that matters."""

_WINDOW = 5000
"""A text that grows may be sent again while it is shorter: v1 has no other way to show what goes on."""

_FENCE = "```"


def note_repetition(call: ObservedCall, update: Json, line: RecordedLine) -> None:
    """Compare an update with what is known of its call, and note what it repeats, and what is new."""
    if line.size < _SMALL:
        return
    for name in FIELDS:
        value = update.get(name)
        if not value:
            continue
        known = call.fields.get(name)
        if name == "content":
            call.news_bytes += _added(known, value)
        if not known:
            continue
        if value == known:
            _add(call, (name, "same"), known, line)
        elif grew(known, value) and bulk(known) > _WINDOW:
            _add(call, (name, "grown"), known, line)


def _add(call: ObservedCall, key: tuple[str, str], known: Any, line: RecordedLine) -> None:
    found = call.again.get(key)
    if found is None:
        found = call.again[key] = Repetition(line.number)
    found.times += 1
    found.size += bulk(known)


def grew(old: Any, new: Any) -> bool:
    """Whether a value is the old one, with more text at the end of its texts or more items in its lists."""
    kind = old.__class__
    if kind is not new.__class__:
        return False
    if kind is str:
        return new.startswith(_open(old))
    if kind is dict:
        return all(key in new and grew(value, new[key]) for key, value in old.items())
    return kind is not list or (len(new) >= len(old) and all(map(grew, old, new)))


def _open(text: str) -> str:
    """Return a text without the fence that closes it."""
    return text[: -len(_FENCE)].rstrip() if text.endswith(_FENCE) else text


def bulk(value: Any) -> int:
    """Return how much text a value has."""
    kind = value.__class__
    if kind is str:
        return len(value)
    if kind is dict:
        return sum(map(bulk, value.values()))
    return sum(map(bulk, value)) if kind is list else 0


_ENOUGH = 64


def _added(old: Any, new: Any) -> int:
    """Return how much text is new: what was added to one that grew, or of which only the end is shown."""
    kind = new.__class__
    if not old or kind is not old.__class__:
        return bulk(new)
    if kind is str:
        end = _open(old)[-_ENOUGH:]
        found = new.rfind(end)
        return len(new) if found < 0 else len(new) - found - len(end)
    if kind is dict:
        return sum([_added(old.get(key), value) for key, value in new.items()])
    if kind is list:
        return sum(map(bulk, new[len(old) :])) + sum(map(_added, old, new))
    return 0


def news(old: Any, new: Any) -> Any:
    """Return what is new in a value: texts that are not known, the end of grown ones. None if nothing is."""
    if old is None:
        return new
    if new == old:
        return None
    kind = new.__class__
    if kind is not old.__class__ or kind not in (str, dict, list):
        return new
    if kind is str:
        return _end(old, new)
    if kind is dict:
        pairs = ((key, news(old.get(key), value)) for key, value in new.items())
        return {key: value for key, value in pairs if value is not None} or None
    items = [item for item in map(news, old, new) if item is not None]
    return [*items, *new[len(old) :]] or None


_BACK = 2048
"""Characters of known text that are returned again at most, for what continues there."""

_BLOCK = "-----BEGIN "
"""The beginning of a block of several lines, such as a private key."""


def _end(old: str, new: str) -> str:
    """Return the new part of a text that has grown: from its last known line on, or from an open block on."""
    known = _open(old)
    if not known or not new.startswith(known):
        return new
    least = max(0, len(known) - _BACK)
    begin = max(least, known.rfind("\n") + 1)
    block = known.rfind(_BLOCK, least)
    return new[block if 0 <= block < begin else begin :]
