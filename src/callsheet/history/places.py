"""Where a history is: URLs, the user's data directory, and the environment.

`sqlite:///relative/path.db`, `sqlite:////absolute/path.db`, or a plain path; `postgresql://…`; `off`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from .errors import BadUrl

if TYPE_CHECKING:
    from .store import Store

VARIABLE = "CALLSHEET_HISTORY"
OFF = ("off", "none", "0", "false", "no")
_EXPECTED = (
    "expected sqlite:///PATH (three slashes for a relative path, four for an absolute one), "
    "a file's path, postgresql://USER@HOST/DATABASE, or off"
)


def default_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Give the file of this user's history, in the directory for a user's data."""
    data = environ.get("XDG_DATA_HOME") or environ.get("LOCALAPPDATA")
    if data and Path(data).is_absolute():
        return Path(data) / "callsheet" / "history.sqlite"
    home = Path.home()
    base = (
        home / "Library/Application Support" if sys.platform == "darwin" else home / ".local/share"
    )
    return base / "callsheet" / "history.sqlite"


def chosen_url(flag: str | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Give the URL that holds: the flag's, the environment's, or the default. None means none is kept."""
    url = flag if flag is not None else environ.get(VARIABLE) or None
    if url is None:
        try:
            return f"sqlite:///{default_file(environ)}"
        except RuntimeError:  # no home directory
            return None
    if url.strip().lower() in OFF:
        return None
    check_url(url)
    return url


def check_url(url: str) -> None:
    """Raise `BadUrl` unless a store can be named like this."""
    if is_postgres(url):
        parts = urlsplit(url)
        try:
            _ = parts.port
        except ValueError as exc:
            raise BadUrl(f"history {without_password(url)}: {exc}") from None
        if not parts.path.strip("/"):
            raise BadUrl(f"history {without_password(url)}: it names no database; {_EXPECTED}")
        return
    file_of(url)


def is_postgres(url: str) -> bool:
    """Whether a URL is one of PostgreSQL's."""
    return url.startswith(("postgresql://", "postgres://"))


def file_of(url: str) -> Path:
    """Give the file that a URL of SQLite names."""
    shown = without_password(url)
    if "://" not in url:
        if not url.strip() or "\0" in url:
            raise BadUrl(f"history {url!r}: {_EXPECTED}")
        return Path(url).expanduser().absolute()
    scheme, _, rest = url.partition("://")
    if scheme != "sqlite":
        raise BadUrl(f"history {shown}: the scheme {scheme!r} is not known; {_EXPECTED}")
    if not rest.startswith("/") or len(rest) < 2:
        raise BadUrl(f"history {shown}: it names no file; {_EXPECTED}")
    path = unquote(rest[1:])
    if "\0" in path or path.endswith("/"):
        raise BadUrl(f"history {shown}: that is no file's name; {_EXPECTED}")
    return Path(path).expanduser().absolute()


def without_password(url: str) -> str:
    """Give a URL as it may be shown."""
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        if parts.password is None and "password=" not in parts.query:
            return url
        user = f"{parts.username}:…@" if parts.username else ""
        host = parts.hostname or ""
        where = f"{user}{host}" + (f":{parts.port}" if parts.port else "")
        return urlunsplit((parts.scheme, where, parts.path, "", ""))
    except ValueError:
        return url.split("://", 1)[0] + "://…"


def store_at(url: str) -> Store:
    """Give the store that a URL names. It is not opened yet."""
    check_url(url)
    if is_postgres(url):
        from .postgres.store import PostgresStore

        return PostgresStore(url)
    from .sqlite.store import SqliteStore

    return SqliteStore(file_of(url))
