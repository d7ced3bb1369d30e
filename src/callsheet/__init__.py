"""Complete, correct tool-call reports for agents that speak the Agent Client Protocol (ACP)."""

from callsheet.report.content import FileChange, ToolCallContent
from callsheet.report.errors import CallsheetError
from callsheet.report.kinds import ToolKind
from callsheet.report.locations import ToolCallLocation
from callsheet.report.report import ToolCallReport
from callsheet.report.status import Reason, ToolCallStatus

__version__ = "0.1.0"

__all__ = [
    "CallsheetError",
    "FileChange",
    "Reason",
    "ToolCallContent",
    "ToolCallLocation",
    "ToolCallReport",
    "ToolCallStatus",
    "ToolKind",
]
