"""A terminal's output as lines: its end while it runs, its beginning and its end when it has ended."""

from __future__ import annotations

from callsheet.acp.terminal_text import to_plain
from callsheet.report.terminal import TerminalState

from .lines import Block, block_of
from .words import harmless

LIVE = 8 * 1024
"""Bytes of the end of an output that are looked at to show its last lines."""


def last_lines(state: TerminalState, most: int) -> list[str]:
    """Return the last lines of an output that goes on."""
    data = state.tail(LIVE)
    text = to_plain(data, final=False)
    lines = text.rstrip("\n").split("\n")
    if state.total > len(data) and len(lines) > 1:
        lines = lines[1:]  # it may have begun anywhere
    return [harmless(line) for line in lines[-most:]] if text.strip() else []


def output_block(state: TerminalState) -> Block:
    """Return the output as far as it is kept."""
    kept = state.tail(state.total)
    if len(kept) == state.total:
        return block_of(to_lines(kept))
    head = state.head[: state.head.rfind(b"\n") + 1] or state.head
    tail = kept[kept.find(b"\n") + 1 :]
    left = state.total - len(head) - len(tail)
    lines = state.newlines - head.count(b"\n") - tail.count(b"\n")
    if (
        left <= 0
    ):  # what is kept of both overlaps: the end alone says it all but for its first bytes
        head, left, lines = head[: state.total - len(tail)], 0, 0
    return Block(block_of(to_lines(head)).head, block_of(to_lines(tail)).head, lines, left)


def to_lines(data: bytes) -> list[str]:
    """Return bytes of a terminal as plain lines."""
    text = to_plain(data, final=True)
    return [harmless(line) for line in text.removesuffix("\n").split("\n")] if text else []
