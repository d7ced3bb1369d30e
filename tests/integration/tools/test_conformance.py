"""Every tool that is registered keeps the standard: success, failure, bad arguments, timeout, cancel."""

from __future__ import annotations

import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from callsheet import Call, Session, ToolResult, tool
from callsheet.testing import check_tool
from callsheet.tools.builtin import BUILTIN
from callsheet.tools.session import ToolSettings
from tests.support import SUPPORT

REAL = str(SUPPORT / "mcp_real.py")
SERVER = {"name": "real", "command": sys.executable, "args": [REAL, "stdio"], "env": []}

CASES: dict[str, dict[str, Any]] = {
    "read": {"good": {"path": "a.txt"}, "failing": {"path": "missing.txt"}},
    "write": {
        "good": {"path": "new.txt", "content": "x\n"},
        "failing": {"path": "d", "content": ""},
    },
    "edit": {
        "good": {"path": "e.txt", "old_text": "one", "new_text": "two"},
        "failing": {"path": "a.txt", "old_text": "nowhere", "new_text": "x"},
    },
    "list": {"good": {"path": "d"}, "failing": {"path": "missing"}},
    "glob": {"good": {"pattern": "*.txt"}, "failing": {"pattern": "*", "path": "missing"}},
    "grep": {"good": {"pattern": "text"}, "failing": {"pattern": "("}},
    "bash": {
        "good": {"command": "echo hello"},
        "failing": {"command": "echo so far; exit 3"},
        "slow": {"command": "sleep 30"},
    },
    "move": {
        "good": {"source": "m.txt", "destination": "n.txt"},
        "failing": {"source": "missing.txt", "destination": "n.txt"},
    },
    "delete": {"good": {"path": "x.txt"}, "failing": {"path": "d"}},
    "fetch": {"good": {"url": "/page"}, "failing": {"url": "/missing"}, "slow": {"url": "/slow"}},
    "think": {"good": {"thought": "hm"}},
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("a", "e", "m", "x"):
        (tmp_path / f"{name}.txt").write_text("some text, one line\n")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "inside.txt").write_text("text\n")
    return tmp_path


class Pages(BaseHTTPRequestHandler):
    done = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.done.wait(20)
        self.send_response(404 if self.path == "/missing" else 200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def web() -> Any:
    Pages.done.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        Pages.done.set()
        server.shutdown()


def test_every_builtin_tool_has_a_case():
    assert set(CASES) == set(BUILTIN)


@pytest.mark.parametrize("name", CASES)
async def test_a_builtin_tool_keeps_the_standard(name: str, place: Path, web: str):
    case = {
        key: {**given, "url": web + given["url"]} if "url" in given else given
        for key, given in CASES[name].items()
    }
    settings = ToolSettings(private_hosts=("127.0.0.1",))
    await check_tool(name, cwd=place, tool_settings=settings, **case)


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("add", {"good": {"a": 1, "b": 2}}),
        ("burn", {"good": {"what": "nothing"}}),
        ("everything", {"good": {"directory": "/"}}),
        ("count", {"good": {"to": 3}}),
    ],
)
async def test_an_mcp_servers_tool_keeps_the_standard(name: str, case: Any, place: Path):
    await check_tool(f"mcp__real__{name}", cwd=place, mcp_servers=[SERVER], **case)


async def test_every_mcp_tool_fails_by_the_standard(place: Path):
    from callsheet.testing import assert_standard

    async with Session(cwd=place, mcp_servers=[SERVER], permission="allow") as session:
        result = await session.run("mcp__real__fail")
        assert not result.success
        assert_standard(result)


async def test_a_users_tool_keeps_the_standard(place: Path):
    @tool(kind="read", title="Counting the lines of {path}")
    def count_lines(call: Call, path: Path) -> ToolResult:
        """Count the lines of a file."""
        lines = len(path.read_text().splitlines())
        return call.success(f"{path.name} has lines").with_metadata("total_lines", lines)

    results = await check_tool(
        count_lines, good={"path": "a.txt"}, failing={"path": "missing.txt"}, cwd=place
    )
    assert set(results) >= {"success", "failure", "unknown argument", "without path", "bad path"}
    assert results["failure"].metadata["error_code"] == "not_found"


async def test_a_tool_that_breaks_the_standard_is_found(place: Path):
    @tool
    def lies(call: Call) -> ToolResult:
        """Say that all is well."""
        return call.error("not well")

    with pytest.raises(AssertionError, match="failed with good arguments"):
        await check_tool(lies, good={}, cwd=place)
    with pytest.raises(AssertionError, match="succeeded with"):
        await check_tool("think", good={"thought": "x"}, failing={"thought": "y"}, cwd=place)
