"""A request for permission, made whole: the same report as the announcement, under the same id."""

from __future__ import annotations

from callsheet.check.recording.moments import Json
from callsheet.check.recording.values import obj, text
from callsheet.report.report import ToolCallReport
from callsheet.wire import v1, v2
from callsheet.wire.messages import as_dict


def request_of(message: Json, report: ToolCallReport, version: int, agent_is_v2: bool) -> Json:
    """Give a request with the whole call in it, in the client's version. All else is as the agent has it."""
    params = obj(message.get("params"))
    call = as_dict((v2 if version == 2 else v1).announce(report))
    call.pop("sessionUpdate", None)
    if version == 2:
        subject = {**obj(params.get("subject")), "type": "tool_call", "toolCall": call}
        rest = {key: value for key, value in params.items() if key != "toolCall"}
        title = text(params.get("title")) or report.title or report.name
        made = {**rest, "title": title, "subject": subject}
    elif agent_is_v2:
        kept = ("subject", "title", "description")
        rest = {key: value for key, value in params.items() if key not in kept}
        made = {**rest, "toolCall": call}
    else:
        made = {**params, "toolCall": call}
    return {**message, "params": made}
