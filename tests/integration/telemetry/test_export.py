"""Stored calls as spans: `callsheet history export --format otlp`, and the same ids as live."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing import AgentClient
from tests.integration.telemetry.conftest import Environment
from tests.integration.telemetry.test_spans import (
    AGENT,
    CALLSHEET,
    CAPTURE,
    META,
    SECRET,
    TRACE,
    call,
    prompt,
)
from tests.support.otlp_receiver import GotSpan, OtlpReceiver, otlp_receiver


def export(env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [*CALLSHEET, "history", "export", "--format", "otlp", *options]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def quiet(env: dict[str, str]) -> dict[str, str]:
    return {key: one for key, one in env.items() if not key.startswith("OTEL_EXPORTER")}


def facts(spans: Iterable[GotSpan]) -> set[Any]:
    """Return what must be the same, live and later."""
    return {
        (
            one.name,
            one.trace_id,
            one.span_id,
            one.parent_id,
            one.status,
            *(
                str(one.attributes.get(name))
                for name in (
                    "gen_ai.tool.call.id",
                    "gen_ai.tool.call.arguments",
                    "gen_ai.tool.call.result",
                    "gen_ai.conversation.id",
                    "gen_ai.agent.name",
                    "gen_ai.agent.version",
                    "error.type",
                    "callsheet.turn",
                    "callsheet.stop_reason",
                    "gen_ai.usage.input_tokens",
                    "callsheet.redactions",
                )
            ),
            *((one.start, one.end) if one.name.startswith("execute_tool") else ()),
        )
        for one in spans
    }


def same_again(live: OtlpReceiver, env: dict[str, str]) -> None:
    """Send what is stored, twice, and compare it with what came live."""
    for _ in range(2):
        with otlp_receiver() as later:
            done = export(quiet(env), "--to", later.url)
            assert done.returncode == 0, done.stderr
            assert (
                done.stderr == f"callsheet: {len(live.spans)} spans sent to {later.url}/v1/traces\n"
            )
            assert facts(later.spans) == facts(live.spans)
            assert len({one.span_id for one in later.spans}) == len(later.spans) == len(live.spans)


async def test_what_an_agent_has_sent_live_is_the_same_when_it_is_sent_later(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("content")
    env = environment(receiver.url, **CAPTURE)
    async with AgentClient([*CALLSHEET, "agent"], env=env) as client:
        session = await client.new_session(str(tmp_path))
        await prompt(client, session, "/read a.txt")
        await prompt(client, session, f"!echo {SECRET}; exit 3", META)
        await prompt(client, session, "/list")
        await asyncio.to_thread(receiver.wait, 6)
    assert len(receiver.spans) == 6
    assert TRACE in {one.trace_id for one in receiver.spans}
    same_again(receiver, env)


async def test_what_a_tap_has_sent_live_is_the_same_when_it_is_sent_later(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    env = environment(receiver.url, **CAPTURE)
    command = [*CALLSHEET, "tap", "--", sys.executable, str(agent)]
    for count, meta in ((3, None), (6, META)):  # two processes, whose agent uses the same ids again
        async with AgentClient(command, env=env) as client:
            session = await client.new_session(str(tmp_path))
            await prompt(client, session, "go", meta)
            await asyncio.to_thread(receiver.wait, count)
    assert len(receiver.spans) == 6
    inner = [one for one in receiver.tools() if one.attributes["gen_ai.tool.call.id"] == "c2"]
    assert len({one.span_id for one in inner}) == 2
    same_again(receiver, env)


async def test_odd_notes_of_an_agent_keep_no_call_from_being_sent(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    agent = tmp_path / "agent.py"
    odd = (
        '{"callsheet": {"parentId": 7, "startedAt": "9999-01-01T00:00:00Z", "redactions": 10**30}}'
    )
    agent.write_text(AGENT.replace('{"callsheet": {"parentId": "c1"}}', odd))
    env = environment(receiver.url)
    command = [*CALLSHEET, "tap", "--", sys.executable, str(agent)]
    async with AgentClient(command, env=env) as client:
        session = await client.new_session(str(tmp_path))
        await prompt(client, session, "go")
        await asyncio.to_thread(receiver.wait, 3)
    assert "telemetry" not in client.errors
    with otlp_receiver() as later:
        done = export(quiet(env), "--to", later.url)
        assert (done.returncode, len(later.spans)) == (0, 3), done.stderr


def test_a_call_by_hand_is_the_same_when_it_is_sent_later(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    env = environment(receiver.url, **CAPTURE)
    assert call(env, tmp_path, "bash", "command=echo hello").returncode == 0
    same_again(receiver, env)


def test_lines_are_as_otlps_files_have_them(environment: Environment, tmp_path: Path) -> None:
    env = quiet(environment(""))
    for name in ("one", "two"):
        call(env, tmp_path, "bash", f"command=echo {name}; exit 1")
    done = export(env | CAPTURE)
    assert (done.returncode, done.stderr) == (0, "")
    spans = [
        span
        for line in done.stdout.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]
    tools = [one for one in spans if one["name"] == "execute_tool bash"]
    agents = {one["spanId"]: one for one in spans if one["name"] == "invoke_agent callsheet"}
    assert (len(tools), len(agents)) == (2, 2)
    for tool in tools:
        agent = agents[tool["parentSpanId"]]
        assert tool["traceId"] == agent["traceId"]
        assert len(bytes.fromhex(tool["traceId"])) == 16
        assert len(bytes.fromhex(tool["spanId"])) == 8
        assert "parentSpanId" not in agent
        assert tool["status"]["code"] == 2
        assert tool["startTimeUnixNano"].isdecimal()
        assert tool["kind"] == 1
        values = {one["key"]: one["value"] for one in tool["attributes"]}
        assert values["gen_ai.operation.name"] == {"stringValue": "execute_tool"}
    file = tmp_path / "spans.jsonl"
    done = export(env, "-o", str(file))
    assert done.stderr == f"callsheet: 1 line in {file}\n"
    assert export(env, "--tool", "read").stdout == ""


def test_spans_go_where_the_variables_say(
    receiver: OtlpReceiver, environment: Environment, tmp_path: Path
) -> None:
    env = environment(receiver.url)
    call(quiet(env), tmp_path, "list")
    done = export(env, "--to")
    assert (done.returncode, len(receiver.spans)) == (0, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--to", "localhost:4318"), "expected a URL such as http://127.0.0.1:4318"),
        (("--to", "http://127.0.0.1:9"), "http://127.0.0.1:9/v1/traces does not take the spans"),
        (("--format", "csv", "--to", "http://127.0.0.1:9"), "--format otlp"),
        (("--to", "http://127.0.0.1:9", "-o", "x"), "without --output"),
    ],
)
def test_what_can_not_be_sent_is_an_error(
    environment: Environment, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    env = quiet(environment("")) | {"OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    call(env, tmp_path, "list")
    done = export(env, *options)
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 4


def test_an_endpoint_that_refuses_is_an_error(environment: Environment, tmp_path: Path) -> None:
    with otlp_receiver(status=500) as refusing:
        env = quiet(environment(""))
        call(env, tmp_path, "list")
        done = export(env, "--to", refusing.url)
    assert done.returncode == 1
    assert "500" in done.stderr
    assert "0 spans arrived" in done.stderr
