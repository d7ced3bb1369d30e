"""The ids of calls and messages, where several runs of an agent have used the same."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from msgspec.structs import replace

from callsheet.report.content import TerminalContent
from callsheet.report.terminal import CallRecord


def names(told: str) -> Iterator[str]:
    """Return the ids that a call may have in its session, the one that its agent told first."""
    yield told
    for number in count(2):
        yield f"{told}~{number}"


def named(record: CallRecord, call_id: str) -> CallRecord:
    """Return a call by the id that it has in its session. Its terminals get names of their own with it."""
    report, terminals = record.report, record.terminals
    told = report.tool_call_id
    if told == call_id:
        return record
    content = report.content
    if call_id.startswith(f"{told}~"):
        end = call_id[len(told) :]
        content = tuple(
            replace(item, terminal_id=item.terminal_id + end)
            if type(item) is TerminalContent
            else item
            for item in content
        )
        terminals = tuple([replace(one, terminal_id=one.terminal_id + end) for one in terminals])
    return CallRecord(replace(report, tool_call_id=call_id, content=content), terminals)


def run_of(key: str, message_id: str) -> str:
    """Return the run that a message was said in; empty where none was noted."""
    return "" if key.startswith(f"{message_id} ") else key.partition(" ")[0]
