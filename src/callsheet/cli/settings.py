"""What files and the environment say about the history. A flag beats the environment beats a file.

The file is the one that `CALLSHEET_CONFIG` names; else the nearest `pyproject.toml` that has a
`[tool.callsheet]`; else `callsheet.toml` in the user's directory for settings. In a file of ours, the tables
stand without `tool.callsheet` before them, or with it. A project's file comes from whoever wrote the project:
it can keep a history of its own, inside of the project, and has no say over the user's.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from callsheet.report.errors import CallsheetError
from callsheet.report.values import JsonObject, is_object

from .amounts import AGES, SIZES, BadAmount, age_of, size_of

if TYPE_CHECKING:
    from callsheet.history.rows import Retention

VARIABLE = "CALLSHEET_CONFIG"
URL_VARIABLE = "CALLSHEET_HISTORY"
_NO_LIMIT = ("none", "unlimited")

_T = TypeVar("_T", int, float)


class BadSettings(CallsheetError):
    """A settings file can't be read, or says something that is not known."""


class HistoryTable(msgspec.Struct):
    """`[tool.callsheet.history]`. What is not said is as it is by default; `"none"` means without limit."""

    url: str | None = None
    max_age: str | None = None
    max_calls: int | str | None = None
    max_bytes: int | str | None = None
    session_max_calls: int | str | None = None
    session_max_bytes: int | str | None = None


_KEYS = HistoryTable.__struct_fields__
_TABLES = ("history", "redact")
_LEAST = 1_000_000
"""Bytes that a history must be allowed: an empty one takes a part of that."""


def history_settings(
    flag: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    cwd: str | os.PathLike[str] = ".",
) -> tuple[str | None, Retention]:
    """Give the URL of the history, None if none is to be kept, and how much of it is kept.

    Raises `BadSettings` for a file, and `callsheet.history.BadUrl` for a URL that is wrong.
    """
    from callsheet.history.places import chosen_url

    found = settings_table(environ, cwd)
    file, table = found if found is not None else (Path(), HistoryTable())
    is_projects = file.name == "pyproject.toml" and not environ.get(VARIABLE)
    keep = _retention(table, file)  # also where it does not hold: a mistake in it is told
    said = flag if flag is not None else environ.get(URL_VARIABLE) or None
    if said is None and table.url is not None:
        said = _beside(table.url, file)
        if is_projects:
            _hold_inside(said, file)
    elif is_projects:  # its limits are for its own store: they must not empty the user's
        keep = _retention(HistoryTable(), file)
    return chosen_url(said, environ), keep


def settings_table(
    environ: Mapping[str, str], cwd: str | os.PathLike[str]
) -> tuple[Path, HistoryTable] | None:
    """Give the file that holds, and what it says of the history."""
    named = environ.get(VARIABLE)
    if named:
        file = Path(named).expanduser()
        return file.absolute(), _table(_parsed(file), file)
    start = Path(os.path.abspath(cwd))  # noqa: PTH100 - as it was typed, with its links
    for directory in (start, *start.parents):
        file = directory / "pyproject.toml"
        if file.is_file() and "callsheet" in _tools(body := _parsed(file)):
            return file, _table(body, file)
    file = user_file(environ)
    return (file, _table(_parsed(file), file)) if file is not None and file.is_file() else None


def user_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Give the file of this user's settings, whether it exists or not; None where there is no home."""
    base = environ.get("XDG_CONFIG_HOME") or environ.get("APPDATA")
    if base and Path(base).is_absolute():
        return Path(base) / "callsheet" / "callsheet.toml"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    mac = sys.platform == "darwin"
    return home / ("Library/Application Support" if mac else ".config") / "callsheet/callsheet.toml"


def _parsed(file: Path) -> JsonObject:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise BadSettings(f"{file}: no TOML: {exc}") from None
    except OSError as exc:
        raise BadSettings(f"{file} can't be read: {exc.strerror or exc}") from None


def _tools(body: JsonObject) -> JsonObject:
    tools = body.get("tool")
    return tools if is_object(tools) else {}


