"""What a call is, in words: kinds, titles, locations, languages. Pure: nothing here touches the disk."""

from .classify import Explanation, explain
from .describer import Describer, Description, fit_title
from .escape import escape_title
from .locales import LOCALES, pick_locale
from .output import locate_output

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
