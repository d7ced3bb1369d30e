"""What redaction makes of the corpora of secrets, in all their contexts.

Each is redacted as a text, as a text that may be run, as JSON data, and as a stream that comes in chunks.
The data has only what comes out. What is the same as for the text is not written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache

from .files import Items
from .parts import CLEAN, CONTEXTS, PLACES, SHAPES, Redactor, corpus, forget_marks

SECRETS, EXAMPLES = "redaction/secrets", "redaction/examples"
FILES = (SECRETS, EXAMPLES)

CHUNK = 61
"""Bytes of a chunk of a stream."""


def make(file: str) -> Items:
    """Return what redaction makes of one corpus."""
    redactor = _redactor()
    entries = _secrets() if file == SECRETS else _examples()
    return {item: _redacted(redactor, text, key, value) for item, text, key, value in entries}


@cache
def _redactor() -> Redactor:
    return Redactor()  # takes a while to make


def _secrets() -> Iterator[tuple[str, str, str, str]]:
    for number, secret in enumerate(corpus()):
        for name, context in CONTEXTS.items():
            text = context(secret, number).text
            yield f"{secret.id} in {name}", text, secret.key or "note", secret.value


def _examples() -> Iterator[tuple[str, str, str, str]]:
    for shape in SHAPES:
        for name, place in PLACES.items():
            yield f"{shape.id} in {name}", place(shape), shape.key, shape.secret
    for number, text in enumerate(CLEAN):
        yield f"clean {number}", text, "note", text


def _redacted(redactor: Redactor, text: str, key: str, value: str) -> str:
    """Return the outcomes for one text, a line each; `key` and `value` are a field of the JSON data."""
    data = {"command": text, "output": [text, 1, None], "fields": {key: value, "name": "x"}}
    forget_marks()
    plain = redactor.text(text)
    forget_marks()
    run = redactor.text(text, runs=True)
    forget_marks()
    nested, count = redactor.value(data)
    forget_marks()
    streamed = _streamed(redactor, text)
    # What stands for the text in the JSON data is written only where it is something else.
    short = {
        name: "=" if one == plain[0] else one
        for name, one in (("command", nested["command"]), ("output", nested["output"][0]))
    }
    rest = {"rest": nested["output"][1:], "fields": nested["fields"]}
    outcomes = {
        "text": plain,
        "run": "=" if run == plain else run,
        "value": ({**short, **rest}, count),
        "stream": "=" if streamed == plain else streamed,
    }
    return "\n".join(
        f"{name} {json.dumps(one, ensure_ascii=False)}" for name, one in outcomes.items()
    )


def _streamed(redactor: Redactor, text: str) -> tuple[str, int]:
    stream, data = redactor.stream(), text.encode()
    parts = [stream.feed(data[n : n + CHUNK]) for n in range(0, len(data), CHUNK)]
    return (b"".join(parts) + stream.finish()).decode(), stream.count
