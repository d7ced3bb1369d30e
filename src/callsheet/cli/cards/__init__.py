"""Tool calls as cards: drawn live on a terminal, as plain lines into a pipe.

A board is a client like any other. It is sent ACP `session/update` lines, by a session of this
process or by an agent at the other end of a pipe, and knows nothing but these. So what it shows is
just what an editor could show, with the same secrets taken out.

The way of a call: `board` folds lines into reports; `content`, `output` and `diffs` make blocks of
lines out of what a report holds; then `plain` writes these, or `card` makes rows of them that
`terminal` prints and `region` draws anew in place.
"""

from __future__ import annotations

from .board import Board, board_for

__all__ = ["Board", "board_for"]
