"""Ids: unique, increasing, well-formed, whatever the clock and the threads do."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.report.errors import InvalidId
from callsheet.report.ids import IdFactory, check_id, is_ours
from callsheet.runtime.clock import new_call_id
from tests.support.sizes import sized

THREADS, EACH = 8, sized(100_000, 20_000)


def test_ids_are_call_and_a_ulid() -> None:
    made = new_call_id()
    assert re.fullmatch(r"call_[0-7][0-9A-HJKMNP-TV-Z]{25}", made)
    assert is_ours(made)


def test_ids_are_unique_and_increase_across_threads() -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        batches = list(pool.map(lambda _: [new_call_id() for _ in range(EACH)], range(THREADS)))
    for batch in batches:
        assert all(one < two for one, two in pairwise(batch))
    assert len({made for batch in batches for made in batch}) == THREADS * EACH


def test_an_id_contains_the_millisecond_it_was_made_in() -> None:
    factory = IdFactory(lambda: 1_469_918_176_385_000_000, lambda bits: 0)
    assert factory() == "call_01ARYZ6S41" + "0" * 16


@given(st.lists(st.integers(0, 2**44), min_size=2, max_size=50), st.integers(0, 2**60))
def test_ids_increase_whatever_the_clock_does(times: list[int], entropy: int) -> None:
    clock = iter(times)
    factory = IdFactory(lambda: next(clock), lambda bits: entropy % (1 << bits))
    made = [factory() for _ in times]
    assert all(one < two for one, two in pairwise(made))


def test_a_full_millisecond_borrows_from_the_next() -> None:
    factory = IdFactory(lambda: 5_000_000, lambda bits: (1 << bits) - 1)
    made = [factory() for _ in range(600_000)]
    assert all(one < two for one, two in pairwise(made))
    assert made[0][:15] != made[-1][:15]


def test_a_clock_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidId, match="the clock says"):
        IdFactory(lambda: 2**48 * 1_000_000, lambda bits: 0)()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_other_ids_than_its_parent() -> None:
    new_call_id()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, " ".join(new_call_id() for _ in range(100)).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = set(pipe.read().split())
    os.waitpid(child, 0)
    assert len(theirs) == 100
    assert theirs.isdisjoint(new_call_id() for _ in range(10_000))


@pytest.mark.parametrize(
    "given_id", ["toolu_01", "bash:0", "call_0", "a", "ü", "run shell/1", "x" * 256]
)
def test_ids_of_other_programs_are_taken(given_id: str) -> None:
    assert check_id(given_id) == given_id
    assert not is_ours(given_id)


@pytest.mark.parametrize(
    "given_id", ["", "x" * 257, "a\nb", "a\x00", "\ud800", None, 3, b"x", "\u2028"]
)
def test_ids_that_are_unfit_are_refused(given_id: object) -> None:
    with pytest.raises(InvalidId, match="tool call id"):
        check_id(given_id)


def test_two_factories_of_one_clock_differ() -> None:
    ticks = count(10**15)
    one = IdFactory(lambda: next(ticks), __import__("secrets").randbits)
    two = IdFactory(lambda: next(ticks), __import__("secrets").randbits)
    assert {one() for _ in range(1000)}.isdisjoint({two() for _ in range(1000)})
