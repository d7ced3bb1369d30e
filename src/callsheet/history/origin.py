"""Who uses this machine: what every session is stored with, or pseudonyms for it.

With `CALLSHEET_PSEUDONYMS`, the names of the user and of the machine are replaced by others that are always
the same: for the same name and the same secret in the variable, and nobody who lacks it can derive one from
the other. In a session's directory, the user's name is replaced, too.
"""

from __future__ import annotations

import getpass
import hmac
import os
import socket
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


def directory_here(cwd: str) -> str:
    """Return a session's directory as it is stored. With pseudonyms, it does not have the user's name."""
    return _replaced(cwd, is_stored=False)


def own_directory(cwd: str) -> str:
    """Return the directory that was stored by `directory_here`, if that was done for the same user."""
    return _replaced(cwd, is_stored=True)


def _replaced(cwd: str, *, is_stored: bool) -> str:
    secret = os.environ.get(VARIABLE, "")
    if not secret or not (own := _user()):
        return cwd
    old, new = own, _pseudonym("user", own, secret)
    if is_stored:
        old, new = new, old
    return "/".join(new if one == old else one for one in cwd.split("/"))


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
