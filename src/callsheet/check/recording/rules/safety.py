"""Is what a call tells safe to show: no secrets, no tricks with characters, no terminal that is not there?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from callsheet.check.recording.again import news
from callsheet.check.recording.finding import Rule, Said
from callsheet.check.recording.moments import Asked, Json, TerminalTold, Told
from callsheet.check.recording.quoting import redactor
from callsheet.check.recording.values import many, obj, text

_FIELDS = ("title", "rawInput", "content", "rawOutput", "locations", "_meta")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_RAW = re.compile(r"[\x00\x1b]")
_TURNING = re.compile(r"[\u202a-\u202e\u2066-\u2069]")
_COMMANDS = ("command", "cmd", "script")


def secret(moment: Told | Asked | TerminalTold) -> Iterator[Said]:
    """Find secrets in what is new about a call. Each rule is told once for a call, and no secret."""
    for where, value in _news(moment):
        for name, count in redactor().found(value).items():
            times = f"{count} times" if count > 1 else "once"
            yield Said(f"a secret stands there in clear: {name}, {times}", where, once=name)


def _news(moment: Told | Asked | TerminalTold) -> Iterator[tuple[str, Any]]:
    if isinstance(moment, TerminalTold):
        data = text(moment.update.get("data"))
        if data:
            yield "update.data", data
        return
    begin, update, known = _parts(moment)
    for name in _FIELDS:
        given = update.get(name)
        if given:
            fresh = news(known.get(name), given)
            if fresh is not None:
                yield f"{begin}.{name}", fresh


def _parts(moment: Told | Asked) -> tuple[str, Json, Json]:
    """Give where the fields are, the fields, and what was known of them."""
    if isinstance(moment, Told):
        known = moment.call.fields if moment.call is not None else {}
        return "update", moment.update, known
    question = moment.question
    known = question.call.fields if question.call is not None else {}
    return "params.toolCall", question.tool_call, known


def control_characters(moment: Told | Asked) -> Said | None:
    """Find a title with characters that steer a terminal instead of being shown."""
    begin, update, _ = _parts(moment)
    title = text(update.get("title"))
    found = _CONTROL.search(title) if title is not None else None
    if found is None:
        return None
    return Said(
        f"the title has the control character U+{ord(found[0]):04X}", f"{begin}.title", once=""
    )


def turning_characters(moment: Told | Asked) -> Iterator[Said]:
    """Find characters that turn the direction of the text around, where people read what will be done."""
    begin, update, _ = _parts(moment)
    asked = obj(update.get("rawInput"))
    shown = [("title", update.get("title"))]
    shown += [(f"rawInput.{name}", asked[name]) for name in _COMMANDS if name in asked]
    for name, value in shown:
        given = text(value)
        if given is None or given.isascii():
            continue
        found = _TURNING.search(given)
        if found is not None:
            message = f"U+{ord(found[0]):04X} lets the text look as it is not"
            yield Said(message, f"{begin}.{name}", once=name)


def raw_escapes(told: Told) -> Said | None:
    """Find what is meant for a terminal in text that is meant for people."""
    if b"\\u00" not in told.line.raw:
        return None
    content = told.update.get("content")
    for item in many(content) or [content]:
        block = obj(obj(item).get("content"))
        shown = text(block.get("text")) if block.get("type") == "text" else None
        found = _RAW.search(shown) if shown is not None else None
        if found is not None:
            name = "ESC" if found[0] == "\x1b" else "NUL"
            return Said(f"a text has the character {name}", "update.content", once="")
    return None


def unknown_terminal(told: Told) -> Iterator[Said]:
    """Find a terminal that nobody has made."""
    content = told.update.get("content")
    seen, session = told.connection, told.session
    if not content or not (seen.is_whole and (seen.has_both_ways or seen.is_v2)):
        return
    if session.is_replaying or not session.is_whole:
        return
    info = obj(obj(told.update.get("_meta")).get("terminal_info"))
    for item in many(content) or [content]:
        shown = obj(item)
        key = text(shown.get("terminalId")) if shown.get("type") == "terminal" else None
        if key is not None and key not in session.terminals and key != info.get("terminal_id"):
            yield Said("no terminal of this id was made before", "update.content", once=key)


RULES = (
    Rule(
        id="safety/secret",
        severity="warning",
        moment=(Told, Asked, TerminalTold),
        title="A secret is sent in clear",
        protocol="The protocol does not say what may be shown. What is sent is shown, logged and kept.",
        harm="Keys and passwords stand on screens, in logs and in bug reports, and are misused.",
        fix="Redact titles, inputs, contents and outputs before you send them.",
        check=secret,
    ),
    Rule(
        id="safety/control-characters",
        severity="warning",
        moment=(Told, Asked),
        title="A title has control characters",
        protocol="`title` is text for people.",
        harm="In a terminal, they can hide what will be done, or show something else.",
        fix="Take control characters out of titles, or show them as signs.",
        check=control_characters,
    ),
    Rule(
        id="safety/turned-text",
        severity="warning",
        moment=(Told, Asked),
        title="A title or a command has characters that turn its direction",
        protocol="`title` and `rawInput` are what people approve by.",
        harm="People approve something else than what they read (“Trojan Source”).",
        fix="Take out or show U+202A–U+202E and U+2066–U+2069 where people decide.",
        check=turning_characters,
    ),
    Rule(
        id="safety/raw-escapes",
        severity="advice",
        moment=Told,
        title="A text has escape sequences",
        protocol="Content of the type `text` is shown as text; a terminal's output goes into a terminal.",
        harm="Editors show rubbish between the words; a terminal client does what the sequence says.",
        fix="Take escape sequences out of text, or send the output as a terminal's.",
        check=raw_escapes,
    ),
    Rule(
        id="safety/unknown-terminal",
        severity="error",
        moment=Told,
        title="A terminal is shown that was never made",
        protocol="A terminal is made first: by `terminal/create` or `_meta.terminal_info`; in v2 by `terminal_update`.",
        harm="Clients drop the rest of the update: people see no output at all.",
        fix="Make the terminal before you show it, under the same id, in the same session.",
        check=unknown_terminal,
    ),
)
