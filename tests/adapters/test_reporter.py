from __future__ import annotations

import ast
import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from callsheet import Session, adapters
from callsheet.adapters import adapter_of, serve
from callsheet.adapters.framework import UnknownFramework, derived, harmless, require
from callsheet.adapters.reporter import Reporter, running_call
from callsheet.adapters.results import is_failure, shown
from callsheet.report.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink
from callsheet.testing import Recorder
from tests.adapters.kit import DOT, Stage, reason, text
from tests.clients.scenes import SECRET
from tests.integration.test_docs import EXAMPLES, FRAMEWORKS

IMAGES: list[Any] = [
    {"type": "image", "data": DOT, "mimeType": "image/png"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DOT}},
    {"type": "image", "base64": DOT, "mime_type": "image/png"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{DOT}"}},
    {"type": "input_image", "image_url": f"data:image/png;base64,{DOT}"},
    {"image": {"format": "png", "source": {"bytes": DOT}}},
    {"inline_data": {"mime_type": "image/png", "data": DOT}},
    SimpleNamespace(data=DOT, media_type="image/png"),
    {"content": [{"type": "image", "data": DOT, "mimeType": "image/png"}], "isError": False},
]


@pytest.mark.parametrize("result", IMAGES)
def test_an_image_of_any_framework_is_an_image(result: Any) -> None:
    (image,), raw = shown(result)
    assert isinstance(image, ImageContent)
    assert (image.data, image.mime_type, raw) == (DOT, "image/png", None)


def test_blocks_are_content_and_everything_else_is_shown_as_json() -> None:
    assert shown(None) == ([], None)
    assert shown("text")[0][0].text == "text"
    sound, link, resource = shown([
        {"type": "audio", "data": DOT, "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a", "name": "a"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}},
    ])[0]  # fmt: skip
    assert isinstance(sound, AudioContent)
    assert isinstance(link, ResourceLink)
    assert isinstance(resource, EmbeddedResource)
    for value in ({"a": 1}, ["a", "b"], [{"text": "x", "b": 1}], {"type": "image", "data": "?"}):
        (item,), raw = shown(value)
        assert raw == value
        assert json.loads(item.text.removeprefix("```json\n").removesuffix("\n```")) == value
    assert shown(7)[1] == 7
    _, raw = shown({"content": [], "structuredContent": {"a": 1}, "isError": False})
    assert raw == {"a": 1}


def test_a_result_says_itself_that_the_tool_has_failed() -> None:
    assert is_failure({"content": [], "isError": True})
    assert is_failure(SimpleNamespace(content=[], isError=True))
    assert is_failure({"toolUseId": "1", "status": "error", "content": []})
    assert not is_failure({"status": "error"})
    assert not is_failure("error")


async def test_arguments_are_shown_as_they_are_complete_and_never_in_part() -> None:
    stage = Stage()
    async with stage.session as session:
        with Reporter(session) as reporter:
            reporter.open("k", "write_file")
            assert not reporter.calls
            args = {"path": "/work/a.py", "content": "x" * 5000, "more": {"a": [1, "}"]}}
            for char in json.dumps(args):
                reporter.arguments_piece("k", char)
                await asyncio.sleep(0)
            reporter.start("k", "write_file", json.dumps(args))
            reporter.end("k", "written")
    stage.check()
    inputs = [one["rawInput"] for one in stage.recorder.updates if "rawInput" in one]
    assert inputs[0] == {"path": "/work/a.py"}
    assert inputs[-1] == args
    assert all(one.items() <= args.items() for one in inputs)
    assert len(b"".join(stage.recorder.lines)) < 4 * 5000
    assert stage.recorder.updates[0]["locations"][0]["path"] == "/work/a.py"


async def test_ends_that_are_unknown_or_repeated_are_harmless_and_what_is_left_is_ended() -> None:
    stage = Stage()
    async with stage.session as session:
        with Reporter(session) as reporter:
            reporter.end("never")
            reporter.progress("never", 1)
            reporter.start("k", "read", {"path": "a"})
            reporter.end("k", "one")
            reporter.end("k", exc=ValueError("two"))
            reporter.start("left", "read", {"path": "b"})
        with pytest.raises(asyncio.CancelledError), Reporter(session) as reporter:
            reporter.start("cancelled", "read", {"path": "c"})
            raise asyncio.CancelledError
    stage.check()
    one, left, cancelled = stage.calls("read")
    assert (text(one), str(one.status)) == ("one", "completed")
    assert (reason(left), reason(cancelled)) == ("abandoned", "cancelled")


