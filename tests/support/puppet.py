"""A scripted agent: waits for methods, writes lines, sleeps, exits. For tests of the tap.

    python -m tests.support.puppet '[["await", "initialize"], ["say", {…}], ["sleep", 1], ["exit", 3]]'

`$id` in a line is the id of the request that it awaited last. `@FILE` reads the steps from a file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def puppet(*steps: list[Any]) -> list[str]:
    """Return the command of such an agent."""
    return [sys.executable, str(Path(__file__)), json.dumps(steps)]


def main() -> None:
    """Play the steps."""
    key: Any = None
    steps = sys.argv[1]
    if steps.startswith("@"):
        steps = Path(steps[1:]).read_text()
    for verb, *arguments in json.loads(steps):
        if verb == "await":
            key = _await(arguments[0])
        elif verb == "say":
            line = json.dumps(arguments[0]).replace('"$id"', json.dumps(key))
            print(line, flush=True)
        elif verb == "mumble":
            print(arguments[0], end="", flush=True)
        elif verb == "sleep":
            time.sleep(arguments[0])
        elif verb == "run":
            subprocess.Popen(arguments[0])
        elif verb == "grumble":
            print(arguments[0], file=sys.stderr, flush=True)
        elif verb == "exit":
            sys.exit(arguments[0])


def _await(method: str) -> Any:
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method", "answer") == method:
            return message.get("id")
    sys.exit(0)


if __name__ == "__main__":
    main()
