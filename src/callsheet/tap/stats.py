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
    "title": ("bare title replaced", "bare titles replaced"),
    "name": ("tool name added", "tool names added"),
    "kind": ("kind added", "kinds added"),
    "input": ("input recovered", "inputs recovered"),
    "locations": ("call with locations added", "calls with locations added"),
    "paths": ("call with paths made absolute", "calls with paths made absolute"),
    "content": ("content corrected", "contents corrected"),
    "status": ("status corrected", "statuses corrected"),
    "end": ("open call ended", "open calls ended"),
    "announcement": ("missing announcement added", "missing announcements added"),
    "repeated": (
        "repeated announcement turned into an update",
        "repeated announcements turned into updates",
    ),
    "question": ("request for permission completed", "requests for permission completed"),
    "id": ("duplicate id made unique", "duplicate ids made unique"),
    "session": ("update under the wrong session moved", "updates under the wrong session moved"),
}
"""What was repaired: of one call, and of several."""


def table(account: Account, by: str = "tap") -> str:
    """Return the counts as a table of text, or "" if there is nothing to report.

    Args:
        account: The counts.
        by: The `callsheet` command to name in the first line.
    """
    if account.is_empty:
        return ""
    repaired = sorted(account.repaired.items(), key=lambda item: (-item[1], item[0]))
    counts = [(count, *_WORDS.get(key, (key, key))) for key, count in repaired]
    counts += [
        (count, f"{key} update left out", f"{key} updates left out")
        for key, count in account.dropped.items()
    ]
    counts.append((account.hidden, "secret hidden", "secrets hidden"))
    rest = "cut, the rest saved in"
    counts.append((account.cut, f"value {rest} a file", f"values {rest} files"))
    rows = [_row(*one) for one in counts if one[0]]
    if account.received:
        received, sent = bytes_text(account.received), bytes_text(account.sent)
        rows.append((received, f"about calls received from the agent, {sent} sent to the client"))
    if account.faults:
        unread = f"passed on unchanged: {account.first_fault}"
        rows.append(_row(account.faults, f"message {unread}", f"messages {unread}"))
    width = max((len(count) for count, _ in rows), default=0)
    lines = [f"  {count:>{width}}  {what}" for count, what in rows]
    return "\n".join([f"callsheet {by}: {plural(account.calls, 'call')}", *lines, ""])


def _row(count: int, noun: str, nouns: str) -> tuple[str, str]:
    """Return a count and what it counts, as two columns."""
    number, _, what = plural(count, noun, nouns).partition(" ")
    return number, what
