"""Helpers for tests: the ones that callsheet itself is tested with.

- `Recorder`: a sink that records what it receives, and can fold it as a client would.
- `assert_every_call_ended`: asserts that no call of a recording was left open.
- `check_tool`: runs any tool through success, failure, bad arguments, timeout and cancel.
- `assert_standard`: asserts that a `ToolResult` conforms to the standard.
- `AgentClient`: starts any ACP agent, plays its client, and records every line.
- `Recording`: the traffic between a client and an agent; `check()` finds what is wrong with it. The pytest
  plugin (`plugin.py`) provides it as a fixture, `acp_recording`.
- `FakeClock`: a clock that a test advances.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from callsheet.testing.agent_client import AgentClient, AgentError, AgentGone
    from callsheet.testing.conformance import assert_standard, check_tool
    from callsheet.testing.fake_clock import FakeClock
    from callsheet.testing.recordings import (
        Frame,
        Recorder,
        Recording,
        assert_every_call_ended,
        fold,
        updates_in,
    )

__all__ = [
    "AgentClient", "AgentError", "AgentGone", "FakeClock", "Frame", "Recorder", "Recording",
    "assert_every_call_ended", "assert_standard", "check_tool", "fold", "updates_in",
]  # fmt: skip

_MODULES = {
    "agent_client": ("AgentClient", "AgentError", "AgentGone"),
    "conformance": ("assert_standard", "check_tool"),
    "fake_clock": ("FakeClock",),
}
"""What is imported when it is asked for: pytest loads this package in every run, for its plugin."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'callsheet.testing' has no attribute {name!r}")
    from importlib import import_module

    module = next((one for one, names in _MODULES.items() if name in names), "recordings")
    value = globals()[name] = getattr(import_module(f"callsheet.testing.{module}"), name)
    return value
