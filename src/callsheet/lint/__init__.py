"""Lint of tool code: what breaks the result standard, found by parsing and never by importing.

A file is parsed into a `Module` (`module.py`) that knows what names mean, which functions are tools, and
where results are made. `rules.py` has the rules over a module, with their words and examples in `rules.toml`,
and rewrites construction by hand into the helpers. `linter.py` applies them to texts and to files.
"""

from callsheet.lint.linter import Fixed, LintFinding, Outcome, fix_text, lint_paths, lint_text
from callsheet.lint.rules import RULES, LintRule

__all__ = [
    "RULES",
    "Fixed",
    "LintFinding",
    "LintRule",
    "Outcome",
    "fix_text",
    "lint_paths",
    "lint_text",
]
