"""Nested data: which values are betrayed by their names, and how the rest is looked at in one go.

`leaves` is the usual path: all texts joined, to be searched once. `Rewriter` is for data in which
something was found; it makes a copy of what changes and keeps what doesn't.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from callsheet.redaction.keys import family_of, is_placeholder, scheme_length
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object, text_of_bytes

OnText: TypeAlias = Callable[[str], tuple[str, int]]
OnSecret: TypeAlias = Callable[[str, str, str], str | None]
"""Gets the family of a name, the value that it betrays, and the name itself."""
Redacted: TypeAlias = tuple[JsonValue, int]

APART = "\n\0\n"
"""What stands between texts that are searched together: each begins and ends a line, as it does alone."""

_SHORTEST = 4
_LONG_NAME = 12
_NAMING = ("name", "key", "header")
_NAMING_SET = frozenset(_NAMING)
_HOLDING = frozenset({"secret", "credential", "cookie", "authorization", "password"})
"""Under such a name, whatever a list or an object holds is secret."""


def leaves(value: JsonValue) -> str | None:
    """Join all texts for one search. None if a name betrays a value, so that one must look closer."""
    found: list[str] = []
    waiting: list[JsonValue] = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]
        if kind is dict:
            if _betrays(item, found, waiting):
                return None
        elif kind is list or kind is tuple:
            if (said := text_of_bytes(item)) is not None:
                found.append(said)
                continue
            for inner in item:
                if type(inner) is not str:
                    waiting.append(inner)
                elif inner[:1] == "-" and len(item) > 1:
                    return None
                else:
                    found.append(inner)
        elif kind is str:
            found.append(item)
    return found[0] if len(found) == 1 else APART.join(found)


def _betrays(item: JsonObject, found: list[str], waiting: list[JsonValue]) -> bool:
    """Collect an object's texts. Says whether one of its names tells."""
    if "value" in item and not _NAMING_SET.isdisjoint(item):
        return True
    for key, inner in item.items():
        kind = type(inner)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            if family_of(key):
                return True
            if len(inner) >= _SHORTEST:
                found.append(inner)
        elif inner is not None and kind is not bool and kind is not float:
            if family_of(key):
                return True
            if kind is not int:
                waiting.append(inner)
        if len(key) > _LONG_NAME:
            found.append(key)
    return False


def texts(value: JsonValue) -> list[str]:
    """Return all texts, names that are long among them; whatever the names say."""
    found: list[str] = []
    waiting: list[JsonValue] = [value]
    while waiting:
        item = waiting.pop()
        if type(item) is str:
            found.append(item)
        elif is_object(item):
            found += [key for key in item if len(key) > _LONG_NAME]
            waiting += item.values()
        elif is_list(item):
            said = text_of_bytes(item)
            waiting += item if said is None else [said]
    return found


_RUN = frozenset({"rawInput", "command", "cmd", "script"})
"""Under such a name is what may be run, and so is a call's title."""


class Rewriter:
    """Gives a value with marks, and how many; the same object where nothing changed.

    `run` is for the parts of it that may be run, if it is another.
    """

    def __init__(self, on_text: OnText, on_secret: OnSecret, run: Rewriter | None = None) -> None:
        self._text = on_text
        self._secret = on_secret
        self._run: Rewriter = run or self

    def any(self, value: JsonValue) -> Redacted:
        """Rewrite a value of any kind."""
        if type(value) is str:
            return self._text(value)
        if is_object(value):
            return self._object(value)
        if is_list(value):
            return self._list(value)
        return value, 0

    def _object(self, value: JsonObject) -> Redacted:
        named = next((value[key] for key in _NAMING if type(value.get(key)) is str), "")
        found: JsonObject = {}
        total, same = 0, True
        for key, inner in value.items():
            family = family_of(key) or (family_of(named) if key == "value" and named else "")
            is_run = key in _RUN or (key == "title" and "toolCallId" in value)
            mine = self._run if is_run else self
            said = named if key == "value" and named else key
            new, count = mine._named(family, inner, said) if family else mine.any(inner)
            name, in_name = self._text(key) if len(key) > _LONG_NAME else (key, 0)
            while name in found:  # two secrets may share a mark, but nothing may vanish
                name += "+"
            found[name] = new
            total += count + in_name
            same = same and new is inner and name is key
        return (value, 0) if same else (found, total)

    def _list(self, value: list[JsonValue]) -> Redacted:
        said = text_of_bytes(value)
        if said is not None:
            text, count = self._text(said)
            return (text, count) if count else (value, 0)
        found: list[JsonValue] = []
        total, same, family, flag = 0, True, "", ""
        for item in value:
            new, count = self._named(family, item, flag) if family else self.any(item)
            family, flag = _flag_family(value, item), str(item)
            found.append(new)
            total += count
            same = same and new is item
        return (value, 0) if same else (found, total)

    def _named(self, family: str, value: JsonValue, name: str) -> Redacted:
        """Redact a value whose name tells, whatever it looks like."""
        if type(value) is str:
            return self._named_text(family, value, name)
        if type(value) is int and family == "password" and value > 999:
            mark = self._secret(family, str(value), name)
            return (value, 0) if mark is None else (mark, 1)
        if family not in _HOLDING:
            return self.any(value)
        if is_object(value):
            return self._held_object(family, value)
        if is_list(value):
            pairs = [self._named(family, item, name) for item in value]
            if all(new is item for (new, _), item in zip(pairs, value, strict=True)):
                return value, 0
            return [new for new, _ in pairs], sum(count for _, count in pairs)
        return value, 0

    def _held_object(self, family: str, value: JsonObject) -> Redacted:
        pairs = {
            key: self._named(family_of(key) or family, item, key) for key, item in value.items()
        }
        if all(pairs[key][0] is item for key, item in value.items()):
            return value, 0
        return {key: new for key, (new, _) in pairs.items()}, sum(n for _, n in pairs.values())

    def _named_text(self, family: str, value: str, name: str) -> Redacted:
        data = value.encode("utf-8", "surrogatepass")
        scheme = scheme_length(data) if family in ("authorization", "token") else 0
        if family == "user":
            scheme = data.find(b":") + 1
            if not scheme:
                return self._text(value)
        if is_placeholder(data[scheme:]):
            return value, 0
        mark = self._secret(family if family != "user" else "password", value[scheme:], name)
        return (value, 0) if mark is None else (value[:scheme] + mark, 1)


def _flag_family(command: list[JsonValue], flag: JsonValue) -> str:
    """Say what the word after this flag is, in a command that is a list of words."""
    if type(flag) is not str or not flag.startswith("-") or "=" in flag:
        return ""
    if flag in ("-u", "--user", "-U", "--proxy-user") and "curl" in command[:3]:
        return "user"
    program = str(command[0]).rpartition("/")[2]
    if flag in _SHORT_FLAGS.get(program, ()):
        return "password"
    return family_of(flag.lstrip("-"))


_SHORT_FLAGS = {
    "sshpass": ("-p",), "redis-cli": ("-a",), "docker": ("-p",), "podman": ("-p",), "helm": ("-p",),
    "mongosh": ("-p",), "mongo": ("-p",), "mongodump": ("-p",), "sqlcmd": ("-P",), "ldapsearch": ("-w",),
}  # fmt: skip
