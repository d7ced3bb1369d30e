"""Calls page by page: however many there are, a few are held at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

from msgspec.structs import replace

from callsheet.history import Head, Query, Store, StoredCall

PAGE = 500
PAGE_WHOLE = 50
"""Calls that are read at once; whole ones may be large."""


async def heads(store: Store, query: Query, limit: int | None) -> AsyncIterator[list[Head]]:
    """Return pages of calls, the newest first, and so many in all; None means all of them."""
    async for wanted in _sizes(limit, PAGE):
        page = await store.heads(replace(query, limit=wanted))
        if page:
            yield page
        if len(page) < wanted:
            return
        query = replace(query, before=_end(page[-1]))


async def calls(store: Store, query: Query, limit: int | None) -> AsyncIterator[StoredCall]:
    """Return whole calls, the newest first."""
    async for wanted in _sizes(limit, PAGE_WHOLE):
        page = await store.calls(replace(query, limit=wanted))
        for call in page:
            yield call
        if len(page) < wanted:
            return
        query = replace(query, before=_end(page[-1].head))


async def _sizes(limit: int | None, most: int) -> AsyncIterator[int]:
    """Return how many calls each page is to have."""
    for done in count(step=most):
        wanted = most if limit is None else min(most, limit - done)
        if wanted <= 0:
            return
        await asyncio.sleep(0)  # where Ctrl-C ends it: a file is not waited for
        yield wanted


def _end(head: Head) -> tuple[float, str, str]:
    return head.at, head.session_id, head.call_id
