"""The bridge: a client that speaks one version of ACP uses an agent that speaks the other.

Here is everything but tool calls, terminals and requests for permission, which the tap's pipeline puts right
and shows in the client's version anyway. `table.py` says what becomes of what; `bridging.py` is the way in.

`v1_agent.py` serves clients of v2, `v2_agent.py` clients of v1; the others translate one thing each. Every
message that is made is held against the official schema (`making.py`).
"""

from .bridging import Bridging
from .translated import Translated

__all__ = ["Bridging", "Translated"]
