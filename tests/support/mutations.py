"""Messages, mutated: as JSON, and as bytes. For those who send what nobody should."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Message = dict[str, Any]

ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**31, 2**32, 2**63, 2**64, -(2**63) - 1, 10**40, 1e308, "", "x", "\0",
    "\u202e\u0000\U0001f600", "\ud83d", "a\udc00b", "é" * 300, "../../../etc/passwd", "/", [], {}, [[]],
    [None], {"a": {}}, {"": ""}, ["x"] * 50, "1", float("nan"), float("inf"), "x" * 70_000,
    "line\n" * 9000, "a\x1b[31mred\x1b[0m\r\n\x07", "sk-ant-api03-" + "Qk7" * 31 + "-AAAA",
]  # fmt: skip
BYTES = [
    b"\0", b"\xff", b"\xc3", b"\r", b"\n", b'"', b"\\", b"{", b"}", b"[", b",", b"\\ud800", b"1e999",
    b"\xef\xbb\xbf", b"\r\n", b"[" * 3000, b"NaN", b"\xed\xa0\x80", b"\x1b[2J", b" ", b"\t",
]  # fmt: skip
STATUSES = [
    "pending", "in_progress", "completed", "failed", "cancelled", "paused", "done", "error", "rejected",
    "running", "", "Completed", "awaiting_approval", None, 7, ["completed"], {"status": "failed"},
]  # fmt: skip
KINDS = ["read", "edit", "execute", "other", "bogus", "", None, 3, "_mine", "switch_mode"]
ITEMS: list[Any] = [
    None, "just text", 5, [], {}, {"type": "text", "text": "bare block"}, {"type": "diff", "path": "a.py"},
    {"type": "diff", "path": "/a", "newText": "x"}, {"type": "diff", "path": 3, "oldText": [], "newText": {}},
    {"type": "terminal"}, {"type": "terminal", "terminalId": "term-x"}, {"type": "terminal", "terminalId": 4},
    {"type": "content"}, {"type": "content", "content": "text"}, {"type": "content", "content": ["a", "b"]},
    {"type": "content", "content": {"type": "image", "data": "%%%", "mimeType": 3}},
    {"type": "content", "content": {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}},
    {"type": "content", "content": {"type": "resource", "resource": {"uri": "file:///a", "text": "t"}}},
    {"type": "content", "content": {"type": "resource", "resource": {"uri": None}}},
    {"type": "content", "content": {"type": "hologram", "depth": 3}}, {"type": "hologram", "_meta": 4},
    {"type": "diff", "changes": [{"operation": "modify", "path": "/a"}], "patch": {"format": "git_patch"}},
    {"type": "diff", "changes": [{"operation": "modify"}], "patch": "x"}, {"type": "diff", "changes": []},
    {"type": "content", "content": {"type": "text", "text": "t", "annotations": {"audience": [4, "user"]}}},
]  # fmt: skip
PLACES: list[Any] = [
    None, "a.py", 4, {}, {"path": "a.py"}, {"path": "/a", "line": -1}, {"path": "/a", "line": 2**40},
    {"path": "/a", "line": "7"}, {"path": None}, {"path": "/a\0b", "line": 0}, {"path": "/ok", "line": 3},
    {"path": "/code/x", "line": 1.5, "_meta": [1]},
]  # fmt: skip
METAS: list[Any] = [
    None, 4, [], {"terminal_info": {"terminal_id": "t1", "cwd": "/code"}}, {"terminal_info": 4},
    {"terminal_output": {"terminal_id": "t1", "data": "AKIA"}},
    {"terminal_output": {"terminal_id": "t1", "data": 5}}, {"terminal_output": {"data": "x"}},
    {"terminal_exit": {"terminal_id": "t1", "exit_code": 3, "signal": None}},
    {"terminal_exit": {"terminal_id": "t1", "exit_code": 2**70, "signal": 5}},
    {"callsheet": {"reason": "denied", "kind": "my", "status": "paused", "cleared": ["title", 4]}},
    {"callsheet": {"truncated": 4, "redactions": "x", "parentId": 7, "dependsOn": "y", "progress": []}},
    {"callsheet": 4, "tool_name": 3}, {"subagent_session_info": {"session_id": "child"}}, {"x": [[[]]] * 9},
    {"callsheet": {"parentId": "call_0", "dependsOn": ["call_1", "nobody"], "alias": "call_0"}},
    {"callsheet_terminal": {"terminalId": "t1", "output": {"data": "eA=="}, "replaced": True}},
]  # fmt: skip
_SPECIAL: dict[str, list[Any]] = {"status": STATUSES, "kind": KINDS, "_meta": METAS}
_LISTS: dict[str, list[Any]] = {"content": ITEMS, "locations": PLACES}


class Mutations:
    """Mutates messages. `others` gives values that may stand somewhere else: ids of sessions and calls."""

    def __init__(self, chance: random.Random, others: Callable[[], Any]) -> None:
        self.chance: random.Random = chance
        self._others: Callable[[], Any] = others

    def line(self, message: Message) -> bytes:
        """Return a message mutated, as a line."""
        made: Message = json.loads(json.dumps(message))
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            self._mutate(made)
        is_ascii = self.chance.random() < 0.5
        line = json.dumps(made, ensure_ascii=is_ascii).encode(errors="surrogatepass")
        pick = self.chance.random()
        if pick < 0.15:
            line = spliced(self.chance, line)
        elif pick < 0.17:
            line = line + line
        elif pick < 0.19:
            line = b"\xef\xbb\xbf" + line + b"\r"
        return line.replace(b"\n", b"") + b"\n" if pick < 0.9 else line + b"\n"

    def _mutate(self, message: Message) -> None:
        found = list(places(message))
        if not found:
            return
        holder, key = self.chance.choice(found)
        change: Callable[[Any, Any], None] = self.chance.choice(
            (self._drop, self._null, self._retype, self._double, self._nest, self._swap)
        )
        if isinstance(key, str) and key in _SPECIAL and self.chance.random() < 0.8:
            change = self._special
        elif isinstance(key, str) and key in _LISTS and self.chance.random() < 0.7:
            change = self._list
        elif key == "update" and self.chance.random() < 0.8:
            change = self._field
        change(holder, key)

    def _drop(self, holder: Any, key: Any) -> None:
        del holder[key]

    def _null(self, holder: Any, key: Any) -> None:
        holder[key] = None

    def _retype(self, holder: Any, key: Any) -> None:
        holder[key] = _copied(self.chance.choice(ODD))

    def _special(self, holder: Any, key: Any) -> None:
        holder[key] = _copied(self.chance.choice(_SPECIAL[key]))

    def _list(self, holder: Any, key: Any) -> None:
        told: list[Any] = holder[key] if isinstance(holder[key], list) else []
        more = _copied(
            [self.chance.choice(_LISTS[key]) for _ in range(self.chance.choice((1, 2, 5)))]
        )
        holder[key] = self.chance.choice(([*told, *more], more, [*more, *told]))

    def _field(self, holder: Any, key: Any) -> None:
        """Add a field of a call where there is none."""
        if not isinstance(holder[key], dict):
            return
        name = self.chance.choice(
            ("status", "kind", "_meta", "content", "locations", "title", "rawInput", "x")
        )
        holder[key].setdefault(name, None)
        change = self._special if name in _SPECIAL else self._list if name in _LISTS else None
        (change or self._retype)(holder[key], name)

    def _double(self, holder: Any, key: Any) -> None:
        if isinstance(holder, list):
            holder.extend(_copied(holder[key]) for _ in range(self.chance.choice((1, 3, 200))))
        else:
            holder[f"{key}{self.chance.choice(('', '2', 'X'))}"] = _copied(holder[key])

    def _nest(self, holder: Any, key: Any) -> None:
        for _ in range(self.chance.choice((1, 2, 5, 5, 110, 150))):
            holder[key] = [holder[key]] if self.chance.random() < 0.5 else {"x": holder[key]}

    def _swap(self, holder: Any, key: Any) -> None:
        holder[key] = self._others()


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def spliced(chance: random.Random, line: bytes) -> bytes:
    """Cut, double and dirty the bytes of a line."""
    made = bytearray(line)
    for _ in range(chance.choice((1, 1, 2, 8))):
        start = chance.randrange(len(made) + 1)
        end = min(len(made), start + chance.choice((0, 1, 5, 50)))
        how = chance.randrange(4)
        if how == 0:
            del made[start:end]
        elif how == 1:
            made[start:start] = made[start:end]
        elif how == 2:
            made[start:end] = chance.choice(BYTES)
        else:
            del made[start:]
    return bytes(made)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return every place in a message, as what holds it and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])
