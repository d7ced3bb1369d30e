"""A tiny relay for tests: an agent behind the bridge. Messages about calls go through `wire.bridge`.

    python bridging_relay.py AGENT_VERSION CLIENT_VERSION COUNTS_FILE COMMAND…

This is what the tap's pipeline does, without putting anything right.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from callsheet.acp.bridge import Bridge
from callsheet.runtime.ids import new_call_id
from callsheet.tap.bridging import Bridging, Translated

CALLS = ("tool_call", "tool_call_update", "tool_call_content_chunk")
TERMINALS = ("terminal_update", "terminal_output_chunk")


class Relay:
    def __init__(self, agent: Any, client: Any, command: list[str]) -> None:
        self.bridging = Bridging(agent, client)
        self.calls = Bridge(agent, client, new_call_id)
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock = Lock()
        self.known: set[str] = set()

    def run(self) -> int:
        Thread(target=self.listen_to_client, daemon=True).start()
        assert self.child.stdout is not None
        for line in self.child.stdout:
            with self.lock:
                self.send(self.from_agent(json.loads(line)))
        self.send(self.bridging.agent_gone())
        return self.child.wait()

    def listen_to_client(self) -> None:
        assert self.child.stdin is not None
        for line in sys.stdin:
            with self.lock:
                self.send(self.bridging.from_client(json.loads(line)))
        self.child.stdin.close()

    def from_agent(self, message: dict[str, Any]) -> Translated:
        if self.bridging.is_idle:
            return self.bridging.from_agent(message)
        params = message.get("params", {})
        if message.get("method") == "session/request_permission":
            updates, asked = self.calls.permission(params)
            request = {**message, "params": asked}
            said = self.bridging.permission_asked(params["sessionId"], request)
            said.to_client[:0] = [_update(one) for one in updates]
            said.to_client.append(request)
            return said
        if params.get("update", {}).get("sessionUpdate") not in (*CALLS, *TERMINALS):
            return self.bridging.from_agent(message)
        if self.bridging.is_muted(params["sessionId"]):
            return Translated()
        if params["update"].get("toolCallId") not in (None, *self.known):
            self.known.add(params["update"]["toolCallId"])
            self.bridging.call_told(params["sessionId"])
        return Translated(to_client=[_update(one) for one in self.calls.update(params)])

    def send(self, said: Translated) -> None:
        assert self.child.stdin is not None
        for message in said.to_agent:
            self.child.stdin.write(json.dumps(message).encode() + b"\n")
            self.child.stdin.flush()
        for message in said.to_client:
            sys.stdout.write(json.dumps(message) + "\n")
            sys.stdout.flush()


def _update(params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


if __name__ == "__main__":
    relay = Relay(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4:])
    code = relay.run()
    Path(sys.argv[3]).write_text(json.dumps(relay.bridging.lost))
    sys.exit(code)
