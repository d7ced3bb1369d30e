"""Lint of tool code: what breaks the result standard, found by parsing and never by importing.

A file is read (`files.py`), parsed into a `Module` (`module.py`) that knows what names mean
(`names.py`), which functions are tools (`tools.py`) and where results are made (`results.py`).
Each file in `rules/` is one rule over a module. `rewrite.py` turns construction by hand into the
helpers, `engine.py` puts these together for one text, `run.py` for the paths of a command line.
"""

from callsheet.lint.engine import Fixed, fix_text, lint_text
from callsheet.lint.finding import Finding, Rule
from callsheet.lint.rules import RULES
from callsheet.lint.run import Outcome, lint_paths

__all__ = [
    "RULES",
    "Finding",
    "Fixed",
    "Outcome",
    "Rule",
    "fix_text",
    "lint_paths",
    "lint_text",
]