async def test_calls_of_parallel_agents_with_the_same_ids_are_kept_apart() -> None:
    stage = Stage()
    async with stage.session as session:
        reporter = Reporter(session)

        async def agent(name: str) -> None:
            reporter.start(name, "delegate", {"to": name})
            reporter.runs_here(name)
            await asyncio.sleep(0)
            for number in (0, 0, name):  # the last one is the id of its own parent
                reporter.open(f"{number}", "read_note", {"path": name})
                await asyncio.sleep(0)
                reporter.start(f"{number}", "read_note", {"path": name})
                with reporter.running(f"{number}"):
                    await asyncio.sleep(0)
                    reporter.progress(f"{number}", message=name)
                reporter.end(f"{number}", f"the note {name}")
            assert running_call() is reporter.find(name)
            reporter.end(name, name)
            assert running_call() is None

        await asyncio.gather(*(asyncio.create_task(agent(name)) for name in "abc"))
        assert not reporter.calls
    stage.check()
    agents = {one.tool_call_id: one.raw_input["to"] for one in stage.calls("delegate")}
    assert sorted(agents.values()) == ["a", "b", "c"]
    assert len(stage.calls("read_note")) == 9
    for call in stage.calls("read_note"):
        name = call.raw_input["path"]
        assert (agents[call.notes["parentId"]], text(call)) == (name, f"the note {name}")
        assert call.notes["progress"] == {"message": name}


async def test_an_approval_at_the_top_is_of_the_call_that_waits_below() -> None:
    stage = Stage("allow_once")
    async with stage.session as session:
        with Reporter(session) as reporter:
            reporter.start("outer", "delegate", {})
            with reporter.running("outer"):
                reporter.open("0", "remove_note", {"path": "a"})
            assert (await reporter.approval("0", "remove_note", {"path": "a"})).is_allowed
            with reporter.running("outer"):
                reporter.start("0", "remove_note", {"path": "a"})
                reporter.end("0", "removed")
            reporter.end("outer")
    stage.check()
    assert stage.call("remove_note").status == "completed"


async def test_a_generator_that_is_closed_elsewhere_is_harmless() -> None:
    stage = Stage()
    async with stage.session as session:
        with Reporter(session) as reporter:
            reporter.start("k", "read_note", {"path": "a"})

            async def generator() -> Any:
                with reporter.running("k"):
                    yield 1

            pieces = generator()
            await asyncio.create_task(anext(pieces))
            await asyncio.create_task(pieces.aclose())
            reporter.end("k", "done")
    stage.check()


class Explosive:
    """A result that can't be looked at."""

    @property
    def data(self) -> Any:
        raise RuntimeError("boom")


async def test_a_call_ends_whatever_its_result_and_its_arguments_are() -> None:
    stage = Stage()
    async with stage.session as session:
        with Reporter(session) as reporter:
            reporter.start("explosive", "read_note", {"path": "a"})
            reporter.end("explosive", Explosive())
            reporter.open("deep", "read_note")
            reporter.arguments_piece("deep", '{"path": ' + "[" * 100_000)
            reporter.start("deep", "read_note", '{"path": ' + "[" * 100_000)
            reporter.end("deep", "z" * 5_000_000)
            reporter.start("broken", "read_note", '{"path": "a')
            reporter.end("broken", exc=KeyboardInterrupt())
    calls = stage.calls("read_note")
    assert [str(one.status) for one in calls] == ["completed", "completed", "cancelled"]
    assert calls[2].raw_input == '{"path": "a'
    assert (session.health.degraded, session.health.faults[0]) == (1, "boom")
    assert len(b"".join(stage.recorder.lines)) < 1_000_000


async def test_secrets_in_arguments_that_stream_and_in_ids_are_not_sent() -> None:
    stage = Stage()
    async with stage.session as session:
        with Reporter(session) as reporter:
            args = json.dumps({"command": f"curl -H 'Authorization: {SECRET}' x", "at": 1})
            reporter.open(SECRET, "bash")
            for char in args:
                reporter.arguments_piece(SECRET, char)
                await asyncio.sleep(0)
            reporter.start(SECRET, "bash", args)
            reporter.end(SECRET, {"token": SECRET})
    assert session.health.redacted
    assert SECRET.encode() not in b"".join(stage.recorder.lines)


async def test_nothing_is_raised_into_the_framework() -> None:
    class Odd:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    async with Stage().session as session:
        session.attach(Recorder())
        reporter = Reporter(session)
        reporter.start("k", "read", Odd(), title=3)
        reporter.open("k", "read", Odd())
        reporter.end("k", Odd())
        reporter.start(None, None)  # pyright: ignore
        assert session.health.degraded


async def test_an_approval_that_fails_is_a_refusal() -> None:
    def broken(_: Any) -> Any:
        raise OSError("no editor")

    recorder = Recorder()
    async with Session("sess_1", sinks=[recorder], on_permission=broken) as session:
        with Reporter(session) as reporter:
            answer = await reporter.approval("k", "remove_note", {"path": "a"})
            assert not answer.is_allowed
            assert not reporter.calls
    (call,) = recorder.fold()
    assert (call.status, reason(call)) == ("failed", "denied")


