"""Settings from files and the environment. A flag beats the environment beats a file.

The user's own file is the one that `CALLSHEET_CONFIG` names, else `callsheet.toml` in the user's config
directory. Its tables are written with or without `tool.callsheet` before their names. A mistake in it is an
error.

A project's file is the nearest `pyproject.toml` that has a `[tool.callsheet]`, up to the repository's root.
It comes from whoever wrote the project, so it is not trusted: it can have a history of its own, inside of the
project, but can't redirect the user's; it can add rules for secrets, but remove none. Nothing in it stops a
command: a mistake is warned of once, and ignored.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from callsheet.history.amounts import BadAmount, parse_age, parse_size
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, is_list, is_object

if TYPE_CHECKING:
    from callsheet.history.rows import Retention
    from callsheet.redaction.rules import Rule as SecretRule
    from callsheet.redaction.rules import Settings as RedactionSettings

VARIABLE = "CALLSHEET_CONFIG"
URL_VARIABLE = "CALLSHEET_HISTORY"
SMALLEST_HISTORY = 1_000_000
"""Bytes that a history must be allowed: an empty one takes a part of that."""
SHORTEST_LITERAL = 3
"""Characters that a project's rule for secrets must begin with, so that it can't hide whatever it likes."""

_TABLES = ("history", "redact", "lint", "tap")
_warned: set[str] = set()


TableT = TypeVar("TableT", bound=msgspec.Struct)


class BadSettings(CallsheetError):
    """A settings file can't be read, or has a setting that is unknown or wrong."""


class HistoryTable(msgspec.Struct, forbid_unknown_fields=True):
    """`[tool.callsheet.history]`. None is the default; `"none"` means without limit."""

    url: str | None = None
    max_age: str | None = None
    max_calls: int | str | None = None
    max_bytes: int | str | None = None


class LintTable(msgspec.Struct, forbid_unknown_fields=True):
    """`[tool.callsheet.lint]`: rules by id or category, and globs of files and directories to leave out."""

    select: list[str] = []
    ignore: list[str] = []
    exclude: list[str] = []


class TapTable(msgspec.Struct, forbid_unknown_fields=True):
    """`[tap]`. With `notice`, the first session of an agent behind a tap says that it is tapped."""

    notice: bool = True


class SettingsFile(NamedTuple):
    """A file, the settings in it, and the prefix of its tables' names."""

    path: Path
    tables: JsonObject
    prefix: str

    def table(self, name: str) -> JsonObject:
        """Return one of its tables, empty if it is not there."""
        found = self.tables.get(name, {})
        if not is_object(found):
            raise BadSettings(f"{self.place(name)} is not a table")
        return found

    def read(self, name: str, kind: type[TableT]) -> TableT:
        """Return one of its tables as a struct. Raise `BadSettings`, which names the right settings."""
        try:
            return msgspec.convert(self.table(name), kind)
        except msgspec.ValidationError as exc:
            names = ", ".join(kind.__struct_fields__)
            raise BadSettings(f"{self.place(name)} {exc}; it has {names}") from None

    def place(self, name: str) -> str:
        """Return a table's name with its file, for a message."""
        return f"{self.path}: [{self.prefix}{name}]"


# Files


def own_settings() -> SettingsFile | None:
    """Return the user's own settings, if there are any. Raise `BadSettings`."""
    named = os.environ.get(VARIABLE)
    if named:
        return _settings_in(Path(os.path.abspath(os.path.expanduser(named))))  # noqa: PTH100, PTH111
    try:
        file = user_file()
    except RuntimeError:  # no home directory
        return None
    return _settings_in(file) if os.path.lexists(file) else None


def project_settings(
    cwd: str | os.PathLike[str] = ".", *, trusted: bool = False
) -> SettingsFile | None:
    """Return the settings of the project that a directory is in.

    A mistake is warned of, and ignored, unless they are `trusted`.
    """
    try:
        start = Path(os.path.abspath(cwd))  # noqa: PTH100 - as it was typed, with its links
    except OSError:  # the directory that we are in was removed
        return None
    for directory in (start, *start.parents):
        file = directory / "pyproject.toml"
        try:
            found = _settings_in(file) if os.path.lexists(file) else None
        except BadSettings as exc:
            if trusted:
                raise
            warn(str(exc))
        else:
            if found is not None:
                return found
        if os.path.lexists(directory / ".git"):
            break
    return None


