"""The work that all peers do: the life of one call that reads a file. Only plain values."""

from __future__ import annotations

import inspect
import textwrap

SESSION = "sess_1"
NAME = "read"
TITLE = "Reading settings.py"
KIND = "read"
PATH = "/home/dev/app/settings.py"
LINE = 3
LIMIT = 200
TEXT = inspect.getsource(textwrap)[:2000]
"""Real source code, because quotes and newlines are what costs a JSON encoder its time."""
