"""Tools of MCP servers, with real servers: child processes, and streamable HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest
import pytest_asyncio

from callsheet.testing import Recorder, assert_every_call_ended
from callsheet.tools.mcp import InvalidServer, McpServer, McpServers, connection, stdio_transport
from callsheet.tools.mcp.servers import LONGEST, name_tools, plain_name
from callsheet.tools.session import Session
from callsheet.tools.workspace import Workspace
from tests.support import SUPPORT

pytestmark = pytest.mark.asyncio(loop_scope="module")

REAL = str(SUPPORT / "mcp_real.py")
ODD = str(SUPPORT / "mcp_odd.py")


def real(name: str = "real", **more: Any) -> McpServer:
    return McpServer(name, command=sys.executable, args=[REAL, "stdio"], **more)


def odd(*words: str, **more: Any) -> McpServer:
    return McpServer("odd", command=sys.executable, args=[ODD, *words], **more)


@pytest.fixture(autouse=True, scope="module")
def servers_get_less_time_to_end() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stdio_transport, "GRACE", 0.3)
        yield


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("mcp")
    (directory / "a b.py").write_text("x")
    return directory


@asynccontextmanager
async def opened(place: Path, *servers: Any) -> AsyncIterator[McpServers]:
    async with McpServers(servers, Workspace(str(place))) as running:
        await running.tools()
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stdio(place: Path) -> AsyncIterator[McpServers]:
    async with opened(place, real(), odd()) as running:
        yield running


class Running:
    """A session with the tools of some servers."""

    def __init__(self, session: Session, recorder: Recorder) -> None:
        self.session = session
        self.recorder = recorder

    async def __call__(self, tool: str, /, **arguments: Any) -> Any:
        return await self.session.run(f"mcp__{tool}", arguments)

    def start(self, tool: str, /, **arguments: Any) -> asyncio.Task[Any]:
        return asyncio.create_task(self(tool, **arguments))

    @property
    def report(self) -> Any:
        return list(self.session.reports)[-1]


@asynccontextmanager
async def session_of(servers: McpServers, place: Path, **options: Any) -> AsyncIterator[Running]:
    recorder = Recorder()
    options = {"cwd": str(place), "strict": True, "builtin": False, **options}
    async with Session("s", on_update=recorder, **options) as session:
        for tool in await servers.tools():
            session.tools.add(tool)
        yield Running(session, recorder)
    assert_every_call_ended(recorder)


@pytest_asyncio.fixture(loop_scope="module")
async def run(stdio: McpServers, place: Path) -> AsyncIterator[Running]:
    async with session_of(stdio, place) as running:
        yield running


async def until(true: Callable[[], Any], seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.01)


def says(path: Path, text: str) -> Callable[[], bool]:
    return lambda: path.exists() and path.read_text() == text


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


# What is said of a server


async def test_servers_are_made_from_acp_entries() -> None:
    pairs = [{"name": "TOKEN", "value": "t0p-s3cret-value"}]
    child = McpServer.from_acp({"name": "a", "command": "/bin/x", "args": ["-y"], "env": pairs})
    assert (child.command, child.args) == ("/bin/x", ("-y",))
    assert child.env == {"TOKEN": "t0p-s3cret-value"}
    web = McpServer.from_acp({"type": "http", "name": "b", "url": "http://h/mcp", "headers": pairs})
    assert (web.url, web.headers) == ("http://h/mcp", {"TOKEN": "t0p-s3cret-value"})


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"type": "sse", "name": "a", "url": "http://h"}, "'sse' is not spoken"),
        ({"type": "http", "name": "a", "url": "ftp://h"}, "http://"),
        ({"name": "a", "command": " "}, "a program to start"),
        ({"name": "a", "command": "x", "args": "-y"}, r"\$.args"),
        ({"name": " ", "command": "x"}, "not empty"),
        ({"command": "x"}, "name"),
    ],
)
async def test_an_invalid_entry_is_refused_with_the_reason(
    entry: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidServer, match=says):
        McpServer.from_acp(entry)


async def test_a_server_has_either_a_command_or_a_url() -> None:
    for given in ({}, {"command": "x", "url": "http://h"}, {"url": "http://h", "args": ["x"]}):
        with pytest.raises(InvalidServer):
            McpServer("a", **given)


async def test_the_secrets_of_a_server_are_not_shown_but_known() -> None:
    server = McpServer("a", url="http://h", headers={"Authorization": "Bearer abc123def456ghi"})
    assert "abc123" not in f"{server!r} {server} {list(server.__rich_repr__())}"
    assert server.secrets() == {"Authorization": "abc123def456ghi"}


# Names


async def test_names_have_letters_that_models_take_and_are_not_too_long() -> None:
    assert plain_name("my server", "do.it") == "mcp__my_server__do_it"
    assert plain_name("a__b", "c__d") == "mcp__a_b__c__d"
    assert plain_name("…", "x") == "mcp__server__x"
    long = plain_name("s", "x" * 200), plain_name("s", "x" * 201)
    assert [len(name) for name in long] == [LONGEST, LONGEST]
    assert long[0] != long[1]


async def test_names_that_collide_are_made_unique_and_stay() -> None:
    pairs = [("s", "a.b"), ("s", "a_b"), ("s", "a b")]
    names = name_tools(pairs, {})
    assert names["s", "a_b"] == "mcp__s__a_b"
    assert len(set(names.values())) == 3
    assert name_tools(pairs[::-1], names) == names
    assert name_tools([("s", "a b")], names) == {("s", "a b"): names["s", "a b"]}


# A server as a child


async def test_tools_have_the_names_schemas_and_hints_of_the_server(stdio: McpServers) -> None:
    tools = {tool.name: tool for tool in await stdio.tools()}
    add = tools["mcp__real__add"]
    assert add.description == "Add two numbers."
    assert add.schema["required"] == ["a", "b"]
    assert add.annotations == {"title": "Sum", "readOnlyHint": True, "openWorldHint": False}
    assert all(len(name) <= LONGEST for name in tools)
    assert {"mcp__odd__a_b_c_d"} < {name for name in tools if "a_b_c_d" in name}


async def test_a_call_is_described_by_the_servers_hints(run: Running) -> None:
    result = await run("real__add", a=1, b=2)
    assert (result.success, result.output) == (True, "3")
    assert result.metadata["structured_content"] == {"result": 3}
    assert (result.metadata["mcp_server"], result.metadata["mcp_tool"]) == ("real", "add")
    assert (run.report.kind, run.report.title) == ("edit", "Sum (real)")  # its name says add
    await run("real__burn", what="toast")
    assert (run.report.kind, run.report.title) == ("delete", "Burn it down (real)")


async def test_a_hint_that_a_tool_only_reads_is_believed_of_trusted_servers_only(
    place: Path, stdio: McpServers
) -> None:
    async with opened(place, odd(trusted=True)) as trusted:
        for servers, believed in ((stdio, False), (trusted, True)):
            tools = {tool.name: tool for tool in await servers.tools()}
            assert tools["mcp__odd__structured"].read_only is believed
            assert tools["mcp__odd__structured"].needs_permission({}) is not believed
            assert not tools["mcp__odd__broken_promise"].read_only


async def test_every_type_of_content_is_shown_and_the_model_gets_text_of_it(
    run: Running, place: Path
) -> None:
    result = await run("real__everything", directory=str(place))
    kinds = [type(item).__name__ for item in result.content]
    assert kinds == [
        "TextContent", "ImageContent", "AudioContent", "ResourceLink", "ResourceLink",
        "EmbeddedResource", "EmbeddedResource",
    ]  # fmt: skip
    assert result.content[1].annotations == {"audience": ["user"], "priority": 0.5}
    assert "some text" in result.output
    assert "for people only" not in result.output
    assert "(image, image/png, 15 bytes)" in result.output
    assert "a note" in result.output
    assert "blob://1 (application/x-thing, 15 bytes)" in result.output
    assert "image that can't be shown" in result.output
    assert len(run.report.content) == 1 + len(kinds)


async def test_links_to_files_of_the_workspace_become_locations(run: Running, place: Path) -> None:
    await run("real__everything", directory=str(place))
    found = [(location.path, location.line) for location in run.report.locations]
    assert (str(place / "a b.py"), 12) in found
    assert not [path for path, _ in found if "hostname" in path]


async def test_progress_is_live(run: Running) -> None:
    result = await run("real__count", to=3)
    await run.session.flush()
    assert result.output == "counted"
    assert run.report.notes["progress"] == {"done": 3, "total": 3, "message": "at 3"}
    assert b'"message":"at 1"' in b"".join(run.recorder.lines)


async def test_an_error_of_the_tool_is_a_failed_call(run: Running) -> None:
    result = await run("real__fail")
    assert not result.success
    assert "it is broken" in (result.error or "")
    assert result.metadata["error_code"] == "execution_failed"
    assert run.report.status.value == "failed"


async def test_structured_content_is_the_text_if_there_is_none(run: Running) -> None:
    result = await run("odd__structured")
    assert result.output == '{\n  "n": 1\n}'
    assert result.metadata["structured_content"] == {"n": 1}


async def test_content_that_violates_its_schema_is_not_fatal(run: Running) -> None:
    broken, missing = await run("odd__broken_promise"), await run("odd__no_promise_kept")
    assert (broken.success, broken.output) == (True, "one")
    assert broken.metadata["structured_content"]
    assert missing.success


async def test_what_a_server_prints_beside_messages_does_no_harm(
    run: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (await run("real__noise")).output == "quiet again"
    assert (await run("real__add", a=2, b=2)).output == "4"
    assert capfd.readouterr() == ("", "")


async def test_an_answer_that_is_not_mcp_fails_only_its_call(run: Running) -> None:
    result = await run("odd__unknown_content")
    assert not result.success
    assert "not as MCP has it: " in (result.error or "")
    assert (await run("odd__structured")).success


async def test_an_error_of_the_protocol_has_the_code_of_its_kind(run: Running) -> None:
    result = await run("odd__refuse")
    assert result.metadata["error_code"] == "invalid_arguments"
    assert "not like this" in (result.error or "")


async def test_arguments_are_checked_before_a_server_gets_them(run: Running) -> None:
    result = await run("real__add", a=1, b="x")
    assert result.metadata["error_code"] == "invalid_arguments"
    assert "whole number" in (result.error or "")


async def test_arguments_that_cant_be_sent_are_refused(run: Running) -> None:
    result = await run("real__burn", what="\ud800")
    assert result.metadata["error_code"] == "invalid_arguments"


async def test_a_schema_that_refers_to_a_url_is_reported_and_not_followed(
    run: Running, stdio: McpServers
) -> None:
    assert (await run("odd__bad_schema", a=1)).output == "did bad_schema"
    (problem,) = stdio.problems
    assert "'bad_schema'" in problem
    assert "any arguments are let through" in problem


async def test_roots_are_the_workspace_and_questions_are_declined(
    run: Running, place: Path
) -> None:
    assert (await run("real__see_roots")).output == place.resolve().as_uri()
    assert (await run("real__ask")).output.startswith("no: ")


# Cancel and timeout


async def test_cancelling_a_call_notifies_the_server_and_leaves_others_alone(
    run: Running, tmp_path: Path
) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    stopped, other = (
        run.start("real__slow", mark=str(first)),
        run.start("real__slow", mark=str(second)),
    )
    await until(lambda: first.exists() and second.exists())
    begun = time.monotonic()
    (call,) = [one for one in run.session.reports if one.raw_input == {"mark": str(first)}]
    assert run.session.cancel(call.tool_call_id)
    assert (await stopped).metadata["error_code"] == "cancelled"
    assert time.monotonic() - begun < 3
    await until(says(first, "cancelled"))
    assert second.read_text() == "started"
    assert not other.done()
    assert (await run("real__add", a=1, b=1)).success
    other.cancel()
    await until(says(second, "cancelled"))


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(
    run: Running, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    result = await run.session.run("mcp__real__slow", {"mark": str(mark)}, timeout=0.3)
    assert result.metadata["error_code"] == "timeout"
    await until(says(mark, "cancelled"))


async def test_a_server_can_be_given_a_timeout(place: Path) -> None:
    async with opened(place, odd(timeout=0.2)) as servers, session_of(servers, place) as run:
        assert (await run("odd__hang")).metadata["error_code"] == "timeout"
        assert (await run("odd__structured")).success


async def test_a_server_that_reads_nothing_cant_hold_whoever_cancels(place: Path) -> None:
    async with opened(place, odd()) as servers, session_of(servers, place) as run:
        calls = [run.start("odd__deaf"), run.start("odd__structured", a="x" * 1_000_000)]
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
        assert time.monotonic() - begun < 2


async def test_a_server_that_does_not_start_again_is_reported_by_every_call(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(Path(ODD).read_text())
    server = McpServer("once", command=sys.executable, args=[str(script)])
    async with opened(tmp_path, server) as servers, session_of(servers, tmp_path) as run:
        script.write_text("raise SystemExit('no more')")
        (tmp_path / "pid").write_text((await run("once__last_word")).output)
        await until(lambda: not is_running(int((tmp_path / "pid").read_text())))
        for _ in range(2):
            result = await run("once__structured")
            assert result.metadata["error_code"] == "io_error"
            assert "'once' exited with code 1. The last that it wrote:\nno more" in result.output


# Death


async def test_a_server_that_dies_fails_its_calls_at_once_and_is_restarted_by_the_next(
    run: Running, tmp_path: Path
) -> None:
    before = (await run("real__say_pid")).output
    mark, runs = tmp_path / "mark", tmp_path / "runs"
    open_call = run.start("real__slow", mark=str(mark))
    await until(mark.exists)
    begun = time.monotonic()
    results = [await run("real__die", runs=str(runs)), await open_call]
    assert time.monotonic() - begun < 3
    for result in results:
        assert not result.success
        assert result.metadata["error_code"] == "io_error"
        assert "exited with code 3" in (result.error or "")
        assert "my last words" in (result.error or "")
    after = [run.start("real__say_pid") for _ in range(3)]
    (pid,) = {(await one).output for one in after}
    assert pid != before
    assert runs.read_text() == "x"


async def test_the_signal_that_killed_a_server_is_reported(run: Running, tmp_path: Path) -> None:
    pid = int((await run("real__say_pid")).output)
    mark = tmp_path / "mark"
    open_call = run.start("real__slow", mark=str(mark))
    await until(mark.exists)
    os.kill(pid, signal.SIGKILL)
    assert "was killed by SIGKILL" in ((await open_call).error or "")


async def test_an_answer_just_before_the_end_counts(run: Running) -> None:
    for _ in range(3):
        result = await run("odd__last_word")
        assert result.success
        await until(lambda pid=int(result.output): not is_running(pid))


async def test_the_end_is_noticed_also_if_a_grandchild_holds_the_pipe(
    run: Running, place: Path
) -> None:
    begun = time.monotonic()
    result = await run("odd__linger")
    assert time.monotonic() - begun < 3
    assert "exited with code 5" in (result.error or "")
    child = int((place / "child").read_text())
    await until(lambda: not is_running(child))
    assert (await run("odd__structured")).success


async def test_a_server_that_closes_its_stdout_is_lost(run: Running) -> None:
    assert "closed its stdout" in ((await run("odd__close_stdout")).error or "")
    assert (await run("odd__structured")).success


# Ends


async def test_closing_ends_a_server_that_ignores_everything_and_its_children(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, odd("stubborn"), odd("stubborn")):
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(map(is_running, pids))
        begun = time.monotonic()
    assert time.monotonic() - begun < 3
    await until(lambda: not any(map(is_running, pids)), 1)


async def test_nothing_is_left_when_this_process_is_killed(tmp_path: Path) -> None:
    code = f"""