def user_file() -> Path:
    """Return the file of this user's settings, whether it exists or not. `RuntimeError` without a home."""
    from platformdirs import user_config_path

    return user_config_path("callsheet", appauthor=False) / "callsheet.toml"


def warn(text: str) -> None:
    """Warn once of what a project's file has that is not used, and go on."""
    if text not in _warned and sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        _warned.add(text)
        sys.stderr.write(f"callsheet: {text} (left out)\n")


def _settings_in(file: Path) -> SettingsFile | None:
    """Return the settings in a file; None for a `pyproject.toml` that has none."""
    try:
        if not file.is_file() and file.exists():  # reading a pipe could take forever
            raise BadSettings(f"{file} can't be read: not a regular file")
        body = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as exc:
        raise BadSettings(f"{file} can't be read: {exc.strerror or exc}") from None
    except (ValueError, RecursionError) as exc:
        raise BadSettings(f"{file}: not valid TOML: {exc}") from None
    tools = body.get("tool")
    if is_object(tools) and "callsheet" in tools:
        tables, prefix = tools["callsheet"], "tool.callsheet."
    elif file.name != "pyproject.toml":
        tables, prefix = body, ""
    else:
        return None
    if not is_object(tables):
        raise BadSettings(f"{file}: [tool.callsheet] is not a table")
    found = SettingsFile(file, tables, prefix)
    for name in tables.keys() - set(_TABLES):
        from difflib import get_close_matches  # only for a mistake: an editor waits for our start

        for near in get_close_matches(name, _TABLES, n=1):  # others may be of a later version
            raise BadSettings(f"{found.place(name)}: did you mean [{prefix}{near}]?")
    return found


# History


def history_settings(
    flag: str | None = None, *, cwd: str | os.PathLike[str] = "."
) -> tuple[str | None, Retention]:
    """Return the URL of the history, None if none is written, and the limits of what is stored.

    Args:
        flag: The value of `--history`.
        cwd: The directory whose project may have a history of its own.

    Raises:
        BadSettings: The user's file is wrong.
        BadUrl: The URL is.
    """
    from callsheet.history.rows import KEEP
    from callsheet.history.url import chosen_url

    own = own_settings()
    # Read also where it is not used, so that a mistake is reported.
    own_url, keep = (None, KEEP) if own is None else _history_in(own)
    url = flag if flag is not None else os.environ.get(URL_VARIABLE) or None
    if url is None and not os.environ.get(VARIABLE):
        projects = _projects_history(cwd)
        if projects is not None:
            return projects
    return chosen_url(own_url if url is None else url), keep


def _projects_history(cwd: str | os.PathLike[str]) -> tuple[str | None, Retention] | None:
    """Return the history that a project has inside of it, if any; its limits are for that one alone."""
    from callsheet.history.url import chosen_url

    file = project_settings(cwd)
    if file is None:
        return None
    try:
        url, keep = _history_in(file)
        if url is None:
            return None
        _hold_inside(url, file.path)
        return chosen_url(url), keep
    except (CallsheetError, OSError, ValueError, RuntimeError) as exc:
        warn(str(exc) if str(file.path) in str(exc) else f"{file.path}: {exc}")
        return None


def _history_in(file: SettingsFile) -> tuple[str | None, Retention]:
    """Return the URL that a file names, if any, and the limits that hold with it."""
    from callsheet.history.rows import KEEP

    table = file.read("history", HistoryTable)
    limits: dict[str, float | None] = {}
    for name, parse in _LIMITS.items():
        value = getattr(table, name)
        try:
            if value is not None:
                limits[name] = None if value == "none" else parse(str(value))
        except BadAmount as exc:
            raise BadSettings(f"{file.place('history')} {name} = {exc}") from None
    url = None if table.url is None else _beside(table.url, file.path)
    return url, msgspec.structs.replace(KEEP, **limits)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise BadAmount(f"{text!r}: expected a number of calls")
    return int(text)


def _history_size(text: str) -> int:
    found = parse_size(text)
    if found < SMALLEST_HISTORY:
        raise BadAmount(f"{text!r}: expected 1MB or more; an empty history takes a part of that")
    return found


_LIMITS: dict[str, Callable[[str], float]] = {
    "max_age": parse_age,
    "max_calls": _count,
    "max_bytes": _history_size,
}


