"""One peer's view of a session: what it has seen, and what it must be sent to see what is true.

Three kinds, by what the peer understands: `V2View`; `V1TerminalView` for v1 clients that show live
terminals out of `_meta` (they announce it: `clientCapabilities._meta.terminal_output`); `V1TextView`
for all others.
"""

from __future__ import annotations

from callsheet.acp.peer import ENGLISH, Peer, Phrases
from callsheet.acp.views.base import TerminalOf, View
from callsheet.acp.views.v1 import V1TerminalView, V1TextView
from callsheet.acp.views.v2 import V2View

__all__ = ["TerminalOf", "V1TerminalView", "V1TextView", "V2View", "View", "view_for"]


def view_for(peer: Peer, terminal_of: TerminalOf, words: Phrases = ENGLISH) -> View:
    """Return the view of a peer that has seen nothing yet."""
    if peer.version == 2:
        return V2View(peer, terminal_of, words)
    return (V1TerminalView if peer.terminals == "meta" else V1TextView)(peer, terminal_of, words)
