"""Send spans of a real session to Phoenix, and look at what it makes of them: `make otel`.

    python -m tests.phoenix [PICTURE]

Phoenix is installed into `.venvs/phoenix`, which stays, and runs on loopback. Its API has to show tools under
agents, with arguments and results; PICTURE, a PNG file, shows its page of the trace.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from callsheet.testing import AgentClient
from tests.support import ROOT

VENV = ROOT / ".venvs" / "phoenix"
PICTURE = VENV / "trace.png"
PATIENCE = 300.0
HANDLER = Path(__file__).with_name("handler.py")


def main(picture: Path) -> None:
    """Install and start Phoenix, send it a session, and check what it shows."""
    command = install()
    with tempfile.TemporaryDirectory() as place:
        port, grpc = free_port(), free_port()
        env = {
            **os.environ,
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_WORKING_DIR": place,
            "PHOENIX_TELEMETRY_ENABLED": "false",
        }
        url = f"http://127.0.0.1:{port}"
        with (Path(place) / "phoenix.log").open("wb") as log:
            server = subprocess.Popen([command, "serve"], env=env, stdout=log, stderr=log)
        try:
            wait_for(f"{url}/v1/projects", server)
            began = time.monotonic()
            asyncio.run(session(url, Path(place)))
            spans = arrived(url)
            print(f"{len(spans)} spans, {time.monotonic() - began:.1f} s after the session began")
            check(spans)
            draw(f"{url}/redirects/traces/{spans[0]['context']['trace_id']}", picture)
        finally:
            server.terminate()
            server.wait(30)


def install() -> str:
    """Return Phoenix's command, and install it before."""
    command = VENV / "bin" / "phoenix"
    if not command.exists():
        print("Installing Phoenix: some minutes, and a gigabyte.", flush=True)
        venv.create(VENV, with_pip=True)
        pip = [VENV / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "install", "arize-phoenix>=20,<21"], check=True)
    return str(command)


def free_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def get(url: str) -> Any:
    """Return what an address answers, as JSON."""
    with urlopen(url, timeout=30) as answer:
        return json.load(answer)


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until an address answers."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.poll() is None:
        try:
            get(url)
        except (URLError, OSError):
            time.sleep(0.5)
        else:
            return
    raise SystemExit("Phoenix does not start")


async def session(url: str, place: Path) -> None:
    """Run a session of our agent that sends its spans."""
    env = {
        **os.environ,
        "HOME": str(place),
        "CALLSHEET_HISTORY": "off",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_METRICS_EXPORTER": "none",  # Phoenix takes no figures
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    }
    command = [sys.executable, "-m", "callsheet", "agent", "--handler", f"{HANDLER}:Worker"]
    async with AgentClient(command, env=env) as client:
        key = await client.new_session(str(place))
        await client.prompt(key, "Where is two?")
    if client.errors:
        raise SystemExit(client.errors)


def arrived(url: str) -> list[Any]:
    """Return the spans as Phoenix knows them, the agent's first, once all are there."""
    until = time.monotonic() + PATIENCE
    spans: list[Any] = []
    while len(spans) < 6 and time.monotonic() < until:
        time.sleep(0.5)
        spans = get(f"{url}/v1/projects/default/spans?limit=100&sort=start_time&order=asc")["data"]
    return sorted(spans, key=lambda one: one["parent_id"] is not None)


def check(spans: list[Any]) -> None:
    """Check that tools are tools under agents, with arguments and results."""
    by_id = {one["context"]["span_id"]: one for one in spans}
    for span in spans:
        above = by_id.get(span["parent_id"])
        under = "" if above is None else f" under {above['name']}"
        print(f"{span['span_kind']:<6} {span['status_code']:<6} {span['name']}{under}")
    agent, *tools = spans
    assert (agent["span_kind"], agent["name"]) == ("AGENT", "invoke_agent worker")
    assert {one["span_kind"] for one in tools} == {"TOOL"}
    assert len(tools) == 5
    assert len({one["attributes"]["session.id"] for one in spans}) == 1
    used = {"llm.model_name": "claude-sonnet-4-5", "llm.token_count.prompt": 1200}
    assert used.items() <= agent["attributes"].items()
    (task,) = (one for one in tools if one["name"] == "execute_tool task")
    assert task["parent_id"] == agent["context"]["span_id"]
    (bash,) = (one for one in tools if one["name"] == "execute_tool bash")
    assert bash["parent_id"] == task["context"]["span_id"]
    assert bash["attributes"]["tool.parameters.command"] == "grep -n two notes.txt"
    assert "2:two" in bash["attributes"]["output.value"]
    failed = [one for one in tools if one["status_code"] == "ERROR"]
    assert [one["attributes"]["error.type"] for one in failed] == ["tool_error"]


def draw(url: str, picture: Path) -> None:
    """Draw Phoenix's page of a trace, if the machine has a Chromium."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium on this machine: there is no picture")
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1500, "height": 950})
        page.goto(url, wait_until="networkidle", timeout=120_000)
        page.get_by_text("execute_tool bash").first.click(timeout=60_000)
        page.wait_for_timeout(3000)
        page.screenshot(path=picture)
        browser.close()
    print(f"The page: {picture}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE)
