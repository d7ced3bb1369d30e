"""`callsheet replay`: a session again, as the lines that a client is sent, or as cards."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import click

from callsheet.acp.peer import Peer
from callsheet.cli.cards.board import Board, board_for
from callsheet.cli.history.lookup import find_session, opened
from callsheet.cli.options import format_option, history_option, protocol_option
from callsheet.history import Replay, StoredCall, StoredMessage
from callsheet.history.replay import entries_of


@click.command("replay")
@click.argument("session", metavar="SESSION")
@protocol_option("The version of ACP.")
@format_option("acp pretty", "acp: the session/update lines. pretty: for people.", "acp")
@history_option
def command(session: str, protocol: str, format_: str, history: str | None) -> None:
    """Replay a session: exactly the lines that a client receives when it loads the session.

    SESSION is its id, a unique beginning or end of it, or last;
    `callsheet history sessions` lists them.
    """
    if Path(session).is_file():
        raise click.UsageError(f"{session} is a recording, not a session: callsheet view {session}")
    with opened(history) as store:
        found = find_session(store, session)
        entries = entries_of(store, found.session_id)
        if format_ == "pretty":
            _as_cards(entries, board_for(sys.stdout, found.cwd), found.session_id)
        else:
            peer = Peer(version=2 if protocol == "2" else 1)
            _as_lines(entries, Replay(found.session_id, peer))


def _as_lines(entries: Iterator[StoredCall | StoredMessage], replay: Replay) -> None:
    for entry in entries:
        for line in replay.lines(entry):
            sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _as_cards(entries: Iterator[StoredCall | StoredMessage], board: Board, session_id: str) -> None:
    replay = Replay(session_id, board.peer or Peer())
    for entry in entries:
        if isinstance(entry, StoredCall):
            board.send(deque(replay.lines(entry)))
        else:
            _show_message(board, entry)
    board.close()


def _show_message(board: Board, message: StoredMessage) -> None:
    """Show a message: the user's with a sign before each line, thoughts and plans dimmed."""
    if message.kind == "plan":
        texts = [f"- {entry.get('content', '')}" for entry in message.blocks]
    else:
        texts = [_block(block) for block in message.blocks]
    lines = "\n".join(texts).strip("\n").split("\n")
    sign = "> " if message.kind == "user" else ""
    style = {"user": "bold", "agent": ""}.get(message.kind, "dim italic")
    board.note("\n".join(f"{sign}{line}" for line in lines), style)


def _block(block: dict[str, object]) -> str:
    text = block.get("text")
    return text if isinstance(text, str) else f"({block.get('type', 'something')})"