def _table(body: JsonObject, file: Path) -> HistoryTable:
    ours, name = _tools(body).get("callsheet"), "tool.callsheet.history"
    if ours is None and file.name != "pyproject.toml":
        ours, name = body, "history"
    table = ours.get("history", {}) if is_object(ours) else ours
    if not is_object(table):
        raise BadSettings(f"{file}: [{name}] is no table")
    for key in ours if is_object(ours) else ():
        if key not in _TABLES and (near := _near(key, _TABLES)):  # others may be of a later version
            begin = name.removesuffix("history")
            raise BadSettings(f"{file}: there is no [{begin}{key}]; did you mean [{begin}{near}]?")
    for key in table:
        if key not in _KEYS:
            near = _near(key, _KEYS)
            hint = f"; did you mean {near}?" if near else ""
            raise BadSettings(f"{file}: [{name}] has no {key!r}{hint}; it has {', '.join(_KEYS)}")
    try:
        return msgspec.convert(table, HistoryTable)
    except msgspec.ValidationError as exc:
        said = str(exc).replace(" - at `$.", f" - [{name}] ").removesuffix("`")
        raise BadSettings(f"{file}: {said}") from None


def _near(word: str, known: tuple[str, ...]) -> str | None:
    import difflib  # only for a mistake: an editor waits for our start

    return next(iter(difflib.get_close_matches(word, known, n=1)), None)


def _beside(url: str, file: Path) -> str:
    """Give a URL of a file's: a path that is relative is meant from where the file is."""
    from callsheet.history.places import OFF, is_postgres

    if is_postgres(url) or url.strip().lower() in OFF:
        return url
    begin = "sqlite:///"
    path = url.removeprefix(begin)
    if "://" in path or not path or path.startswith(("/", "~")):
        return url
    if path == url:  # a plain path, in which % is just a sign
        return str(file.parent / path)
    return f"{begin}{str(file.parent).replace('%', '%25')}/{path}"


def _hold_inside(url: str, file: Path) -> None:
    """Refuse a project's wish to have what people do here anywhere else than in the project itself.

    Whoever opens a directory that they were sent does not mean to send its author their history; nor to let
    links in it lead to their own, which its limits would empty.
    """
    from callsheet.history.places import OFF, file_of, is_postgres

    if url.strip().lower() in OFF:
        return
    if is_postgres(url) or not file_of(url).resolve().is_relative_to(file.parent.resolve()):
        raise BadSettings(
            f"{file}: [tool.callsheet.history] url: a project can name a file inside of it, or off; "
            f"say elsewhere by {URL_VARIABLE}, or in your own settings ({user_file() or 'callsheet.toml'})"
        )


def _retention(table: HistoryTable, file: Path) -> Retention:
    from callsheet.history.rows import KEEP, Retention

    def said(name: str, otherwise: _T | None, read: Callable[[str], _T], how: str) -> _T | None:
        value = getattr(table, name)
        if value is None:
            return otherwise
        if str(value).strip().lower() in _NO_LIMIT:
            return None
        try:
            found = read(str(value))
        except ValueError as exc:
            why = str(exc) if isinstance(exc, BadAmount) else f"{value!r}: {how}"
            raise BadSettings(f"{file}: [history] {name} = {why}") from None
        if found < 0:
            raise BadSettings(f"{file}: [history] {name} = {value!r}: {how}")
        return found

    def enough(text: str) -> int:
        found = size_of(text)
        if found < _LEAST:
            raise BadAmount(
                f"{text!r}: expected 1MB or more; an empty history takes a part of that"
            )
        return found

    count = "expected a number of calls"
    return Retention(
        max_age=said("max_age", KEEP.max_age, age_of, AGES),
        max_calls=said("max_calls", KEEP.max_calls, int, count),
        max_bytes=said("max_bytes", KEEP.max_bytes, enough, SIZES),
        session_max_calls=said("session_max_calls", KEEP.session_max_calls, int, count),
        session_max_bytes=said("session_max_bytes", KEEP.session_max_bytes, size_of, SIZES),
    )
