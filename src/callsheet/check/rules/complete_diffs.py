"""Does a diff show what was there before?"""

from __future__ import annotations

from collections.abc import Iterator

from callsheet.check.finding import Rule, Said
from callsheet.check.quoting import quoted
from callsheet.observe.events import PermissionAsked, UpdateApplied, UpdateArrived
from callsheet.observe.model import Json, ObservedCall, ObservedSession, many, obj, text


def old_text_left_out(told: UpdateArrived) -> list[Said] | None:
    """Find diffs without the key `oldText`. It is said once for each file of a call."""
    bare = list(bare_diffs(told.update)) if told.update.get("content") else None
    if not bare:
        return None
    before = told.call.fields if told.call is not None else {}
    known = {path for _, path in bare_diffs(before)}
    return [
        Said("the diff has no `oldText`", f"update.content[{index}]")
        for index, path in bare
        if path not in known
    ]


def overwrite_as_new(folded: UpdateApplied) -> list[Said] | None:
    """Find a call that ends with a diff of a new file, where there was a file before."""
    call = folded.call
    if call.ended != folded.line.number or call.status != "completed":
        return None
    return list(_as_new(call.fields, folded.session, call, "update"))


def overwrite_asked_as_new(asked: PermissionAsked) -> list[Said] | None:
    """Find the same where people have to decide about it."""
    question = asked.question
    if question.session is None:
        return None
    found = _as_new(question.tool_call, question.session, question.call, "params.toolCall")
    return list(found)


def _as_new(
    fields: Json, session: ObservedSession, call: ObservedCall | None, begin: str
) -> Iterator[Said]:
    for field, path in _new_files(fields):
        line = session.files.get(path)
        if line is not None and (call is None or line < call.first):
            yield Said(
                f"it is shown as new, but line {line} shows that {quoted(path)} was there",
                f"{begin}.{field}",
            )


def _new_files(fields: Json) -> Iterator[tuple[str, str]]:
    """Return the files that are shown as new: in v1 by their lack of an old text, in v2 by `add`."""
    for index, diff in _diffs(fields):
        path = text(diff.get("path"))
        if path is not None and diff.get("oldText") is None and diff.get("newText"):
            yield f"content[{index}].oldText", path
        for number, item in enumerate(many(diff.get("changes"))):
            change = obj(item)
            path = text(change.get("path"))
            if path is not None and change.get("operation") == "add":
                yield f"content[{index}].changes[{number}].operation", path


def bare_diffs(fields: Json) -> Iterator[tuple[int, str]]:
    """Return the diffs without the key `oldText`: their places in the content, and their paths."""
    for index, diff in _diffs(fields):
        if "newText" in diff and "oldText" not in diff:
            yield index, text(diff.get("path")) or ""


def _diffs(fields: Json) -> Iterator[tuple[int, Json]]:
    for index, item in enumerate(many(fields.get("content"))):
        told = obj(item)
        if told.get("type") == "diff":
            yield index, told


RULES = (
    Rule(
        id="complete/old-text-left-out",
        severity="advice",
        moment=UpdateArrived,
        title="A diff has no `oldText`",
        protocol="`oldText` is null or left out for a new file.",
        harm="Some clients show no diff at all without the key, and nobody can tell if it was forgotten.",
        fix="Send `oldText: null` for a new file, and the old text for one that was there.",
        check=old_text_left_out,
        example='{"tool_call": "c1", "title": "Writing a.py", "kind": "edit", "status": "completed",'
        ' "content": [{"type": "diff", "path": "/code/a.py", "newText": "x"}]}',
    ),
    Rule(
        id="complete/overwrite-as-new",
        severity="error",
        moment=UpdateApplied,
        title="An overwrite is shown as a new file",
        protocol="`oldText` is the original content; null or left out only for new files.",
        harm="People believe that nothing was lost, where a whole file was replaced.",
        fix="Read the file before it is written, and send its content as `oldText`.",
        check=overwrite_as_new,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed",'
        ' "locations": [{"path": "/code/a.py"}], "content": [{"type": "content", "content":'
        ' {"type": "text", "text": "import this"}}]}\n'
        '{"tool_call": "c2", "title": "Writing a.py", "kind": "edit", "status": "completed",'
        ' "content": [{"type": "diff", "path": "/code/a.py", "oldText": null, "newText": "x"}]}',
    ),
    Rule(
        id="complete/overwrite-asked-as-new",
        severity="error",
        moment=PermissionAsked,
        title="Permission to overwrite is asked as if the file were new",
        protocol="`oldText` is the original content; null or left out only for new files.",
        harm="People agree to a new file, and lose the one that they had.",
        fix="Read the file before asking, and send its content as `oldText`.",
        check=overwrite_asked_as_new,
        example='{"tool_call": "c1", "title": "Reading a.py", "kind": "read", "status": "completed",'
        ' "locations": [{"path": "/code/a.py"}], "content": [{"type": "content", "content":'
        ' {"type": "text", "text": "import this"}}]}\n'
        '{"tool_call": "c2", "title": "Writing a.py", "kind": "edit"}\n'
        '{"id": 0, "method": "session/request_permission", "params": {"sessionId": "s1",'
        ' "toolCall": {"toolCallId": "c2", "content": [{"type": "diff", "path": "/code/a.py",'
        ' "oldText": null, "newText": "x"}]}, "options": [{"optionId": "n", "name": "No",'
        ' "kind": "reject_once"}]}}',
    ),
)
