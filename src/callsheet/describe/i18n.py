"""Languages: fixed phrases, and the catalogues that translate them and all titles.

Messages are English sentences with names in braces, in `phrases.toml` and `shapes.toml`; they are
translated when a title is made. `make locales` makes the catalogues in `locales/` of them.

This module reads what ships inside the package, and nothing else. The environment is never looked at;
whoever knows it passes it to `pick_locale`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from gettext import GNUTranslations, NullTranslations
from typing import Final, TypeAlias

import msgspec

from callsheet.describe.tables import read_table
from callsheet.report.patterns import lazy

ENGLISH = "en"
LOCALES = (ENGLISH, "de", "es", "fr", "ja", "ko", "pt_BR", "zh_CN")
"""The languages that there are, by the names of their catalogues."""

DECIMAL_COMMA: Final[frozenset[str]] = frozenset(("de", "es", "fr", "pt_BR"))
"""The languages that write 1,5 and not 1.5."""

_LANGUAGES = {locale.partition("_")[0]: locale for locale in LOCALES}
_NAME = lazy(r"([A-Za-z]{2,8})((?:[_-][A-Za-z0-9]{1,8})*)(?:[.@].*)?")
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
    from importlib.resources import files  # it takes long to import, and English does without

    try:
        with (
            files("callsheet.describe")
            .joinpath(f"locales/{locale}/LC_MESSAGES/callsheet.mo")
            .open("rb") as file
        ):
            return GNUTranslations(file)
    except OSError:  # a broken installation speaks English
        return NullTranslations()


Message: TypeAlias = str | tuple[str, str]
"""An English text, or the singular and the plural of one that depends on {count}."""

PHRASES: Final = msgspec.convert(read_table("phrases.toml"), dict[str, Message])
"""The fixed phrases that the rest of callsheet shows to users, by stable keys."""
