"""The rules for secrets that hold in a command: those that ship, the user's, and what a project adds.

The user's settings may add rules, replace some, leave some out, and make exceptions. A project's may only add
rules: whoever wrote the project has no say in which secrets of the user are shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from callsheet.report.errors import CallsheetError
from callsheet.report.json import is_list

from .settings import BadSettings, SettingsFile, own_settings, project_settings, warn

if TYPE_CHECKING:
    from callsheet.redaction.rules import Rule, Settings

TABLE = "redact"
LEAST = 3
"""Characters that a project's rule must begin with, so that it can't hide whatever it likes."""


def use_rules_or_exit(cwd: str | os.PathLike[str] = ".") -> None:
    """Do so, or leave the command: what is wrong in the user's file is bad usage."""
    try:
        use_rules(cwd)
    except BadSettings as exc:
        import click  # an editor waits for our start

        raise click.UsageError(str(exc)) from None


def use_rules(
    cwd: str | os.PathLike[str] = ".", *, environ: Mapping[str, str] = os.environ
) -> None:
    """Let the user's rules and exceptions hold in this process, and the rules of the project.

    Raises `BadSettings` for the user's file; what is wrong in the project's is warned of, and left out.
    """
    own, project = own_settings(environ), project_settings(cwd)
    files = [file for file in (own, project) if file is not None and file.tables.get(TABLE)]
    if not files and "callsheet.redaction.redact" not in sys.modules:
        return  # nothing is set, and an editor waits for our start
    from callsheet.redaction.redact import Redactor, Settings

    settings = Settings()
    if own in files and own is not None:
        settings = _checked(own, own.table(TABLE))
    if project in files and project is not None:
        added = tuple(_added(project, settings))
        settings = Settings((*settings.rules, *added), settings.allow, settings.off)
    Redactor.settings = settings


def _checked(file: SettingsFile, table: Mapping[str, Any]) -> Settings:
    """Read settings, and try them: what can't be used is said now, and not when a secret comes by."""
    from callsheet.redaction.redact import InvalidRule, Redactor, read_settings

    try:
        found = read_settings(table)
        for rule in found.rules:
            _try(rule)
        Redactor([], allow=found.allow)
    except InvalidRule as exc:
        raise BadSettings(f"{file.path}: [{file.prefix}{TABLE}] {exc}") from None
    return found


def _try(rule: Rule) -> None:
    from callsheet.redaction.redact import InvalidRule, Redactor

    try:
        Redactor([rule])
    except InvalidRule:
        raise InvalidRule(
            f"rule {rule.id!r}: re2 can't take the pattern, which has something that only Python's re knows"
        ) from None


def _added(file: SettingsFile, own: Settings) -> Iterator[Rule]:
    """Return the rules that a project adds, one by one: a bad one does not take the others along."""
    from callsheet.redaction.redact import default_rules

    try:
        table = file.table(TABLE)
    except BadSettings as exc:
        warn(str(exc))
        return
    where = f"{file.path}: [{file.prefix}{TABLE}]"
    for name in table:
        if name != "rules":
            warn(f"{where} {name}: a project can add rules, and nothing else")
    taken = {rule.id for rule in (*default_rules(), *own.rules)}
    given = table.get("rules", [])
    for entry in given if is_list(given) else [given]:
        try:
            (rule,) = _checked(file, {"rules": [entry]}).rules
        except CallsheetError as exc:
            warn(str(exc))
            continue
        if rule.id in taken:
            warn(f"{where} rule {rule.id!r}: there is one already, which a project can't replace")
        elif not rule.literals or min(map(len, rule.literals)) < LEAST:
            warn(f"{where} rule {rule.id!r}: a project's rule needs literals of {LEAST} characters")
        else:
            taken.add(rule.id)
            yield rule
