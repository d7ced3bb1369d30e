"""Regular expressions that are compiled when they are first used.

There are hundreds, and compiling them would be the larger part of what an editor waits for when it starts a
session. Most processes use a few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast


def lazy(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is first used.

    Call its methods where they are needed: taking one (`lazy(…).search`) is a use.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern(Generic[AnyStr]):
    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self._flags: int = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, found)  # next time, this is not asked any more
        return found
