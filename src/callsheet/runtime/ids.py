"""The ids of this process: one factory, so that ids increase across all sessions and threads."""

from __future__ import annotations

import os
from secrets import randbits
from time import time_ns

from callsheet.report.ids import IdFactory

new_call_id = IdFactory(time_ns, randbits)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=new_call_id.reseed)
