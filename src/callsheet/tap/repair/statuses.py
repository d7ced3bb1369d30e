"""The words that agents have for a call's status, as ACP's."""

from __future__ import annotations

from callsheet.report.status import Reason

ACP = frozenset(("pending", "in_progress", "completed", "failed", "cancelled"))

FINAL = frozenset(("completed", "failed", "cancelled"))

_SAME = {
    "pending": "pending queued waiting scheduled created validating proposed notstarted"
    " awaitingapproval awaitingconfirmation awaitingpermission waitingforapproval"
    " waitingforconfirmation waitingforpermission needsapproval pendingapproval",
    "completed": "completed complete success succeeded successful done finished ok",
    "failed": "failed fail failure error errored exception crashed",
}
_ENDS = {
    Reason.DENIED: "rejected denied declined refused permissiondenied userrejected",
    Reason.CANCELLED: "cancelled canceled aborted interrupted usercancelled usercanceled",
    Reason.TIMEOUT: "timeout timedout deadlineexceeded",
}

_STATUS = {word: status for status, words in _SAME.items() for word in words.split()}
_REASON = {word: reason for reason, words in _ENDS.items() for word in words.split()}


def in_acp(status: str, *, is_v2: bool) -> tuple[str, Reason | None]:
    """Return ACP's word for a status, and why a call ended so, if the word tells.

    A word that nobody knows means that the call is there and has not ended.
    """
    if status in ACP or (is_v2 and status == "paused"):
        return status, Reason.CANCELLED if status == "cancelled" else None
    word = "".join(filter(str.isalnum, status.rpartition(".")[2])).lower()
    reason = _REASON.get(word)
    if reason is not None:
        return "cancelled" if reason is Reason.CANCELLED else "failed", reason
    return _STATUS.get(word, "in_progress"), None
