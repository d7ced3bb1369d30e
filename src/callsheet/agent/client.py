"""What the client can do for the agent: its unsaved buffers, and its own terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callsheet.report.values import EMPTY, JsonObject, JsonValue, is_object

from .rpc import Connection

if TYPE_CHECKING:
    from callsheet.tools.tool import Tool

    from .conversation import Conversation


class Client:
    """The client's abilities, as it has told them."""

    def __init__(self, connection: Connection, capabilities: JsonValue) -> None:
        given: JsonObject = capabilities if is_object(capabilities) else EMPTY
        files = given.get("fs")
        files = files if is_object(files) else EMPTY
        self.connection: Connection = connection
        self.reads: bool = files.get("readTextFile") is True
        self.writes: bool = files.get("writeTextFile") is True
        self.terminals: bool = given.get("terminal") is True

    def tools(self, conversation: Conversation) -> list[Tool]:
        """Give the tools that use what the client can do, in place of the built-in ones."""
        return []
