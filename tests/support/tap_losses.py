"""What a tap has made of what an agent gave, call by call, byte by byte. Nothing may be lost unaccounted for.

Both recordings are folded here, by a reader of its own: what a client knows of each call in the end. Each
difference is of one of a few classes, or a loss.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Message = dict[str, Any]

FINAL = ("completed", "failed", "cancelled")
CALLS = ("tool_call", "tool_call_update")
SEE = "[see content]"
_MARK = re.compile(r"\[redacted:[^\]\n]{1,80}\]")
_FENCED = re.compile(r"```\w*\n(.*)\n```", re.DOTALL)


class Told:
    """A call as a client knows it in the end."""

    def __init__(self, key: str) -> None:
        self.key: str = key
        self.fields: Message = {}
        self.is_over: bool = False

    @property
    def notes(self) -> Message:
        return (self.fields.get("_meta") or {}).get("callsheet") or {}


class Fold:
    """What a client knows in the end: calls in the order of their ids' uses, and what was said."""

    def __init__(self, data: bytes) -> None:
        self.calls: dict[tuple[str, str, int], Told] = {}
        self.said: dict[tuple[str, str], str] = {}
        self.questions: list[Told] = []
        """What requests for permission have told, in order."""
        self.other: list[Message] = []
        self._uses: Counter[tuple[str, str]] = Counter()
        for line in data.splitlines():
            told = json.loads(line)
            if told["dir"] == "agent->client":
                self._take(told["msg"])

    def _take(self, message: Message) -> None:
        params = message.get("params") or {}
        if message.get("method") == "session/request_permission":
            call = self._call(params["sessionId"], params["toolCall"]["toolCallId"], asks=True)
            self.questions.append(Told(call.key))
            self.questions[-1].fields = params["toolCall"]
            return
        if message.get("method") != "session/update":
            self.other.append(message)
            return
        update, session = params["update"], params["sessionId"]
        kind = update["sessionUpdate"]
        if kind in CALLS:
            call = self._call(session, update["toolCallId"], asks=kind == "tool_call")
            for name, value in update.items():
                if name == "_meta":
                    call.fields["_meta"] = {**call.fields.get("_meta", {}), **(value or {})}
                elif value is not None:
                    call.fields[name] = value
            call.is_over = call.is_over or update.get("status") in FINAL
        elif kind.endswith("_chunk") and "text" in update["content"]:
            self.said[session, kind] = (
                self.said.get((session, kind), "") + update["content"]["text"]
            )
        else:
            self.other.append(message)

    def _call(self, session: str, key: str, *, asks: bool) -> Told:
        number = self._uses[session, key]
        call = self.calls.get((session, key, number))
        if call is None or (asks and call.is_over):
            self._uses[session, key] += 1
            call = Told(key)
            self.calls[session, key, number + 1] = call
        return call


