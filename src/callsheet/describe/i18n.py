"""Languages: fixed phrases, and the catalogues that translate them and all titles.

`N_` marks a message for translation, `NP_` one with a plural. Both return the message itself; it is
translated when a title is made. Placeholders are names in braces. `make locales` reads this file and
those of `shapes`, and makes the catalogues in `locales/`.

This module reads the catalogues that ship inside the package, and nothing else. The environment is
never looked at; whoever knows it passes it to `pick_locale`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from gettext import GNUTranslations, NullTranslations
from typing import Final

ENGLISH = "en"
LOCALES = (ENGLISH, "de", "es", "fr", "ja", "ko", "pt_BR", "zh_CN")
"""The languages that there are, by the names of their catalogues."""

DECIMAL_COMMA: Final[frozenset[str]] = frozenset(("de", "es", "fr", "pt_BR"))
"""The languages that write 1,5 and not 1.5."""

_LANGUAGES = {locale.partition("_")[0]: locale for locale in LOCALES}
_NAME = re.compile(r"([A-Za-z]{2,8})((?:[_-][A-Za-z0-9]{1,8})*)(?:[.@].*)?")
_TRADITIONAL = frozenset(("hant", "tw", "hk", "mo"))
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")


def pick_locale(requested: str | None, environ: Mapping[str, str] | None = None) -> str:
    """Return the language to speak: the requested one, else the environment's, else English.

    Names may be written as POSIX (`de_AT.UTF-8`) or the web (`zh-Hans-CN`) writes them. The nearest
    language that we have is taken; one that we don't have is English.
    """
    if requested and requested.strip():
        return _known(requested.strip())
    for variable in _VARIABLES:
        value = (environ or {}).get(variable, "").strip()
        if value:
            return _known(value)
    return ENGLISH


def has_locale(name: str) -> bool:
    """Whether a language is one of `LOCALES`, in any of its variants."""
    match = _NAME.fullmatch(name.strip())
    return match is not None and match[1].lower() in _LANGUAGES


def _known(name: str) -> str:
    match = _NAME.fullmatch(name)
    if match is None:
        return ENGLISH
    language = match[1].lower()
    parts = frozenset(re.split("[_-]", match[2].lower()))
    if language == "zh" and parts & _TRADITIONAL:
        return ENGLISH  # another script: most of its readers prefer English to the simplified one
    return _LANGUAGES.get(language, ENGLISH)


@cache
def catalogue(locale: str) -> NullTranslations:
    """Return the catalogue of one of `LOCALES`. English needs none."""
    if locale == ENGLISH or locale not in LOCALES:
        return NullTranslations()
    from importlib.resources import (
        files,  # an editor waits for our start, and most need no catalogue
    )

    source = files("callsheet.describe") / "locales" / locale / "LC_MESSAGES" / "callsheet.mo"
    try:
        with source.open("rb") as stream:
            return GNUTranslations(stream)
    except OSError:  # a broken installation speaks English
        return NullTranslations()


# Messages

PLURALS: Final[dict[str, str]] = {}
"""The plural of each message that has one."""


def N_(message: str) -> str:  # noqa: N802  the customary name
    """Mark a message for translation."""
    return message


def NP_(singular: str, plural: str) -> str:  # noqa: N802  the customary name
    """Mark a message that depends on {count}."""
    PLURALS[singular] = plural
    return singular


PHRASES: Final[dict[str, str]] = {
    "progress": N_("{done} of {total}"),
    "bytes_left_out": NP_("{count} byte left out", "{count} bytes left out"),
    "lines_left_out": NP_("{count} line left out", "{count} lines left out"),
    "items_left_out": NP_("{count} item left out", "{count} items left out"),
    "keys_left_out": NP_("{count} key left out", "{count} keys left out"),
    "too_deep": N_("nested too deep"),
    "cycle": N_("contains itself"),
    "whole": N_("the whole {field}"),
    "cancelled": N_("Cancelled"),
    "denied": N_("Denied"),
    "timed_out": N_("Timed out after {seconds} s"),
    "timed_out_bare": N_("Timed out"),
    "exit_code": N_("Exit code {code}"),
    "signal": N_("Ended by signal {signal}"),
    "abandoned": N_("Ended without a result"),
    "no_result": N_("No result was reported"),
    "unknown_tool": N_("Unknown tool"),
    "interrupted": N_("Interrupted: the agent stopped"),
    "closed": N_("Interrupted: the session was closed"),
    "failed": NP_("{count} failed", "{count} failed"),
    "running": NP_("{count} still running", "{count} still running"),
    "nobody_to_ask": N_("Nobody can be asked for permission"),
    "undecided": N_("Cancelled before it was decided"),
    "allow_once": N_("Allow once"),
    "allow_always": N_("Always allow"),
    "reject_once": N_("Reject"),
    "reject_always": N_("Always reject"),
    "allow_always_this": N_("Always allow `{what}`"),
    "allow_always_edits": N_("Always allow edits in the workspace"),
    "allow_always_exactly": N_("Always allow exactly this"),
    "reject_always_this": N_("Always reject `{what}`"),
    "reject_always_edits": N_("Always reject edits in the workspace"),
    "reject_always_exactly": N_("Always reject exactly this"),
    "mode": N_("Permission"),
    "mode_ask": N_("Ask first"),
    "mode_ask_means": N_("Asks before anything is changed or run"),
    "mode_edits": N_("Allow edits"),
    "mode_edits_means": N_("Changes files without asking; asks before anything is run"),
    "mode_all": N_("Allow all"),
    "mode_all_means": N_("Asks only about what is outside the workspace"),
    "mode_read_only": N_("Read only"),
    "mode_read_only_means": N_("Nothing is changed or run"),
    "typed_nothing": N_(
        "Type a command: `/read README.md` runs a tool, `!ls` a shell command. `/help` tells more."
    ),
    "typed_no_command": N_("This is no command: {line}"),
    "typed_unknown": N_("There is no command {name}."),
    "typed_nearest": N_("Did you mean {names}?"),
    "typed_none_run": N_("Nothing was run."),
    "help_tool": N_("`/read README.md 10 20` runs a tool; the words are its arguments, in order"),
    "help_named": N_("`/read path=README.md limit=20` names them"),
    "help_shell": N_("`!make test` runs a shell command"),
    "help_lines": N_("Several lines are run one after another"),
    "help_parallel": N_("`/parallel` runs the lines under it at the same time"),
    "help_more": N_("`/tools` lists the tools, `/help read` tells of one"),
}
"""The fixed phrases that the rest of callsheet shows to users, by stable keys."""
