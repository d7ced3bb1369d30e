"""fast-agent: announces calls under the tool's name, and puts the server's before it later."""

from __future__ import annotations

from .announced import name_announced
from .profile import Profile

FAST_AGENT = Profile(agents=("fast-agent",), name_of=name_announced)
