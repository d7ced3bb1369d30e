"""Plain calls are sent without views: they must be sent as views would, and be read as if nothing were lazy."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from callsheet import Peer, Session, ToolCallContent, ToolCallStatus
from callsheet.testing import FakeClock, Recorder

OPERATIONS: dict[str, Any] = {
    "start": lambda call: call.start(),
    "pause": lambda call: call.pause(),
    "resume": lambda call: call.resume(),
    "title": lambda call: call.title("Another title"),
    "progress": lambda call: call.progress(1, 3),
    "show": lambda call: call.show("some text"),
    "locate": lambda call: call.locate("/home/dev/app/b.py", 3),
    "write": lambda call: call.write("output\n"),
    "raw": lambda call: call.update(raw_output={"rows": 3}),
    "meta": lambda call: call.update(meta={"vendor": 1}),
    "custom": lambda call: call.custom(cost=1),
    "read": lambda call: call.report,
}
ENDS: dict[str, Any] = {
    "text": lambda call: call.succeed("done", raw={"content": "done", "lines": 1}),
    "nothing": lambda call: call.succeed(),
    "repeated": lambda call: call.succeed("x" * 100, raw={"content": "x" * 100}),
    "diff": lambda call: call.succeed(ToolCallContent.diff("/home/dev/app/a.py", "old\n", "new\n")),
    "terminal": lambda call: call.succeed(ToolCallContent.terminal("term_of_the_client")),
    "secret": lambda call: call.succeed("ghp_" + "a1B2c3D4e5F6" * 3),
    "large": lambda call: call.succeed("y" * 200_000, raw=["z"] * 30_000),
    "number": lambda call: call.succeed("n", raw=2**80),
    "failed": lambda call: call.fail("no such file"),
    "denied": lambda call: call.fail("no", reason="denied"),
    "cancelled": lambda call: call.cancel(),
    "left": lambda call: None,
}
INPUTS: dict[str, Any] = {
    "none": (None, {}),
    "path": ({"path": "/home/dev/app/a.py", "limit": 20}, {}),
    "secret": ({"token": "ghp_" + "a1B2c3D4e5F6" * 3}, {}),
    "alias": ({}, {"alias": "toolu_1", "meta": {"vendor": {"a": 1}}}),
    "kind": ({}, {"kind": "_deploy"}),
}


@given(
    st.sampled_from(sorted(INPUTS)),
    st.lists(st.sampled_from(sorted(OPERATIONS)), max_size=4),
    st.sampled_from(sorted(ENDS)),
    st.booleans(),
)
def test_plain_calls_are_sent_as_views_would_send_them(
    name: str, operations: list[str], end: str, waits: bool
) -> None:
    # The second peer looks for parents in `_meta`, so its view translates, and compares, every state.
    direct, compared = Recorder(), Recorder(Peer(parent_keys=("parentToolCallId",)))
    late = Recorder()
    given, options = INPUTS[name]

    async def live() -> None:
        session = Session("s", cwd="/home/dev/app", sinks=[direct, compared], clock=FakeClock())
        async with session:
            assert [one.is_direct for one in session.consumers] == [True, False]
            async with session.call("read", given, **options) as call:
                for operation in operations:
                    OPERATIONS[operation](call)
                    if waits:
                        await session.flush()
                if waits:
                    session.attach(late)
                ENDS[end](call)
            assert call.report == session.get(call.id) == session.reports[0]
            assert call.report.status is call.status
            assert call.report.status.is_final

    asyncio.run(live())
    assert direct.updates == compared.updates
    if waits:
        (last,), (known,) = late.fold(), direct.fold()
        assert (last.status, last.content, last.meta) == (known.status, known.content, known.meta)


async def test_a_call_that_has_ended_is_read_as_long_as_the_ledger_has_it() -> None:
    async with Session(cwd="/home/dev/app", sinks=[Recorder()]) as session:
        calls = []
        for number in range(300):
            async with session.call("x", {"number": number}) as call:
                call.start()
                call.succeed(f"result {number}")
            calls.append(call)
        known = [report for call in calls if (report := session.get(call.id)) is not None]
        assert len(known) >= 256
        assert {report.status for report in known} == {ToolCallStatus.COMPLETED}
        assert [report.raw_input for report in known] == [{"number": n} for n in range(300)][
            -len(known) :
        ]
        assert session.reports == tuple(known)
