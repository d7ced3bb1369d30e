"""Read the messages of describe, bring the catalogues up to date, and compile them.

    python scripts/make_locales.py           write callsheet.pot, the .po files and the .mo files
    python scripts/make_locales.py --check   write nothing; fail if something would change

A message that a catalogue lacks is added with an empty translation, for a person to fill in. Headers have
no dates and no versions, so that the same messages always make the same files.
"""

from __future__ import annotations

import re
import sys
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from callsheet.describe import i18n
from callsheet.describe.shapes import shape_rows

PACKAGE = Path(__file__).parent.parent / "src" / "callsheet" / "describe"
LOCALES = PACKAGE / "locales"
NAMES = tuple(locale for locale in i18n.LOCALES if locale != i18n.ENGLISH)


class Steady(Catalog):
    """A catalogue whose header says only what readers need."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:  # pyright: ignore
        """What stands in the header."""
        headers = [("MIME-Version", "1.0"), ("Content-Type", "text/plain; charset=utf-8")]
        if self.locale is not None:
            headers += [("Language", str(self.locale)), ("Plural-Forms", self.plural_forms)]
        return headers


def template() -> Steady:
    """Return the messages of the tables: titles, then phrases."""
    titles = [title for row in shape_rows().values() for title in row.titles]
    messages = [*titles, *i18n.PHRASES.values()]
    catalog = Steady(charset="utf-8")
    for message in messages:
        text = message if isinstance(message, str) else message[0]
        if re.search(r"[^\W\d_]", re.sub(r"\{\w+\}", "", text)):  # not of placeholders alone
            catalog.add(message)
    return catalog


def updated(locale: str, wanted: Steady) -> Steady:
    """Return the catalogue of a language with just the wanted messages, in their order."""
    path = po_path(locale)
    known = read_po(path.open("rb"), locale=locale) if path.exists() else Catalog(locale)
    catalog = Steady(locale, charset="utf-8")
    for message in wanted:
        if message.id:
            old = known.get(message.id)
            catalog.add(message.id, old.string if old is not None else "")
    return catalog


def po_path(locale: str) -> Path:
    """Return where a language's catalogue is."""
    return LOCALES / locale / "LC_MESSAGES" / "callsheet.po"


def as_po(catalog: Steady) -> bytes:
    """Write a catalogue for people."""
    headers = "".join(f'"{name}: {value}\\n"\n' for name, value in catalog.mime_headers)
    body = BytesIO()
    write_po(body, catalog, omit_header=True, no_location=True, width=0)
    return f'msgid ""\nmsgstr ""\n{headers}\n'.encode() + body.getvalue().lstrip(b"\n")


def as_mo(catalog: Steady) -> bytes:
    """Write a catalogue for gettext."""
    body = BytesIO()
    write_mo(body, catalog)
    return body.getvalue()


def made() -> dict[Path, bytes]:
    """Return every file as it should be."""
    wanted = template()
    files = {LOCALES / "callsheet.pot": as_po(wanted)}
    for locale in NAMES:
        catalog = updated(locale, wanted)
        files[po_path(locale)] = as_po(catalog)
        files[po_path(locale).with_suffix(".mo")] = as_mo(catalog)
    return files


def main() -> int:
    """Write what is stale, or say what is."""
    stale = {
        path: body
        for path, body in made().items()
        if not path.exists() or path.read_bytes() != body
    }
    for path, body in stale.items():
        if "--check" in sys.argv[1:]:
            print(f"{path.relative_to(PACKAGE)} is stale; run `make locales`", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
            print(path.relative_to(PACKAGE))
    return 1 if stale and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
