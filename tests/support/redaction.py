"""The corpus of secrets: every example of the rule table, and the shapes in `redaction.toml`."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from callsheet.redaction.redactor import Rule, default_rules
from callsheet.redaction.rules import fill

DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class Shape(NamedTuple):
    """A secret, and the text that it stands in."""

    id: str
    text: str
    secret: str
    key: str
    """The name it has as a part of a URL."""


def of_rule(rule: Rule, number: int, example: str) -> Shape:
    text = fill(example)
    match = re.search(rule.pattern, text)
    assert match is not None
    secret = text if rule.open == "block" else match.group(match.re.groups)
    return Shape(f"{rule.id}-{number}", text, secret, "password" if match.re.groups else "x")


def of_data(entry: dict[str, str]) -> Shape:
    secret = fill(entry["secret"])
    return Shape(entry["id"], entry["text"].replace("{}", secret, 1), secret, entry["key"])


SHAPES = [
    *(of_rule(rule, n, text) for rule in default_rules() for n, text in enumerate(rule.examples)),
    *map(of_data, DATA["shape"]),
]
CLEAN: list[str] = DATA["clean"]


def in_json(shape: Shape) -> str:
    return json.dumps({"n": 1, "output": f"before\n{shape.text}\nafter", "é": True})


def in_url(shape: Shape) -> str:
    return f"GET https://example.org/cb?a=1&{shape.key}={quote(shape.secret, safe='')}&next=1 HTTP/1.1\n"


def in_shell(shape: Shape) -> str:
    return f"$ cd /srv/app && {shape.text}\nuser@host:~$ "


def in_diff(shape: Shape) -> str:
    lines = "\n".join("+" + line for line in shape.text.splitlines())
    return f"--- a/settings\n+++ b/settings\n@@ -1 +1 @@\n-old line\n{lines}\n end\n"


def in_colours(shape: Shape) -> str:
    return f"\x1b[1mfound:\x1b[0m \x1b[38;5;196m{shape.text}\x1b[0m\ndone\n"


def alone(shape: Shape) -> str:
    return shape.text


PLACES = {
    "alone": alone, "json": in_json, "url": in_url, "shell": in_shell, "diff": in_diff, "colours": in_colours,
}  # fmt: skip


def pieces(secret: str) -> list[str]:
    """Return parts of a secret of which none may be left: eight characters each, or all of a shorter one."""
    return [secret[n : n + 8] for n in range(0, max(1, len(secret) - 7), 4)]