import asyncio, os, signal, sys
from callsheet.tools.mcp import McpServer, McpServers
from callsheet.tools.workspace import Workspace
async def main():
    server = McpServer("odd", command=sys.executable, args=[{ODD!r}, "stubborn"])
    async with McpServers([server], Workspace({str(tmp_path)!r})):
        while not os.path.exists({str(tmp_path / "pids")!r}):
            await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=False)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    await until(lambda: not any(map(is_running, pids)), 5)


async def test_closing_ends_calls_that_are_open(place: Path) -> None:
    async with opened(place, odd()) as servers, session_of(servers, place) as run:
        open_call = run.start("odd__hang")
        await asyncio.sleep(0.1)
        await servers.close()
        assert "was closed" in ((await open_call).error or "")
        assert "was closed" in ((await run("odd__structured")).error or "")


async def test_servers_can_be_closed_while_they_start(place: Path) -> None:
    begun = time.monotonic()
    async with McpServers([odd("silent"), real()], Workspace(str(place))):
        await asyncio.sleep(0.05)
    assert time.monotonic() - begun < 4


# Starts


async def test_servers_that_dont_start_are_reported_and_the_others_are_there(place: Path) -> None:
    closed = f"http://127.0.0.1:{free_port()}/mcp"
    begun = time.monotonic()
    async with opened(
        place,
        McpServer("nowhere", command="no-such-program"),
        McpServer("dying", command=sys.executable, args=["-c", "import sys; sys.exit('oh no')"]),
        McpServer("mute", command=sys.executable, args=[ODD, "silent"], start_timeout=0.5),
        McpServer("chatty", command="echo", args=["hello"]),
        McpServer("lost", command=sys.executable, cwd=str(place / "missing")),
        McpServer("web", url=closed),
        {"type": "sse", "name": "old", "url": "http://h"},
        odd(),
    ) as servers:
        assert time.monotonic() - begun < 4
        tools = {tool.name for tool in await servers.tools()}
        told = "\n".join(servers.problems)
    assert "mcp__odd__structured" in tools
    for said in (
        "'nowhere' can't be started: there is no program 'no-such-program'",
        "'dying' exited with code 1. The last that it wrote:\noh no",
        "'mute' did not start within 0.5 seconds",
        "'chatty' exited with code 0. The last that it wrote:\nhello",
        "'lost' can't be started: its directory",
        "'web' can't be reached",
        "'old': the transport 'sse' is not spoken here",
    ):
        assert said in told


