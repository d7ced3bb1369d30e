"""What is searched for: the words of a call, and those of a question.

Both engines get words that were taken apart here, so that they find the same. A word is a run of letters and
digits; a sign of a script without spaces is a word of its own, so a part of a sentence is found, too. Accents
make no difference.
"""

from __future__ import annotations

import re
from typing import Any
from unicodedata import normalize

from callsheet.report.content import DiffContent, TextContent
from callsheet.report.json import JsonValue, is_list, is_object
from callsheet.report.terminal import CallRecord

VERSION = 1
"""Of what follows. When it changes, stores make their index anew."""

MOST = 1 << 15
"""Characters of a field that are indexed: half of them from its beginning, half from its end."""

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+", re.UNICODE
)
_ACCENT = re.compile("[\u0300-\u036f]")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return [part for found in _WORD.findall(text) for part in _apart(found.lower())]


def _apart(word: str) -> list[str]:
    if word.isascii():
        return [word[:64]]
    plain = normalize("NFC", _ACCENT.sub("", normalize("NFD", word)))
    return [plain] if len(plain) == 1 else [part[:64] for part in _WORD.findall(plain)]


def fields(record: CallRecord) -> tuple[str, str, str, str]:
    """Return what can be found of a call: title and name, command, paths, output. Each as words in a row."""
    report = record.report
    output = [item.text for item in report.content if type(item) is TextContent]
    output += [one.tail.decode(errors="replace") for one in record.terminals]
    paths = [place.path for place in report.locations]
    for item in report.content:
        if type(item) is DiffContent:
            paths += [change.path for change in item.changes]
            output += [change.new_text or "" for change in item.changes]
    if not output:
        output = _texts(report.raw_output)
    command = " ".join(_texts(report.raw_input))
    return (
        _row(f"{report.title} {report.name}"),
        _row(command),
        _row(" ".join(dict.fromkeys(paths))),
        _row("\n".join(output)),
    )


def question(text: str) -> list[list[str]]:
    """Return the phrases of a question: the words of each of its parts that have no space in them.

    What stands between quotation marks is one phrase.
    """
    parts = re.findall(r'"([^"]+)"|(\S+)', text)
    found = [words(quoted or plain) for quoted, plain in parts]
    return [phrase for phrase in found if phrase]


def _row(text: str) -> str:
    if len(text) > MOST:
        text = f"{text[: MOST // 2]} {text[-MOST // 2 :]}"
    return " ".join(words(text))


def _texts(value: JsonValue) -> list[str]:
    """Return all texts in a value."""
    found: list[str] = []
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif is_object(one):
            waiting += reversed(list(one.values()))
        elif is_list(one):
            waiting += reversed(one)
    return found
