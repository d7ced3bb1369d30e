"""What the agents of the bench say: talk in small pieces, as a model gives it, and updates of real calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any

from .checking import marked, sources

SESSION = "sess_01k7b2c4d6e8f0"
END = "That is the end of it."
"""Said after all else: it reaches the editor after all that was said before."""

CALLS = ("tool_call", "tool_call_update")

TALK = """I'll look at how the settings are read first. `load_settings` in `app/settings.py` opens the file,
parses it, and returns a dict; the tests call it twice, once with a path that doesn't exist.

Two things stand out:

- The default for `timeout` is set in three places (30, 30 and "60"), so which of them wins depends on
  the order of imports.
- A missing file raises `FileNotFoundError` from deep inside the parser. The caller in `main.py` catches
  `OSError`, logs it, and goes on without settings, which is why the second test passes.

I'd move the defaults into one place, and let `load_settings` raise its own error with the path in it:

```python
def load_settings(path: Path) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as exc:
        raise SettingsError(f"{path}: {exc.strerror}") from exc
    return parse(text)
```

Then the session can show it to the user. The key point is that nothing else has to change: every caller
already handles `SettingsError`. I've run the whole suite with this; 214 tests pass, and it takes 3.2 s
instead of 3.4 s. See https://docs.example.org/settings for what each option means.

"""
_PIECE = re.compile(r"\s*[A-Za-z]{1,7}|\s*[^\sA-Za-z]{1,3}|\s+")


def chunk(text: str) -> bytes:
    """Return a piece of talk as agents send it."""
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    params = {"sessionId": SESSION, "update": update}
    return _line({"jsonrpc": "2.0", "method": "session/update", "params": params})


@cache
def talk() -> list[bytes]:
    """Return the lines of a long talk."""
    return [chunk(piece) for piece in _PIECE.findall(TALK)]


def calls() -> Iterator[bytes]:
    """Return updates of calls without end: those of real agents, in one session, under new ids each time."""
    for number in count():
        for message in _told():
            again = marked(message, f"-{number}")
            again["params"]["sessionId"] = SESSION
            yield _line(again)


@cache
def _told() -> list[dict[str, Any]]:
    """Return what a recording of middle length tells of calls, of each agent."""
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for recording in sources():
        messages = [line["msg"] for line in recording if line["dir"] == "agent->client"]
        agent = next(_agent(message) for message in messages if "agentInfo" in _result(message))
        told = [message for message in messages if _kind(message) in CALLS]
        found.setdefault(agent, []).append(told)
    middle = [sorted(recordings, key=len)[len(recordings) // 2] for recordings in found.values()]
    return [message for told in middle for message in told]


def _kind(message: dict[str, Any]) -> Any:
    return (message.get("params") or {}).get("update", {}).get("sessionUpdate")


def _result(message: dict[str, Any]) -> dict[str, Any]:
    result = message.get("result")
    return result if isinstance(result, dict) else {}


def _agent(message: dict[str, Any]) -> str:
    return str(_result(message)["agentInfo"]["name"])


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