async def test_tools_come_page_by_page(place: Path, stdio: McpServers) -> None:
    async with opened(place, odd("paged")) as paged:
        names = [tool.name for tool in await paged.tools()]
    assert names == [tool.name for tool in await stdio.tools() if "__odd__" in tool.name]


async def test_a_server_that_knows_only_the_newest_protocol_is_spoken_with(place: Path) -> None:
    async with opened(place, odd("modern")) as servers, session_of(servers, place) as run:
        assert (await run("odd__structured")).metadata["structured_content"] == {"n": 1}


async def test_two_servers_of_one_name_get_different_labels(place: Path) -> None:
    async with opened(place, odd(), odd()) as servers:
        names = {tool.name for tool in await servers.tools()}
    assert {"mcp__odd__structured", "mcp__odd_2__structured"} < names


async def test_tools_that_a_server_gets_later_can_be_called(
    run: Running, stdio: McpServers
) -> None:
    await run("real__grow", name="fresh")

    def is_there() -> bool:
        stdio.register(run.session.tools)
        return "mcp__real__fresh" in run.session.tools

    await until(is_there)
    assert (await run("real__fresh")).output == "new here"


async def test_no_sdk_is_needed(tmp_path: Path) -> None:
    code = f"""
import asyncio, sys
from callsheet.tools.mcp import McpServer, McpServers
from callsheet.tools.workspace import Workspace
for name in ("mcp", "mcp_types", "anyio", "pydantic"):
    sys.modules[name] = None
async def main():
    server = McpServer("a", command=sys.executable, args=[{ODD!r}])
    async with McpServers([server], Workspace({str(tmp_path)!r})) as servers:
        print(len(await servers.tools()))
assert "httpx2" not in sys.modules
asyncio.run(main())
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


# Streamable HTTP


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Web:
    """A server over HTTP that can be killed and started again at the same address."""

    def __init__(self, *words: str) -> None:
        self.port = free_port()
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> McpServer:
        return McpServer("web", url=f"http://127.0.0.1:{self.port}/mcp")

    async def start(self) -> None:
        self.kill()
        self._process = subprocess.Popen(
            [sys.executable, REAL, "http", str(self.port), *self._words], stderr=subprocess.DEVNULL
        )
        await until(self._listens, 60)

    def _listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def is_gone(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@asynccontextmanager
async def serving(*words: str) -> AsyncIterator[Web]:
    web = Web(*words)
    try:
        await web.start()
        yield web
    finally:
        web.kill()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def web() -> AsyncIterator[Web]:
    async with serving() as one:
        yield one


async def test_tools_are_called_over_http(web: Web, place: Path) -> None:
    async with opened(place, web.server) as servers, session_of(servers, place) as run:
        assert (await run("web__add", a=1, b=2)).metadata["structured_content"] == {"result": 3}
        assert (await run("web__count", to=2)).output == "counted"
        assert run.report.notes["progress"] == {"done": 2, "total": 2, "message": "at 2"}
        assert (await run("web__big", size=2_000_000)).output == "x" * 2_000_000
        result = await run("web__everything", directory=str(place))
        assert len(result.content) == 7
        assert (await run("web__see_roots")).output == place.resolve().as_uri()
        assert "it is broken" in ((await run("web__fail")).error or "")


async def test_cancelling_over_http_notifies_the_server_and_leaves_others_alone(
    web: Web, place: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    async with opened(place, web.server) as servers, session_of(servers, place) as run:
        stopped = run.start("web__slow", mark=str(first))
        other = run.start("web__slow", mark=str(second))
        await until(lambda: first.exists() and second.exists())
        begun = time.monotonic()
        stopped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopped
        assert time.monotonic() - begun < 3
        await until(says(first, "cancelled"))
        assert second.read_text() == "started"
        assert (await run("web__burn", what="\ud800")).metadata["error_code"] == "invalid_arguments"
        assert not other.done()
        other.cancel()
        await until(says(second, "cancelled"))


async def test_tools_that_change_are_reported_over_http(web: Web, place: Path) -> None:
    changed = asyncio.Event()
    async with McpServers([web.server], Workspace(str(place)), changed.set) as servers:
        async with session_of(servers, place) as run:
            assert not changed.is_set()
            await run("web__grow", name="late")
            await asyncio.wait_for(changed.wait(), 5)
            assert "mcp__web__late" in {tool.name for tool in await servers.tools()}


async def test_a_server_over_http_that_dies_fails_its_calls_and_is_found_again(
    place: Path, tmp_path: Path
) -> None:
    runs, mark = tmp_path / "runs", tmp_path / "mark"
    async with serving() as web, opened(place, web.server) as servers:
        async with session_of(servers, place) as run:
            open_call = run.start("web__slow", mark=str(mark))
            await until(mark.exists)
            begun = time.monotonic()
            results = [await run("web__die", runs=str(runs)), await open_call]
            await until(web.is_gone)  # while it dies, a new connection is lost, and not refused
            results.append(await run("web__add", a=1, b=2))
            assert time.monotonic() - begun < 3
            for result in results:
                assert result.metadata["error_code"] == "io_error"
            assert "lost the connection" in (results[0].error or "")
            assert "can't be reached" in (results[2].error or "")
            await web.start()
            assert (await run("web__add", a=1, b=2)).output == "3"
            assert runs.read_text() == "x"
            await web.start()  # it has another process before anybody notices
            assert (await run("web__add", a=1, b=2)).output == "3"


async def test_a_server_that_answers_with_json_and_dies_fails_its_calls(
    place: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    async with serving("json") as web, opened(place, web.server) as servers:
        async with session_of(servers, place) as run:
            open_call = run.start("web__slow", mark=str(mark))
            await until(mark.exists)
            results = [await run("web__die", runs=str(tmp_path / "runs")), await open_call]
            for result in results:
                assert result.metadata["error_code"] == "io_error"
                assert "lost the connection" in (result.error or "")


@contextmanager
def answering(status: int) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *given: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


async def test_a_refusal_over_http_is_reported(place: Path) -> None:
    with answering(401) as url:
        async with opened(place, McpServer("shut", url=url)) as servers:
            assert servers.problems == [
                "MCP server 'shut' answered 401 Unauthorized; put what it wants in `headers`"
            ]


class ByHand(BaseHTTPRequestHandler):
    """A server over HTTP that is made by hand: its answers are JSON, and some are odd."""

    elsewhere = ""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method, name = message["method"], message.get("params", {}).get("name")
        if self.path == "/old":
            self.answer(307, location=self.elsewhere or "/mcp")
        elif "id" not in message:
            self.answer(202)
        elif method == "initialize":
            assert self.headers.get("Mcp-Protocol-Version") is None
            self.result(
                message, {"protocolVersion": "2025-03-26", "serverInfo": {}, "capabilities": {}}
            )
        elif method == "tools/list":
            assert self.headers["Mcp-Protocol-Version"] == "2025-03-26"
            tools = [
                {"name": name, "inputSchema": {"type": "object"}}
                for name in ("fine", "cut", "refuse")
            ]
            self.result(message, {"tools": tools})
        elif name == "cut":
            self.answer(200, b": nothing more\n\n", **{"content-type": "text/event-stream"})
        elif name == "refuse":
            error = {"code": -32602, "message": "not like this"}
            self.answer(400, {"jsonrpc": "2.0", "id": None, "error": error})
        else:
            self.result(
                message, {"content": [{"type": "text", "text": self.headers["X-Key"] or "no key"}]}
            )

    def result(self, message: dict[str, Any], result: dict[str, Any]) -> None:
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})

    def answer(self, status: int, body: Any = b"", **headers: str) -> None:
        if isinstance(body, dict):
            headers["content-type"], body = "application/json", json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: Any) -> None:
        pass


@contextmanager
def by_hand(path: str, elsewhere: str = "") -> Iterator[McpServer]:
    handler = type("Handler", (ByHand,), {"elsewhere": elsewhere})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}{path}"
        yield McpServer("hand", url=url, headers={"X-Key": "k3y"})
        server.shutdown()


async def test_requests_over_http_fail_alone(place: Path) -> None:
    with by_hand("/mcp") as server:
        async with opened(place, server) as servers, session_of(servers, place) as run:
            cut, refused = await run("hand__cut"), await run("hand__refuse")
            assert "ended before the answer" in (cut.error or "")
            assert cut.metadata["error_code"] == "io_error"
            assert refused.metadata["error_code"] == "invalid_arguments"
            assert (await run("hand__fine")).output == "k3y"


async def test_a_redirect_is_followed_on_the_server_itself_only(place: Path) -> None:
    with by_hand("/old") as server:
        async with opened(place, server) as servers, session_of(servers, place) as run:
            assert (await run("hand__fine")).output == "k3y"
    with by_hand("/mcp") as other, by_hand("/old", elsewhere=other.url or "") as server:
        async with opened(place, server) as servers:
            assert servers.problems == ["MCP server 'hand' answered 307 Temporary Redirect"]


async def test_a_server_that_asks_much_and_reads_nothing_is_lost(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_MOST_UNREAD", 10)
    async with opened(place, odd()) as servers, session_of(servers, place) as run:
        assert "reads nothing" in ((await run("odd__pester")).error or "")
        assert (await run("odd__structured")).success
