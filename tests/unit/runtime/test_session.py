"""Sessions and calls: what is announced, and how every call ends."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from callsheet import Peer, PermissionDenied, Reason, Session, ToolCallContent, ToolCallStatus
from callsheet.report.errors import CallsheetError, LateUpdate
from callsheet.runtime.health import ConsumerLost, SessionClosed
from callsheet.testing import FakeClock, Recorder, assert_every_call_ended


def only(recorder: Recorder) -> Any:
    (report,) = recorder.fold()
    return report


async def test_a_call_is_announced_complete_at_once() -> None:
    recorder = Recorder()
    async with (
        Session(cwd="/home/me", sinks=[recorder]) as session,
        session.call(
            "read",
            {"path": "a.py"},
            title="Reading a.py",
            kind="read",
            locations=["/home/me/a.py"],
            alias="toolu_1",
        ) as call,
    ):
        await session.flush()
        (announced,) = recorder.updates
        assert announced == {
            "sessionUpdate": "tool_call",
            "toolCallId": call.id,
            "title": "Reading a.py",
            "kind": "read",
            "status": "pending",
            "name": "read",
            "locations": [{"path": "/home/me/a.py"}],
            "rawInput": {"path": "a.py"},
            "_meta": {"tool_name": "read", "callsheet": {"alias": "toolu_1"}},
        }
        call.succeed("done")


async def test_on_update_gets_lines_and_may_be_async() -> None:
    plain: list[bytes] = []
    slow: list[bytes] = []

    async def send(line: bytes) -> None:
        await asyncio.sleep(0.001)
        slow.append(line)

    async with Session(on_update=plain.append, sinks=[send]) as session:
        async with session.call("x", {}) as call:
            call.succeed("y")
        await session.flush()
        assert slow == plain
    assert len(plain) == 3
    assert all(line.endswith(b"}\n") for line in plain)


ENDS: list[tuple[str, Any, str, str]] = [
    ("nothing", None, "failed", "abandoned"),
    ("exception", ValueError("no\nsuch thing"), "failed", "exception"),
    ("timeout", TimeoutError(), "failed", "timeout"),
    ("denied", PermissionDenied("no"), "failed", "denied"),
    ("cancelled", asyncio.CancelledError(), "cancelled", "cancelled"),
    ("ctrl-c", KeyboardInterrupt(), "cancelled", "cancelled"),
    ("sys.exit", SystemExit(1), "failed", "abandoned"),
]


@pytest.mark.parametrize(("what", "exc", "status", "reason"), ENDS, ids=[e[0] for e in ENDS])
@pytest.mark.parametrize("started", [False, True, None], ids=["pending", "running", "paused"])
async def test_leaving_the_scope_ends_the_call(
    what: str, exc: BaseException | None, status: str, reason: str, started: bool | None
) -> None:
    recorder = Recorder(Peer(version=2))
    async with Session(sinks=[recorder]) as session:
        call = session.call("x", {})
        await call.__aenter__()
        if started is None:
            call.pause()
        elif started:
            call.start()
        await call.__aexit__(type(exc) if exc else None, exc, None)
    report = only(recorder)
    assert (report.status.value, report.reason.value) == (status, reason)
    assert_every_call_ended(recorder)


async def test_an_exception_is_reported_in_a_line_and_goes_on() -> None:
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError):
        async with Session(sinks=[recorder]) as session, session.call("x", {}) as call:
            call.start()
            1 / 0  # noqa: B018
    (item,) = only(recorder).content
    assert item.text == "ZeroDivisionError: division by zero"
    assert not any(b"Traceback" in line for line in recorder.lines)


async def test_a_long_message_is_cut_and_one_that_raises_is_left_out() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        for exc in (ValueError("x" * 5000), Odd()):
            call = session.call("x", {}).__enter__()
            call.__exit__(type(exc), exc, None)
    long, odd = (report.content[0].text for report in recorder.fold())
    assert (len(long), odd) == (300, "Odd")


async def test_a_timeout_of_the_call_ends_it() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        with pytest.raises(TimeoutError):
            async with session.call("x", {}, timeout=0.01):
                await asyncio.sleep(60)
    report = only(recorder)
    assert report.reason is Reason.TIMEOUT
    assert report.content[0].text == "Timed out after 0.01 s"


async def test_cancelling_a_task_cancels_its_call_and_no_other() -> None:
    recorder = Recorder()

    async def work(session: Session, name: str) -> None:
        async with session.call(name, {}) as call:
            call.start()
            await asyncio.sleep(0.05)
            call.succeed("done")

    async with Session(sinks=[recorder]) as session:
        one = asyncio.create_task(work(session, "one"))
        two = asyncio.create_task(work(session, "two"))
        await asyncio.sleep(0.01)
        one.cancel()
        await asyncio.gather(one, two, return_exceptions=True)
    assert {r.name: r.status.value for r in recorder.fold()} == {
        "one": "cancelled",
        "two": "completed",
    }
    wire = {u["status"] for u in recorder.updates if "status" in u}
    assert "cancelled" not in wire, "a v1 peer shows an unknown status as pending for ever"


async def test_closing_the_session_ends_what_is_open_children_first() -> None:
    recorder = Recorder()
    session = Session(sinks=[recorder])
    async with session:
        parent = session.call("parent", {}).__enter__()
        child = parent.call("child", {}).__enter__()
        child.pause()
    assert (parent.status, child.status) == (ToolCallStatus.FAILED, ToolCallStatus.FAILED)
    ends = [u["toolCallId"] for u in recorder.updates if u.get("status") == "failed"]
    assert ends == [child.id, parent.id]
    assert parent.report.content[0].text == "Interrupted: the session was closed"  # type: ignore[attr-defined]
    await session.close()


async def test_a_call_ends_once_and_late_updates_are_dropped_and_counted() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call("x", {}) as call:
            call.succeed("done")
            call.fail("no")
            call.write(b"late")
            call.title("late")
            call.progress(1, 2)
            call.locate("/late")
            call.start()
        assert session.health.dropped == 6
        assert "late" in session.health.faults[-1]
    assert not any(b"late" in line for line in recorder.lines)
    assert_every_call_ended(recorder)


async def test_in_strict_mode_faults_raise() -> None:
    async with Session(strict=True) as session:
        async with session.call("x", {}) as call:
            with pytest.raises(CallsheetError, match="not absolute"):
                call.update(locations=["relative"])
            with pytest.raises(CallsheetError, match="unknown reason"):
                call.fail("y", reason="because")
            call.succeed("y")
            with pytest.raises(LateUpdate):
                call.title("late")
        with pytest.raises(CallsheetError, match="unknown kind"):
            session.call("x", {}, kind="nonsense").__enter__()
        with pytest.raises(CallsheetError, match="nobody"):
            session.call("x", {}, parent="nobody").__enter__()


async def test_what_can_not_be_reported_is_left_out_and_the_rest_is_reported() -> None:
    recorder = Recorder()
    async with (
        Session(sinks=[recorder]) as session,
        session.call(
            "x", {"bad": object()}, parent="nobody", alias="", kind="nonsense", title="Doing x"
        ) as call,
    ):
        call.update(title="Doing y", raw_input={"bad": object()}, kind="read")
        call.locate(5)
        call.diff("/a", 5, "new")  # type: ignore[arg-type]
        call.show(object())  # type: ignore[arg-type]
        call.custom(bad=object())
        call.fail("broken", reason="because", raw=object())
    assert session.health.degraded == 6
    report = only(recorder)
    assert report.raw_input == {"bad": "<object>"}
    assert (report.title, report.kind.value, report.status.value) == ("Doing y", "read", "failed")
    assert report.reason is Reason.TOOL_ERROR


async def test_names_that_are_no_text_still_give_a_call() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.call(None, {}) as call:  # type: ignore[arg-type]
            call.succeed("ok")
    assert recorder.updates[0]["title"] == "Unknown tool"


async def test_sessions_do_not_see_each_other() -> None:
    one, two = Recorder(), Recorder()
    async with Session("one", sinks=[one]) as first, Session("two", sinks=[two]) as second:
        async with first.call("x", {}, alias="same") as a, second.call("y", {}, alias="same") as b:
            assert (first.get("same"), second.get("same")) == (a.report, b.report)
            assert first.get(b.id) is None
            a.succeed()
            b.succeed()
    assert [r.name for r in one.fold()] == ["x"]
    assert [r.name for r in two.fold()] == ["y"]


async def test_a_consumer_that_comes_late_receives_the_calls_that_live() -> None:
    late = Recorder()
    async with Session() as session:
        async with session.call("gone", {}) as call:
            call.succeed()
        async with session.call("alive", {}) as call:
            call.start()
            call.write(b"some output\n")
            session.attach(late)
            await session.flush()
            (report,) = late.fold()
            assert (report.name, report.status.value) == ("alive", "in_progress")
            assert "some output" in report.content[0].text  # type: ignore[attr-defined]
            call.succeed()
    assert_every_call_ended(late)


async def test_metadata_reports_times_usage_links_and_custom_fields() -> None:
    clock, recorder = FakeClock(start=1_700_000_000), Recorder()
    async with Session(sinks=[recorder], clock=clock) as session:
        async with session.call("a", {}) as first:
            first.succeed()
        async with session.call("p", {}) as parent:
            async with parent.call("b", {}, depends_on=[first], custom={"model": "m"}) as call:
                call.start()
                await clock.advance(1.5)
                call.custom(cost=3)
                call.usage(cpu_ms=12.4, max_rss_kb=2048)
                call.succeed()
            parent.succeed()
    notes = recorder.fold()[call.id].notes
    assert notes == {
        "parentId": parent.id,
        "dependsOn": [first.id],
        "custom": {"model": "m", "cost": 3},
        "startedAt": "2023-11-14T22:13:20.000Z",
        "endedAt": "2023-11-14T22:13:21.500Z",
        "durationMs": 1500.0,
        "usage": {"cpuMs": 12, "maxRssKb": 2048},
    }


async def test_usage_counts_the_process_and_its_children() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session, session.call("burn", {}) as call:
        call.start()
        code = "x = bytearray(80_000_000)\nfor i in range(3_000_000): pass"
        process = await asyncio.create_subprocess_exec("python3", "-c", code)
        await process.wait()
        call.succeed()
    usage = only(recorder).notes["usage"]
    assert usage["cpuMs"] > 20
    assert usage["maxRssKb"] > 78_000


async def test_progress_is_shown_in_the_title_while_the_call_runs() -> None:
    title, content, meta = (Recorder(Peer(progress=way)) for way in ("title", "content", "meta"))  # type: ignore[arg-type]
    async with Session(sinks=[title, content, meta]) as session:
        async with session.call("test", {}, title="Testing") as call:
            call.start()
            call.progress(3, 12, "tests/test_x.py")
            await session.flush()
            assert only(title).title == "Testing · 3/12 · tests/test_x.py"
            assert only(content).content[-1].text == "3/12 · tests/test_x.py"
            assert only(meta).title == "Testing"
            call.title("Testing again")
            call.progress(4.5)
            await session.flush()
            assert only(title).title == "Testing again · 4.5"
            call.succeed()
    assert only(title).title == "Testing again"
    assert only(content).content == ()
    assert only(meta).notes["progress"] == {"done": 4.5}


async def test_parents_are_reported_under_the_keys_that_a_peer_reads() -> None:
    plain, theirs = Recorder(), Recorder(Peer(parent_keys=("claudeCode", "parentToolCallId")))
    async with Session(sinks=[plain, theirs]) as session:
        async with session.call("p", {}) as parent, parent.call("c", {}) as child:
            child.succeed()
            parent.succeed()
    meta = theirs.fold()[child.id].meta
    assert meta["claudeCode"] == {"parentToolUseId": parent.id}
    assert meta["parentToolCallId"] == parent.id
    assert set(plain.fold()[child.id].meta) == {"callsheet"}


async def test_diffs_and_locations_are_shown_and_the_last_place_is_where_the_work_is() -> None:
    recorder = Recorder()
    async with Session(cwd="/home/me", sinks=[recorder]) as session:
        async with session.call("edit", {"path": "a.py"}) as call:
            call.locate("a.py", line=3)
            call.locate(Path("b.py"))
            call.locate("a.py", line=5)
            call.diff("a.py", "old\n", "draft\n")
            call.diff("a.py", "old\n", "new\n")
            call.diff("/home/me/c.py", None, "c\n")
            call.succeed()
    report = only(recorder)
    places = [(place.path, place.line) for place in report.locations]
    assert places == [("/home/me/b.py", None), ("/home/me/a.py", 5), ("/home/me/c.py", None)]
    changes = [item.changes[0] for item in report.content]
    assert [(c.path, c.old_text, c.new_text) for c in changes] == [
        ("/home/me/a.py", "old\n", "new\n"),
        ("/home/me/c.py", None, "c\n"),
    ]


async def test_a_batch_groups_calls_and_its_summary_rolls() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.batch("Reading 3 files", total=3, summary=True) as batch:
            for name in ("a", "b", "c"):
                async with batch.call("read", {"path": name}) as call:
                    call.succeed()
                await session.flush()
    parent, *children = recorder.fold()
    assert [child.notes["batchId"] for child in children] == [batch.id] * 3
    assert {child.parent_id for child in children} == {parent.tool_call_id}
    titles = [
        u["title"]
        for u in recorder.updates
        if u["toolCallId"] == parent.tool_call_id and "title" in u
    ]
    assert titles[-2:] == ["Reading 3 files · 3/3", "Reading 3 files"]
    assert "Reading 3 files · 1/3" in titles
    assert (parent.status.value, parent.content[0].text) == ("completed", "3 of 3")  # type: ignore[attr-defined]


async def test_a_batch_with_a_failure_fails_and_one_without_a_summary_has_no_call() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        async with session.batch("two", summary=True) as batch:
            async with session.call("x", {}, batch=batch) as call:
                call.succeed()
            async with session.call("y", {}, batch=batch) as call:
                call.fail("no")
        async with session.batch() as quiet, quiet.call("z", {}) as call:
            call.succeed()
    parent, _, _, z = recorder.fold()
    assert (parent.status.value, parent.content[0].text) == ("failed", "2 of 2 · 1 failed")  # type: ignore[attr-defined]
    assert (z.notes["batchId"], z.parent_id) == (quiet.id, None)
    assert_every_call_ended(recorder)


async def test_a_batch_that_is_left_by_an_exception_ends_its_call() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        with pytest.raises(KeyError):
            async with session.batch("x", summary=True):
                raise KeyError("x")
        with pytest.raises(asyncio.CancelledError):
            async with session.batch("y", summary=True):
                raise asyncio.CancelledError
    assert [r.status.value for r in recorder.fold()] == ["failed", "cancelled"]


# Permission


async def asked(answer: Any, **options: Any) -> tuple[Recorder, list[Any], BaseException | None]:
    recorder, questions = Recorder(), []

    async def ask(question: Any) -> Any:
        questions.append((question, len(recorder.lines)))
        return answer

    caught: BaseException | None = None
    async with Session(sinks=[recorder], on_permission=ask) as session:
        try:
            async with session.call("bash", {"command": "rm -rf build"}, **options) as call:
                await call.permission()
                call.start()
                call.succeed("gone")
        except PermissionDenied as exc:
            caught = exc
    return recorder, questions, caught


@pytest.mark.parametrize(
    "answer",
    ["allow_once", "allow_always", {"outcome": {"outcome": "selected", "optionId": "allow_once"}}],
)
async def test_a_permitted_call_goes_on(answer: Any) -> None:
    recorder, [(question, seen)], caught = await asked(answer)
    assert caught is None
    assert only(recorder).status is ToolCallStatus.COMPLETED
    assert seen == 1, "the client knows the call before it is asked about it"
    params = question.params(1)
    assert params["toolCall"]["rawInput"] == {"command": "rm -rf build"}
    assert params["toolCall"]["toolCallId"] == only(recorder).tool_call_id


@pytest.mark.parametrize(
    "answer",
    [
        "reject_once",
        "reject_always",
        "yes",
        True,
        None,
        {},
        {"outcome": "selected"},
        {"outcome": {"outcome": "ok"}},
    ],
)
async def test_a_denied_call_ends_failed_with_reason(answer: Any) -> None:
    recorder, _, caught = await asked(answer)
    assert isinstance(caught, PermissionDenied)
    report = only(recorder)
    assert (report.status.value, report.reason) == ("failed", Reason.DENIED)


async def test_a_cancelled_question_cancels_the_call() -> None:
    recorder, _, caught = await asked({"outcome": {"outcome": "cancelled"}})
    assert isinstance(caught, PermissionDenied)
    assert only(recorder).status is ToolCallStatus.CANCELLED


async def test_nobody_approves_blind_and_nobody_to_ask_is_no() -> None:
    recorder = Recorder()

    async def ask(question: Any) -> str:
        raise AssertionError("must not be asked")

    for given in (ask, None):
        async with Session(sinks=[recorder], on_permission=given) as session:
            with pytest.raises(PermissionDenied):
                async with session.call("bash") as call:
                    await call.permission()
    assert {r.reason for r in recorder.fold()} == {Reason.DENIED}


async def test_a_tool_that_catches_the_denial_does_not_end_the_call_twice() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session, session.call("bash", {}) as call:
        with pytest.raises(PermissionDenied):
            await call.permission()
        call.succeed("did it anyway")
    assert only(recorder).reason is Reason.DENIED
    assert session.health.dropped == 1


# Misuse


async def test_a_call_is_entered_once_and_before_it_is_used() -> None:
    async with Session() as session:
        call = session.call("x", {})
        with pytest.raises(RuntimeError, match="not announced yet"):
            call.start()
        with call:
            call.succeed()
        with pytest.raises(RuntimeError, match="announced once"):
            call.__enter__()


def test_a_session_needs_an_event_loop_first() -> None:
    session = Session()
    with pytest.raises(SessionClosed, match="async with Session"):
        session.call("x", {}).__enter__()


async def test_a_closed_session_counts_and_a_strict_one_refuses() -> None:
    async with Session() as session:
        pass
    async with session.call("x", {}) as call:
        call.succeed()
    assert session.health.dropped == 1
    async with Session(strict=True) as session:
        pass
    with pytest.raises(SessionClosed):
        session.call("x", {}).__enter__()
    with pytest.raises(SessionClosed):
        await session.__aenter__()


async def test_a_sink_that_is_none_is_refused() -> None:
    with pytest.raises(CallsheetError, match="expected a function or a Sink, got int"):
        async with Session(sinks=[5]):  # type: ignore[list-item]
            pass


async def test_strict_flush_raises_what_a_consumer_did() -> None:
    def broken(line: bytes) -> None:
        raise BrokenPipeError

    session = Session(on_update=broken, strict=True).open()
    session.call("x", {}).__enter__().succeed()
    with pytest.raises(ConsumerLost, match="BrokenPipeError"):
        await session.flush()
    await session.close()


async def test_images_and_links_are_shown_beside_the_result() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session, session.call("shot", {}) as call:
        call.show(ToolCallContent.image(b"\x89PNG", "image/png"), "a note")
        call.succeed(["one", ToolCallContent.text("two")])
    kinds = [type(item).__name__ for item in only(recorder).content]
    assert kinds == ["ImageContent", "TextContent", "TextContent", "TextContent"]


async def test_methods_may_be_called_from_any_thread() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:

        def work() -> None:
            with session.call("thread", {}) as call:
                call.start()
                call.write("from a thread\n")
                call.succeed()

        thread = threading.Thread(target=work)
        thread.start()
        await asyncio.to_thread(thread.join)
        await session.flush()
        assert only(recorder).status is ToolCallStatus.COMPLETED


async def test_flush_may_be_awaited_on_another_loop() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder]) as session:
        session.call("x", {}).__enter__().succeed()
        await asyncio.to_thread(lambda: asyncio.run(session.flush()))
        assert len(recorder.lines) == 3


# Calls that are no scopes


async def test_an_open_call_ends_like_a_scope_and_closing_it_twice_is_harmless() -> None:
    recorder = Recorder()
    async with Session(sinks=[recorder], strict=True) as session:
        done = session.open_call("bash", {"command": "make"}, alias="toolu_1")
        done.start()
        done.succeed("ok")
        done.close()
        failed = session.open_call("bash", {"command": "make"})
        failed.close(RuntimeError("no make"))
        failed.close()
        cancelled = session.open_call("bash", {"command": "make"})
        cancelled.close(asyncio.CancelledError())
        left = session.open_call("bash", {"command": "make"})
        await session.flush()
        assert session.get(left.id).status is ToolCallStatus.PENDING  # pyright: ignore
    ends = [(str(one.status), one.notes.get("reason")) for one in recorder.fold()]
    assert ends == [
        ("completed", None),
        ("failed", "exception"),
        ("cancelled", "cancelled"),
        ("failed", "abandoned"),
    ]
    assert_every_call_ended(recorder)


async def test_on_params_gets_the_same_updates_as_dicts_and_may_be_async() -> None:
    recorder = Recorder()
    got: list[Any] = []

    async def take(params: Any) -> None:
        await asyncio.sleep(0)
        got.append(params)

    async with Session("sess_1", sinks=[recorder], on_params=take) as session:
        async with session.call("x", {}) as call:
            call.succeed("y")
    assert [params["sessionId"] for params in got] == ["sess_1"] * 3
    assert [params["update"] for params in got] == recorder.updates
