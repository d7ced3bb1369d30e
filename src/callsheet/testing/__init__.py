"""What callsheet is tested with, for your tests too.

- `Recorder`: a sink that keeps what it is sent, and can fold it as a client would.
- `assert_every_call_ended`: holds for any recording that no call was left open.
- `FakeClock`: time that passes when you say so.
- `SlowPeer`, `DyingPeer`: real pipes with a reader that is slow, stops, or goes away.
"""

from .clock import FakeClock
from .peers import DyingPeer, SlowPeer
from .recordings import (
    Recorder,
    assert_every_call_ended,
    calls_in,
    fold,
    updates_in,
)

__all__ = [
    "DyingPeer",
    "FakeClock",
    "Recorder",
    "SlowPeer",
    "assert_every_call_ended",
    "calls_in",
    "fold",
    "updates_in",
]
