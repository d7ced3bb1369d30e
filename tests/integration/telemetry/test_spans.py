"""What arrives at a receiver of OTLP: from `call`, `agent`, `tap`, and sessions of a program."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing import AgentClient
from tests.integration.telemetry.conftest import Environment
from tests.support.otlp_receiver import OtlpReceiver, otlp_receiver

CALLSHEET = [sys.executable, "-m", "callsheet"]
CAPTURE = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
META = {
    "traceparent": f"00-{TRACE}-{SPAN}-01",
    "tracestate": "vendor=one",
    "baggage": "team=blue",
}
OK, ERROR = 0, 2


def call(env: dict[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*CALLSHEET, "call", *arguments]
    return subprocess.run(
        command, env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


async def prompt(client: AgentClient, session: str, text: str, meta: Any = None) -> Any:
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return await client.request("session/prompt", params | ({"_meta": meta} if meta else {}))


# callsheet call


def test_a_call_is_a_span_under_its_agent(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("content of a file")
    before = time.time_ns()
    done = call(environment(receiver.url), tmp_path, "read", "path=a.txt")
    assert (done.returncode, done.stderr) == (0, "")
    span, agent = receiver.one("execute_tool read"), receiver.agents()[0]
    assert agent.name == "invoke_agent callsheet"
    assert (span.trace_id, span.parent_id) == (agent.trace_id, agent.span_id)
    assert agent.parent_id == ""
    assert (span.status, span.kind) == (OK, 1)
    wanted = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.type": "function",
        "callsheet.status": "completed",
        "callsheet.kind": "read",
        "gen_ai.agent.name": "callsheet",
    }
    assert wanted.items() <= span.attributes.items()
    assert span.attributes["gen_ai.tool.call.id"].startswith("call_")
    assert agent.attributes["gen_ai.operation.name"] == "invoke_agent"
    conversations = {one.attributes["gen_ai.conversation.id"] for one in receiver.spans}
    assert len(conversations) == 1
    assert before - 10**9 < agent.start <= span.start <= span.end <= agent.end < time.time_ns()
    assert receiver.resources[0]["service.name"] == "callsheet"


def test_content_is_sent_only_when_asked_for_and_never_a_secret(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    command = f"command=echo my-marker {SECRET}"
    assert call(environment(receiver.url), tmp_path, "bash", command).returncode == 0
    assert len(receiver.spans) == 2
    assert not receiver.holds("my-marker")
    assert call(environment(receiver.url, **CAPTURE), tmp_path, "bash", command).returncode == 0
    span = receiver.tools()[-1]
    arguments = json.loads(span.attributes["gen_ai.tool.call.arguments"])
    assert arguments["command"].startswith("echo my-marker [redacted:")
    result = json.loads(span.attributes["gen_ai.tool.call.result"])
    assert result["output"].startswith("my-marker [redacted:")
    assert receiver.holds("my-marker")
    assert not receiver.holds(SECRET)
    assert span.attributes["callsheet.redactions"] >= 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("bash", "command=exit 3"), "exit_code"),
        (("read", "path=nothing.txt"), "tool_error"),
        (("bash", "command=sleep 30", "--timeout", "0.3"), "timeout"),
    ],
)
def test_a_failure_has_its_status_and_its_reason(
    receiver: OtlpReceiver,
    environment: Environment,
    tmp_path: Path,
    arguments: tuple[str, ...],
    reason: str,
) -> None:
    assert call(environment(receiver.url), tmp_path, *arguments).returncode == 1
    span = receiver.tools()[0]
    assert (span.status, span.status_text) == (ERROR, reason)
    assert span.attributes["error.type"] == reason
    assert receiver.points["callsheet.failures"][0][0]["error.type"] == reason


def test_figures_arrive(receiver: OtlpReceiver, environment: Environment, tmp_path: Path) -> None:
    assert (
        call(environment(receiver.url), tmp_path, "bash", f"command=echo {SECRET}").returncode == 0
    )
    ((labels, count),) = receiver.points["callsheet.calls"]
    assert (labels["gen_ai.tool.name"], labels["callsheet.status"], count) == (
        "bash",
        "completed",
        1,
    )
    assert receiver.points["gen_ai.execute_tool.duration"][0][1] == 1
    assert receiver.points["callsheet.redactions"][0][1] >= 2
    assert "callsheet.failures" not in receiver.points


# callsheet agent


async def test_an_agents_turns_are_spans_that_its_calls_are_under(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("content")
    async with AgentClient([*CALLSHEET, "agent"], env=environment(receiver.url)) as client:
        session = await client.new_session(str(tmp_path))
        for _ in range(2):
            await prompt(client, session, "/read a.txt")
        answer = await prompt(client, session, "/list", META)
        assert answer["stopReason"] == "end_turn"
        spans = await asyncio.to_thread(receiver.wait, 6)  # while the agent runs
    assert client.errors == ""
    first, second, third = receiver.agents()
    assert {one.name for one in receiver.agents()} == {"invoke_agent callsheet"}
    assert len({one.trace_id for one in receiver.agents()}) == 3
    for turn in (first, second):
        (under,) = [one for one in spans if one.parent_id == turn.span_id]
        assert (under.name, under.trace_id) == ("execute_tool read", turn.trace_id)
        assert turn.start <= under.start <= under.end <= turn.end
    assert third.attributes["callsheet.stop_reason"] == "end_turn"
    # The client's own trace goes on.
    assert (third.trace_id, third.parent_id) == (TRACE, SPAN)
    under = receiver.one("execute_tool list")
    assert (under.trace_id, under.parent_id) == (TRACE, third.span_id)
    assert (third.state, under.state) == ("vendor=one", "vendor=one")
    assert {one.attributes["gen_ai.conversation.id"] for one in spans} == {session}


@pytest.mark.parametrize(
    "given",
    [
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{'0' * 32}-{SPAN}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        ["00"],
        5,
    ],
)
async def test_a_wrong_traceparent_begins_a_new_trace(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path, given: Any
) -> None:
    async with AgentClient([*CALLSHEET, "agent"], env=environment(receiver.url)) as client:
        session = await client.new_session(str(tmp_path))
        await prompt(client, session, "/list", {"traceparent": given})
        await asyncio.to_thread(receiver.wait, 2)
    agent, tool = receiver.agents()[0], receiver.one("execute_tool list")
    assert agent.parent_id == ""
    assert agent.trace_id == tool.trace_id != TRACE


async def test_a_trace_that_is_not_sampled_is_not_sent(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    async with AgentClient([*CALLSHEET, "agent"], env=environment(receiver.url)) as client:
        session = await client.new_session(str(tmp_path))
        await prompt(client, session, "/list", {"traceparent": f"00-{TRACE}-{SPAN}-00"})
        await prompt(client, session, "/list")
        await asyncio.to_thread(receiver.wait, 2)
    assert [one.name for one in receiver.tools()] == ["execute_tool list"]
    assert TRACE not in {one.trace_id for one in receiver.spans}


# callsheet tap


AGENT = """
import json, sys
def send(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def update(**fields): send({"method": "session/update", "params": {"sessionId": "s", "update": fields}})
for line in sys.stdin:
    message = json.loads(line)
    method, key = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "odd-agent", "version": "1.2"}
        send({"id": key, "result": {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": {}}})
    elif method == "session/new":
        send({"id": key, "result": {"sessionId": "s"}})
    elif method == "session/prompt":
        sys.stderr.write("meta " + json.dumps(message["params"].get("_meta")) + chr(10))
        update(sessionUpdate="tool_call", toolCallId="c1", title="Task", kind="think", status="in_progress",
               rawInput={"description": "look around"})
        update(sessionUpdate="tool_call", toolCallId="c2", title="Read", kind="read", status="in_progress",
               rawInput={"file_path": "/x/a.py", "key": "SECRET"}, _meta={"callsheet": {"parentId": "c1"}})
        update(sessionUpdate="tool_call_update", toolCallId="c2", status="failed",
               rawOutput={"error": "no such file"})
        update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed")
        send({"id": key, "result": {"stopReason": "end_turn"}})
""".replace("SECRET", SECRET)


async def test_a_tapped_agents_calls_are_spans(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    env = environment(receiver.url, **CAPTURE)
    command = [*CALLSHEET, "tap", "--", sys.executable, str(agent)]
    async with AgentClient(command, env=env) as client:
        session = await client.new_session(str(tmp_path))
        await prompt(client, session, "go", META)
        await asyncio.to_thread(receiver.wait, 3)
    turn = receiver.one("invoke_agent odd-agent")
    assert (turn.trace_id, turn.parent_id) == (TRACE, SPAN)
    assert turn.attributes["gen_ai.agent.version"] == "1.2"
    assert turn.attributes["callsheet.stop_reason"] == "end_turn"
    outer, inner = (
        next(one for one in receiver.tools() if one.attributes["gen_ai.tool.call.id"] == key)
        for key in ("c1", "c2")
    )
    assert outer.parent_id == turn.span_id
    assert (
        inner.parent_id == outer.span_id
    )  # a sub-agent's call is under the call that has begun it
    assert (outer.status, inner.status) == (OK, ERROR)
    assert inner.attributes["error.type"] == "tool_error"
    assert "no such file" in inner.attributes["gen_ai.tool.call.result"]
    assert not receiver.holds(SECRET)
    # What the client has sent reaches the agent as it was.
    assert f"meta {json.dumps(META)}" in client.errors


# Sessions of a program


PROGRAM = """
import asyncio
from callsheet import Session

async def main():
    async with Session("the-session", builtin=False) as session:
        async with session.call("outer", {"a": 1}) as outer:
            async with outer.call("inner") as inner:
                inner.succeed("done")
            outer.fail("no", reason="tool_error")

asyncio.run(main())
"""


def test_a_programs_session_is_sent_without_a_word(
    receiver: OtlpReceiver, environment: Environment
) -> None:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command,
        env=environment(receiver.url),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    outer, inner = receiver.one("execute_tool outer"), receiver.one("execute_tool inner")
    (agent,) = receiver.agents()
    assert (inner.parent_id, outer.parent_id) == (outer.span_id, agent.span_id)
    assert {one.trace_id for one in receiver.spans} == {agent.trace_id}
    assert {one.attributes["gen_ai.conversation.id"] for one in receiver.spans} == {"the-session"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
    ],
)
def test_nothing_is_imported_that_nobody_has_asked_for(
    environment: Environment, variables: dict[str, str]
) -> None:
    env = environment("")
    del env["OTEL_EXPORTER_OTLP_ENDPOINT"]
    code = (
        PROGRAM
        + "import sys; print([name for name in sys.modules if 'opentelemetry' in name or name == 'callsheet.telemetry.otel'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_without_the_extra_it_is_said_once_and_nothing_fails(environment: Environment) -> None:
    code = f"import sys; sys.modules['opentelemetry'] = None\n{PROGRAM}\nasyncio.run(main())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment("http://127.0.0.1:9"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == (
        "callsheet: telemetry: OpenTelemetry is not installed: pip install 'callsheet[otel]'."
        " No spans are sent.\n"
    )


@pytest.mark.parametrize("is_installed", [True, False])
def test_without_a_stderr_nothing_fails(environment: Environment, *, is_installed: bool) -> None:
    missing = "" if is_installed else "sys.modules['opentelemetry'] = None\n"
    code = f"import sys; sys.stderr = None\n{missing}{PROGRAM}\nprint('done')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment("http://127.0.0.1:9"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_the_console_gets_spans_on_stderr(environment: Environment, tmp_path: Path) -> None:
    env = environment("", OTEL_TRACES_EXPORTER="console")
    done = call(env, tmp_path, "list", "--format", "result")
    assert json.loads(done.stdout)["success"] is True
    assert "execute_tool list" in done.stderr


# Endpoints that fail


def test_a_dead_endpoint_is_told_once_and_delays_nothing(
    environment: Environment, tmp_path: Path
) -> None:
    env = environment("http://127.0.0.1:9")
    began = time.monotonic()
    done = call(env, tmp_path, "list", "--format", "result")
    took = time.monotonic() - began
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "http://127.0.0.1:9/v1/traces" in done.stderr
    del env["OTEL_EXPORTER_OTLP_ENDPOINT"]
    began = time.monotonic()
    call(env, tmp_path, "list", "--format", "result")
    assert took < time.monotonic() - began + 5


def test_an_endpoint_that_refuses_is_told_once(environment: Environment, tmp_path: Path) -> None:
    with otlp_receiver(status=500) as refusing:
        done = call(environment(refusing.url), tmp_path, "list")
        assert done.returncode == 0
        assert done.stderr.count("callsheet: telemetry:") == 1
        assert "500" in done.stderr
        assert refusing.requests >= 1


async def test_a_slow_endpoint_slows_no_call_and_no_end(
    environment: Environment, tmp_path: Path
) -> None:
    with otlp_receiver(delay=60.0) as slow:
        env = environment(slow.url)
        async with AgentClient([*CALLSHEET, "agent"], env=env) as client:
            session = await client.new_session(str(tmp_path))
            await prompt(client, session, "/list")
            while not slow.requests:  # the first request hangs from here on
                await asyncio.sleep(0.05)
            began = time.monotonic()
            for _ in range(10):
                await prompt(client, session, "/list")
            assert time.monotonic() - began < 10
            began = time.monotonic()
            code = await client.close()
        assert code == 0
        assert time.monotonic() - began < 9


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "expected http/protobuf"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "no-url"}, "no-url/v1/traces"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://ada:pass@127.0.0.1:9"}, " http://127.0.0.1:9/v1"),
    ],
)
def test_wrong_variables_are_told_once_and_break_nothing(
    environment: Environment, tmp_path: Path, variables: dict[str, str], said: str
) -> None:
    done = call(environment("http://127.0.0.1:9", **variables), tmp_path, "list")
    assert done.returncode == 0
    assert done.stderr.count("callsheet: telemetry:") == 1
    assert said in done.stderr
    assert "ada:pass" not in done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OTEL_TRACES_EXPORTER": "otlp,zipkin"}, "zipkin: expected otlp, console or none"),
        ({"OTEL_BSP_SCHEDULE_DELAY": "soon"}, "OTEL_BSP_SCHEDULE_DELAY"),
        ({"OTEL_TRACES_SAMPLER": "odd"}, "sampler odd"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "Bearer_my-key"}, "Header"),
    ],
)
def test_with_a_variable_that_is_wrong_spans_are_sent_and_that_is_said(
    receiver: OtlpReceiver,
    environment: Environment,
    tmp_path: Path,
    variables: dict[str, str],
    said: str,
) -> None:
    done = call(environment(receiver.url, **variables), tmp_path, "list")
    assert len(receiver.spans) == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("callsheet: telemetry: ")
    assert said in line
    assert "not reach" not in line
    assert "my-key" not in line


def test_figures_alone_are_sent_when_they_are_asked_for_by_name(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    chosen = {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "otlp"}
    done = call(environment(receiver.url, **chosen), tmp_path, "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert (len(receiver.spans), receiver.points["callsheet.calls"][0][1]) == (0, 1)


def test_the_standard_variables_hold(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    named = {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "team=blue"}
    call(environment(receiver.url, **named), tmp_path, "list")
    assert {"service.name": "mine", "team": "blue"}.items() <= receiver.resources[0].items()
    call(environment(receiver.url, OTEL_TRACES_SAMPLER="always_off"), tmp_path, "list")
    assert len(receiver.spans) == 2
