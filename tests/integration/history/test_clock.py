"""A clock that is wrong for a few calls makes no others old; what is old goes all the same, in the end."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from callsheet.history import Query, Retention, Store
from callsheet.history.retention import PROOF
from tests.support import engines
from tests.support.engines import batch, database, engine, postgres, store, url
from tests.support.postgres import needs_postgres
from tests.support.sizes import FULL

__all__ = ["database", "engine", "postgres", "store", "url"]

DAY = 86400.0
KEEP = Retention(max_age=90 * DAY)
START = 1_800_000_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [START]
    monkeypatch.setattr(time, "time", lambda: now[0])
    return now


class Use:
    """Somebody who makes calls, and a store that tidies up after each."""

    def __init__(self, store: Store, clock: list[float]) -> None:
        self.store, self.clock, self.made = store, clock, 0

    async def call(self, keep: Retention = KEEP) -> int:
        """Make a call now. Return how many were removed then."""
        await self.write()
        return await self.tidy(keep)

    async def write(self) -> None:
        item = replace(engines.call(self.made, session=f"s{self.made % 3}"), at=self.clock[0])
        self.made += 1
        self.store.write(batch([item], self.store.codec))

    async def tidy(self, keep: Retention = KEEP) -> int:
        return sum(step.calls for step in self.store.prune(keep))

    async def days(self, count: int, keep: Retention = KEEP) -> int:
        """Make a call each day. Return how many were removed."""
        for _ in range(count):
            self.clock[0] += DAY
            await self.write()
        return await self.tidy(keep)


async def test_what_is_old_goes_day_by_day(store: Store, clock: list[float]) -> None:
    use = Use(store, clock)
    assert await use.days(90 + PROOF) == 0
    assert await use.days(10) in (9, 10)


@pytest.mark.parametrize(
    ("engine", "jump"),
    [
        *(("sqlite", jump) for jump in (200, 20_000, 30)),
        *(
            pytest.param("postgres", jump, marks=needs_postgres)
            for jump in ((200, 30) if FULL else (200,))
        ),
    ],
    indirect=["engine"],
)
async def test_a_clock_that_jumps_and_comes_back_removes_nothing(
    store: Store, clock: list[float], jump: int
) -> None:
    use = Use(store, clock)
    await use.days(60)
    clock[0] += jump * DAY
    for _ in range(3):
        clock[0] += 3600
        assert await use.tidy() == 0
        assert await use.call() == 0
    clock[0] -= jump * DAY
    for _ in range(3):
        clock[0] += 3600
        assert await use.call() == 0
    # Those of the wrong time block nothing, and go with their neighbours.
    await use.days(120)
    left = store.stats(Query()).calls
    assert 85 <= left <= 95 + PROOF


async def test_after_a_long_absence_what_is_old_goes_when_the_clock_has_proved_right(
    store: Store, clock: list[float]
) -> None:
    use = Use(store, clock)
    await use.days(20)
    clock[0] += 200 * DAY
    assert await use.days(PROOF) == 0
    assert await use.days(1) == 20


async def test_calls_of_a_future_that_never_came_do_not_push_out_what_is_new(
    store: Store, clock: list[float]
) -> None:
    keep = Retention(max_calls=10)
    use = Use(store, clock)
    clock[0] += 400 * DAY
    await use.days(10, keep)
    clock[0] -= 400 * DAY
    for _ in range(2):
        await use.days(5, keep)
    left = {head.call_id for head in store.heads(Query())}
    assert left == {f"call_s{n % 3}_{n}" for n in range(10, 20)}
