"""Languages: which one is spoken, and that every catalogue says everything."""

from __future__ import annotations

import re
import subprocess
import sys
from gettext import GNUTranslations
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

from callsheet.describe import LOCALES, Describer, i18n, pick_locale
from tests.support import ROOT

FOLDER = ROOT / "src" / "callsheet" / "describe" / "locales"
TRANSLATED = [locale for locale in LOCALES if locale != "en"]


def po(locale: str) -> Catalog:
    with (FOLDER / locale / "LC_MESSAGES" / "callsheet.po").open("rb") as stream:
        return read_po(stream, locale=locale)


def everything() -> set[str]:
    with (FOLDER / "callsheet.pot").open("rb") as stream:
        found = read_po(stream)
    return {
        message.id[0] if message.pluralizable else message.id for message in found if message.id
    }


def placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{\w+\}", text))


@pytest.mark.parametrize(
    ("requested", "environ", "locale"),
    [
        ("de", {}, "de"),
        ("de_AT.UTF-8", {}, "de"),
        ("DE-ch", {}, "de"),
        ("de@euro", {}, "de"),
        ("pt", {}, "pt_BR"),
        ("pt_PT", {}, "pt_BR"),
        ("pt-BR", {}, "pt_BR"),
        ("zh", {}, "zh_CN"),
        ("zh-Hans-CN", {}, "zh_CN"),
        ("zh_SG", {}, "zh_CN"),
        ("zh_TW", {}, "en"),
        ("zh-Hant", {}, "en"),
        ("en_GB", {}, "en"),
        ("C", {}, "en"),
        ("C.UTF-8", {}, "en"),
        ("POSIX", {}, "en"),
        ("tlh", {}, "en"),
        ("ar_EG.UTF-8", {}, "en"),
        ("../../etc", {}, "en"),
        ("", {"LANG": "fr_FR.UTF-8"}, "fr"),
        (None, {"LANG": "fr_FR.UTF-8"}, "fr"),
        (None, {"LANG": "fr", "LC_MESSAGES": "ja_JP"}, "ja"),
        (None, {"LANG": "fr", "LC_MESSAGES": "ja_JP", "LC_ALL": "ko_KR.UTF-8"}, "ko"),
        (None, {"LANG": "fr", "LC_ALL": "C"}, "en"),
        (None, {"LANG": "fr", "LC_ALL": ""}, "fr"),
        (None, {}, "en"),
        ("es", {"LC_ALL": "de"}, "es"),
        ("xx", {"LC_ALL": "de"}, "en"),
    ],
)
def test_the_language_is_the_requested_one_else_the_environments_else_english(
    requested: str | None, environ: dict[str, str], locale: str
) -> None:
    assert pick_locale(requested, environ) == locale


def test_the_environment_is_only_what_is_passed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert pick_locale(None) == "en"
    assert Describer("/w").locale == "en"


def test_the_titles_of_every_language() -> None:
    arguments = {"path": "a.py", "offset": 10, "limit": 31}
    titles = {locale: Describer("/w", locale=locale)("read", arguments).title for locale in LOCALES}
    assert titles == {
        "en": "Reading a.py (lines 10–40)",
        "de": "a.py wird gelesen (Zeilen 10–40)",
        "es": "Leyendo a.py (líneas 10–40)",
        "fr": "Lecture de a.py (lignes 10–40)",
        "ja": "a.py を読み込み中（10～40 行目）",
        "ko": "a.py 읽는 중(10–40행)",
        "pt_BR": "Lendo a.py (linhas 10–40)",
        "zh_CN": "正在读取 a.py（第 10–40 行）",
    }


def test_plurals_follow_the_language() -> None:
    def said(locale: str, count: int) -> str:
        return Describer("/w", locale=locale).phrase("lines_left_out", count=count)

    assert [said("en", n) for n in (0, 1, 2)] == [
        "0 lines left out",
        "1 line left out",
        "2 lines left out",
    ]
    assert [said("fr", n) for n in (0, 1, 2)] == [
        "0 ligne omise",
        "1 ligne omise",
        "2 lignes omises",
    ]
    assert [said("de", n) for n in (0, 1)] == ["0 Zeilen ausgelassen", "1 Zeile ausgelassen"]
    assert [said("ja", n) for n in (1, 2)] == ["1 行を省略", "2 行を省略"]


def test_the_fixed_phrases_have_keys_that_stay() -> None:
    english = Describer("/w")
    assert english.phrase("progress", done=3, total=12) == "3 of 12"
    assert english.phrase("bytes_left_out", count=1) == "1 byte left out"
    assert english.phrase("cancelled") == "Cancelled"
    assert english.phrase("denied") == "Denied"
    assert english.phrase("timed_out", seconds=30) == "Timed out after 30 s"
    assert english.phrase("abandoned") == "Ended without a result"
    assert english.phrase("unknown_tool") == "Unknown tool"
    assert english.phrase("interrupted") == "Interrupted: the agent stopped"


@pytest.mark.parametrize("locale", TRANSLATED)
def test_a_catalogue_misses_no_message_and_no_placeholder(locale: str) -> None:
    known = {
        message.id[0] if message.pluralizable else message.id: message
        for message in po(locale)
        if message.id
    }
    assert set(known) == everything()
    for english, message in known.items():
        forms = message.string if message.pluralizable else (message.string,)
        assert len(forms) == (po(locale).num_plurals if message.pluralizable else 1)
        for form in forms:
            assert form.strip(), (locale, english)
            assert placeholders(form) == placeholders(english), (locale, english)
            assert not message.fuzzy


@pytest.mark.parametrize("locale", TRANSLATED)
def test_the_compiled_catalogue_says_what_the_source_says(locale: str) -> None:
    with (FOLDER / locale / "LC_MESSAGES" / "callsheet.mo").open("rb") as stream:
        compiled = GNUTranslations(stream)
    for message in po(locale):
        if message.pluralizable:
            said = {compiled.ngettext(*message.id, count) for count in range(5)}
            assert said == set(message.string)
        elif message.id:
            assert compiled.gettext(message.id) == message.string


def test_what_make_locales_makes_is_committed() -> None:
    script = ROOT / "scripts" / "make_locales.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_catalogue_is_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    i18n.catalogue.cache_clear()
    try:
        assert Describer("/w", locale="de")("read", {"path": "a"}).title == "Reading a"
    finally:
        i18n.catalogue.cache_clear()


@pytest.mark.parametrize(
    ("locale", "said"),
    [("en", "1.5"), ("de", "1,5"), ("es", "1,5"), ("fr", "1,5"), ("pt_BR", "1,5"), ("ja", "1.5")],
)
def test_fractions_are_written_as_the_language_does(locale: str, said: str) -> None:
    describe = Describer("/w", locale=locale)
    assert said in describe.phrase("timed_out", seconds=1.5)
    assert "30" in (whole := describe.phrase("timed_out", seconds=30.0))
    assert "30.0" not in whole
    assert "30,0" not in whole


def test_a_process_that_is_only_a_number_is_called_one() -> None:
    assert Describer("/w", locale="de")("KillShell", {"shell_id": 7}).title == (
        "Prozess 7 wird gestoppt"
    )
    assert Describer("/w", locale="fr")("KillShell", {"shell_id": 7}).title == (
        "Arrêt du processus 7"
    )
    assert Describer("/w", locale="ko").phrase("progress", done=2, total=5) == "5개 중 2개"
