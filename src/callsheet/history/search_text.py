"""The words of a call that a search finds, the words of a search, and how calls get into the index of words.

Text is split into words here, not by the engine, so that both engines find the same calls. A word is a run of
letters and digits; each character of a script without spaces is its own word, so that a part of a sentence is
found, too. Case and accents make no difference.

Splitting takes time, so calls are queued when they have ended (in the table `unindexed`), and indexed when
there is time, or before a search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from unicodedata import normalize

from callsheet.history.database import Database
from callsheet.report.content import DiffContent, TextContent
from callsheet.report.json import JsonValue, is_list, is_object
from callsheet.report.patterns import lazy
from callsheet.report.terminal import CallRecord

MOST_INDEXED = 1 << 15
"""Characters of a field that are indexed: half of them from its beginning, half from its end."""

_WORD = lazy(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]|[^\W_]+", re.UNICODE
)
_ACCENT = lazy("[\u0300-\u036f]")


def words(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return [part for found in _WORD.findall(text) for part in _without_accents(found.lower())]


def _without_accents(word: str) -> list[str]:
    if word.isascii():
        return [word[:64]]
    plain = normalize("NFC", _ACCENT.sub("", normalize("NFD", word)))
    return [plain] if len(plain) == 1 else [part[:64] for part in _WORD.findall(plain)]


def search_fields(record: CallRecord) -> tuple[str, str, str, str]:
    """Return what can be found of a call: title and name, command, paths, output; each as words."""
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
        _indexed(f"{report.title} {report.name}"),
        _indexed(command),
        _indexed(" ".join(dict.fromkeys(paths))),
        _indexed("\n".join(output)),
    )


def words_of(record: CallRecord | None) -> Sequence[str]:
    """Return what the index has of a call. Of one that can't be read, it is nothing."""
    return search_fields(record) if record else ("", "", "", "")


def index_words(db: Database, limit: int) -> int:
    """Add the first calls of the queue to the index. Return how many these were; 0 if there are none.

    Another process may do it at the same time, and have added some of them.
    """
    queued = db.fetch(
        "SELECT q.seq, c.payload FROM unindexed q LEFT JOIN calls c ON c.seq = q.seq ORDER BY q.seq LIMIT ?",
        limit,
    )
    if not queued:
        return 0
    # Splitting texts takes time, in which nobody is to be held up.
    known = {payload: words_of(db.codec.readable(payload)) for _, payload in queued if payload}
    with db.transaction():
        gone = db.fetch_in(
            "DELETE FROM unindexed WHERE seq IN ({}) RETURNING seq", [seq for seq, _ in queued]
        )
        # A call may have been removed meanwhile, or have changed.
        rows = db.fetch_in(
            f"SELECT seq, payload FROM calls WHERE seq IN ({{}}){db.for_share}",
            [seq for (seq,) in gone],
        )
        db.add_words(
            [(seq, known.get(data) or words_of(db.codec.readable(data))) for seq, data in rows]
        )
    return len(queued)


def phrases(text: str) -> list[list[str]]:
    """Return the phrases of a search: the words of each of its parts.

    A part has no space in it, unless it stands between quotation marks.
    """
    parts = re.findall(r'"([^"]+)"|(\S+)', text)
    found = [words(quoted or plain) for quoted, plain in parts]
    return [phrase for phrase in found if phrase]


def _indexed(text: str) -> str:
    if len(text) > MOST_INDEXED:
        text = f"{text[: MOST_INDEXED // 2]} {text[-MOST_INDEXED // 2 :]}"
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
