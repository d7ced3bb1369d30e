"""Complete, correct tool-call reports for agents that speak the Agent Client Protocol (ACP)."""

from callsheet.report.content import FileChange, ToolCallContent
from callsheet.report.errors import CallsheetError
from callsheet.report.kinds import ToolKind
from callsheet.report.locations import ToolCallLocation
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from callsheet.runtime.call import Call
    from callsheet.runtime.errors import PermissionDenied
    from callsheet.runtime.session import Session
    from callsheet.runtime.sinks import PipeSink
    from callsheet.wire.peer import Peer

__version__ = "0.1.0"

__all__ = [
    "Call",
    "CallsheetError",
    "FileChange",
    "Peer",
    "PermissionDenied",
    "PipeSink",
    "Reason",
    "Session",
    "ToolCallContent",
    "ToolCallLocation",
    "ToolCallReport",
    "ToolCallStatus",
    "ToolKind",
]

_LAZY = {
    "Call": "callsheet.runtime.call",
    "Peer": "callsheet.wire.peer",
    "PermissionDenied": "callsheet.runtime.errors",
    "PipeSink": "callsheet.runtime.sinks",
    "Session": "callsheet.runtime.session",
}
"""What is imported when it is asked for: an editor waits for our start, and not all need asyncio."""


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'callsheet' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value
