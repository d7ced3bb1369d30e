"""Who may touch which path: writers wait for each other, readers don't, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.path_locks import PathClaim, PathLocks

PATHS = [Path(p) for p in ("/w", "/w/a", "/w/b", "/w/a/x", "/w/a/y", "/w/ab", "/other")]
ASKED = st.lists(
    st.tuples(
        st.sets(st.sampled_from(PATHS), max_size=2), st.sets(st.sampled_from(PATHS), max_size=2)
    ),
    max_size=12,
)

around: ContextVar[PathClaim | None] = ContextVar("around", default=None)


@asynccontextmanager
async def hold(
    locks: PathLocks, reads: Iterable[Path], writes: Iterable[Path]
) -> AsyncIterator[None]:
    """Hold paths as a call does: what is called inside is nested in it."""
    claim = PathClaim(reads, writes, around.get())
    await locks.take(claim)
    token = around.set(claim)
    try:
        yield
    finally:
        around.reset(token)
        locks.release(claim)


def meet(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


@given(ASKED, st.integers(0, 1 << 32))
def test_no_two_that_must_not_meet_are_ever_inside_together(asked, seed: int):
    chance = random.Random(seed)

    async def scenario() -> int:
        claims, inside, ended = PathLocks(), [], 0

        async def one(reads: set[Path], writes: set[Path]) -> None:
            nonlocal ended
            async with hold(claims, reads, writes):
                for other_reads, other_writes in inside:
                    for mine in writes:
                        assert not any(meet(mine, path) for path in other_reads | other_writes)
                    for mine in reads - writes:
                        assert not any(meet(mine, path) for path in other_writes)
                inside.append((reads, writes))
                try:
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
                finally:
                    inside.remove((reads, writes))
            ended += 1

        tasks = [asyncio.ensure_future(one(*paths)) for paths in asked]
        for task in tasks:
            if chance.random() < 0.2:
                await asyncio.sleep(0)
                task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
        for task in tasks:
            if not task.cancelled():
                task.result()
        assert not claims._waiting
        assert not claims._held
        return ended

    asyncio.run(scenario())


async def test_a_writer_is_not_starved_by_readers_that_keep_coming():
    claims, order = PathLocks(), []

    async def one(name: str, reads: list[Path], writes: list[Path]) -> None:
        async with hold(claims, reads, writes):
            order.append(name)
            await asyncio.sleep(0.01)

    path = [Path("/w/a")]
    await asyncio.gather(one("r1", path, []), one("w", [], path), one("r2", path, []))
    assert order == ["r1", "w", "r2"]


async def test_calls_inside_one_call_wait_for_each_other_and_not_for_it():
    claims, inside = PathLocks(), 0

    async def inner() -> None:
        nonlocal inside
        async with hold(claims, [], [Path("/w/a/x")]):
            inside += 1
            assert inside == 1
            await asyncio.sleep(0)
            inside -= 1

    for reads, writes in (([], [Path("/w/a")]), ([Path("/w/a")], [])):
        async with hold(claims, reads, writes):
            await asyncio.wait_for(asyncio.gather(inner(), inner(), inner()), 2)


async def test_a_call_inside_another_does_not_queue_behind_who_waits_for_that():
    claims = PathLocks()

    async def both() -> None:
        async with hold(claims, [], [Path("/w/a"), Path("/w/b")]):
            pass

    async with hold(claims, [Path("/w/a")], []):
        waiting = asyncio.create_task(both())
        await asyncio.sleep(0)
        async with asyncio.timeout(2), hold(claims, [Path("/w/b")], []):
            pass
    await asyncio.wait_for(waiting, 2)


async def test_calls_that_would_wait_for_each_other_for_ever_are_reported():
    claims, refused = PathLocks(), 0

    async def one(first: str, second: str) -> None:
        nonlocal refused
        async with hold(claims, [], [Path(first)]):
            await asyncio.sleep(0.01)
            try:
                async with hold(claims, [], [Path(second)]):
                    pass
            except ExecutionFailed:
                refused += 1

    three = [one("/w/a", "/w/b"), one("/w/b", "/w/c"), one("/w/c", "/w/a")]
    await asyncio.wait_for(asyncio.gather(*three), 2)
    assert refused == 1
    assert not claims._waiting
    assert not claims._held


async def test_what_goes_on_in_the_background_holds_nothing_of_the_call_that_began_it():
    claims, path = PathLocks(), Path("/w/a")
    order: list[str] = []

    async def background() -> None:
        await asyncio.sleep(0.01)
        async with hold(claims, [], [path]):
            order.append("background")

    async with hold(claims, [], [path]):
        task = asyncio.create_task(background())

    async def other() -> None:
        async with hold(claims, [], [path]):
            await asyncio.sleep(0.05)
            order.append("other")

    await asyncio.wait_for(asyncio.gather(asyncio.create_task(other()), task), 2)
    assert order == ["other", "background"]


async def test_thousands_of_claims_are_compared_with_few_others(monkeypatch):
    compared, meets = 0, PathClaim.meets

    def counted(claim: PathClaim, other: PathClaim) -> bool:
        nonlocal compared
        compared += 1
        return meets(claim, other)

    monkeypatch.setattr(PathClaim, "meets", counted)
    claims, count = PathLocks(), 2000

    async def one(reads: list[Path], writes: list[Path]) -> None:
        async with hold(claims, reads, writes):
            await asyncio.sleep(0)

    readers = [one([Path(f"/w/{number}")], []) for number in range(count)]
    writers = [one([], [Path("/w/0")]), one([], [Path("/w/new")])]
    await asyncio.wait_for(asyncio.gather(*readers, *writers), 10)
    assert compared < 10 * count
