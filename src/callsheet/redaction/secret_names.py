"""Which names have secret values: `apiKey`, `DB_PASSWORD` and `x-auth-token`, but not
`token_count`.

A name is split into words, however it is written; the table in `rules.toml` lists the words that mark
a secret. This module also judges the values beside a secret name: `null`, `$TOKEN` and `<your key>`
are not secret. It knows nothing of the text around; that is `assignments.py`.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import chain

from callsheet.redaction.rules import table
from callsheet.redaction.spans import only_marks
from callsheet.report.patterns import lazy

_WORDS = lazy(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")

LONGEST = 96
"""A longer name is data, not a name."""


@lru_cache(maxsize=4096)
def family_of(name: str) -> str:
    """Return the family of a name whose value is secret ("password", "token", …), or ""."""
    if len(name) > LONGEST or name in _DIRECTORIES:
        return ""
    words = [word.lower() for word in _WORDS.findall(name)]
    keys = table().keys
    if not words:
        return ""
    if len(words) > 1 and words[0] in keys.deeds and "".join(words) not in _phrases():
        return ""
    end = len(words)
    while end > 1 and words[end - 1] in keys.neutral and not _family(words[:end]):
        end -= 1
    return _family(words[:end])


def weak_family_of(name: str) -> str:
    """Return the family of a name that marks a secret only beside a random-looking value, or ""."""
    return table().keys.weak.get(name.strip("_-.").lower(), "")


# The shell's own, in every environment.
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})


def _family(words: list[str]) -> str:
    """Return the family of the last words, longest phrase first: secret_key is a secret, no key."""
    keys = table().keys
    for count in range(min(4, len(words)), 0, -1):
        family = _phrases().get("".join(words[-count:]), "")
        if family:
            before = words[-count - 1] if count < len(words) else ""
            return "" if family == "token" and before in keys.harmless else family
    if len(words) > 1:
        for family, phrases in keys.second.items():
            if words[-1] in phrases:
                return family
    return _family_of_suffix(words[-1])


def _family_of_suffix(word: str) -> str:
    keys = table().keys
    for suffix in keys.suffixes:
        if word.endswith(suffix) and word[: -len(suffix)] not in keys.harmless:
            return _phrases()[suffix]
    return ""


@cache
def _phrases() -> dict[str, str]:
    families = table().keys.families
    return dict(chain.from_iterable(((w, name) for w in words) for name, words in families.items()))


_PLACEHOLDER = lazy(
    rb"""(?ix)
    \$ | \$ [({\w] .* | %\([\w.]+\)\w | %[sdr] | %\w+% | \{+ [\w. :-]* \}+ .* | <[^<>]*>? | \#\{ .*
    | (?:[*.x_?\#-]|\xe2\x80\xa2)+ | \xe2\x80\xa6 (?: .* \xe2\x80\xa6 )?
    | \[?(?:redacted|hidden|masked|filtered|removed)\]?
    | null | none | nil | undefined | true | false | yes | no | on | off | nan | n/a | unset | empty
    | bearer | basic | digest | negotiate
    | (?:your|insert|enter)[-_ ].* | .*[-_]your[-_].* | example | placeholder | todo
    | write | read | inherit | always | never | include | omit | enabled | disabled | auto | default
    | .{0,40}\.{3} | .*(?:x{6}|\*{3}).* | \#[0-9a-f]{3,8} | \[[a-z-]+.*\] | (?:op|se|vault|file|env)://.*
    | (?:string|str|bytes|int|float|bool|boolean|number|object|any|text|optional|unknown|required)
    | (?:process\.env|os\.environ|env|secrets|vars|config|settings|self|this|args|options|opts|
        params|props|data|request|req|ctx|user)[.\[(?] .*
    """,
    re.DOTALL,
)


def is_placeholder(value: bytes) -> bool:
    """Whether a value only stands for a secret: `null`, `***`, `$TOKEN`, `<your key>`, a mark."""
    if not value or _PLACEHOLDER.fullmatch(value) is not None or only_marks(value):
        return True
    return len(value) <= _LONGEST_PHRASE and _PHRASE.fullmatch(value) is not None


_LONGEST_PHRASE = 48
_PHRASE = lazy(
    rb"""(?ix)(?=.*(?:pass|secret|token|key|credential|authorization|cookie))(?>
    (?:authorization|credentials|credential|passphrase|keycloak|password|example|invalid|refresh
    |access|bearer|client|cookie|passwd|sample|secret|secure|string|admin|basic|dummy|other
    |super|token|valid|value|wrong|auth|base|fake|here|name|pass|root|some|test|user|very|your
    |any|api|app|for|key|new|not|old|the|an|db|id|is|my|no|a)[-_. ]?)+""",
)
"""Placeholders for a secret: `mysecretpassword`, `YOUR_API_KEY`, `access-token`."""


def is_random(value: bytes) -> bool:
    """Whether a value looks made by chance: long, of letters and digits, and without words."""
    return _LONG.fullmatch(value) is not None and is_mixed(value) and not is_wordy(value)


_LONG = lazy(rb"[A-Za-z0-9+/_.~!#%^*?-]{16,}={0,2}")


def is_wordy(value: bytes) -> bool:
    """Return whether a value is made of words, as names in code are: `access-token-1234`."""
    words = _WORDS.findall(value.decode("latin-1"))
    few_numbers = len(_NUMBER.findall(value)) < _NUMBERS
    return bool(words) and few_numbers and sum(map(len, words)) >= _WORDY * len(words)


_WORDY = 5
_NUMBERS = 3
_NUMBER = lazy(rb"[0-9]+")


_SCHEME = lazy(
    rb"(?i)(?:bearer|basic|token|digest|negotiate|apikey|api-key|ssws|bot|aws4-hmac-sha256|geniekey)"
    rb"(?:\s+|%20|\+)"
)


def scheme_length(value: bytes) -> int:
    """Return how much of the value of an `Authorization` header is its scheme, and so not secret."""
    match = _SCHEME.match(value)
    return match.end() if match else 0


def is_mixed(value: bytes) -> bool:
    """Return whether both letters and digits occur, as they do in what is made by chance."""
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None


_DIGIT = lazy(rb"[0-9]")
_LETTER = lazy(rb"[A-Za-z]")


def is_code(value: bytes) -> bool:
    """Return whether a value is an expression.

    Names in one are words; what is made by chance may have a dot too.
    """
    if _CODE.fullmatch(value) is None:
        return False
    has_bracket = _BRACKET.search(value) is not None
    return has_bracket or not is_mixed(value) or is_wordy(value) or len(value) < 8


_CODE = lazy(
    rb"""[A-Za-z_][\w.]*(?:[(\[{].*|\.)|[(\[{*&!@].*|[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+.*|\d+(?:\.\d+)*""",
    re.DOTALL,
)
_BRACKET = lazy(rb"[(\[{*&@]")


def is_cookie(value: bytes) -> bool:
    """Return whether a cookie could name a session; `theme=dark` could not."""
    return _COOKIE.search(value) is not None


_COOKIE = lazy(
    rb"(?:^|[;,]\s*)(?!(?i:path|domain|version|max-age|expires|samesite|comment|port)=)[^\s=;,]+="
    rb"[^\s;]*?(?:(?=[A-Za-z]{0,5}[0-9])(?=[0-9]{0,5}[A-Za-z])[A-Za-z0-9]{6}|[0-9]{8}|[A-Za-z0-9%+/-]{16})"
)
