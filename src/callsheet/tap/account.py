"""What a tap has done, counted: what was put right, what was left out, what was hidden."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field


class Account(Struct):
    """Counts over the life of a tap.

    - `calls`: calls that were heard of.
    - `repaired`: calls of which something was put right, by what: title, input, status, end, …
    - `dropped`: messages about calls that were not passed on, by why: late, repeated.
    - `told`, `sent`: bytes about calls that came from the agent, and that went to the client.
    - `hidden`: secrets that were taken out. `cut`: values that were cut.
    - `faults`: messages that the tap failed on, which were passed on as they came.
    """

    calls: int = 0
    repaired: Counter[str] = field(default_factory=Counter[str])
    dropped: Counter[str] = field(default_factory=Counter[str])
    told: int = 0
    sent: int = 0
    hidden: int = 0
    cut: int = 0
    faults: int = 0
    first_fault: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.calls or self.hidden or self.faults)
