"""What the client can do for the agent, as it has said: give and take files, and run terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.report.json import EMPTY, JsonObject, JsonValue, is_object

from .rpc import Connection

if TYPE_CHECKING:
    from .abilities.host import ClientHost


class Client:
    """The client's abilities. ACP v2 has none of them."""

    def __init__(self, connection: Connection, capabilities: JsonValue) -> None:
        given: JsonObject = capabilities if is_object(capabilities) else EMPTY
        files = given.get("fs")
        files = files if is_object(files) else EMPTY
        self.connection: Connection = connection
        self.reads: bool = files.get("readTextFile") is True
        self.writes: bool = files.get("writeTextFile") is True
        self.terminals: bool = given.get("terminal") is True

    def host(self, session_id: str) -> ClientHost | None:
        """Return what the tools of a session stand on, if the client lends something."""
        if not (self.reads or self.writes or self.terminals):
            return None
        from .abilities.asking import Asking
        from .abilities.host import ClientHost

        return ClientHost(
            Asking(self.connection, session_id),
            reads=self.reads,
            writes=self.writes,
            terminals=self.terminals,
        )
