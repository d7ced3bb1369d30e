"""What every adapter must do, as one suite. A test file says how its framework plays a script.

A script is what a model does: each step is a list of calls `(tool, arguments)`, or the text of the answer,
with which the run ends. The tools are plain functions, the same for all frameworks.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from base64 import b64decode
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import pytest

from callsheet import Session
from callsheet.adapters import running_call
from callsheet.adapters.framework import UnknownFramework, Versions, derived
from callsheet.report.report import ToolCallReport
from callsheet.testing import AgentClient, Recorder, Recording, assert_every_call_ended
from tests.adapters.typescript import hold_fold
from tests.clients import scenes
from tests.support import TESTS

Step: TypeAlias = "str | list[tuple[str, dict[str, Any]]]"

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel, as base64."""

LOOK = "?"
"""A text with which a scripted model answers what it sees."""

BREAK = "⚡"
"""A character in arguments at which the connection of a scripted model breaks."""


def typed(arguments: Any) -> Iterator[str]:
    """Return arguments as a model writes them."""
    for char in json.dumps(arguments, ensure_ascii=False):
        if char == BREAK:
            raise ConnectionError("broken")
        yield char


def looked(messages: Any) -> str:
    """Return what a model sees in what it was sent."""
    sent = repr(messages)
    return "a picture" if DOT in sent or repr(b64decode(DOT))[2:-1] in sent else "nothing"


def without(module: Any, name: str, patch: pytest.MonkeyPatch) -> None:
    """Take a name out of a module, also if the module imports it when it is used."""
    lazy = getattr(module, "__getattr__", None)

    def found(wanted: str) -> Any:
        if lazy is None or wanted == name:
            raise AttributeError(f"no {wanted}")
        return lazy(wanted)

    patch.delattr(module, name)
    patch.setattr(module, "__getattr__", found, raising=False)


def read_note(path: str) -> str:
    """Read a note."""
    return f"the note {path}"


def measure(path: str) -> dict[str, Any]:
    """Measure a note."""
    return {"path": path, "lines": [1, 2, 3]}


def explode(path: str) -> str:
    """Fail."""
    raise ValueError(f"no note {path}")


async def hang(path: str) -> str:
    """Take for ever."""
    Stage.hanging.set()
    await asyncio.sleep(60)
    return "rested"


async def doze(path: str) -> str:
    """Take longer than its timeout."""
    await asyncio.sleep(60)
    return "rested"


async def meet(name: str) -> str:
    """Wait until three are here, so that they surely run at the same time."""
    Stage.met.append(name)
    while len(Stage.met) < 3:
        await asyncio.sleep(0)
    return f"met {name}"


def write_note(path: str, text: str) -> str:
    """Write a note."""
    return f"wrote {len(text)} to {path}"


def advance(path: str) -> str:
    """Say how far it is."""
    if call := running_call():
        call.progress(1, 2, "half")
    return "advanced"


def remove_note(path: str) -> str:
    """Remove a note. It needs approval."""
    return f"removed {path}"


PLAIN = (read_note, write_note, measure, explode, hang, meet, advance)
"""The tools that need nothing of a framework's. `remove_note` is to need approval, `doze` to have a timeout."""


class Stage:
    """A session that a recorder listens to, and what was seen of it."""

    hanging: ClassVar[asyncio.Event] = asyncio.Event()
    met: ClassVar[list[str]] = []

    def __init__(self, answer: str | None = None) -> None:
        Stage.hanging, Stage.met = asyncio.Event(), []
        self.recorder = Recorder()
        self.asked: list[dict[str, Any]] = []
        self.answer = answer
        self.session = Session(
            "sess_1", cwd="/work", sinks=[self.recorder], on_permission=self._ask, locale="en"
        )
        self.result: Any = None
        self.problem: Exception | None = None

    def _ask(self, question: Any) -> str | bool:
        self.asked.append(question.params())
        return self.answer or False

    def calls(self, name: str) -> list[ToolCallReport]:
        """Return the calls of a tool as a client has seen them."""
        return [one for one in self.recorder.fold() if one.name == name]

    def call(self, name: str) -> ToolCallReport:
        """Return the only call of a tool."""
        (found,) = self.calls(name)
        return found

    def check(self) -> None:
        """Assert that every call has ended, and that nothing is wrong with what was sent."""
        assert self.recorder.lines, repr(self.problem)
        assert_every_call_ended(self.recorder)
        assert Recording.of(self.recorder).check() == []
        assert self.session.health.is_good, self.session.health


