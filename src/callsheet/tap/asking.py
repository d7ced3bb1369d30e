"""A request for permission, made whole: the same report as the announcement, under the same id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callsheet.acp import v1, v2
from callsheet.acp.codec import KEYS, as_dict
from callsheet.observe.model import ApprovalRequest, Json, many, obj, text
from callsheet.report.report import ToolCallReport

from .calls import Tapped
from .repair.wording import is_bare

_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")
_OF_OPTIONS = ("optionId", "name", "kind")


def request_of(
    message: Json,
    report: ToolCallReport,
    version: int,
    agent_is_v2: bool,
    clean: Callable[[Any], Any],
) -> Json | None:
    """Return a request with the whole call in it, in the client's version. All else is as the agent has it.

    `clean` takes secrets out of that. None if it is not in form, and what it asks can't be known.
    """
    params = obj(message.get("params"))
    if not _is_in_form(params, version, agent_is_v2):
        return None
    call = as_dict((v2 if version == 2 else v1).announce(report))
    call.pop("sessionUpdate", None)
    told = ("toolCall",) if version == 2 or not agent_is_v2 else ("subject", "title", "description")
    made = _cleaned({key: value for key, value in params.items() if key not in told}, clean)
    if version == 2:
        made["title"] = text(made.get("title")) or report.title or report.name or "Unknown tool"
        made["subject"] = {**obj(made.get("subject")), "type": "tool_call", "toolCall": call}
    else:
        made["toolCall"] = call
    return {**message, "params": made}


def asked_of(request: Json) -> Json:
    """Return the call that a request of either version is about."""
    params = obj(request.get("params"))
    return obj(params.get("toolCall")) or obj(obj(params.get("subject")).get("toolCall"))


def is_blind(mine: Tapped, question: ApprovalRequest, version: int) -> bool:
    """Whether nothing is known of what people would allow by a request of a v1 agent."""
    report = mine.report
    if report is None or report.is_final or not _is_in_form(question.params, version, False):
        return False
    shows = question.tool_call.get("content") or report.content or report.locations
    if report.raw_input or shows:
        return False
    return mine.has_own_title or is_bare(report.title, report.name, report.kind, None)


def is_same(made: Json, told: Json) -> bool:
    """Whether people are shown the same of two calls."""
    return all(made.get(key) == told.get(key) for key in KEYS if key != "_meta")


def _cleaned(params: Json, clean: Callable[[Any], Any]) -> Json:
    """Return params without secrets, but for the ids by which they are answered."""
    if "subject" in params:
        about = obj(params["subject"])
        params["subject"] = {key: value for key, value in about.items() if key != "toolCall"}
    made = clean(params)
    options = zip(made["options"], params["options"], strict=True)
    return {
        **made,
        "sessionId": params["sessionId"],
        "options": [{**shown, "optionId": told["optionId"]} for shown, told in options],
    }


def _is_in_form(params: Json, version: int, agent_is_v2: bool) -> bool:
    """Whether all but the call is as ACP has it."""
    options = params.get("options")
    if options.__class__ is not list or (version == 2 and not options):
        return False
    if not _is_meta(params) or not _is_meta(obj(params.get("subject"))):
        return False
    if version == 2 and not _is_text(params, "description"):
        return False
    if version == 2 and agent_is_v2 and not _is_text(params, "title"):
        return False
    return all(_is_option(obj(option), version) for option in many(options))


def _is_option(option: Json, version: int) -> bool:
    if any(text(option.get(key)) is None for key in _OF_OPTIONS) or not _is_meta(option):
        return False
    return version == 2 or option["kind"] in _KINDS


def _is_meta(told: Json) -> bool:
    return told.get("_meta").__class__ in (dict, type(None))


def _is_text(told: Json, key: str) -> bool:
    return told.get(key).__class__ in (str, type(None))
