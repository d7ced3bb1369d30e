"""Content that grows and is given again as a whole: linear on the wire, live while it is small, whole at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet import Peer, Session
from callsheet.acp.codec import Update, UpdateFrames
from callsheet.acp.peer import ENGLISH
from callsheet.acp.resend_budget import (
    FIRST,
    ITEM,
    PAUSES,
    RATE,
    ResendBudget,
    changed,
    count_moved,
    excerpt,
    size_of,
)
from callsheet.acp.views import View, view_for
from callsheet.report.content import DiffContent, FileChange, TextContent, ToolCallContent
from callsheet.report.ledger import Ledger
from callsheet.report.status import ToolCallStatus
from callsheet.runtime.clock import new_call_id
from callsheet.testing import FakeClock, Recorder, Recording
from tests.support.sizes import sized

PEERS = {"text": Peer(), "meta": Peer(terminals="meta"), "v2": Peer(version=2)}
MOST = 4
"""Bytes on the wire for each byte of output."""

LIFE = 1500
"""Bytes of the updates that a call without output has, at most."""

Make = Callable[[str], tuple[ToolCallContent, ...]]
every_view = pytest.mark.parametrize("mode", PEERS)


def output(size: int) -> str:
    return "".join(f"step {n:06} of the build → done\n" for n in range(size // 30))[:size]


def text(told: str) -> tuple[ToolCallContent, ...]:
    return (TextContent(told),)


def fenced(told: str) -> tuple[ToolCallContent, ...]:
    return (TextContent(f"```\n{told}\n```"),)


def counted(told: str) -> tuple[ToolCallContent, ...]:
    """A header and a footer that change each time."""
    return (TextContent(f"{len(told)} bytes\n{told}\n{len(told):>70} bytes so far"),)


def rolling(told: str) -> tuple[ToolCallContent, ...]:
    return (TextContent(told[-6000:]),)


def rolling_items(told: str) -> tuple[ToolCallContent, ...]:
    return tuple(TextContent(line) for line in told[-6000:].splitlines())


def items_and_more(told: str) -> tuple[ToolCallContent, ...]:
    return tuple(TextContent(told[at : at + 10_000]) for at in range(0, len(told), 10_000))


def diff(told: str) -> tuple[ToolCallContent, ...]:
    return (DiffContent((FileChange.of_texts("/code/a.py", "old\n", told),)),)


BESIDES = {counted: 100, rolling_items: 9 * ITEM, diff: 20}
"""Bytes that are new in each step besides the output. Of a diff: what a patch has besides its lines."""


class Peered:
    """A call as one peer is told of it."""

    def __init__(self, mode: str) -> None:
        ledger = Ledger("s", new_call_id)
        self.view: View = view_for(PEERS[mode], ledger.terminal)
        self.ledger: Ledger = ledger
        self.frames: UpdateFrames = UpdateFrames("s")
        self.lines: list[bytes] = []
        self.key: str = ledger.open("bash", title="Build").tool_call_id
        self.tell(status=ToolCallStatus.IN_PROGRESS)

    def tell(self, **fields: Any) -> bool:
        """Change the call. Gives whether the peer was told of content."""
        return self.hear(self.view.call(self.ledger.update(self.key, **fields)))

    def hear(self, updates: list[Update]) -> bool:
        lines = list(map(self.frames.line, updates))
        self.lines += lines
        return any(b'"content":' in line for line in lines)

    @property
    def shown(self) -> Any:
        """The content that the peer sees now."""
        found = [json.loads(line)["params"]["update"].get("content") for line in self.lines]
        return [content for content in found if content][-1]

    @property
    def wire(self) -> int:
        return sum(map(len, self.lines))


def grow(peer: Peered, total: str, steps: int, make: Make) -> int:
    """Let content grow, ask for what is held back as a consumer does, and end. Counts what was told live."""
    live = 0
    for step in range(1, steps + 1):
        live += peer.tell(content=make(total[: len(total) * step // steps]))
        if step % 3 == 0 and peer.view.held:
            live += peer.hear(peer.view.insist())
    peer.tell(status=ToolCallStatus.COMPLETED)
    return live


@every_view
def test_a_long_text_in_many_steps_costs_at_most_4_bytes_each(mode: str) -> None:
    total, peer = output(sized(280_000, 120_000)).replace("→", ":"), Peered(mode)
    grow(peer, total, sized(2000, 850), text)
    assert peer.wire <= MOST * len(json.dumps(total, ensure_ascii=False).encode())
    assert peer.shown == [{"type": "content", "content": {"type": "text", "text": total}}]


@every_view
@pytest.mark.parametrize("make", [fenced, counted, rolling, rolling_items, items_and_more, diff])
def test_whatever_way_output_is_replayed_it_costs_linear_bytes(mode: str, make: Make) -> None:
    total, peer = output(70_000), Peered(mode)
    live = grow(peer, total, 280, make)
    new = len(json.dumps(total, ensure_ascii=False).encode()) + BESIDES.get(make, 0) * 280
    assert peer.wire <= (RATE + 1) * new + FIRST + PAUSES + LIFE
    assert live > (15 if len(make(total)) == 1 and make is not diff else 8)
    assert total.splitlines()[-2] in json.dumps(peer.shown, ensure_ascii=False)


@every_view
def test_a_short_output_that_trickles_is_shown_at_each_step_and_later_at_most(mode: str) -> None:
    """A line of 10 bytes each second: a view is asked 6 times until the next."""
    peer, told, late = Peered(mode), "", 0
    for number in range(60):
        told += f"line {number:03}\n"
        is_told = peer.tell(content=text(told))
        for _ in range(6):
            is_told = is_told or (peer.view.waits and peer.hear(peer.view.insist()))
        late = 0 if is_told else late + 1
        assert late == 0 or number > 8
        assert late < 6


@every_view
def test_the_last_words_of_what_hangs_are_shown(mode: str) -> None:
    peer, total = Peered(mode), output(30_000)
    for size in range(100, len(total), 100):
        peer.tell(content=text(total[:size]))
        peer.hear(peer.view.insist())
    for _ in range(70):
        peer.hear(peer.view.insist())
    assert peer.shown[0]["content"]["text"].endswith(total[size - 100 : size])
    assert peer.view.held
    assert not peer.view.waits


@every_view
def test_a_long_text_that_grows_is_shown_in_part_and_goes_on_being_shown(mode: str) -> None:
    peer, total, silent = Peered(mode), output(15_000), 0
    for size in range(60, len(total), 60):
        told = peer.tell(content=fenced(total[:size]))
        silent = 0 if told else silent + 1
        assert silent < 20
        assert len(peer.lines[-1]) < 2600
        if told and size > 3000:
            assert shown_in_part(peer.shown[0]["content"]["text"], fenced(total[:size])[0].text)
    while peer.view.waits:
        peer.hear(peer.view.insist())
    assert shown_in_part(peer.shown[0]["content"]["text"], fenced(total[:size])[0].text)
    assert peer.view.held
    assert peer.view.insist() == [], "nothing is new"
    assert peer.hear(peer.view.insist(whatever_it_costs=True))
    assert peer.shown[0]["content"]["text"] == fenced(total[:size])[0].text
    assert not peer.view.held


def shown_in_part(part: str, whole: str) -> bool:
    """Whether a part is the beginning and the end of a text, and says what is between."""
    head, notice, tail = re.split(r"(\[… .* …\]\n)", part)
    gone = whole[len(head) : len(whole) - len(tail)]
    said = ENGLISH.left_out(len(gone.encode()), gone.count("\n"))
    return whole == head + gone + tail and notice == f"[… {said} …]\n"


@every_view
def test_what_is_long_when_it_comes_is_shown_as_a_whole(mode: str) -> None:
    peer, told = Peered(mode), output(40_000)
    for more in ("", "and a line\n"):
        assert peer.tell(content=text(told + more))
        assert peer.shown[0]["content"]["text"] == told + more
    assert not peer.view.held


@every_view
@pytest.mark.parametrize("make", [diff, items_and_more])
def test_what_is_held_back_comes_when_nothing_new_has_come_for_a_while(
    mode: str, make: Make
) -> None:
    peer, total = Peered(mode), output(30_000)
    for size in range(200, len(total), 200):
        peer.tell(content=make(total[:size]))
        if size % 600 == 0:
            peer.hear(peer.view.insist())
    assert peer.view.held
    asked = 0
    while peer.view.waits:
        peer.hear(peer.view.insist())
        asked += 1
    assert asked < 1000
    assert total[:size].splitlines()[-2] in json.dumps(peer.shown, ensure_ascii=False)
    assert peer.view.insist() == []


@every_view
def test_a_long_diff_that_grows_is_sent_again_seldom(mode: str) -> None:
    """When it has doubled; not whenever it is asked for, while it still grows."""
    peer = Peered(mode)
    grow(peer, output(32_000), 160, diff)
    long = [len(line) for line in peer.lines[:-1] if len(line) > 6000]
    assert 7000 < long[0] < 16_000
    assert len(long) <= 3


@every_view
def test_what_nothing_pays_for_waits_until_the_end_or_is_reported_whatever_it_costs(
    mode: str,
) -> None:
    peer, told = Peered(mode), output(80_000)
    for number in range(12):
        peer.tell(content=diff(told + str(number)))
        for _ in range(2):
            peer.hear(peer.view.insist())
    assert peer.view.held
    assert b"done\\n9" not in peer.lines[-1]
    assert peer.hear(peer.view.insist(whatever_it_costs=True))
    assert b"11" in peer.lines[-1][-60:]
    peer.tell(content=diff(told + "12"))
    peer.tell(status=ToolCallStatus.COMPLETED)
    assert b"12" in peer.lines[-1][-60:]
    assert not peer.view.held


@every_view
def test_what_is_held_back_does_not_hold_back_the_rest(mode: str) -> None:
    peer, told = Peered(mode), output(80_000)
    for number in range(9):
        peer.tell(content=diff(told + str(number)))
    assert peer.view.held
    peer.tell(title="Linking", content=diff(told + "10"))
    assert b'"title":"Linking"' in peer.lines[-1]
    assert b'"content":' not in peer.lines[-1]


@pytest.mark.parametrize(
    ("before", "after", "fences"), [("```\n", "", 2), ("", "\n```", 2), ("```\n", "\n```", 2)]
)
def test_a_part_closes_the_blocks_of_code_that_it_opens(
    before: str, after: str, fences: int
) -> None:
    """A block that ends in what is left out, one that begins there, and one around all of it."""
    middle = "x\n" * 3000 + ("" if before and after else "```\n") + "x\n" * 3000
    part = excerpt(TextContent(before + middle + after), 2000, ENGLISH).text
    assert part.count("```") == fences
    assert len(part) < 2000


@pytest.mark.parametrize("letter", ["x", "é", "\n", "漢", "\x07", "😀", "```\n"])
def test_a_part_takes_the_room_that_it_is_given(letter: str) -> None:
    for room in (1024, 4096):
        part = excerpt(TextContent(letter * 30_000), room, ENGLISH)
        assert room // 2 < size_of([part]) <= room


@every_view
def test_the_end_reports_content_once_and_only_if_it_was_not_seen(mode: str) -> None:
    peer = Peered(mode)
    peer.tell(content=text("all of it"))
    peer.tell(status=ToolCallStatus.COMPLETED)
    assert b'"content":' not in peer.lines[-1]


def test_v2_receives_whole_items_as_they_come_whatever_there_is_of_credit() -> None:
    peer = Peered("v2")
    grown: tuple[ToolCallContent, ...] = ()
    for number in range(1000):
        grown = (*grown, TextContent(f"{number}"))
        assert peer.tell(content=grown)
    assert not peer.view.held


# Earning


def earned(*contents: tuple[ToolCallContent, ...]) -> int:
    """Return the tokens that the last of some contents brings."""
    budget = ResendBudget()
    for content in contents[:-1]:
        budget.note(content)
    before = budget.tokens
    budget.note(contents[-1])
    return budget.tokens - before


def test_equal_items_that_are_other_objects_earn_nothing() -> None:
    told = output(5000)
    for make in (text, diff, items_and_more, rolling_items):
        assert earned(make(told), make(str(told))) == 0


def test_only_what_is_new_earns() -> None:
    told = output(20_000)
    for make in (text, fenced, rolling, items_and_more, diff):
        assert 100 <= earned(make(told[:-100]), make(told)) // RATE <= 200
    assert earned(text(told), text(told[::-1])) // RATE > 20_000


def test_the_size_is_that_of_all_content_however_it_changed() -> None:
    told = output(30_000)
    for make in (text, diff, items_and_more, rolling_items):
        budget, other = ResendBudget(), ResendBudget()
        for size in (100, 12_000, 11_000, 0, 25_000, 30_000, 29_000):
            budget.note(make(told[:size]) if size else ())
        other.note(make(told[:29_000]))
        assert budget.size == other.size


def news(old: str, new: str) -> int:
    gone, come = changed(old, new)
    return len(come) - count_moved(gone, come)


@given(st.text(max_size=150), st.text(max_size=150), st.text(max_size=150))
def test_news_are_no_more_than_what_was_added(begin: str, kept: str, end: str) -> None:
    assert news(kept, kept) == 0
    assert news(kept, kept + end) <= len(end)
    assert news(begin + end, begin + kept + end) <= len(kept)
    assert 0 <= news(begin, kept) <= len(kept)


def test_news_of_an_output_that_moves_on_are_what_was_added() -> None:
    told = output(50_000)
    for added in (1, 140, 5000):
        assert news(told[30_000:40_000], told[30_000 + added : 40_000 + added]) <= added + 8
        assert news("12 s\n" + told[:40_000], "13 s\n" + told[: 40_000 + added]) <= added + 8


# The consumer


@every_view
async def test_a_text_that_grows_in_a_session_is_linear_and_whole_when_it_was_flushed(
    mode: str,
) -> None:
    clock, recorder, total = FakeClock(), Recorder(PEERS[mode]), output(30_000)
    async with Session(sinks=[recorder], clock=clock) as session:
        async with session.call("bash", {"command": "make"}) as call:
            call.start()
            for size in range(150, len(total), 150):
                call.update(content=text(total[:size]))
                await clock.advance(0.1)
            spent = sum(map(len, recorder.lines))
            assert spent <= RATE * len(json.dumps(total)) + FIRST + PAUSES + LIFE
            await clock.advance(12)
            (seen,) = recorder.fold()
            assert shown_in_part(seen.content[0].text, total[:size])  # type: ignore[attr-defined]
            await session.flush()
            (seen,) = recorder.fold()
            assert seen.content == text(total[:size])
            call.succeed()
    assert Recording.of(recorder).check(select="size") == []
