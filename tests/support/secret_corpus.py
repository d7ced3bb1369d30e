"""Secrets made from `secret_corpus.toml` with a seed, and the places that secrets are seen in.

A context writes a secret as some program would: `read` with its line numbers, a diff, XML, base64. What
stays visible of it is judged by the letters and digits in it, which no way of writing changes, except
base64, which says itself what the secret looks like there.
"""

from __future__ import annotations

import json
import random
import re
import string
import tomllib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

SEED = 17

_ENTRIES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["secret"]

_ALNUM = string.ascii_letters + string.digits
_CLASSES = {
    "alnum": _ALNUM,
    "alpha": string.ascii_letters,
    "b32": string.ascii_uppercase + "234567",
    "b64": _ALNUM + "+/",
    "b64u": _ALNUM + "-_",
    "base58": "".join(sorted(set(_ALNUM) - set("0OIl"))),
    "bcrypt": _ALNUM + "./",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "digit": string.digits,
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
}
_FILL = re.compile(r"\{(\w+):(\d+)\}|\{(uuid|jwt|PK)\}")
_RANDOM = re.compile(r"\{(?:\w+:\d+|uuid|jwt)\}")
_PRIVATE_KEY = " ".join(("PRIVATE", "KEY"))
_LINE = 64
_SYMBOLS = "!#%^*_+.~?"


