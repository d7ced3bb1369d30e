"""opencode: announces calls under the tool's name. One that it can't run becomes a call of `invalid`."""

from __future__ import annotations

from .announced import name_announced
from .profile import Profile

OPENCODE = Profile(agents=("opencode",), name_of=name_announced)
