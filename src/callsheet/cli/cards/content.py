"""What a call shows, item by item, as blocks of lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from callsheet.report.content import (
    AudioContent,
    DiffContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TerminalContent,
    TextContent,
    ToolCallContent,
)
from callsheet.report.report import ToolCallReport
from callsheet.report.terminal import TerminalState

from .diffs import diff_blocks
from .facts import says_the_end
from .lines import Block, block_of
from .output import output_block
from .words import bytes_text, harmless, visible

TerminalOf: TypeAlias = Callable[[str], TerminalState | None]
"""Gives the state of an agent's terminal, if it is known."""

_FENCED = re.compile(r"(`{3,}|~{3,})[^\n`]*\n(.*?)\n?\1\s*", re.DOTALL)


def blocks_of(report: ToolCallReport, terminal_of: TerminalOf, cwd: str) -> list[Block]:
    """Return all that a call shows."""
    blocks: list[Block] = []
    for item in report.content:
        if isinstance(item, TextContent) and says_the_end(item.text, report):
            continue
        blocks += [block for block in _item(item, terminal_of, cwd) if block.head or block.tail]
    return blocks


def _item(item: ToolCallContent, terminal_of: TerminalOf, cwd: str) -> list[Block]:
    if isinstance(item, TextContent):
        return [text_block(item.text)]
    if isinstance(item, DiffContent):
        return diff_blocks(item, cwd)
    if isinstance(item, TerminalContent):
        state = terminal_of(item.terminal_id)
        return [] if state is None else [output_block(state)]
    return [_described(item)]


def text_block(text: str) -> Block:
    """Return text as lines. One that is a single code block is shown without its fence."""
    text = text.strip("\n")
    fenced = _FENCED.fullmatch(text)
    if fenced is not None:
        text = fenced[2]
    return block_of([harmless(line.rstrip("\r")) for line in text.split("\n")] if text else [])


def _described(item: ToolCallContent) -> Block:
    """Give in a line what can't be shown in text."""
    if isinstance(item, (ImageContent, AudioContent)):
        what = "image" if isinstance(item, ImageContent) else "audio"
        size = _size(item.data)
        return block_of([visible(f"[{what} · {item.mime_type} · {size}]")], "name")
    if isinstance(item, ResourceLink):
        said = [item.title or item.name, item.uri]
        said += [bytes_text(item.size)] if item.size is not None else []
        return block_of([visible(f"[{' · '.join(said)}]")], "name")
    if isinstance(item, EmbeddedResource):
        if item.text is None:
            size = _size(item.blob or "")
            kind = item.mime_type or "binary"
            return block_of([visible(f"[{item.uri} · {kind} · {size}]")], "name")
        return Block([*block_of([visible(item.uri)], "name").head, *text_block(item.text).head])
    return block_of(["[content of a kind that is not known here]"], "note")


def _size(data: str) -> str:
    """Return the size of what stands there in base64."""
    return bytes_text(len(data) * 3 // 4 - data.count("=", -2))
