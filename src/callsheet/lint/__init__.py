"""Lint of tool code: what breaks the result standard, found by parsing and never by importing.

A file is parsed into a `Module` (`module.py`) that knows what names mean (`names.py`), which
functions are tools, and where results are made. `rules.py` has the rules over a module, with their
words and examples in `rules.toml`; `fix.py` rewrites construction by hand into the helpers.
`linter.py` puts these together for one text, `runner.py` for the paths of a command line.
"""

from callsheet.lint.linter import Fixed, LintFinding, fix_text, lint_text
from callsheet.lint.rules import RULES, LintRule
from callsheet.lint.runner import Outcome, lint_paths

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
