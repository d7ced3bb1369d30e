"""Count what a tap has done, and format the counts as a short table."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from callsheet.report.humanize import bytes_text, plural


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
    "title": "bare titles replaced",
    "name": "tools named",
    "kind": "kinds found",
    "input": "inputs restored",
    "locations": "calls given locations",
    "paths": "calls given absolute paths",
    "content": "contents put right",
    "status": "statuses put right",
    "end": "calls ended that were left open",
    "announcement": "announcements made up",
    "repeated": "repeated announcements made updates",
    "question": "requests for permission made whole",
    "id": "ids kept apart",
    "session": "updates under the wrong session moved",
}


def table(account: Account, by: str = "tap") -> str:
    """Return the counts as a table of text, or "" if there is nothing to report.

    Args:
        account: The counts.
        by: The `callsheet` command to name in the first line.
    """
    if account.is_empty:
        return ""
    repaired = sorted(account.repaired.items(), key=lambda item: (-item[1], item[0]))
    rows = [(f"{count:,}", _WORDS.get(key, key)) for key, count in repaired]
    rows += [(f"{count:,}", f"{key} updates left out") for key, count in account.dropped.items()]
    rows.append((f"{account.hidden:,}", "secrets hidden"))
    if account.cut:
        rows.append((f"{account.cut:,}", "values cut, the rest kept in files"))
    if account.received:
        received, sent = bytes_text(account.received), bytes_text(account.sent)
        rows.append((received, f"about calls from the agent, {sent} to the client"))
    if account.faults:
        words = f"messages passed on unread: {account.first_fault}"
        rows.append((f"{account.faults:,}", words))
    width = max(len(count) for count, _ in rows)
    lines = [f"  {count:>{width}}  {what}" for count, what in rows]
    return "\n".join([f"callsheet {by}: {plural(account.calls, 'call')}", *lines, ""])
