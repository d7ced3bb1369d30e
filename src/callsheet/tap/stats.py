"""Count what a tap has done, and format the counts as a short table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct, field

from callsheet.report.humanize import bytes_text


class Account(Struct):
    """Counts over the life of a tap.

    Attributes:
        calls: Calls that were reported.
        repaired: Calls that were repaired, by what was repaired: title, input, status, end, …
        dropped: Updates of calls that were not passed on, by the reason, such as `late`.
        received: Bytes about calls that came from the agent.
        sent: Bytes about calls that were sent to the client.
        hidden: Secrets that were redacted.
        cut: Values that were cut.
        faults: Messages that the tap failed on, and passed on unrepaired.
        first_fault: The first exception of the tap's own code, as a text.
    """

    calls: int = 0
    repaired: Counter[str] = field(default_factory=Counter[str])
    dropped: Counter[str] = field(default_factory=Counter[str])
    received: int = 0
    sent: int = 0
    hidden: int = 0
    cut: int = 0
    faults: int = 0
    first_fault: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.calls or self.hidden or self.faults)


_WORDS = {
    "title": "bare title{s} replaced",
    "name": "tool{s} named",
    "kind": "kind{s} found",
    "input": "input{s} restored",
    "locations": "call{s} given locations",
    "paths": "call{s} given absolute paths",
    "content": "content{s} put right",
    "status": "status{es} put right",
    "end": "call{s} ended that {were} left open",
    "announcement": "announcement{s} made up",
    "repeated": "repeated announcement{s} made {an}update{s}",
    "question": "request{s} for permission made whole",
    "id": "id{s} kept apart",
    "session": "update{s} under the wrong session moved",
}
_ONE = {"s": "", "es": "", "were": "was", "an": "an "}
_MANY = {"s": "s", "es": "es", "were": "were", "an": ""}


def table(account: Account, by: str = "tap") -> str:
    """Return the counts as a table of text, or "" if there is nothing to report.

    Args:
        account: The counts.
        by: The `callsheet` command to name in the first line.
    """
    if account.is_empty:
        return ""
    rows = list(_rows(account))
    width = max(len(count) for count, _ in rows)
    head = f"callsheet {by}: {account.calls} call{'' if account.calls == 1 else 's'}"
    return "\n".join([head, *(f"  {count:>{width}}  {what}" for count, what in rows)]) + "\n"


def _rows(account: Account) -> Iterator[tuple[str, str]]:
    for key, count in sorted(account.repaired.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count:,}", _in_number(_WORDS.get(key, key), count)
    for key, count in account.dropped.items():
        yield f"{count:,}", _in_number(f"{key} update{{s}} left out", count)
    yield f"{account.hidden:,}", _in_number("secret{s} hidden", account.hidden)
    if account.cut:
        yield f"{account.cut:,}", _in_number("value{s} cut, the rest kept in files", account.cut)
    if account.received:
        received, sent = bytes_text(account.received), bytes_text(account.sent)
        yield received, f"about calls from the agent, {sent} to the client"
    if account.faults:
        words = _in_number("message{s} passed on unread: ", account.faults)
        yield f"{account.faults:,}", words + account.first_fault


def _in_number(words: str, count: int) -> str:
    return words.format(**(_ONE if count == 1 else _MANY))
