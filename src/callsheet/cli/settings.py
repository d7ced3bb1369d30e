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
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from callsheet.cli.amounts import AGES, SIZES, BadAmount, parse_age, parse_size
from callsheet.report.errors import CallsheetError
from callsheet.report.json import JsonObject, JsonValue, is_list, is_object

if TYPE_CHECKING:
    from callsheet.history.rows import Retention
    from callsheet.redaction.rules import Rule as SecretRule
    from callsheet.redaction.rules import Settings as RedactionSettings

VARIABLE = "CALLSHEET_CONFIG"
URL_VARIABLE = "CALLSHEET_HISTORY"
_NO_LIMIT = ("none", "unlimited")
_warned: set[str] = set()

_T = TypeVar("_T", int, float)


class BadSettings(CallsheetError):
    """A settings file can't be read, or has a setting that is unknown or wrong."""


class SettingsFile(NamedTuple):
    """A file, the settings in it, and the prefix of its tables' names."""

    path: Path
    tables: JsonObject
    prefix: str

    def table(self, name: str) -> JsonObject:
        """Return one of its tables, empty if it is not there."""
        found = self.tables.get(name, {})
        if not is_object(found):
            raise BadSettings(f"{self.path}: [{self.prefix}{name}] is no table")
        return found


class HistoryTable(msgspec.Struct):
    """`[tool.callsheet.history]`. None is the default; `"none"` means without limit."""

    url: str | None = None
    max_age: str | None = None
    max_calls: int | str | None = None
    max_bytes: int | str | None = None
    session_max_calls: int | str | None = None
    session_max_bytes: int | str | None = None


_KEYS = HistoryTable.__struct_fields__
_TABLES = ("history", "redact")
SMALLEST_HISTORY = 1_000_000
"""Bytes that a history must be allowed: an empty one takes a part of that."""
LARGEST_FILE = 1 << 20
"""Bytes of a settings file."""
SHORTEST_LITERAL = 3
"""Characters that a project's rule for secrets must begin with, so that it can't hide whatever it likes."""


# Files


def own_settings(environ: Mapping[str, str] = os.environ) -> SettingsFile | None:
    """Return the user's own settings, if there are any. Raise `BadSettings`."""
    named = environ.get(VARIABLE)
    file = Path(os.path.abspath(os.path.expanduser(named))) if named else user_file(environ)  # noqa: PTH100, PTH111
    if file is None or not (named or os.path.lexists(file)):
        return None
    body = _parsed(file)
    tools = _tools(body)
    if "callsheet" not in tools and file.name != "pyproject.toml":
        return _checked(SettingsFile(file, body, ""))
    return _checked(_in_tools(file, tools.get("callsheet", {})))


def project_settings(cwd: str | os.PathLike[str] = ".") -> SettingsFile | None:
    """Return the settings of the project that a directory is in. A mistake is warned of, and ignored."""
    try:
        start = Path(os.path.abspath(cwd))  # noqa: PTH100 - as it was typed, with its links
    except OSError:  # the directory that we are in was removed
        return None
    for directory in (start, *start.parents):
        file = directory / "pyproject.toml"
        try:
            body = _parsed(file) if os.path.lexists(file) else {}
            if "callsheet" in _tools(body):
                return _checked(_in_tools(file, _tools(body)["callsheet"]))
        except BadSettings as exc:
            warn(str(exc))
        if os.path.lexists(directory / ".git"):
            break
    return None


def warn(text: str) -> None:
    """Warn once of what a project's file has that is not used, and go on."""
    if text not in _warned and sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        _warned.add(text)
        sys.stderr.write(f"callsheet: {text} (left out)\n")


