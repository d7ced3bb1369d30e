"""What a call is, in words: kinds, titles, locations, languages. Pure: nothing here touches the disk."""

from callsheet.describe.describer import Describer, Description, fit_title
from callsheet.describe.i18n import LOCALES, pick_locale
from callsheet.describe.titles import escape_title

__all__ = [
    "LOCALES",
    "Describer",
    "Description",
    "escape_title",
    "fit_title",
    "pick_locale",
]
