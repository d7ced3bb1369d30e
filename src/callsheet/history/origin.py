"""Who uses this machine: what every session is stored with, or pseudonyms for it.

With `CALLSHEET_PSEUDONYMS`, the names of the user and of the machine are replaced by others that are always
the same: for the same name and the same secret in the variable, and nobody who lacks it can derive one from
the other. In paths, the user's name is replaced, too, wherever they stand in what is stored. To the same
user, with the same secret, they are shown as they were.
"""

from __future__ import annotations

import getpass
import hmac
import os
import re
import socket
from functools import lru_cache
from pathlib import Path

from msgspec.structs import asdict

from callsheet.history.rows import Origin, name_text
from callsheet.report.patterns import lazy

VARIABLE = "CALLSHEET_PSEUDONYMS"
_PSEUDONYM = lazy("(?:user|host)-[0-9a-f]{12}")


def here(origin: Origin) -> Origin:
    """Return an origin with the user and the machine that this process has, where it says nothing of them.

    With pseudonyms, names that it does say are replaced, too; pseudonyms stay.
    """
    secret = os.environ.get(VARIABLE, "")
    names = {field: name_text(value) for field, value in asdict(origin).items()}
    for kind, own in (("user", _user), ("host", socket.gethostname)):
        name = names[kind] or name_text(own())
        is_plain = name and _PSEUDONYM.fullmatch(name) is None
        names[kind] = _pseudonym(kind, name, secret) if secret and is_plain else name
    return Origin(**names)


def is_hiding() -> bool:
    """Return whether there are pseudonyms."""
    return bool(os.environ.get(VARIABLE))


def hidden(text: str) -> str:
    """Return a text as it is stored: with pseudonyms, its paths do not have the user's name."""
    if not is_hiding() or not (name := _user()):
        return text
    return _in_paths(name).sub(_own_pseudonym(), text)


def revealed(text: str) -> str:
    """Return what was stored by `hidden`, if that was done for the same user, as it was."""
    return text.replace(_own_pseudonym(), _user()) if is_hiding() else text


def _own_pseudonym() -> str:
    return _pseudonym("user", _user(), os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=4)
def _in_paths(name: str) -> re.Pattern[str]:
    # A path may stand in JSON, in a sentence or between other paths.
    return re.compile(rf"""(?<=[/\\]){re.escape(name)}(?=[/\\"'`\s:,;)\]}}>]|$)""")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # nobody has this number
        return Path.home().name if "HOME" in os.environ else f"uid {os.getuid()}"


def _pseudonym(kind: str, name: str, secret: str) -> str:
    text = f"{kind}\0{name}".encode(errors="surrogateescape")
    return (
        f"{kind}-{hmac.digest(secret.encode(errors='surrogateescape'), text, 'sha256').hex()[:12]}"
    )
