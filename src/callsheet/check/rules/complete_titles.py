"""Does a call say what it is: by its title, its kind, its tool's name?"""

from __future__ import annotations

from typing import Any

from callsheet.check.finding import Rule, Said
from callsheet.check.quoting import quoted
from callsheet.observe.events import CallClosed
from callsheet.observe.model import ObservedCall, text
from callsheet.observe.tool_identity import NO_KIND, certain_kind, is_bare_title, tool_name


def bare_at_first(over: CallClosed) -> Said | None:
    """Find an announcement under the tool's bare name."""
    call = over.call
    if call.announced is None or call.is_replayed:
        return None
    what = _bare(call, call.opening.get("title"))
    return Said(f"it is announced {what}", "update.title", call.announced) if what else None


def bare_for_ever(over: CallClosed) -> Said | None:
    """Find a call that never says what it does."""
    call = over.call
    if call.announced is None or not over.is_settled:
        return (
            None  # of a call that was never announced, the title may have been told by a question
        )
    what = _bare(call, call.fields.get("title"))
    return Said(f"to the end, it stands {what}", "update.title") if what else None


def kind_missing(over: CallClosed) -> Said | None:
    """Find a call without a kind, or with `other`, although its tool is well known."""
    call = over.call
    kind = call.fields.get("kind")
    if kind not in NO_KIND or not over.is_known or not over.is_settled:
        return None
    if call.opening.get("kind") not in NO_KIND:
        return None  # it was told, and taken back
    known = certain_kind(call)
    if known is None:
        return None
    has = "it has no kind" if kind is None else "its kind is `other`"
    return Said(f"{has}, but {quoted(tool_name(call))} is `{known}`", "update.kind")


def name_missing(over: CallClosed) -> Said | None:
    """Find a call that does not say which tool it is of."""
    if over.call.name or not over.is_known or not over.is_settled:
        return None
    return Said("its tool's name is nowhere", "update.name", over.call.announced)


def _bare(call: ObservedCall, told: Any) -> str | None:
    """Say what a title lacks, or None if it tells something."""
    title = text(told) or ""
    if not is_bare_title(title, call):
        return None
    return (
        f"as {quoted(title)}, which is no more than a name" if title.strip() else "without a title"
    )


RULES = (
    Rule(
        id="complete/title-at-first",
        severity="advice",
        moment=CallClosed,
        title="A call is announced under its tool's bare name",
        protocol="`title` describes what the tool is doing, for people. It may be updated later.",
        harm='People see "bash" or "read" and don\'t know what is being done until an update comes.',
        fix="Announce the call when its input is known, with a title that names the file or the command.",
        check=bare_at_first,
        example='{"tool_call": "c1", "title": "bash", "kind": "execute"}\n'
        '{"tool_call_update": "c1", "title": "make test", "status": "completed"}',
    ),
    Rule(
        id="complete/title",
        severity="warning",
        moment=CallClosed,
        title="A call never says what it does",
        protocol="`title` describes what the tool is doing, for people.",
        harm="A list of cards that all say the same tells nobody which file was read or what was run.",
        fix="Put what matters of the input into the title: the path, the command, the pattern.",
        check=bare_for_ever,
        example='{"tool_call": "c1", "title": "bash", "kind": "execute"}\n'
        '{"tool_call_update": "c1", "status": "completed"}',
    ),
    Rule(
        id="complete/kind",
        severity="warning",
        moment=CallClosed,
        title="The kind is missing where it is known",
        protocol="`kind` says what sort of tool it is. Clients choose icons and views by it.",
        harm="Edits and commands look like anything else; editors treat them all as `other`.",
        fix="Send the kind with the announcement: read, edit, delete, move, search, execute or fetch.",
        check=kind_missing,
        example='{"tool_call": "c1", "title": "Reading a.py", "name": "read_file", "kind": "other",'
        ' "status": "completed"}',
    ),
    Rule(
        id="complete/name",
        severity="advice",
        moment=CallClosed,
        title="The tool's name is missing",
        protocol="`name` is the programmatic name of the tool. It is optional.",
        harm="Who filters, counts or audits calls has to guess the tool from a title made for people.",
        fix="Send `name` with the announcement.",
        check=name_missing,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed"}',
    ),
)
