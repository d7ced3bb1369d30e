"""What a call is, in words: kinds, titles, locations, languages. Pure: nothing here touches the disk."""

from callsheet.describe.classify import Explanation, explain
from callsheet.describe.describer import Describer, Description, fit_title
from callsheet.describe.escape import escape_title
from callsheet.describe.locales import LOCALES, pick_locale
from callsheet.describe.output import locate_output

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
