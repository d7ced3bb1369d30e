"""Ids that were used are known, in little memory, until many others have come."""

from __future__ import annotations

import random

from callsheet.observe.model import REMEMBERED_IDS, UsedIds


def test_ids_are_known_by_their_sessions() -> None:
    used = UsedIds()
    used.add("s", "a")
    assert used.has("s", "a")
    assert not used.has("s", "b")
    assert not used.has("other", "a")


def test_the_last_ids_are_known_and_the_oldest_are_forgotten() -> None:
    used, last = UsedIds(), REMEMBERED_IDS // 2
    for number in range(2 * REMEMBERED_IDS):
        used.add("s", str(number))
        used.add("s", str(number))  # twice is once
    assert all(
        used.has("s", str(number))
        for number in range(2 * REMEMBERED_IDS - last, 2 * REMEMBERED_IDS)
    )
    assert not any(used.has("s", str(number)) for number in range(REMEMBERED_IDS // 2))


def test_it_is_as_a_set_until_there_are_too_many() -> None:
    rng, used, known = random.Random(7), UsedIds(), set[str]()
    for _ in range(20_000):
        key = str(rng.randrange(15_000))
        assert used.has("s", key) == (key in known)
        used.add("s", key)
        known.add(key)
