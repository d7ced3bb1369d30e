"""An MCP server that is made by hand, starts at once, and behaves as badly as it is told: `mcp_odd.py WORD…`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WORDS = set(sys.argv[1:])


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


WANTED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    tool("structured", outputSchema=WANTED, annotations={"readOnlyHint": True}),
    tool("broken_promise", outputSchema=WANTED),
    tool("no_promise_kept", outputSchema=WANTED),
    tool("unknown_content"),
    tool("last_word"),
    tool("refuse"),
    tool("linger"),
    tool("hang"),
    tool("deaf"),
    tool("pester"),
    tool("close_stdout"),
    tool("a.b/c d"),
    tool("a_b_c_d"),
    tool("x" * 100),
    tool("bad_schema", inputSchema={"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/"}}}),
]  # fmt: skip


def text(said: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}]}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(name: str) -> dict[str, Any] | None:
    if name == "structured":
        return {"content": [], "structuredContent": {"n": 1}}
    if name == "broken_promise":
        return {**text("one"), "structuredContent": {"n": "one"}}
    if name == "unknown_content":
        return {"content": [{"type": "smell", "data": "roses"}]}
    if name == "linger":  # a child of the server holds its stdout
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        Path("child").write_text(str(child.pid))
        os._exit(5)
    if name == "pester":
        for number in range(100_000):
            send({"id": f"{number}", "method": "ping"})
    if name == "deaf":
        time.sleep(60)
    if name == "close_stdout":
        os.close(1)
        time.sleep(60)
    if name == "last_word":
        return text(str(os.getpid()))
    return None if name == "hang" else text(f"did {name}")


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    if method == "tools/list" and "paged" in WORDS:
        at = int(params.get("cursor", 0))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(TOOLS) else {}
        return {"tools": TOOLS[at : at + 1], **more}
    return {"tools": TOOLS} if method == "tools/list" else call(params["name"])


def main() -> None:
    if "stubborn" in WORDS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("pids").write_text(f"{os.getpid()} {subprocess.Popen(['sleep', '60']).pid}")
    if "silent" in WORDS:
        time.sleep(60)
    for line in sys.stdin:
        message = json.loads(line)
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            continue
        if "modern" in WORDS and method == "initialize":
            send({"id": message["id"], "error": {"code": -32601, "message": "what?"}})
        elif params.get("name") == "refuse":
            send({"id": message["id"], "error": {"code": -32602, "message": "not like this"}})
        elif (result := answer(method, params)) is not None:
            if "modern" in WORDS:
                result = {"resultType": "complete", **result}
                if method == "tools/list":
                    result |= {"ttlMs": 0, "cacheScope": "private"}
            send({"id": message["id"], "result": result})
        if params.get("name") == "last_word":
            os._exit(0)
    if "stubborn" in WORDS:
        time.sleep(60)


main()
