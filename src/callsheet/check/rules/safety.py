"""Is what a call tells safe to show: no secrets, no tricks with characters, no terminal that is not there?"""

from __future__ import annotations

import re
from typing import Any

from callsheet.check.finding import Rule, Said
from callsheet.check.quoting import redactor
from callsheet.check.secret_evidence import secrets_in
from callsheet.observe.events import PermissionAsked, TerminalUpdated, UpdateArrived
from callsheet.observe.model import Json, many, obj, text
from callsheet.observe.repetition import news

_FIELDS = ("title", "rawInput", "content", "rawOutput", "locations", "_meta")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_TURNING = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_COMMANDS = ("command", "cmd", "script")


def secret(moment: UpdateArrived | PermissionAsked | TerminalUpdated) -> list[Said] | None:
    """Find secrets in what is new about a call. Each rule is told once for a call, and no secret."""
    fresh = _news(moment)
    if not fresh:
        return None
    is_clean = redactor().is_clean(fresh)  # all in one go
    return [
        Said(f"a secret stands there in clear: {_counted(name, count)}", where, once=name)
        for where, value in fresh.items()
        for name, count in _secrets(value, is_clean=is_clean).items()
    ]


def _secrets(value: Any, *, is_clean: bool) -> dict[str, int]:
    """Count the secrets in a value. Where `guard`, by which the tap hides, sees none, another is asked."""
    found = {} if is_clean else redactor().found(value)
    return found or dict.fromkeys(secrets_in(value, redactor().spared), 1)


def _counted(name: str, count: int) -> str:
    return f"{name}, {count} times" if count > 1 else f"{name}, once"


def _news(moment: UpdateArrived | PermissionAsked | TerminalUpdated) -> Json:
    if isinstance(moment, TerminalUpdated):
        data = text(moment.update.get("data"))
        return {"update.data": data} if data else {}
    begin, update, known = _parts(moment)
    fresh: Json = {}
    for name in _FIELDS:
        given = update.get(name)
        value = news(known.get(name), given) if given else None
        if value is not None:
            fresh[f"{begin}.{name}"] = value
    return fresh


def _parts(moment: UpdateArrived | PermissionAsked) -> tuple[str, Json, Json]:
    """Return where the fields are, the fields, and what was known of them."""
    if isinstance(moment, UpdateArrived):
        known = moment.call.fields if moment.call is not None else {}
        return "update", moment.update, known
    question = moment.question
    known = question.call.fields if question.call is not None else {}
    return "params.toolCall", question.tool_call, known


def control_characters(moment: UpdateArrived | PermissionAsked) -> Said | None:
    """Find a title with characters that steer a terminal instead of being shown."""
    begin, update, _ = _parts(moment)
    title = update.get("title")
    if type(title) is not str or title.isprintable():
        return None
    found = _CONTROL.search(title)
    if found is None:
        return None
    return Said(
        f"the title has the control character U+{ord(found[0]):04X}", f"{begin}.title", once=""
    )


def turning_characters(moment: UpdateArrived | PermissionAsked) -> list[Said]:
    """Find characters that turn the direction of the text around, where people read what will be done."""
    begin, update, _ = _parts(moment)
    return [
        Said(f"U+{ord(found[0]):04X} lets the text look as it is not", f"{begin}.{name}", once=name)
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


def raw_escapes(told: UpdateArrived) -> Said | None:
    """Find what is meant for a terminal in text that is meant for people."""
    for item in _items(told.update):
        block = obj(obj(item).get("content"))
        shown = block.get("text")
        if type(shown) is str and ("\x1b" in shown or "\0" in shown):
            name = "ESC" if "\x1b" in shown else "NUL"
            return Said(f"a text has the character {name}", "update.content", once="")
    return None


def unknown_terminal(told: UpdateArrived) -> list[Said] | None:
    """Find a terminal that nobody has made."""
    shown = [item for item in _items(told.update) if "terminalId" in obj(item)]
    seen, session = told.connection, told.session
    if not shown or not (seen.is_whole and (seen.has_both_ways or seen.is_v2)):
        return None
    if session.is_replaying or not session.is_whole:
        return None
    known = {
        *session.terminals,
        obj(obj(told.update.get("_meta")).get("terminal_info")).get("terminal_id"),
    }
    keys = [text(item["terminalId"]) for item in shown if item.get("type") == "terminal"]
    return [
        Said("no terminal of this id was made before", "update.content", once=key)
        for key in keys
        if key is not None and key not in known
    ]


def _items(update: Json) -> list[Any]:
    """Return the content of an update. A chunk of v2 has one item, and no list."""
    content = update.get("content")
    return [content] if type(content) is dict else many(content)


RULES = (
    Rule(
        id="safety/secret",
        severity="warning",
        moment=(UpdateArrived, PermissionAsked, TerminalUpdated),
        title="A secret is sent in clear",
        protocol="The protocol does not say what may be shown. What is sent is shown, logged and kept.",
        harm="Keys and passwords stand on screens, in logs and in bug reports, and are misused.",
        fix="Redact titles, inputs, contents and outputs before you send them.",
        check=secret,
    ),
    Rule(
        id="safety/control-characters",
        severity="warning",
        moment=(UpdateArrived, PermissionAsked),
        title="A title has control characters",
        protocol="`title` is text for people.",
        harm="In a terminal, they can hide what will be done, or show something else.",
        fix="Take control characters out of titles, or show them as signs.",
        check=control_characters,
    ),
    Rule(
        id="safety/turned-text",
        severity="warning",
        moment=(UpdateArrived, PermissionAsked),
        title="A title or a command has characters that turn its direction",
        protocol="`title` and `rawInput` are what people approve by.",
        harm="People approve something else than what they read (“Trojan Source”).",
        fix="Take out or show U+202A–U+202E and U+2066–U+2069 where people decide.",
        check=turning_characters,
    ),
    Rule(
        id="safety/raw-escapes",
        severity="advice",
        moment=UpdateArrived,
        title="A text has escape sequences",
        protocol="Content of the type `text` is shown as text; a terminal's output goes into a terminal.",
        harm="Editors show rubbish between the words; a terminal client does what the sequence says.",
        fix="Take escape sequences out of text, or send the output as a terminal's.",
        check=raw_escapes,
    ),
    Rule(
        id="safety/unknown-terminal",
        severity="error",
        moment=UpdateArrived,
        title="A terminal is shown that was never made",
        protocol="`terminal/create`, `_meta.terminal_info` or v2's `terminal_update` makes a terminal first.",
        harm="Clients drop the rest of the update: people see no output at all.",
        fix="Make the terminal before you show it, under the same id, in the same session.",
        check=unknown_terminal,
    ),
)
