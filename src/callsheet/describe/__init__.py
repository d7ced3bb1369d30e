"""What a call is, in words: kinds, titles, locations, languages. Pure: nothing here touches the disk."""

from callsheet.describe.classify import Explanation, explain
from callsheet.describe.describer import Describer, Description, fit_title
from callsheet.describe.i18n import LOCALES, pick_locale
from callsheet.describe.paths import locate_output
from callsheet.describe.titles import escape_title

__all__ = [
    "LOCALES",
    "Describer",
    "Description",
    "Explanation",
    "escape_title",
    "explain",
    "fit_title",
    "locate_output",
    "pick_locale",
]