def user_file(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of this user's settings, whether it exists or not; None where there is no home."""
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
        return tomllib.loads(_read(file).decode("utf-8-sig"))
    except RecursionError:
        raise BadSettings(f"{file}: it is nested too deeply") from None
    except ValueError as exc:
        raise BadSettings(f"{file}: no TOML: {exc}") from None
    except OSError as exc:
        raise BadSettings(f"{file} can't be read: {exc.strerror or exc}") from None


def _read(file: Path) -> bytes:
    """Read a regular file; anything else could take for ever."""
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as opened:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadSettings(f"{file} can't be read: it is no regular file")
        data = opened.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise BadSettings(f"{file} can't be read: it is larger than {LARGEST_FILE:,} bytes")
    return data


def _tools(body: JsonObject) -> JsonObject:
    tools = body.get("tool")
    return tools if is_object(tools) else {}


def _in_tools(file: Path, tables: JsonValue) -> SettingsFile:
    if not is_object(tables):
        raise BadSettings(f"{file}: [tool.callsheet] is no table")
    return SettingsFile(file, tables, "tool.callsheet.")


def _checked(file: SettingsFile) -> SettingsFile:
    """Refuse names that are nearly those of our tables. Others may be of a later version."""
    for name in file.tables:
        if name not in _TABLES and (near := _near(name, _TABLES)):
            meant = f"did you mean [{file.prefix}{near}]?"
            raise BadSettings(f"{file.path}: there is no [{file.prefix}{name}]; {meant}")
    return file


def _near(word: str, known: tuple[str, ...]) -> str | None:
    import difflib  # only for a mistake: an editor waits for our start

    return next(iter(difflib.get_close_matches(word, known, n=1)), None)


# History


def history_settings(
    flag: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    cwd: str | os.PathLike[str] = ".",
) -> tuple[str | None, Retention]:
    """Return the URL of the history, None if none is written, and the limits of what is stored.

    Args:
        flag: The value of `--history`.
        environ: The environment.
        cwd: The directory whose project may have a history of its own.

    Raises:
        BadSettings: The user's file is wrong.
        BadUrl: The URL is.
    """
    from callsheet.history.url import chosen_url

    own = own_settings(environ)
    table = HistoryTable() if own is None else _history_table(own)
    keep = _retention(table, own)  # also where it is not used: a mistake in it is reported
    url = flag if flag is not None else environ.get(URL_VARIABLE) or None
    if url is None and not environ.get(VARIABLE):
        projects = _projects_history(cwd)
        if projects is not None:
            return projects
    if url is None and own is not None and table.url is not None:
        url = _beside(table.url, own.path)
    return chosen_url(url, environ), keep


def _projects_history(cwd: str | os.PathLike[str]) -> tuple[str | None, Retention] | None:
    """Return the history that a project has inside of it, if any; its limits are for that one alone."""
    from callsheet.history.url import chosen_url

    file = project_settings(cwd)
    if file is None:
        return None
    try:
        table = _history_table(file)
        keep = _retention(table, file)
        if table.url is None:
            return None
        url = _beside(table.url, file.path)
        _hold_inside(url, file.path)
        return chosen_url(url), keep
    except (CallsheetError, OSError, ValueError, RuntimeError) as exc:
        warn(str(exc) if str(file.path) in str(exc) else f"{file.path}: {exc}")
        return None


def _history_table(file: SettingsFile) -> HistoryTable:
    table, name = file.table("history"), f"{file.prefix}history"
    for key in table:
        if key not in _KEYS:
            near = _near(key, _KEYS)
            hint = f"; did you mean {near}?" if near else ""
            has = f"it has {', '.join(_KEYS)}"
            raise BadSettings(f"{file.path}: [{name}] has no {key!r}{hint}; {has}")
    try:
        return msgspec.convert(table, HistoryTable)
    except msgspec.ValidationError as exc:
        problem = str(exc).replace(" - at `$.", f" - [{name}] ").removesuffix("`")
        raise BadSettings(f"{file.path}: {problem}") from None


def _beside(url: str, file: Path) -> str:
    """Return the URL that a file names: a relative path is relative to the file."""
    from callsheet.history.url import OFF, is_postgres

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
    """Refuse a project's history that would be anywhere else than in the project itself.

    Whoever opens a directory that they were sent does not mean to send its author their history; nor may
    links in it lead to the user's own history, which the project's limits would empty.
    """
    from callsheet.history.url import OFF, file_of, is_postgres

    if url.strip().lower() in OFF:
        return
    if is_postgres(url) or not file_of(url).resolve().is_relative_to(file.parent.resolve()):
        raise BadSettings(
            f"{file}: [tool.callsheet.history] url: a project can name a file inside of it, or off; "
            f"say elsewhere by {URL_VARIABLE}, or in your own settings ({user_file() or 'callsheet.toml'})"
        )


def _retention(table: HistoryTable, where: SettingsFile | None) -> Retention:
    from callsheet.history.rows import KEEP, Retention

    file = where.path if where is not None else None

    def limit(name: str, otherwise: _T | None, read: Callable[[str], _T], how: str) -> _T | None:
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
        found = parse_size(text)
        if found < SMALLEST_HISTORY:
            raise BadAmount(
                f"{text!r}: expected 1MB or more; an empty history takes a part of that"
            )
        return found

    count = "expected a number of calls"
    return Retention(
        max_age=limit("max_age", KEEP.max_age, parse_age, AGES),
        max_calls=limit("max_calls", KEEP.max_calls, int, count),
        max_bytes=limit("max_bytes", KEEP.max_bytes, enough, SIZES),
        session_max_calls=limit("session_max_calls", KEEP.session_max_calls, int, count),
        session_max_bytes=limit("session_max_bytes", KEEP.session_max_bytes, parse_size, SIZES),
    )


# Rules for secrets


def use_rules_or_exit(cwd: str | os.PathLike[str] = ".") -> None:
    """Call `use_rules`; a mistake in the user's file is bad usage of the command."""
    try:
        use_rules(cwd)
    except BadSettings as exc:
        import click  # an editor waits for our start

        raise click.UsageError(str(exc)) from None


def use_rules(
    cwd: str | os.PathLike[str] = ".", *, environ: Mapping[str, str] = os.environ
) -> None:
    """Use the rules and exceptions of the user in this process, and the rules of the project.

    The user's settings may add rules, replace some, turn some off, and make exceptions. A project's may only
    add rules: its author must not decide which secrets of the user are shown.

    Raises:
        BadSettings: The user's file is wrong. A mistake in the project's is warned of, and ignored.
    """
    own, project = own_settings(environ), project_settings(cwd)
    files = [file for file in (own, project) if file is not None and file.tables.get("redact")]
    if not files and "callsheet.redaction.redact" not in sys.modules:
        return  # nothing is set, and an editor waits for our start
    from callsheet.redaction.redactor import Redactor, Settings

    settings = Settings()
    if own in files and own is not None:
        settings = _tried(own, own.table("redact"))
    if project in files and project is not None:
        added = tuple(_project_rules(project, settings))
        settings = Settings((*settings.rules, *added), settings.allow, settings.off)
    Redactor.settings = settings


def _tried(file: SettingsFile, table: Mapping[str, Any]) -> RedactionSettings:
    """Read settings, and try them: a mistake is reported now, and not when a secret comes by."""
    from callsheet.redaction.redactor import InvalidRule, Redactor, read_settings

    try:
        found = read_settings(table)
        for rule in found.rules:
            _try_rule(rule)
        Redactor([], allow=found.allow)
    except InvalidRule as exc:
        raise BadSettings(f"{file.path}: [{file.prefix}redact] {exc}") from None
    return found


def _try_rule(rule: SecretRule) -> None:
    from callsheet.redaction.redactor import InvalidRule, Redactor

    try:
        Redactor([rule])
    except InvalidRule:
        raise InvalidRule(
            f"rule {rule.id!r}: re2 can't take the pattern, which has something that only Python's re knows"
        ) from None


def _project_rules(file: SettingsFile, own: RedactionSettings) -> Iterator[SecretRule]:
    """Yield the rules that a project adds. A bad one is skipped, and the others hold."""
    from callsheet.redaction.redactor import default_rules

    try:
        table = file.table("redact")
    except BadSettings as exc:
        warn(str(exc))
        return
    where = f"{file.path}: [{file.prefix}redact]"
    for name in table:
        if name != "rules":
            warn(f"{where} {name}: a project can add rules, and nothing else")
    taken = {rule.id for rule in (*default_rules(), *own.rules)}
    given = table.get("rules", [])
    for entry in given if is_list(given) else [given]:
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
