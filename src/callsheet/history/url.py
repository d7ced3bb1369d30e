"""Where a history is: URLs, the user's data directory, and the environment.

`sqlite:///relative/path.db`, `sqlite:////absolute/path.db`, or a plain path; `postgresql://…`; `nats://…`
(see `fleet`); `off`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from callsheet.history.store_errors import BadUrl
from callsheet.report.patterns import lazy

if TYPE_CHECKING:
    from callsheet.history.store import Store

VARIABLE = "CALLSHEET_HISTORY"
OFF = ("off", "none", "0", "false", "no")
_EXPECTED = (
    "expected sqlite:///PATH (three slashes for a relative path, four for an absolute one), "
    "a file's path, postgresql://USER@HOST/DATABASE, nats://HOST:4222/TEAM, or off"
)

_SECRET = lazy(r"pass\w*\s*=", re.IGNORECASE)
_SCHEME = lazy(r"(?:sqlite\d?|postgres(?:ql)?|https?|file):", re.IGNORECASE)


def default_file() -> Path:
    """Return the file of this user's history, in the directory for a user's data.

    Raises:
        RuntimeError: There is no home directory.
    """
    from platformdirs import user_data_path

    return user_data_path("callsheet", appauthor=False) / "history.sqlite"


def default_url() -> str:
    """Return the URL of `default_file`, which may raise `RuntimeError`."""
    return "sqlite:///" + str(default_file()).replace("%", "%25")


def chosen_url(flag: str | None = None) -> str | None:
    """Return the URL to use: the flag's, the environment's, or the default; None if no history is stored.

    Raises:
        BadUrl: The URL names no store.
    """
    url = flag if flag is not None else os.environ.get(VARIABLE) or None
    if url is None:
        try:
            return default_url()
        except RuntimeError:  # no home directory
            return None
    if url.strip().lower() in OFF:
        return None
    check_url(url)
    return url


def check_url(url: str) -> None:
    """Raise `BadUrl` unless a URL names a store."""
    if is_fleet(url):
        from callsheet.history.fleet import address_of

        if not address_of(url).team:
            raise BadUrl(
                f"history {without_password(url)}: it names no team; expected nats://HOST:4222/TEAM"
            )
        return
    if is_postgres(url):
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            raise BadUrl(
                f"history {without_password(url)}: the port is no number from 0 to 65535, or a sign of the "
                f"password is not quoted (as %40 for @); {_EXPECTED}"
            ) from None
        if not parts.path.strip("/"):
            raise BadUrl(f"history {without_password(url)}: it names no database; {_EXPECTED}")
        return
    file_of(url)


def is_postgres(url: str) -> bool:
    """Return whether a URL is one of PostgreSQL's."""
    return url.startswith(("postgresql://", "postgres://"))


def is_fleet(url: str) -> bool:
    """Return whether a URL is one of a fleet's servers."""
    return url.startswith(("nats://", "tls://"))


def is_server(url: str) -> bool:
    """Return whether a URL names a server, and no file."""
    return is_postgres(url) or is_fleet(url)


def file_of(url: str) -> Path:
    """Return the file that a URL of SQLite, or a plain path, names. Raise `BadUrl` if it names none."""
    shown = without_password(url)
    if "://" not in url:
        if not url.strip() or "\0" in url or _SCHEME.match(url) or _SECRET.search(url):
            raise BadUrl(f"history {shown!r}: {_EXPECTED}")
        return _absolute(url, shown)
    scheme, _, rest = url.partition("://")
    if scheme != "sqlite":
        raise BadUrl(f"history {shown}: the scheme {scheme!r} is not known; {_EXPECTED}")
    if not rest.startswith("/") or len(rest) < 2:
        raise BadUrl(f"history {shown}: it names no file; {_EXPECTED}")
    path = unquote(rest[1:])
    if "\0" in path or path.endswith("/"):
        raise BadUrl(f"history {shown}: that is no file's name; {_EXPECTED}")
    return _absolute(path, shown)


def _absolute(path: str, shown: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise BadUrl(f"history {shown}: nobody's home directory is called so") from None


def canonical_url(url: str) -> str:
    """Return a URL as all name it that mean the same store, without its password."""
    return without_password(url) if is_server(url) else f"sqlite:///{file_of(url)}"


def without_password(url: str) -> str:
    """Return a URL without its password, to be shown.

    A password that was not quoted may contain any character, so all up to the last `@` may belong to it.
    """
    if "://" not in url:
        hides = _SECRET.search(url) or (_SCHEME.match(url) and "@" in url)
        return "…" if hides else url
    scheme, _, rest = url.partition("://")
    who, sign, where = rest.rpartition("@")
    user, colon, _ = who.partition(":")
    if colon:
        who = f"{user}:…"
    elif _SECRET.search(who) or (sign and is_fleet(url)):  # that may be a token
        who = "…"
    place, question, options = where.partition("?")
    if _SECRET.search(place):  # no URL, but libpq's `key=value`
        return "…"
    shown = [one for one in options.split("&") if not _SECRET.search(one)]
    return f"{scheme}://{who}{sign}{place}" + (question + "&".join(shown) if any(shown) else "")


def store_at(url: str) -> Store:
    """Return the store that a URL names. It is not opened yet: call `open`.

    Args:
        url: `sqlite:///relative.db`, `sqlite:////absolute.db`, a plain path, `postgresql://…`, or `nats://…`,
            which can only be written to.

    Raises:
        BadUrl: The URL names no store.
    """
    from callsheet.history.store import Store

    check_url(url)
    if is_fleet(url):
        from callsheet.history.fleet_store import FleetStore

        return FleetStore(url)
    if is_postgres(url):
        from callsheet.history.postgres import PostgresDatabase

        return Store(PostgresDatabase(url))
    from callsheet.history.sqlite import SqliteDatabase

    return Store(SqliteDatabase(file_of(url)))
