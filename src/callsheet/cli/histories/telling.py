"""A session told again: as the lines that a client is sent, or as cards."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from callsheet.acp.peer import Peer
from callsheet.cli.cards.board import Board, board_for
from callsheet.history import Replay, Store, StoredCall, StoredMessage

from .finding import session_meant
from .opening import run

PAGE = 50
"""Entries of a session that are read at once."""

LONGEST_PAUSE = 3.0


class Telling(NamedTuple):
    """What is to be told, and how."""

    url: str | None
    session: str
    protocol: int
    terminals: str
    pretty: bool
    speed: float | None


def tell(wanted: Telling) -> int:
    """Tell a session again, and give the exit code."""

    async def work(store: Store) -> int:
        session = await session_meant(store, wanted.session)
        entries = _paced(_entries(store, session.session_id), wanted.speed)
        if wanted.pretty:
            board = board_for(sys.stdout, session.cwd)
            await _as_cards(entries, board, session.session_id)
        else:
            peer = Peer(
                version=2 if wanted.protocol == 2 else 1,
                terminals="meta" if wanted.terminals == "meta" else "text",
            )
            await _as_lines(entries, Replay(session.session_id, peer), at_once=not wanted.speed)
        return 0

    return run(wanted.url, work)


async def _entries(store: Store, session_id: str) -> AsyncIterator[StoredCall | StoredMessage]:
    after = -1
    while page := await store.timeline(session_id, after=after, limit=PAGE):
        for entry in page:
            yield entry
        after = _position(page[-1])


async def _paced(
    entries: AsyncIterator[StoredCall | StoredMessage], speed: float | None
) -> AsyncIterator[StoredCall | StoredMessage]:
    """Return entries with pauses between them, as they were, but so many times as fast."""
    before: float | None = None
    async for entry in entries:
        at = entry.head.at if isinstance(entry, StoredCall) else entry.at
        if speed and before is not None:
            await asyncio.sleep(min(LONGEST_PAUSE, max(0.0, at - before) / speed))
        before = at
        yield entry


async def _as_lines(
    entries: AsyncIterator[StoredCall | StoredMessage], replay: Replay, *, at_once: bool
) -> None:
    out = sys.stdout.buffer
    async for entry in entries:
        for line in replay.lines(entry):
            out.write(line)
        if not at_once:
            out.flush()
    out.flush()


async def _as_cards(
    entries: AsyncIterator[StoredCall | StoredMessage], board: Board, session_id: str
) -> None:
    replay = Replay(session_id, board.peer or Peer())
    async for entry in entries:
        if isinstance(entry, StoredCall):
            board.send(deque(replay.lines(entry)))
        else:
            _say(board, entry)
    board.close()


def _say(board: Board, message: StoredMessage) -> None:
    """Show what was said: the user's words with a sign before them, thoughts and plans dimmed."""
    if message.kind == "plan":
        texts = [f"- {entry.get('content', '')}" for entry in message.blocks]
    else:
        texts = [_block(block) for block in message.blocks]
    lines = "\n".join(texts).strip("\n").split("\n")
    sign = "> " if message.kind == "user" else ""
    style = {"user": "bold", "agent": ""}.get(message.kind, "dim italic")
    board.say("\n".join(f"{sign}{line}" for line in lines), style)


def _block(block: dict[str, object]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"({block.get('type', 'something')})"


def _position(entry: StoredCall | StoredMessage) -> int:
    return entry.head.position if isinstance(entry, StoredCall) else entry.position
