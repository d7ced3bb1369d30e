"""What a tap has done, as one short table."""

from __future__ import annotations

from collections.abc import Iterator

from .account import Account

_WORDS = {
    "title": "titles that said nothing",
    "name": "names of tools found",
    "kind": "kinds found",
    "input": "inputs restored",
    "locations": "locations found",
    "paths": "paths made absolute",
    "content": "contents put right",
    "status": "statuses put right",
    "end": "calls ended that were left open",
    "announcement": "announcements that were missing",
    "repeated": "announcements told again",
    "question": "requests for permission made whole",
    "id": "ids kept apart",
    "session": "updates under the wrong session",
}


def table(account: Account, by: str = "tap") -> str:
    """Give the table of a command. It is empty if there is nothing to tell."""
    if account.is_empty:
        return ""
    rows = list(_rows(account))
    width = max(len(count) for count, _ in rows)
    head = f"callsheet {by}: {account.calls} call{'' if account.calls == 1 else 's'}"
    return "\n".join([head, *(f"  {count:>{width}}  {what}" for count, what in rows)]) + "\n"


def _rows(account: Account) -> Iterator[tuple[str, str]]:
    for key, count in sorted(account.repaired.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count:,}", _WORDS.get(key, key)
    for key, count in account.dropped.items():
        yield f"{count:,}", f"{key} updates left out"
    yield f"{account.hidden:,}", "secrets hidden"
    if account.cut:
        yield f"{account.cut:,}", "values cut, the rest kept in files"
    if account.told:
        yield size(account.told), f"about calls from the agent, {size(account.sent)} to the client"
    for key, count in account.unspoken.items():
        yield f"{count:,}", f"not said in the client's protocol: {key}"
    if account.faults:
        yield f"{account.faults:,}", f"messages passed as they came: {account.first_fault}"


def size(count: int) -> str:
    """Give bytes as people read them."""
    if count < 1000:
        return f"{count} B"
    for unit in ("kB", "MB", "GB"):
        count_in = count / 1000
        count = int(count_in)
        if count < 1000:
            return f"{count_in:.1f} {unit}" if count_in < 10 else f"{count_in:.0f} {unit}"
    return f"{count:,} GB"