def reason(report: ToolCallReport) -> Any:
    return report.notes.get("reason")


def text(report: ToolCallReport) -> str:
    return "\n".join(getattr(item, "text", "") for item in report.content)


class AdapterSuite:
    """The tests of an adapter. A subclass implements `run`; it sets to None what its framework lacks.

    `uses` are names of the framework's that the adapter uses, by their modules.
    """

    needs_approval: bool = True
    has_sub_agents: bool = True
    has_images: bool = True
    streams: bool = True
    has_progress: bool = True
    factory: str = "make_agent"
    failure_reason: str = "exception"
    delegated: ClassVar[dict[str, Any]] = {"path": "b.txt"}
    uses: ClassVar[list[tuple[str, str]]] = []

    async def run(self, session: Session, steps: Sequence[Step], *, stream: bool) -> Any:
        """Run the framework's agent with the tools of this module and a model that plays the steps.

        Beside them there are `picture(path)`, which returns `DOT` as the framework's tools do, and
        `delegate(path)`, whose agent calls `read_note(path)` and returns its answer. `doze` has a timeout of 0.05 s.
        """
        raise NotImplementedError

    @asynccontextmanager
    async def stage(
        self, *steps: Step, answer: str | None = None, stream: bool = False
    ) -> AsyncIterator[Stage]:
        stage = Stage(answer)
        async with stage.session as session:
            try:
                stage.result = await self.run(session, steps, stream=stream)
            except Exception as exc:  # noqa: BLE001 - whether a failure ends the run is the framework's business
                stage.problem = exc
        stage.check()
        yield stage

    async def test_a_tool_is_reported_from_its_start_to_its_end(self) -> None:
        async with self.stage([("read_note", {"path": "a.txt"})], "done") as stage:
            call = stage.call("read_note")
            assert (call.status, call.raw_input) == ("completed", {"path": "a.txt"})
            assert text(call) == "the note a.txt"
            assert call.notes.get("alias")
            assert stage.result is not None

    async def test_a_structured_result_is_raw_output(self) -> None:
        async with self.stage([("measure", {"path": "a.txt"})], "done") as stage:
            call = stage.call("measure")
            assert call.raw_output == {"path": "a.txt", "lines": [1, 2, 3]}
            assert '"lines"' in text(call)

    async def test_an_image_is_shown(self) -> None:
        if self.has_images:
            async with self.stage([("picture", {"path": "a.png"})], "done") as stage:
                (image,) = [one for one in stage.call("picture").content if hasattr(one, "data")]
                assert (image.data, image.mime_type) == (DOT, "image/png")

    async def test_arguments_that_stream_are_shown_as_they_are_written(self) -> None:
        if self.streams:
            args = {"path": "a.txt", "text": "long " * 20}
            async with self.stage([("write_note", args)], "done", stream=True) as stage:
                call = stage.call("write_note")
                assert (call.status, call.raw_input) == ("completed", args)
            inputs = [one["rawInput"] for one in stage.recorder.updates if "rawInput" in one]
            assert inputs == [{"path": "a.txt"}, args]

    async def test_a_model_that_breaks_off_leaves_no_call_open(self) -> None:
        if self.streams:
            args = {"path": "a.txt", "text": f"{'long ' * 20}{BREAK}"}
            async with self.stage([("write_note", args)], stream=True) as stage:
                call = stage.call("write_note")
                assert call.status in ("failed", "cancelled")
                assert reason(call) != "abandoned"  # as if the session had ended it
                assert stage.problem is not None

    async def test_a_tool_says_how_far_it_is(self) -> None:
        if self.has_progress:
            async with self.stage([("advance", {"path": "a.txt"})], "done") as stage:
                call = stage.call("advance")
                assert call.notes["progress"] == {"done": 1, "total": 2, "message": "half"}
                assert text(call) == "advanced"
        assert running_call() is None

    async def test_a_failure_is_reported_as_failed_whatever_the_framework_makes_of_it(self) -> None:
        async with self.stage([("explode", {"path": "a.txt"})], "sorry") as stage:
            call = stage.call("explode")
            assert (call.status, reason(call)) == ("failed", self.failure_reason)
            assert "no note a.txt" in text(call)

    async def test_a_timeout_is_a_failure(self) -> None:
        async with self.stage([("doze", {"path": "a.txt"})], "sorry") as stage:
            call = stage.call("doze")
            assert (call.status, reason(call)) == ("failed", "timeout")

    async def cancelled_stage(self) -> Stage:
        """Return a stage on which a run was cancelled while a tool was running."""
        stage = Stage()
        async with stage.session as session:
            running = asyncio.ensure_future(
                self.run(session, [[("hang", {"path": "a.txt"})], "done"], stream=False)
            )
            waiting = asyncio.ensure_future(stage.hanging.wait())
            await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await running
        stage.check()
        return stage

    async def test_a_cancelled_run_leaves_a_cancelled_call(self) -> None:
        call = (await self.cancelled_stage()).call("hang")
        assert (call.status, reason(call)) == ("cancelled", "cancelled")

    async def test_a_session_that_is_closed_breaks_no_run(self) -> None:
        async with Session("sess_1") as session:
            pass
        steps: list[Step] = [[("read_note", {"path": "a.txt"})], "done"]
        assert await self.run(session, steps, stream=self.streams) is not None

    async def test_three_calls_in_parallel_are_kept_apart(self) -> None:
        names = ["a", "b", "c"]
        async with self.stage([("meet", {"name": name}) for name in names], "done") as stage:
            calls = stage.calls("meet")
            assert sorted(text(call) for call in calls) == ["met a", "met b", "met c"]
            assert all(text(call) == f"met {call.raw_input['name']}" for call in calls)

    async def test_the_calls_of_a_sub_agent_have_a_parent(self) -> None:
        if self.has_sub_agents:
            async with self.stage([("delegate", self.delegated)], "done") as stage:
                outer, inner = stage.call("delegate"), stage.call("read_note")
                assert inner.notes["parentId"] == outer.tool_call_id
                assert (outer.status, inner.status) == ("completed", "completed")

    async def test_the_calls_of_sub_agents_in_parallel_are_kept_apart(self) -> None:
        if self.has_sub_agents:
            calls: Step = [("delegate", self.delegated) for _ in range(3)]
            async with self.stage(calls, "done", stream=self.streams) as stage:
                outer, inner = stage.calls("delegate"), stage.calls("read_note")
                parents = {one.notes["parentId"] for one in inner}
                assert parents == {one.tool_call_id for one in outer}
                assert len(inner) == 3
                assert {(one.status, text(one)) for one in inner} == {
                    ("completed", "the note b.txt")
                }

    async def test_an_approval_is_asked_of_the_client(self) -> None:
        if self.needs_approval:
            steps = [("remove_note", {"path": "a.txt"})], "done"
            async with self.stage(*steps, answer="allow_once") as stage:
                (asked,) = stage.asked
                assert asked["toolCall"]["rawInput"] == {"path": "a.txt"}
                call = stage.call("remove_note")
                assert (call.status, text(call)) == ("completed", "removed a.txt")

    async def test_a_refusal_reaches_the_framework(self) -> None:
        if self.needs_approval:
            steps = [("remove_note", {"path": "a.txt"})], "done"
            async with self.stage(*steps, answer="reject_once") as stage:
                call = stage.call("remove_note")
                assert (call.status, reason(call)) == ("failed", "denied")
                assert "removed" not in text(call)
                assert stage.result is not None

    @property
    def versions(self) -> Versions:
        """The versions that the adapter works with."""
        name = type(self).__module__.rpartition("test_")[2]
        return import_module(f"callsheet.adapters.{name}").VERSIONS

    @pytest.mark.parametrize("version", ["0.0.1", "999.0"])
    async def test_a_version_that_is_not_known(
        self, version: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package, lowest, below = self.versions
        known = metadata.version
        monkeypatch.setattr(
            metadata, "version", lambda name: version if name == package else known(name)
        )
        steps = [("read_note", {"path": "a.txt"})], "done"
        works = re.escape(f"{package}>={lowest},<{below}")
        if version == "999.0":  # it may work
            with pytest.warns(RuntimeWarning, match=works):
                async with self.stage(*steps) as stage:
                    assert stage.call("read_note").status == "completed"
        else:
            with pytest.raises(UnknownFramework, match=works):
                await self.run(Session("sess_1"), steps, stream=False)

    async def test_what_a_version_lacks_breaks_no_run(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package, lowest, below = self.versions
        for module, name in self.uses:
            with monkeypatch.context() as patch:
                without(import_module(module), name, patch)
                derived.cache_clear()
                async with Session("sess_1", on_permission=lambda _: "allow_once") as session:
                    steps: list[Step] = [[("remove_note", {"path": "a.txt"})], "done"]
                    try:
                        assert await self.run(session, steps, stream=False) is not None
                        said = "can't be used"
                    except UnknownFramework as exc:
                        said = str(exc)
                    clear = f"{module}.{name} can't be used", f"{package}>={lowest},<{below}"
                    assert session.health.degraded or all(one in said for one in clear)
        derived.cache_clear()

    @asynccontextmanager
    async def served(self, *steps: Step, **options: Any) -> AsyncIterator[AgentClient]:
        """Serve an agent that plays the steps, in three lines, to a client."""
        module, factory = type(self).__module__, self.factory
        settings = "context_window=1000, prompt_capabilities=['image']"
        script = [
            "from callsheet.adapters import serve",
            f"from {module} import {factory}",
            f"serve({factory}({list(steps)!r}), name='notes', {settings})",
        ]
        command = [sys.executable, "-c", "\n".join(script)]
        async with AgentClient(command, cwd=str(TESTS.parent), **options) as client:
            yield client
        assert client.recording.check() == []
        assert client.exit_code == 0

    async def test_it_is_served_in_three_lines(self) -> None:
        calls: Step = [("read_note", {"path": "a"}), ("remove_note", {"path": "a"})]
        async with self.served(calls, "All done.") as client:
            assert client.agent["agentInfo"]["name"] == "notes"
            session = await client.new_session("/tmp")
            assert await client.prompt(session, "go") == "end_turn"
            assert client.text().strip() == "All done."
            assert [one.status for one in client.fold()] == ["completed", "completed"]
            usage = [one for one in client.updates if one["sessionUpdate"] == "usage_update"]
            assert (usage[-1]["used"] > 0, usage[-1]["size"]) == (True, 1000)
            (tokens,) = [
                found["usage"]
                for one in client.lines
                if (found := json.loads(one).get("result")) and "stopReason" in found
            ]
            assert min(tokens["inputTokens"], tokens["outputTokens"]) > 0
            assert await client.prompt(session, "again") == "end_turn"

    async def test_a_picture_in_a_prompt_reaches_the_model(self) -> None:
        async with self.served(LOOK) as client:
            session = await client.new_session("/tmp")
            image = {"type": "image", "mimeType": "image/png", "data": DOT}
            await client.prompt(session, [{"type": "text", "text": "look"}, image])
            assert client.text().strip() == "a picture"

    async def test_a_cancel_in_the_editor_ends_the_turn_and_its_call(self) -> None:
        async with self.served([("hang", {"path": "a"})], "done") as client:
            session = await client.new_session("/tmp")
            turn = asyncio.ensure_future(client.prompt(session, "go"))
            while not any(one.get("status") == "in_progress" for one in client.updates):
                assert not turn.done(), client.errors
                await asyncio.sleep(0.01)
            await client.cancel(session)
            assert await turn == "cancelled"
            (call,) = client.fold()
            assert (call.status, reason(call)) == ("cancelled", "cancelled")

    @scenes.needs_node("@agentclientprotocol/sdk")
    async def test_a_client_on_the_typescript_sdk_sees_the_same_calls(self, tmp_path: Path) -> None:
        meetings: Step = [("meet", {"name": name}) for name in "abc"]
        played: list[tuple[Step, dict[str, Any]]] = [
            ([("read_note", {"path": "a.txt"})], {}),
            ([("measure", {"path": "a.txt"})], {"stream": self.streams}),
            ([("explode", {"path": "a.txt"})], {}),
            ([("doze", {"path": "a.txt"})], {}),
            (meetings, {}),
        ]
        if self.has_images:
            played.append(([("picture", {"path": "a.png"})], {}))
        if self.has_sub_agents:
            played.append(([("delegate", self.delegated)], {}))
        if self.needs_approval:
            asked: Step = [("remove_note", {"path": "a.txt"})]
            played += [(asked, {"answer": one}) for one in ("allow_once", "reject_once")]
        recordings = [(await self.cancelled_stage()).recorder]
        for step, options in played:
            async with self.stage(step, "done", **options) as stage:
                recordings.append(stage.recorder)
        assert await hold_fold(recordings, tmp_path) == {"completed", "failed"}
