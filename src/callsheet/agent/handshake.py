"""The answer to `initialize`, which an editor waits for, given before anything else is imported.

Most editors send `initialize` while this process still starts. So `answer_early` looks whether it is there,
and answers before asyncio, msgspec and all the rest are imported, which takes several times as long as
Python's own start. It answers only what it fully understands: any other line, and whatever follows, is
passed on to the agent, as if nobody had read it.

Nothing here may import more than the few modules that it does.
"""

from __future__ import annotations

import os

from callsheet import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any, Literal

READ = 1 << 16


class Handshake:
    """The params of `initialize`, if it was answered, and the client's bytes that are still to be handled."""

    def __init__(self, params: dict[str, Any] | None = None, ahead: bytes = b"") -> None:
        self.params: dict[str, Any] | None = params
        self.ahead: bytes = ahead


def chosen_version(wanted: int, newest: Literal[1, 2]) -> Literal[1, 2]:
    """Return the version of ACP to speak with a client that wants one."""
    return 2 if wanted >= 2 and newest == 2 else 1


CALLSHEET = {"name": "callsheet", "title": "Callsheet", "version": __version__}
"""Who answers, unless an agent's settings have a name of its own."""


def initialized(
    version: Literal[1, 2],
    has_history: bool,
    info: dict[str, Any] = CALLSHEET,
    takes: Collection[str] = (),
    auth_methods: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Return the answer to `initialize`.

    Args:
        version: The version of ACP that is spoken.
        has_history: Whether sessions are stored.
        info: The agent's name, title and version.
        takes: The blocks that prompts may have beside text: `image`, `audio`.
        auth_methods: ACP's `authMethods`.
    """
    if version == 2:
        session: dict[str, Any] = {
            "prompt": {"embeddedContext": {}} | {kind: {} for kind in takes},
            "mcp": {"stdio": {}, "http": {}},
            "additionalDirectories": {},
        }
    else:
        session = {"close": {}, "additionalDirectories": {}, "list": {}, "resume": {}}
    if has_history:
        session["delete"] = {}
    if version == 2:
        answer = {"protocolVersion": 2, "info": info, "capabilities": {"session": session}}
        methods = [
            {"type": "agent", "methodId": one["id"]} | {k: v for k, v in one.items() if k != "id"}
            for one in auth_methods
        ]
        return answer | ({"authMethods": methods} if methods else {})
    return {
        "protocolVersion": 1,
        "agentInfo": info,
        "authMethods": list(auth_methods),
        "agentCapabilities": {
            "loadSession": has_history,
            "promptCapabilities": {
                "image": "image" in takes,
                "audio": "audio" in takes,
                "embeddedContext": True,
            },
            "mcpCapabilities": {"http": True, "sse": False},
            "sessionCapabilities": session,
        },
    }


def answer_early(has_history: bool, stdin: int = 0, stdout: int = 1) -> Handshake:
    """Answer `initialize`, if it is there already, in v1, and return what else was read.

    Args:
        has_history: Whether sessions are stored.
        stdin: The descriptor that the client's bytes are read from.
        stdout: The descriptor that the answer is written to.
    """
    try:
        import select

        waiting = select.poll()  # Windows has none, and an early answer only where it can be known
        waiting.register(stdin, select.POLLIN)
        ahead = os.read(stdin, READ) if waiting.poll(0) and not os.isatty(stdin) else b""
    except (AttributeError, ImportError, OSError):
        return Handshake()
    line, newline, rest = ahead.partition(b"\n")
    request = _request_in(line) if newline else None
    if request is None:
        return Handshake(None, ahead)
    import json

    answer = {"jsonrpc": "2.0", "id": request["id"], "result": initialized(1, has_history)}
    left = json.dumps(answer, separators=(",", ":")).encode() + b"\n"
    try:
        while left:
            left = left[os.write(stdout, left) :]
    except OSError:  # the client is gone, as the agent will notice
        pass
    return Handshake(request["params"], rest)


def _request_in(line: bytes) -> dict[str, Any] | None:
    """Return the request to `initialize` on a line; None if it is anything else, or in any way unusual."""
    if b'"initialize"' not in line or not line.isascii() or b"\\" in line:
        return None
    import json

    try:
        # NaN, which is no JSON, is refused by `int`.
        request: Any = json.loads(line.decode(), parse_constant=int)
        is_request = request["jsonrpc"] == "2.0" and request["method"] == "initialize"
        key, wanted = request["id"], request["params"]["protocolVersion"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    has_more = len(request) > 4  # which the agent passes on or refuses
    is_plain = type(key) is int and 0 <= key < 1 << 53 and type(wanted) is int
    return request if is_request and is_plain and not has_more else None