def _beside(url: str, file: Path) -> str:
    """Return the URL that a file names: a relative path is relative to the file."""
    from urllib.parse import unquote  # an editor waits for our start

    from callsheet.history.url import OFF, is_server

    begin = "sqlite:///"
    path = unquote(url.removeprefix(begin)) if url.startswith(begin) else url
    if is_server(url) or url.strip().lower() in OFF or "://" in path:
        return url
    return str(file.parent / path) if path and not path.startswith("~") else url


def _hold_inside(url: str, file: Path) -> None:
    """Refuse a project's history that would be anywhere else than in the project itself.

    Whoever opens a directory that they were sent does not mean to send its author their history; nor may
    links in it lead to the user's own history, which the project's limits would empty.
    """
    from callsheet.history.url import OFF, file_of, is_server

    if url.strip().lower() in OFF:
        return
    if is_server(url) or not file_of(url).resolve().is_relative_to(file.parent.resolve()):
        raise BadSettings(
            f"{file}: [tool.callsheet.history] url: a project can name a file inside of it, or off; "
            f"name another one by {URL_VARIABLE}, or in your own settings ({user_file()})"
        )


# Lint and tap


def lint_settings() -> tuple[LintTable, Path]:
    """Return the project's settings for lint, and the directory that `exclude` is relative to.

    They say what is linted in the project's own code, so they are trusted. Raise `BadSettings`.
    """
    file = own_settings() if os.environ.get(VARIABLE) else project_settings(trusted=True)
    if file is None:
        return LintTable(), Path()
    return file.read("lint", LintTable), file.path.parent


def tap_settings() -> TapTable:
    """Return the settings for taps: the project's, else the user's. Raise `BadSettings` for the latter."""
    own = own_settings()
    table = TapTable() if own is None else own.read("tap", TapTable)
    file = None if os.environ.get(VARIABLE) else project_settings()
    if file is not None and "tap" in file.tables:
        try:
            return file.read("tap", TapTable)
        except BadSettings as exc:
            warn(str(exc))
    return table


# Rules for secrets


def use_rules(cwd: str | os.PathLike[str] = ".") -> None:
    """Use the rules and exceptions of the user in this process, and the rules of the project.

    The user's settings may add rules, replace some, turn some off, and make exceptions. A project's may only
    add rules: its author must not decide which secrets of the user are shown.

    Raises:
        BadSettings: The user's file is wrong. A mistake in the project's is warned of, and ignored.
    """
    own, project = (
        file if file is not None and file.tables.get("redact") else None
        for file in (own_settings(), project_settings(cwd))
    )
    if own is None and project is None:
        return  # nothing is set, and an editor waits for our start
    from callsheet.redaction.redactor import Redactor, Settings

    settings = Settings() if own is None else _tried(own, own.table("redact"))
    if project is not None:
        added = tuple(_project_rules(project, settings))
        settings = Settings((*settings.rules, *added), settings.allow, settings.off)
    Redactor.settings = settings


def _tried(file: SettingsFile, table: Mapping[str, Any]) -> RedactionSettings:
    """Read settings, and try them: a mistake is reported now, and not when a secret comes by."""
    from callsheet.redaction.redactor import InvalidRule, Redactor, read_settings

    try:
        found = read_settings(table)
        Redactor(found.rules, allow=found.allow)
    except InvalidRule as exc:
        raise BadSettings(f"{file.place('redact')} {exc}") from None
    return found


def _project_rules(file: SettingsFile, own: RedactionSettings) -> Iterator[SecretRule]:
    """Yield the rules that a project adds. A bad one is skipped, and the others hold."""
    from callsheet.redaction.redactor import default_rules

    try:
        table = file.table("redact")
    except BadSettings as exc:
        warn(str(exc))
        return
    where = file.place("redact")
    for name in table:
        if name != "rules":
            warn(f"{where} {name}: a project can add rules, and nothing else")
    taken = {rule.id for rule in (*default_rules(), *own.rules)}
    rules = table.get("rules", [])
    for entry in rules if is_list(rules) else [rules]:
        try:
            (rule,) = _tried(file, {"rules": [entry]}).rules
        except CallsheetError as exc:
            warn(str(exc))
            continue
        if rule.id in taken:
            warn(f"{where} rule {rule.id!r}: there is one already, which a project can't replace")
        elif not rule.literals or min(map(len, rule.literals)) < SHORTEST_LITERAL:
            warn(
                f"{where} rule {rule.id!r}: a project's rule needs literals of {SHORTEST_LITERAL} characters"
            )
        else:
            taken.add(rule.id)
            yield rule
