"""Is a call safe to show: no secrets, no tricks with characters, no terminal that does not exist?"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from callsheet.check.finding import Violation, redactor, rule
from callsheet.check.second_opinion import has_hint, secrets_in
from callsheet.observe.events import PermissionAsked, TerminalUpdated, UpdateArrived
from callsheet.observe.model import Json, many, obj, text
from callsheet.observe.repetition import news
from callsheet.redaction.redactor import Redactor

_FIELDS = ("title", "rawInput", "content", "rawOutput", "locations", "_meta")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TURNING = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_COMMANDS = ("command", "cmd", "script")


_Event: TypeAlias = UpdateArrived | PermissionAsked | TerminalUpdated


def _may_hold_secret(event: _Event) -> bool:
    return not all(_first_sight(_news(event)))


@rule(
    "safety/secret",
    UpdateArrived,
    PermissionAsked,
    TerminalUpdated,
    fields=_FIELDS,
    screen=_may_hold_secret,
)
def secret(event: _Event) -> list[Violation] | None:
    """Find secrets in what is new about a call. Each kind is reported once per call, without the secret."""
    fresh = _news(event)
    is_clean, has_no_hint = _first_sight(fresh)
    if is_clean and has_no_hint:
        return None
    return [
        Violation(f"a secret is in the clear: {_counted(name, count)}", where, once=name)
        for where, value in fresh.items()
        for name, count in _secrets(value, is_clean=is_clean).items()
    ]


def _first_sight(fresh: Json) -> tuple[bool, bool]:
    """Return whether `redaction` sees nothing in values, and whether the second opinion does not."""
    if not fresh:
        return True, True
    data = _encoded(fresh)  # all in one go
    if data is None:
        return False, False
    return redactor().is_clean_json(data), not has_hint(data)


def _encoded(value: Any) -> bytes | None:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair
        return None


def _secrets(value: Any, *, is_clean: bool) -> dict[str, int]:
    """Count the secrets in a value. The second opinion decides where `redaction` sees none."""
    found: dict[str, int] = {}
    if not is_clean:
        data = _encoded(value)
        found = redactor().found(value) if data is None else _found_in(redactor(), data)
    return found or dict.fromkeys(secrets_in(value, redactor().spared), 1)


@lru_cache(maxsize=64)
def _found_in(judge: Redactor, data: bytes) -> dict[str, int]:
    """Count the secrets in JSON. Agents send the same text in several fields and messages of a call."""
    return judge.found(msgspec.json.decode(data))


def _counted(name: str, count: int) -> str:
    return f"{name}, {count} times" if count > 1 else f"{name}, once"


def _news(event: _Event) -> Json:
    if isinstance(event, TerminalUpdated):
        data = text(event.update.get("data"))
        return {"update.data": data} if data else {}
    begin, update, known = _parts(event)
    fresh: Json = {}
    for name in _FIELDS:
        current = update.get(name)
        value = news(known.get(name), current) if current else None
        if value is not None:
            fresh[f"{begin}.{name}"] = value
    return fresh


def _parts(event: UpdateArrived | PermissionAsked) -> tuple[str, Json, Json]:
    """Return where the fields are, the fields, and what was known of them."""
    if isinstance(event, UpdateArrived):
        known = event.call.fields if event.call is not None else {}
        return "update", event.update, known
    question = event.question
    known = question.call.fields if question.call is not None else {}
    return "params.toolCall", question.tool_call, known


@rule("safety/control-characters", UpdateArrived, PermissionAsked, fields=["title"], screen=True)
def control_characters(event: UpdateArrived | PermissionAsked) -> Violation | None:
    """Find a title with characters that steer a terminal instead of being shown."""
    begin, update, _ = _parts(event)
    title = update.get("title")
    if type(title) is not str or title.isprintable():
        return None
    found = _CONTROL.search(title)
    if found is None:
        return None
    return Violation(
        f"the title has the control character U+{ord(found[0]):04X}", f"{begin}.title", once=""
    )


@rule(
    "safety/turned-text", UpdateArrived, PermissionAsked, fields=["title", "rawInput"], screen=True
)
def turning_characters(event: UpdateArrived | PermissionAsked) -> list[Violation]:
    """Find characters that turn the direction of the text around, where the user reads what will be done."""
    begin, update, _ = _parts(event)
    return [
        Violation(
            f"U+{ord(found[0]):04X} makes the text look different from what it is",
            f"{begin}.{name}",
            once=name,
        )
        for name, shown in _read_to_decide(update)
        if type(shown) is str and not shown.isascii()
        for found in _TURNING.finditer(shown)
    ]


def _read_to_decide(update: Json) -> list[tuple[str, Any]]:
    asked = update.get("rawInput")
    shown = [("title", update.get("title"))]
    if type(asked) is dict:
        shown += [(f"rawInput.{name}", obj(asked)[name]) for name in _COMMANDS if name in asked]
    return shown


@rule("safety/raw-escapes", UpdateArrived, fields=["content"], screen=True)
def raw_escapes(event: UpdateArrived) -> Violation | None:
    """Find what is meant for a terminal in text that is shown as it is."""
    for item in _items(event.update):
        block = obj(obj(item).get("content"))
        shown = block.get("text")
        if type(shown) is str and ("\x1b" in shown or "\0" in shown):
            name = "ESC" if "\x1b" in shown else "NUL"
            return Violation(f"a text contains the character {name}", "update.content", once="")
    return None


@rule("safety/unknown-terminal", UpdateArrived, fields=["content"])
def unknown_terminal(event: UpdateArrived) -> list[Violation] | None:
    """Find a terminal that nobody has made."""
    shown = [item for item in _items(event.update) if "terminalId" in obj(item)]
    seen, session = event.connection, event.session
    if not shown or not (seen.is_whole and (seen.has_both_ways or seen.is_v2)):
        return None
    if session.is_replaying or not session.is_whole:
        return None
    known = {
        *session.terminals,
        obj(obj(event.update.get("_meta")).get("terminal_info")).get("terminal_id"),
    }
    keys = [text(item["terminalId"]) for item in shown if item.get("type") == "terminal"]
    return [
        Violation("no terminal with this id was created before", "update.content", once=key)
        for key in keys
        if key is not None and key not in known
    ]


def _items(update: Json) -> list[Any]:
    """Return the content of an update. A chunk of v2 has one item, and no list."""
    content = update.get("content")
    return [content] if type(content) is dict else many(content)