class Comparison:
    """What became of all that an agent gave. `losses` should be empty; `classes` counts what is different."""

    def __init__(self, before: bytes, after: bytes) -> None:
        self.classes: Counter[str] = Counter()
        self.losses: list[str] = []
        one, other = Fold(before), Fold(after)
        for (session, key, number), call in one.calls.items():
            name = key if number == 1 else f"{key}~{number}"
            same = other.calls.get((session, name, 1)) or other.calls.get((session, key, number))
            if same is None and not call.fields:
                self.classes["only asked about, under another id"] += 1
            elif same is None:
                self.losses.append(f"{key}: the call is gone")
            else:
                self.classes["calls"] += 1
                self._call(call, same)
        for question, same in zip(one.questions, other.questions, strict=True):
            self.classes["questions"] += 1
            self._call(question, same)
        for where, said in one.said.items():
            self._is_there(f"{where[1]}", said, [other.said.get(where, "")])
        self._others(one.other, other.other)

    def _others(self, given: list[Message], made: list[Message]) -> None:
        """See that what is about no calls is as it was. What only the client needs is recorded without secrets."""
        if len(given) != len(made):
            self.losses.append(f"{len(given)} messages about no calls became {len(made)}")
        for one, other in zip(given, made, strict=False):
            if one == other:
                self.classes["other message"] += 1
            elif is_without_secrets(json.dumps(one), json.dumps(other)):
                self.classes["other message without secrets"] += 1
            else:
                self.losses.append(f"{one} became {other}")

    def _call(self, call: Told, same: Told) -> None:
        where = f"{call.key} {call.fields.get('title')!r}"
        shown = [*items(same.fields), *self._kept(same)]
        for kind, value in items(call.fields):
            if kind == "text" and is_input(value, same.fields.get("rawInput")):
                self.classes["arguments told in the input"] += 1
            else:
                self._item(f"{where} {kind}", kind, value, shown)
        self._places(where, call, same)
        self._raw(where, "rawInput", call, same)
        self._raw(where, "rawOutput", call, same)
        self._title(where, call, same)

    def _kept(self, same: Told) -> Iterator[tuple[str, Any]]:
        """Return what the files hold that have what was cut."""
        cut = same.notes.get("truncated") or {}
        for record in (cut, *cut.get("others", ())):
            if "spill" in record:
                file = Path(record["spill"])
                kept = file.read_text(encoding="utf-8")
                for leaf in leaves(json.loads(kept)) if file.suffix == ".json" else (kept,):
                    yield "text", str(leaf)

    def _item(self, where: str, kind: str, value: Any, shown: list[tuple[str, Any]]) -> None:
        same = [other for name, other in shown if name == kind]
        if value in same:
            self.classes[kind] += 1
        elif kind == "text":
            self._is_there(where, value, [other for other in same if isinstance(other, str)])
        elif kind == "diff" and any(self._is_diff(value, other) for other in same):
            self.classes["diff"] += 1
        else:
            self.losses.append(f"{where}: {str(value)[:300]!r} is not in {str(same)[:300]!r}")

    def _is_diff(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
        return all(
            (a or "") == (b or "") or is_without_secrets(a or "", b or "")
            for a, b in zip(one, other, strict=True)
        )

    def _is_there(self, where: str, said: str, shown: list[str]) -> None:
        for other in shown:
            if other == said:
                self.classes["text"] += 1
                return
        for other in shown:
            if is_without_secrets(said, other):
                self.classes["text without secrets"] += 1
                return
        self.losses.append(f"{where}: {said[:300]!r} is not in {[one[:300] for one in shown]!r}")

    def _places(self, where: str, call: Told, same: Told) -> None:
        there = [(one["path"], one.get("line")) for one in same.fields.get("locations") or []]
        for place in call.fields.get("locations") or []:
            path, line = place["path"], place.get("line")
            if (path, line) in there or (path, line or None) in there:
                self.classes["location"] += 1
            elif any(one.endswith(f"/{path.removeprefix('./')}") for one, _ in there):
                self.classes["location made absolute"] += 1
            else:
                self.losses.append(f"{where}: {place} is not in {there}")

    def _raw(self, where: str, name: str, call: Told, same: Told) -> None:
        given = call.fields.get(name)
        made = same.fields.get(name)
        if given in (None, {}, "") or given == made:
            self.classes[name] += given is not None
            return
        diffs = [value for kind, value in items(same.fields) if kind == "diff"]
        texts = [
            value for kind, value in [*items(same.fields), *self._kept(same)] if kind == "text"
        ]
        whole = "\0".join([*map(str, leaves(made)), *texts])
        for leaf in leaves(given):
            self._leaf(f"{where} {name}", leaf, made, whole, diffs)

    def _leaf(
        self, where: str, leaf: Any, made: Any, whole: str, diffs: list[tuple[str, ...]]
    ) -> None:
        same = list(leaves(made))
        if leaf in same:
            self.classes["leaf of raw"] += 1
        elif isinstance(leaf, str) and any(is_without_secrets(leaf, one) for one in same):
            self.classes["leaf of raw without secrets"] += 1
        elif isinstance(leaf, str) and is_patch_of(leaf, diffs):
            self.classes["leaf of raw told in diffs"] += 1
        elif isinstance(leaf, str) and SEE in same and is_within(leaf, whole):
            self.classes["leaf of raw told in content"] += 1
        elif (isinstance(leaf, str) and is_within(leaf, whole)) or str(leaf) in whole.split("\0"):
            self.classes["leaf of raw kept elsewhere"] += 1
        else:
            self.losses.append(f"{where}: {str(leaf)[:300]!r} is not in {str(made)[:600]!r}")

    def _title(self, where: str, call: Told, same: Told) -> None:
        given, made = call.fields.get("title") or "", same.fields.get("title") or ""
        if given == made:
            self.classes["title"] += 1
        elif is_without_secrets(given, made):
            self.classes["title without secrets"] += 1
        elif "[redacted:" in made:
            self.classes["title made better without secrets"] += 1
        elif all(is_said(part, made, same.fields.get("rawInput")) for part in details(given)):
            self.classes["title made better"] += 1
        elif is_cut_json(given, same.fields.get("rawInput")):
            self.classes["title of cut JSON made better"] += 1
        else:
            self.losses.append(f"{where}: the title {given!r} became {made!r}")


def is_cut_json(title: str, raw: Any) -> bool:
    """Whether a title is the beginning of an input as JSON, behind the tool's name."""
    begin = title.partition(": ")[2].removesuffix("...")
    return begin[:1] == "{" and json.dumps(raw, separators=(",", ":")).startswith(begin)


def items(fields: Message) -> Iterator[tuple[str, Any]]:
    """Return a call's content, each item as its kind and all that it has."""
    for item in fields.get("content") or []:
        if item["type"] == "content":
            block = item["content"]
            if block["type"] == "text":
                yield "text", block["text"]
            else:
                yield block["type"], json.dumps(block, sort_keys=True)
        elif item["type"] == "diff":
            yield "diff", (item["path"], item.get("oldText"), item["newText"])
        else:
            yield item["type"], json.dumps(item, sort_keys=True)


def leaves(value: Any) -> Iterator[Any]:
    """Return what stands in a JSON value: texts, numbers, true, false and null."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner)
    else:
        yield value


def details(title: str) -> list[str]:
    """Return what a title says besides the name of a tool: `Shell: echo a very...long text` says two things."""
    _, colon, rest = title.partition(": ")
    words = title.split()
    said = rest if colon else "" if len(words) < 2 else title
    *cut, last = said.split(
        "..."
    )  # where it is cut, a path may have been made neutral only in part
    return [*(part[:-10] for part in cut), last]


def is_said(part: str, title: str, given: Any) -> bool:
    """Whether something that a title says is said by another, or by the input."""
    whole, compact = json.dumps(given), json.dumps(given, separators=(",", ":"))
    return part in title or part in compact or json.dumps(part)[1:-1] in whole


def is_patch_of(said: str, diffs: list[tuple[str, ...]]) -> bool:
    """Whether a text is a patch, and all that it changes is in diffs."""
    begin = said.find("\n@@ ")
    if begin < 0:
        return False
    old = [line for _, text, _ in diffs for line in (text or "").splitlines()]
    new = [line for _, _, text in diffs for line in (text or "").splitlines()]
    lines = said[begin + 1 :].splitlines()
    gone = [line[1:] for line in lines if line.startswith("-")]
    come = [line[1:] for line in lines if line.startswith("+")]
    return all(line in old for line in gone) and all(line in new for line in come)


def is_input(said: str, given: Any) -> bool:
    """Whether a text is just the arguments of a call, as models write them."""
    try:
        told = json.loads(said)
    except ValueError:
        return False
    return isinstance(told, dict) and bool(told) and told == given


def is_without_secrets(said: str, shown: Any) -> bool:
    """Whether one text is the other, with marks in the place of some of it."""
    parts = _MARK.split(shown) if isinstance(shown, str) else []
    return (
        len(parts) > 1
        and re.fullmatch(".+?".join(map(re.escape, parts)), said, re.DOTALL) is not None
    )


def is_within(said: str, whole: str) -> bool:
    """Whether a text stands within another, with or without its secrets."""
    said = said.strip()
    if said in whole:
        return True
    parts = [part.strip() for part in whole.split("\0")]
    parts += [fenced[1].strip() for part in parts if (fenced := _FENCED.fullmatch(part))]
    return any(is_without_secrets(said, part) for part in parts)
