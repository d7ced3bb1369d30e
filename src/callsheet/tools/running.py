"""Which call is running here, known to everything that a tool calls."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Call

running: ContextVar[Call | None] = ContextVar("running", default=None)
