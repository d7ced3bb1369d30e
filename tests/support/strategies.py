"""Hypothesis strategies: any value, any content, any legal life of a call.

Events are made as they would come from a tool: well-formed, in an order that the transition table
allows. Keys of `_meta` and unknown keys are drawn from names that are nobody's: the names that
callsheet uses on the wire are reserved.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from hypothesis import strategies as st

from callsheet import ToolCallContent, ToolCallLocation, ToolCallReport, ToolCallStatus, ToolKind
from callsheet.report.content import (
    AudioContent,
    DiffContent,
    EmbeddedResource,
    FileChange,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from callsheet.report.events import (
    CallChanged,
    CallOpened,
    ContentAppended,
    Event,
    ExitStatus,
    TerminalChanged,
    TerminalOutput,
)
from callsheet.report.status import MOVES, Reason

unicode_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = st.text("abcdefghijklmnopqrstuvwxyzäé漢🙂 _-*`'\"\\", min_size=1, max_size=12)
code = st.text(st.sampled_from("ab+-@ \\\r\n\n\n\t`é漢🙂\u2028\x0c"), max_size=60)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.floats(allow_nan=False, allow_infinity=False),
    unicode_text,
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(unicode_text, inner, max_size=4),
    max_leaves=12,
)
some_json = json_values.filter(lambda value: value is not None)
own_keys = st.sampled_from(["x-a", "x-b", "vendor", "traceparent", "ключ"])
objects = st.dictionaries(own_keys, some_json, max_size=3)
maybe_object = st.none() | objects.filter(bool)

segments = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=10
)
paths = st.one_of(
    st.lists(segments, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts)),
    words.map(lambda name: f"/home/me/{name}.py"),
    words.map(lambda name: f"C:\\work\\{name}.py"),
)
locations = st.builds(
    ToolCallLocation, paths, st.none() | st.integers(1, 2**32 - 1), maybe_object, maybe_object
)
kinds = st.sampled_from([*ToolKind, "_deploy", "_x.y", "_a-b"])

base64s = st.binary(max_size=24).map(lambda data: b64encode(data).decode())
mimes = st.sampled_from(["image/png", "audio/wav", "text/x-python", "application/octet-stream"])
uris = words.map(lambda name: f"file:///{name.encode().hex()}")
block = {
    "annotations": st.none() | st.just({"priority": 0.5, "audience": ["user"]}),
    "meta": maybe_object,
    "extra": maybe_object,
    "outer": maybe_object,
}
texts = st.builds(TextContent, unicode_text | code, **block)
blocks = st.one_of(
    texts,
    st.builds(ImageContent, base64s, mimes, st.none() | uris, **block),
    st.builds(AudioContent, base64s, mimes, **block),
    st.builds(
        ResourceLink,
        uris,
        words,
        st.none() | words,
        st.none() | words,
        st.none() | mimes,
        st.none() | st.integers(0, 2**40),
        **block,
    ),
    st.builds(
        EmbeddedResource,
        uris,
        code,
        st.none(),
        st.none() | mimes,
        maybe_object,
        maybe_object,
        **block,
    ),
    st.builds(EmbeddedResource, uris, st.none(), base64s, st.none() | mimes, **block),
)


@st.composite
def file_changes(draw: st.DrawFn) -> FileChange:
    operation = draw(st.sampled_from(["add", "modify", "delete", "move", "copy", "_chmod"]))
    with_text = operation != "_chmod" and draw(st.booleans())
    return FileChange(
        path=draw(paths),
        operation=operation,
        old_path=draw(paths) if operation in ("move", "copy") else None,
        old_text=draw(code) if with_text and operation != "add" else None,
        new_text=draw(code) if with_text and operation != "delete" else None,
        file_type=draw(st.sampled_from([None, "text", "binary", "directory", "symlink", "_x"])),
        mime_type=draw(st.none() | mimes),
        meta=draw(maybe_object),
        extra=draw(maybe_object),
    )


def _one_each(changes: list[FileChange]) -> bool:
    return len({change.path for change in changes}) == len(changes)


diffs = st.builds(
    lambda changes, meta, extra: DiffContent(tuple(changes), None, meta, extra),
    st.lists(file_changes(), min_size=1, max_size=3).filter(_one_each),
    maybe_object,
    maybe_object,
)
unknowns = st.one_of(
    st.builds(lambda extra: UnknownContent({**extra, "type": "_chart"}), objects),
    st.builds(
        lambda extra: UnknownContent({"type": "content", "content": {**extra, "type": "_video"}}),
        objects,
    ),
)
items = blocks | diffs | unknowns
content = st.lists(items, max_size=4).map(tuple)
notes = st.fixed_dictionaries(
    {},
    optional={
        "startedAt": st.just("2026-01-02T03:04:05.678Z"),
        "durationMs": st.integers(0, 10**6),
        "progress": st.just({"done": 3, "total": 12, "message": "x"}),
        "custom": objects,
    },
)

fields = st.fixed_dictionaries(
    {},
    optional={
        "name": words,
        "title": unicode_text,
        "kind": kinds,
        "content": content,
        "locations": st.lists(locations, max_size=3).map(tuple),
        "raw_input": json_values,
        "raw_output": json_values,
    },
)


@st.composite
def lives(draw: st.DrawFn, tool_call_id: str = "call_1", *, item: Any = items) -> list[Event]:
    """A legal life of one call: announced somehow, changed in many ways, perhaps ended."""
    status = draw(st.sampled_from([*[ToolCallStatus.PENDING] * 6, *ToolCallStatus]))
    first = draw(fields)
    report = ToolCallReport(
        tool_call_id=tool_call_id,
        status=status,
        meta={**draw(objects), "callsheet": draw(notes)},
        extra=draw(objects),
        **{key: value for key, value in first.items() if value is not None},
    )
    events: list[Event] = [CallOpened(report)]
    for _ in range(draw(st.integers(0, 5))):
        if status.is_final:
            break
        if draw(st.booleans()):
            events.append(ContentAppended(tool_call_id=tool_call_id, item=draw(item)))
            continue
        changed = draw(fields)
        if draw(st.booleans()):
            status = draw(st.sampled_from(sorted([*MOVES[status], status])))
            changed["status"] = status
        note = dict(draw(notes))
        if status is ToolCallStatus.FAILED:
            failed = [r.value for r in Reason if r is not Reason.CANCELLED]
            note["reason"] = draw(st.sampled_from(failed))
        patch = st.dictionaries(own_keys, st.none() | some_json, max_size=2)
        events.append(
            CallChanged(
                tool_call_id=tool_call_id,
                fields=changed,
                meta=draw(st.none() | patch),
                notes=note or None,
                extra=draw(st.none() | patch),
                clear_meta=draw(st.sampled_from([False, False, False, True])),
            )
        )
    return events


@st.composite
def terminal_lives(draw: st.DrawFn, terminal_id: str = "term_1") -> list[Event]:
    """A terminal's life. Its output is valid UTF-8 as a whole, cut at any byte."""
    output = draw(st.text("ab\n\x1b[0m é漢🙂", max_size=60)).encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(output)), max_size=4)))
    chunks = [output[a:b] for a, b in zip([0, *cuts], [*cuts, len(output)], strict=True)]
    events: list[Event] = [
        TerminalChanged(
            terminal_id=terminal_id,
            command=draw(st.none() | words),
            cwd=draw(st.none() | paths),
            meta=draw(objects),
            extra=draw(st.just({}) | st.just({"size": {"cols": 80, "rows": 24}})),
        )
    ]
    if draw(st.booleans()):
        events.append(TerminalChanged(terminal_id=terminal_id, output=b"replaced \xf0\x9f\x99\x82"))
    events += [TerminalOutput(terminal_id=terminal_id, data=chunk) for chunk in chunks]
    if draw(st.booleans()):
        code_, signal = draw(st.sampled_from([(0, None), (3, None), (None, "SIGKILL")]))
        status = ExitStatus(exit_code=code_, signal=signal)
        events.append(TerminalChanged(terminal_id=terminal_id, exit_status=status))
    return events


terminal_item = ToolCallContent.terminal("term_1")
