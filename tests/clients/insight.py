"""A tool of one's own, for `callsheet agent --tools`: it writes down what the agent knows of its calls."""

from __future__ import annotations

import json

from callsheet import Call, tool
from callsheet.acp import v1, v2
from callsheet.acp.codec import as_dict


@tool(read_only=True)
def tell(call: Call, version: int) -> str:
    """Write every call that has ended to reports.json."""
    announce = (v1 if version == 1 else v2).announce
    ended = [report for report in call.session.reports if report.is_final]
    told = {report.tool_call_id: as_dict(announce(report)) for report in ended}
    (call.workspace.cwd / "reports.json").write_text(json.dumps(told))
    return f"{len(told)} calls"
