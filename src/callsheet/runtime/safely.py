"""Reporting never breaks a tool: what a method raises is counted, and only in strict mode raised."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

_P = ParamSpec("_P")


class Misuse(RuntimeError):
    """A call was used in a way that can't work: before it was entered, or entered twice."""


def safely(method: Callable[Concatenate[Any, _P], None]) -> Callable[Concatenate[Any, _P], None]:
    """Let a method of a call count what goes wrong in it, instead of raising that into the tool."""

    @wraps(method)
    def wrapper(self: Any, *args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Misuse:
            raise
        except Exception as exc:  # noqa: BLE001 - whatever it is, the tool is not to blame
            self.session.faults.degraded(exc)

    return wrapper
