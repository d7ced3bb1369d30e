"""What callsheet is tested with, for your tests too.

- `Recorder`: a sink that keeps what it is sent, and can fold it as a client would.
- `assert_every_call_ended`: holds for any recording that no call was left open.
- `check_tool`: runs any tool through success, failure, bad arguments, timeout and cancel.
- `assert_standard`: holds that a `ToolResult` obeys the standard.
- `AgentClient`: starts any ACP agent, plays its client, and keeps every line.
- `Recording`: what went between a client and an agent; `check()` finds what is wrong with it. The pytest
  plugin (`plugin.py`) has it as a fixture, `acp_recording`.
- `FakeClock`: time that passes when you say so.
- `SlowPeer`, `DyingPeer`: real pipes with a reader that is slow, stops, or goes away.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .agent_process import AgentGone, Frame
    from .client import AgentClient, AgentError
    from .clock import FakeClock
    from .conformance import assert_standard, check_tool
    from .peers import DyingPeer, SlowPeer
    from .recordings import Recorder, assert_every_call_ended, calls_in, fold, updates_in
    from .traffic import Recording

__all__ = [
    "AgentClient",
    "AgentError",
    "AgentGone",
    "DyingPeer",
    "FakeClock",
    "Frame",
    "Recorder",
    "Recording",
    "SlowPeer",
    "assert_every_call_ended",
    "assert_standard",
    "calls_in",
    "check_tool",
    "fold",
    "updates_in",
]

_LAZY = {
    "AgentClient": "client",
    "AgentError": "client",
    "AgentGone": "agent_process",
    "DyingPeer": "peers",
    "FakeClock": "clock",
    "Frame": "agent_process",
    "Recorder": "recordings",
    "Recording": "traffic",
    "SlowPeer": "peers",
    "assert_every_call_ended": "recordings",
    "assert_standard": "conformance",
    "calls_in": "recordings",
    "check_tool": "conformance",
    "fold": "recordings",
    "updates_in": "recordings",
}
"""What is imported when it is asked for: pytest loads this package in every run, for its plugin."""


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'callsheet.testing' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"callsheet.testing.{module}"), name)
    return value
