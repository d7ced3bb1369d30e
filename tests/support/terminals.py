"""What two terminals must share to be the same."""

from __future__ import annotations

from callsheet.report.terminal import TerminalState


def facts_of(state: TerminalState) -> tuple[object, ...]:
    """Return everything of a terminal but its output's history."""
    facts = (state.terminal_id, state.command, state.cwd, state.exit_status)
    return (*facts, state.meta, state.extra, state.output)