@pytest.mark.parametrize("mode", ["allow", "deny"])
async def test_the_mode_of_the_session_answers_before_the_user(mode: Any) -> None:
    stage = Stage("allow_once")
    async with stage.session as session:
        session.permissions.mode = mode
        with Reporter(session) as reporter:
            answer = await reporter.approval("k", "remove_note", {"path": "a"})
            assert answer.is_allowed is (mode == "allow")
            assert not stage.asked
            reporter.end("k", "removed")
    stage.check()
    assert stage.call("remove_note").status == ("completed" if mode == "allow" else "failed")


def test_a_framework_that_is_not_there_or_not_known_is_named_with_what_works() -> None:
    with pytest.raises(UnknownFramework, match=r"pip install 'no-such-thing>=1.0,<2'"):
        require("no-such-thing", "1.0", "2")
    with pytest.raises(UnknownFramework, match=r"pytest .* is too old; .* pytest>=900,<901"):
        require("pytest", "900", "901")
    with pytest.warns(RuntimeWarning, match=r"pytest .* was not tried.*pytest>=1,<2"):
        require("pytest", "1", "2")
    with pytest.raises(UnknownFramework, match=r"json.Nothing"):
        derived(Reporter, ("pytest", "1", "2"), "json", "Nothing")
    with pytest.raises(UnknownFramework, match=r"no adapter for builtins.dict"):
        adapter_of({})


async def test_what_a_newer_version_brings_is_counted_and_not_raised() -> None:
    class Hooks:
        def __init__(self, reporter: Reporter) -> None:
            self.reporter = reporter

        @harmless
        def direct(self, event: Any) -> None:
            self.reporter.end(event.key)

        @harmless
        async def awaited(self, event: Any) -> None:
            self.reporter.end(event.key)

    async with Stage().session as session:
        hooks = Hooks(Reporter(session))
        hooks.direct(object())
        await hooks.awaited(object())
        assert session.health.degraded == 2
        assert "'object' object has no attribute 'key'" in session.health.faults


def test_audio_is_refused_where_no_model_would_get_it() -> None:
    agent = type("Agent", (), {"__module__": "strands.agent"})()
    with pytest.raises(ValueError, match="strands can't pass audio"):
        serve(agent, prompt_capabilities=["audio"])


# What it costs to plug it in

ADAPTERS = Path(adapters.__file__).parent
NEEDED = {
    "acp_sdk": {"acp"},
    "claude_agent_sdk": {"claude_agent_sdk"},
    "google_adk": {"google"},
    "langchain": {"langchain_core", "langgraph"},
    "langgraph": {"langchain_core"},
    "mcp_server": {"mcp"},
    "openai_agents": {"agents"},
    "pydantic_ai": {"pydantic_ai"},
    "strands": {"strands"},
}
"""The modules of frameworks that each adapter imports."""


CALLS = ("import_module", "imported", "derived")


@pytest.mark.parametrize("path", sorted(ADAPTERS.glob("*.py")), ids=lambda path: path.stem)
def test_an_adapter_is_short_and_imports_no_second_framework(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
            names = [one.value for one in node.args if isinstance(one, ast.Constant)]
            found |= {str(one) for one in names[:1]}
    frameworks = {one.partition(".")[0] for one in found} - {*sys.stdlib_module_names}
    assert frameworks - {"callsheet", "msgspec"} == NEEDED.get(path.stem, set())
    assert path.stem not in NEEDED or source.count("\n") <= 200


def test_a_framework_is_imported_when_it_is_used_and_an_adapter_too() -> None:
    every = ", ".join(f"callsheet.adapters.{name}" for name in NEEDED)
    code = f"""
import sys, callsheet, callsheet.cli, callsheet.agent.agent, callsheet.agent.conversation
print(*[one for one in sys.modules if one.startswith("callsheet.adapters")])
import {every}
print(*sorted({set.union(*NEEDED.values())!r} & sys.modules.keys()))
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ran.stdout == "\n\n"


OURS = re.compile(
    r"\b(callsheet|Session|session|report_calls|report_tools|connected_session|serve|hooks|reports|config|call)\b"
)
BESIDE = re.compile(r"^\s*def |^\s*async def |\bdecided\(|^\s*while |can_use_tool=")
"""What takes the session, and what asks for approvals."""


@pytest.mark.parametrize(
    "example",
    [one for one in EXAMPLES if one.page == FRAMEWORKS and one.language == "python"],
    ids=lambda one: f"line {one.line}",
)
def test_reporting_takes_five_lines_and_serving_three(example: Any) -> None:
    lines = [one for one in example.body.splitlines() if OURS.search(one)]
    lines = [one for one in lines if not BESIDE.search(one)]
    is_served = "import serve" in example.body
    # One that is given a session leaves out its import and its scope.
    is_whole = is_served or re.search(r"Session\(|_session\(", example.body)
    count = len(lines) + (0 if is_whole else 2)
    assert 2 <= count <= (3 if is_served else 5), lines
