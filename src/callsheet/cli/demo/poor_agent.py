"""A deliberately poor ACP agent, for `callsheet demo`: plain JSON lines, and the faults of real agents.

    python -m callsheet.cli.demo.poor_agent [PACE]

It plays one turn, always the same, at any prompt. Each fault here was found in agents that people use: titles
that are the tool's name, no kind, an input that comes late or never, approval asked without the command, ids
that are used twice, output that is sent again with every line, a failure that is reported as a success, a
secret in the clear, a call that never ends.

Only the standard library, and nothing of callsheet: it must not report better than it wants to. `PACE` is the
seconds between two messages.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

SESSION = "poor-1"
TOKEN = (
    "ghp_" + "7Kq2vTz9LmXc4RbW8sYd" + "1NfHgJ5pUa3eQo6Z"
)  # made up, and in two parts: no scanner need worry
TESTS = [
    *(f"tests/test_basket.py::test_{n:02} PASSED [{n * 2:3}%]" for n in range(1, 49)),
    "tests/test_basket.py::test_49 FAILED [100%]",
    "E   assert 430 == 750",
    "1 failed, 48 passed in 1.21s",
    "Exit code: 1",
]


class PoorAgent:
    """Answers requests, and plays its turn."""

    def __init__(self, pace: float) -> None:
        self._pace: float = pace

    def serve(self) -> None:
        """Answer each request until stdin ends."""
        answers = {
            "initialize": {
                "protocolVersion": 1,
                "agentInfo": {"name": "poor-agent", "version": "1"},
            },
            "session/new": {"sessionId": SESSION},
        }
        for line in sys.stdin:
            request = json.loads(line)
            if request.get("method") == "session/prompt":
                self._turn()
                self._send({"id": request["id"], "result": {"stopReason": "end_turn"}})
            elif request.get("method") in answers:
                self._send({"id": request["id"], "result": answers[request["method"]]})

    def _turn(self) -> None:
        self._read_a_file()
        self._run_the_tests()
        self._edit_a_file()
        self._print_a_secret()
        self._search_forever()

    def _read_a_file(self) -> None:
        self._announce("call_0", "ReadFile", {})
        self._update("call_0", rawInput={"path": "src/basket.py"})
        self._end("call_0", 'PRICES = {"bread": 320, "milk": 110}')

    def _run_the_tests(self) -> None:
        self._announce("call_0", "Bash", {}, pause=0)  # the id of another call
        for arguments in ('{"comm', '{"command": "pytest -v tes', '{"command": "pytest -v tests"}'):
            self._update("call_0", content=_text(arguments), pause=0.5)
        self._ask("call_0", "Bash")
        for count in range(1, len(TESTS) + 1):  # all of it, with every line
            self._update("call_0", content=_text("\n".join(TESTS[:count])), pause=0.25)
        self._end("call_0", "\n".join(TESTS))

    def _edit_a_file(self) -> None:
        changes = {
            "path": "src/basket.py",
            "old_string": "sum(prices)",
            "new_string": "total(basket)",
        }
        self._announce("call_1", "Edit", {})
        self._update("call_1", rawInput=json.dumps(changes))
        self._end("call_1", "ok")

    def _print_a_secret(self) -> None:
        self._announce("call_2", "Bash", {"command": "cat .env"})
        self._end("call_2", f"DEBUG=1\nGITHUB_TOKEN={TOKEN}\n")

    def _search_forever(self) -> None:
        self._announce("call_3", "Grep", {"pattern": "def total", "path": "src"})
        self._update("call_3", status="in_progress")

    # Messages

    def _announce(
        self, key: str, title: str, arguments: dict[str, Any], pause: float = 1.0
    ) -> None:
        fields = {"title": title, "status": "pending", "rawInput": arguments}
        self._send_update({"sessionUpdate": "tool_call", "toolCallId": key, **fields}, pause)

    def _update(self, key: str, pause: float = 1.0, **fields: Any) -> None:
        self._send_update({"sessionUpdate": "tool_call_update", "toolCallId": key, **fields}, pause)

    def _end(self, key: str, output: str) -> None:
        self._update(key, status="completed", content=_text(output))

    def _send_update(self, update: dict[str, Any], pause: float = 1.0) -> None:
        params = {"sessionId": SESSION, "update": update}
        self._send({"method": "session/update", "params": params})
        time.sleep(pause * self._pace)

    def _ask(self, key: str, title: str) -> None:
        """Ask for approval, without what is to be approved, and wait for the answer."""
        options = [
            {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
            {"optionId": "no", "name": "No", "kind": "reject_once"},
        ]
        call = {"toolCallId": key, "title": title}
        params = {"sessionId": SESSION, "toolCall": call, "options": options}
        self._send({"id": "ask-1", "method": "session/request_permission", "params": params})
        for line in sys.stdin:
            if json.loads(line).get("id") == "ask-1":
                return

    def _send(self, message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def _text(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


if __name__ == "__main__":
    PoorAgent(float(sys.argv[1]) if len(sys.argv) > 1 else 0.1).serve()
