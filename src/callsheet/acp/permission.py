"""What ACP v1 and v2 share about asking permission.

Nobody approves blind: the request carries the whole call, made from the same report as its
announcement and under the same id. If the input is not known, there is nothing to approve, and no
request is made.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from callsheet.acp.codec import with_others
from callsheet.report.errors import CallsheetError, ReportError
from callsheet.report.json import JsonObject
from callsheet.report.report import ToolCallReport
from callsheet.report.status import check_alive


class UnknownInput(CallsheetError):
    """Permission was to be asked for a call whose input is not known."""


class InvalidOption(ReportError):
    """An answer to choose from is malformed, or there is none."""


class PermissionOption(Struct, frozen=True):
    """One of the answers to choose from. `kind` is allow_once, allow_always, reject_once or reject_always."""

    option_id: str
    name: str
    kind: str
    meta: JsonObject | None = None
    extra: JsonObject | None = None


OPTION_KINDS = ("allow_once", "allow_always", "reject_once", "reject_always")


def check_request(
    report: ToolCallReport, options: Sequence[PermissionOption], *, custom_kinds: bool
) -> ToolCallReport:
    """Return the report back if this can be asked: of a living call, its input known, with real choices."""
    check_alive(report.status, report.tool_call_id)
    if report.raw_input is None:
        raise UnknownInput(
            f"call {report.tool_call_id} ({report.name or 'no name'}): nobody can approve a call whose "
            "input is unknown; set raw_input first ({} for a tool without arguments)"
        )
    if not options or len({option.option_id for option in options}) != len(options):
        raise InvalidOption("permission options: give at least one, each with an id of its own")
    for option in options:
        if option.kind not in OPTION_KINDS and not (custom_kinds and option.kind.startswith("_")):
            kinds = ", ".join(OPTION_KINDS)
            raise InvalidOption(
                f"permission option {option.name!r}: kind {option.kind!r}; use {kinds}"
            )
    return report


def encode_options(options: Sequence[PermissionOption]) -> list[JsonObject]:
    """Return the options as both versions write them."""
    out: list[JsonObject] = []
    for option in options:
        one: JsonObject = {"optionId": option.option_id, "name": option.name, "kind": option.kind}
        out.append(with_others(one, option))
    return out
