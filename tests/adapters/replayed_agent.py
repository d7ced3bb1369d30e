"""An agent that sends again what was recorded: a prompt is the path of a file of lines."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SESSION = "sess_1"
RESULTS: dict[str, Any] = {
    "initialize": {"protocolVersion": 1},
    "session/new": {"sessionId": SESSION},
    "session/prompt": {"stopReason": "end_turn"},
    "session/list": {"sessions": []},
}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "session/prompt":
            path = Path(message["params"]["prompt"][0]["text"])
            sys.stdout.write(path.read_text(encoding="utf-8"))
        answer = {
            "jsonrpc": "2.0",
            "id": message["id"],
            "result": RESULTS.get(message["method"], {}),
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
