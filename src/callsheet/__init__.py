"""Complete, correct tool-call reports for agents that speak the Agent Client Protocol (ACP)."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from callsheet.acp.peer import Peer
    from callsheet.acp.permission import PermissionOption
    from callsheet.report.content import FileChange, ToolCallContent
    from callsheet.report.errors import CallsheetError
    from callsheet.report.fields import ToolCallLocation, ToolKind
    from callsheet.report.report import ToolCallReport
    from callsheet.report.status import Reason, ToolCallStatus
    from callsheet.runtime.batch import Batch
    from callsheet.runtime.health import ConsumerLost, Health, PermissionDenied, SessionClosed
    from callsheet.runtime.permission import Question
    from callsheet.runtime.sanitizer import GuardSettings
    from callsheet.runtime.sinks import PipeSink, Sink
    from callsheet.tools.errors import ToolError
    from callsheet.tools.result import ToolResult
    from callsheet.tools.session import Call, Session
    from callsheet.tools.tool import tool

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Call",
    "CallsheetError",
    "ConsumerLost",
    "FileChange",
    "GuardSettings",
    "Health",
    "Peer",
    "PermissionDenied",
    "PermissionOption",
    "PipeSink",
    "Question",
    "Reason",
    "Session",
    "SessionClosed",
    "Sink",
    "ToolCallContent",
    "ToolCallLocation",
    "ToolCallReport",
    "ToolCallStatus",
    "ToolError",
    "ToolKind",
    "ToolResult",
    "tool",
]

_LAZY = {
    "Batch": "callsheet.runtime.batch",
    "Call": "callsheet.tools.session",
    "CallsheetError": "callsheet.report.errors",
    "ConsumerLost": "callsheet.runtime.health",
    "FileChange": "callsheet.report.content",
    "GuardSettings": "callsheet.runtime.sanitizer",
    "Health": "callsheet.runtime.health",
    "Peer": "callsheet.acp.peer",
    "PermissionDenied": "callsheet.runtime.health",
    "PermissionOption": "callsheet.acp.permission",
    "PipeSink": "callsheet.runtime.sinks",
    "Question": "callsheet.runtime.permission",
    "Reason": "callsheet.report.status",
    "Session": "callsheet.tools.session",
    "SessionClosed": "callsheet.runtime.health",
    "Sink": "callsheet.runtime.sinks",
    "ToolCallContent": "callsheet.report.content",
    "ToolCallLocation": "callsheet.report.fields",
    "ToolCallReport": "callsheet.report.report",
    "ToolCallStatus": "callsheet.report.status",
    "ToolError": "callsheet.tools.errors",
    "ToolKind": "callsheet.report.fields",
    "ToolResult": "callsheet.tools.result",
    "tool": "callsheet.tools.tool",
}
"""What is imported when it is asked for: an editor waits for our start, and nobody needs all of it."""


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'callsheet' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(module), name)
    return value