class Secret(NamedTuple):
    """A secret, the text that it usually stands in, and its name as a field, if it has one."""

    id: str
    value: str
    text: str
    key: str
    hidden: str
    """The part of the value that nobody may see: without the fixed beginning of a token."""

    @property
    def pieces(self) -> set[str]:
        """Runs of the secret of which none may stay visible: 8 characters, or a third of a short one."""
        runs = re.findall(r"[A-Za-z0-9]+", self.hidden)
        size = min(8, -(-len(self.hidden) // 3), max(map(len, runs)))
        return {run[n : n + size] for run in runs for n in range(len(run) - size + 1)}


class Shown(NamedTuple):
    """A secret in its context, and the pieces of which none may stay visible there."""

    text: str
    pieces: set[str]


def corpus(seed: int = SEED) -> list[Secret]:
    """Return all secrets of the table, filled with characters that the seed decides."""
    return [_made(entry, random.Random(f"{seed} {entry['id']}")) for entry in _ENTRIES]


def _made(entry: dict[str, str], dice: random.Random) -> Secret:
    fixed = len(_RANDOM.split(entry["secret"])[0].replace("{PK}", _PRIVATE_KEY))
    value = _filled(entry["secret"], dice)
    if entry.get("as") == "base64":
        value, fixed = b64encode(value.encode()).decode(), -(-fixed * 4 // 3)
    before, _, after = entry.get("text", "{}").partition("{}")
    text = _filled(before, dice) + value + _filled(after, dice)
    return Secret(entry["id"], value, text, entry.get("key", ""), value[fixed:])


def _filled(template: str, dice: random.Random) -> str:
    return _FILL.sub(lambda match: _piece(match, dice), template)


def _piece(match: re.Match[str], dice: random.Random) -> str:
    kind, count = match[1], int(match[2] or 0)
    if match[3] == "PK":  # written so that nothing takes this table for a key
        return _PRIVATE_KEY
    if match[3] == "uuid":
        return "-".join(_of("hex", size, dice) for size in (8, 4, 4, 4, 12))
    if match[3] == "jwt":
        parts = {"alg": "ES256", "typ": "JWT"}, {"sub": _of("hex", 12, dice), "exp": 1893456000}
        written = [urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts]
        return ".".join([*written, _of("b64u", 86, dice)])
    if kind == "pem":
        lines = [_of("b64", _LINE, dice) for _ in range(count - 1)]
        return "\n".join([*lines, _of("b64", _LINE // 2, dice) + "=="])
    if kind == "pass":
        letters = _of("alpha", 1, dice) + _of("alnum", count - 1, dice)
        signs = (dice.choice(_SYMBOLS) if n % 6 == 5 else c for n, c in enumerate(letters[:-2]))
        return "".join(signs) + dice.choice(string.digits) + dice.choice(string.ascii_letters)
    return _of(kind, count, dice)


def _of(kind: str, count: int, dice: random.Random) -> str:
    letters = "".join(dice.choice(_CLASSES[kind]) for _ in range(count))
    # A sign at the end of a sentence is no part of what stands before it, for people neither.
    return letters[:-1] + dice.choice([c for c in _CLASSES[kind] if c.isalnum()])


# --- contexts


def plain(secret: Secret, _: int) -> Shown:
    return Shown(f"$ show it\n{secret.text}\ndone\n", secret.pieces)


def read(secret: Secret, number: int) -> Shown:
    """As our own `read` numbers lines."""
    return _prefixed(secret, lambda n: f"{n + number % 97}→")


_LISTINGS: tuple[Callable[[int], str], ...] = (
    lambda n: f"{n:6d}\t",
    lambda n: f"{n:4d} | ",
    lambda n: f"{n:4d} │ ",
    lambda n: f"[{n}] ",
    lambda n: f"{n}: ",
    lambda n: f"{n}|",
    lambda n: f"etc/app.conf:{n}:",
    lambda n: f"etc/app.conf-{n}-",
    lambda n: f"{n:6d}→",
    lambda _: "> ",
    lambda _: "    ",
)


def listing(secret: Secret, number: int) -> Shown:
    return _prefixed(secret, _LISTINGS[number % len(_LISTINGS)])


_DIFFS = ("+", "-", " ", "++", "> ", "< ")


def diff(secret: Secret, number: int) -> Shown:
    sign = _DIFFS[number % len(_DIFFS)]
    head = "--- a/etc/app.conf\n+++ b/etc/app.conf\n@@ -1,9 +1,9 @@\n context line\n"
    shown = _prefixed(secret, lambda _: sign)
    return shown._replace(text=head + shown.text + " end\n")


def _prefixed(secret: Secret, prefix: Callable[[int], str]) -> Shown:
    lines = ["# settings", *secret.text.splitlines(), "# end of it"]
    return Shown("".join(f"{prefix(n)}{x}\n" for n, x in enumerate(lines, 1)), secret.pieces)


def json_in_json(secret: Secret, number: int) -> Shown:
    inner = json.dumps({"n": number, "output": f"first\n{secret.text}\nlast"})
    return Shown(json.dumps({"id": 1, "result": inner, "isError": False}), secret.pieces)


def yaml(secret: Secret, number: int) -> Shown:
    lines = secret.value.splitlines()
    if not secret.key:
        body = "\n".join("    " + line for line in secret.text.splitlines())
        return Shown(f"run:\n  output: |\n{body}\n  ok: true\n", secret.pieces)
    if len(lines) > 1 or number % 4 == 0:
        body = "\n".join("    " + line for line in lines)
        written = f"{secret.key}: {('|', '>-', '|-')[number % 3]}\n{body}"
    elif number % 4 == 1:
        written = f'{secret.key}: "{secret.value}"'
    elif number % 4 == 2:
        written = f"- name: {secret.key}\n    value: {secret.value}"
    else:
        written = f"{secret.key}: {secret.value}"
    return Shown(f"service:\n  host: db\n  {written}\n  port: 1\n", secret.pieces)


def xml(secret: Secret, number: int) -> Shown:
    value, key = escape(secret.value), secret.key
    if not key:
        body = f"<output>{escape(secret.text)}</output>"
    elif number % 3 == 0:
        body = f"<{key}>{value}</{key}>"
    elif number % 3 == 1:
        body = f'<add key="{key}" value={quoteattr(secret.value)}/>'
    else:
        body = f'<login user="me" {key}={quoteattr(secret.value)} />'
    return Shown(f"<config>\n  <host>db</host>\n  {body}\n</config>\n", secret.pieces)


def colours(secret: Secret, number: int) -> Shown:
    lines = secret.text.splitlines()
    if number % 3 == 0 and len(lines) == 1:
        text = secret.text.replace(secret.value, f"\x1b[32m{secret.value}\x1b[0m")
    elif number % 3 == 1:
        text = "\n".join(
            f"\x1b[35ma.conf\x1b[m\x1b[36m:\x1b[m\x1b[32m{n}\x1b[m\x1b[36m:\x1b[m{line}"
            for n, line in enumerate(lines, 1)
        )
    else:
        text = "\n".join(f"\x1b[1;33m{line}\x1b[0m" for line in lines)
    return Shown(f"\x1b[1mfound\x1b[0m\n{text}\n", secret.pieces)


def base64(secret: Secret, number: int) -> Shown:
    """The text in base64, as files travel; the pieces are what the secret looks like in there."""
    data = f"# settings\n{secret.text}\n".encode()
    whole = b64encode(data).decode()
    place = data.index(secret.value.encode()) + len(secret.value) - len(secret.hidden)
    first, last = -(-place * 4 // 3), (place + len(secret.hidden)) * 4 // 3
    size = min(12, -(-(last - first) // 3))
    pieces = {whole[n : n + size] for n in range(first, last - size + 1)}
    lines = [whole[n : n + 76] for n in range(0, len(whole), 76)]
    text = (
        f"echo {whole} | base64 -d > .env",
        "\n".join(["$ base64 .env", *lines, "$ "]),
        f"apiVersion: v1\ndata:\n  app.conf: {whole}\nkind: ConfigMap\n",
        json.dumps({"name": "app.conf", "encoding": "base64", "content": "\n".join(lines)}),
        f"data:text/plain;base64,{whole}",
    )[number % 5]
    return Shown(text, pieces)


def argv(secret: Secret, number: int) -> Shown:
    if not secret.key:
        words = ["sh", "-c", secret.text]
    elif number % 2:
        words = ["tool", "run", f"--{secret.key}", secret.value, "--region", "eu"]
    else:
        words = ["tool", "run", f"--{secret.key}={secret.value}", "--region", "eu"]
    return Shown(json.dumps({"command": "tool", "args": words}), secret.pieces)


def command(secret: Secret, number: int) -> Shown:
    """A line for a shell, with the value in quotes."""
    if not secret.key:
        return Shown(f"cat <<'EOF' > x && ./run\n{secret.text}\nEOF\n", secret.pieces)
    written = f"--{secret.key} '{secret.value}'" if number % 2 else f"{secret.key}='{secret.value}'"
    return Shown(f"cd /srv && tool run {written} --region eu\n", secret.pieces)


def url(secret: Secret, _: int) -> Shown:
    key, value = (secret.key, secret.value) if secret.key else ("body", secret.text)
    return Shown(f"GET https://acme.dev/cb?a=1&{key}={quote(value, safe='')}&b=2\n", secret.pieces)


CONTEXTS: dict[str, Callable[[Secret, int], Shown]] = {
    "plain": plain, "read": read, "listing": listing, "diff": diff, "json in json": json_in_json, "yaml": yaml,
    "xml": xml, "colours": colours, "base64": base64, "argv": argv, "command": command, "url": url,
}  # fmt: skip

_MARK = re.compile(r"\[redacted:[^\]]*\]")


def leaks(shown: Shown, redacted: str) -> bool:
    """Whether a piece of the secret can still be seen."""
    left = _MARK.sub("\0", redacted)
    joined = re.sub(r"(?:\n|\\+n)", "", left)
    return any(piece in left or piece in joined for piece in shown.pieces)
