"""What callsheet is tested with, for your tests too.

- `Recorder`: a sink that keeps what it is sent, and can fold it as a client would.
- `assert_every_call_ended`: holds for any recording that no call was left open.
- `check_tool`: runs any tool through success, failure, bad arguments, timeout and cancel.
- `assert_standard`: holds that a `ToolResult` obeys the standard.
- `AgentClient`: starts any ACP agent, plays its client, and keeps every line.
- `FakeClock`: time that passes when you say so.
- `SlowPeer`, `DyingPeer`: real pipes with a reader that is slow, stops, or goes away.
"""

from .agent_process import AgentGone, Frame
from .client import AgentClient, AgentError
from .clock import FakeClock
from .conformance import assert_standard, check_tool
from .peers import DyingPeer, SlowPeer
from .recordings import (
    Recorder,
    assert_every_call_ended,
    calls_in,
    fold,
    updates_in,
)

__all__ = [
    "AgentClient",
    "AgentError",
    "AgentGone",
    "DyingPeer",
    "FakeClock",
    "Frame",
    "Recorder",
    "SlowPeer",
    "assert_every_call_ended",
    "assert_standard",
    "calls_in",
    "check_tool",
    "fold",
    "updates_in",
]
