"""What is shown of a call's new content now: all of it, a part, or nothing yet, by what can be paid for.

Short content is shown as a whole while there is credit. Long content is shown again as a whole only where
it has earned that; else a long text is shown in part, and the rest seldom: when it has doubled, or when
nothing new has come for a while. So nobody is sent the same thousands of bytes again and again.
"""

from __future__ import annotations

from collections.abc import Sequence

from callsheet.report.content import ToolCallContent

from .excerpt import LIVE_TEXT, SHORTEST, excerpt, long_text
from .seen import ENVELOPE, ITEM, OVERDRAFT, RESERVE, SHARE, START_CREDIT, Credit, size_of
from .words import Words

Content = Sequence[ToolCallContent]


def pay(
    credit: Credit, content: Content, given: Content, texts: int, overdraft: int, words: Words
) -> Content | None:
    """Give so much of new content as can be paid for, and take what it costs; None if it has to wait.

    `given` is the content before it was put into the peer's terms: what is new there is new, while
    the texts of terminals, of size `texts`, are mostly the same output again. `overdraft` may be spent
    besides what is left.
    """
    credit.earn(given)
    cost, room = ENVELOPE + credit.size + texts, credit.left + overdraft
    most = min(ENVELOPE + LIVE_TEXT + texts, room // SHARE)
    if cost <= max(most, room - _kept(credit, overdraft)):
        return _whole(credit, content, cost)
    text = long_text(given) if ITEM * len(given) < LIVE_TEXT else None
    besides = ENVELOPE + size_of([item for item in content if item is not text]) if text else cost
    if text is None or besides + SHORTEST > ENVELOPE + LIVE_TEXT + texts:
        return _whole(credit, content, cost) if cost <= room and _due(credit, overdraft) else None
    if most - besides < SHORTEST or content == credit.told:
        return None
    part = excerpt(text, most - besides, words)
    credit.told = content
    credit.left -= besides + size_of([part])
    return tuple([part if item is text else item for item in content])


def _kept(credit: Credit, overdraft: int) -> int:
    """Give the part of what every call is given that doesn't pay for this as a whole: all, if it is long."""
    return RESERVE if credit.size <= LIVE_TEXT else START_CREDIT + min(overdraft, OVERDRAFT)


def _due(credit: Credit, overdraft: int) -> bool:
    """Whether it is time to show what can only be shown as a whole."""
    doubled, quiet = credit.size >= 2 * credit.sent, overdraft and not credit.fresh
    return credit.size <= LIVE_TEXT or doubled or bool(quiet)


def _whole(credit: Credit, content: Content, cost: int) -> Content:
    credit.left -= cost
    credit.sent = credit.size
    return content
