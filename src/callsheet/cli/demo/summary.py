"""The end of the demo: its calls in a table, checks over the traffic, and how to go on."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.text import Text

from callsheet.check.rules import RULES
from callsheet.cli.cards.footer import end_text
from callsheet.cli.cards.style import COLOURS, Glyphs, mark
from callsheet.cli.output import Page, new_table, visible
from callsheet.report.content import TerminalContent
from callsheet.report.errors import CallsheetError
from callsheet.report.humanize import bytes_text, duration_text
from callsheet.report.report import ToolCallReport
from callsheet.testing import AgentClient, Recording, fold

MOST_CALLS = 100


# Calls


def show_calls(page: Page, client: AgentClient, seconds: float, glyphs: Glyphs) -> None:
    """Show the calls as the client knows them, and the bytes that were spent on each."""
    lines = _lines_of_agent(client)
    reports = list(fold(lines, version=client.version))
    sizes = [_bytes_about(report, lines) for report in reports]
    table = new_table(page.width)
    table.add_column("", width=1, no_wrap=True)
    table.add_column("call", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("ended", no_wrap=True)
    for name in ("took", "bytes", "redacted"):
        table.add_column(name, justify="right", style="dim", no_wrap=True)
    for report, size in zip(reports, sizes, strict=True):
        style, took = COLOURS[report.status], report.notes.get("durationMs")
        table.add_row(
            Text(mark(report, glyphs), style),
            Text(visible(report.title)),
            Text(end_text(report), style),
            duration_text(took) if isinstance(took, (int, float)) else "",
            bytes_text(size),
            str(_redactions(report) or ""),
        )
    hidden = sum(map(_redactions, reports))
    table.add_section()
    table.add_row("", f"{len(reports)} calls", "", "", bytes_text(sum(sizes)), str(hidden))
    _title(page, "Calls")
    page.print(table)
    ends = Counter(end_text(report).partition(":")[0] for report in reports)
    page.line((", ".join(f"{count} {end}" for end, count in ends.items()), "dim"), indent=2)
    counts, sent = Counter[str](), Counter[str]()
    for frame in client.traffic:
        counts[frame.way] += 1
        sent[frame.way] += len(frame.line)
    text = (
        f"{counts['in']} messages from the agent ({bytes_text(sent['in'])}), "
        f"{counts['out']} to it ({bytes_text(sent['out'])}), in {duration_text(seconds * 1000)}"
    )
    page.line((text, "dim"), indent=2)


def _lines_of_agent(client: AgentClient) -> list[bytes]:
    return [frame.line for frame in client.traffic if frame.way == "in"]


def _bytes_about(report: ToolCallReport, lines: Sequence[bytes]) -> int:
    """Return the size of the lines about a call, and about the terminals that it shows."""
    shown = [item.terminal_id for item in report.content if isinstance(item, TerminalContent)]
    keys = [key.encode() for key in (report.tool_call_id, *shown)]
    return sum(len(line) for line in lines if any(key in line for key in keys))


def _redactions(report: ToolCallReport) -> int:
    count = report.notes.get("redactions")
    return count if isinstance(count, int) else 0


# Checks


class CheckVerdict(NamedTuple):
    """Whether a check passed. `detail` is a figure if it did, else why it did not."""

    name: str
    passed: bool
    detail: str


def show_checks(
    page: Page,
    client: AgentClient,
    secrets: Sequence[str],
    ends: Sequence[str],
    stored: StoredCalls | None,
    glyphs: Glyphs,
) -> bool:
    """Check the traffic, show each check, and return whether all have passed.

    Args:
        page: Where to write.
        client: The client, with its traffic and the exit code of its agent.
        secrets: What must not have reached the client.
        ends: The statuses or reasons that the calls should have ended with.
        stored: What the history has of the session, if one is written.
        glyphs: The marks of what passed and failed.
    """
    verdicts = list(check_traffic(client, secrets, ends, stored))
    passed = sum(verdict.passed for verdict in verdicts)
    _title(page, f"Checks: {passed} of {len(verdicts)} passed")
    for verdict in verdicts:
        status, style = ("completed", "green") if verdict.passed else ("failed", "red")
        page.line(
            (glyphs.marks[status], f"bold {style}"),
            (f" {verdict.name}", ""),
            (f"  {verdict.detail}" if verdict.detail else "", "dim" if verdict.passed else style),
            hang=2,
        )
    return passed == len(verdicts)


def check_traffic(
    client: AgentClient,
    secrets: Sequence[str],
    ends: Sequence[str],
    stored: StoredCalls | None,
) -> Iterator[CheckVerdict]:
    """Yield what `callsheet check` finds, and what only the demo can know."""
    found = Recording.of(client).check()
    first = f"{found[0].rule}: {found[0].message}" if found else ""
    rules = sum(not rule.clients for rule in RULES)
    figure = f"{len(client.traffic)} messages, {rules} rules"
    yield CheckVerdict("callsheet check finds nothing wrong", not found, first or figure)

    lines = _lines_of_agent(client)
    ledger = fold(lines, version=client.version)
    reports = list(ledger)
    ended = [(report.reason or report.status).value for report in reports]
    is_right = ended == list(ends)
    expected = "" if is_right else f"; expected {', '.join(ends)}"
    shown = ", ".join(dict.fromkeys(ended) if is_right else ended)
    yield CheckVerdict("every call ended as it should", is_right, shown + expected)

    # A secret may come in pieces of live output, so the output as a whole is searched as well.
    states = [
        ledger.terminal(getattr(item, "terminal_id", "")) for r in reports for item in r.content
    ]
    seen = b"".join([*lines, *(state.output for state in states if state is not None)])
    leaked = sum(secret.encode() in seen for secret in secrets)
    hidden = sum(map(_redactions, reports))
    text = f"{len(secrets)} secrets, {hidden} redactions"
    text = f"the client saw {leaked} of {len(secrets)} secrets" if leaked else text
    is_safe = not leaked and hidden >= len(secrets)
    yield CheckVerdict("no secret reached the client", is_safe, text)

    code = client.exit_code or 0
    yield CheckVerdict("the agent ended when its client left", code == 0, f"exit code {code}")
    if stored is not None:
        yield _check_history(stored, reports)


def _check_history(stored: StoredCalls, reports: Sequence[ToolCallReport]) -> CheckVerdict:
    def facts(some: Sequence[ToolCallReport]) -> list[object]:
        return [(one.tool_call_id, one.title, one.status, one.notes) for one in some]

    count, problem = len(stored.reports), stored.problem
    if not problem and facts(stored.reports) != facts(reports):
        problem = f"{count} of {len(reports)} calls are there, or not as they were"
    return CheckVerdict("the history has what was seen", not problem, problem or f"{count} calls")


class StoredCalls(NamedTuple):
    """Where the history is, and the calls of the demo's session in it, in order. `problem`: why not."""

    where: str
    session: str
    reports: list[ToolCallReport]
    problem: str = ""


async def stored_calls(session: str) -> StoredCalls | None:
    """Look up the session that was played, as anybody could; None if no history is written."""
    from callsheet.history import Query, chosen_url, store_at

    url = chosen_url()
    if url is None:
        return None
    store = store_at(url)
    where = store.url.removeprefix("sqlite:///")
    try:
        await store.open(write=False)
        try:
            found = await store.calls(Query(session_id=session, limit=MOST_CALLS))
        finally:
            await store.close()
    except CallsheetError as exc:
        return StoredCalls(where, session, [], str(exc))
    found.sort(key=lambda call: call.position)
    return StoredCalls(where, session, [call.record.report for call in found])


# How to go on


def show_next_steps(page: Page, stored: StoredCalls | None) -> None:
    """Show where the calls are stored, and the settings that make editors start this agent."""
    command = agent_command()
    _title(page, "History")
    if stored is None:
        page.line(("None is kept: CALLSHEET_HISTORY is off.", "dim"))
    else:
        page.verbatim(stored.where)
        if stored.reports:
            program = shlex.join(command[:-1])
            page.verbatim(f"{program} history --session {stored.session}")
            page.verbatim(f"{program} show {stored.reports[-1].tool_call_id}")
    _title(page, "Use it in your editor")
    for number, (editor, file, text) in enumerate(editor_settings(command)):
        if number:
            page.blank()
        page.line((editor, "bold"), (f"  {file}", "dim"))
        page.verbatim(text)


def _title(page: Page, text: str) -> None:
    page.blank()
    page.line((text, "bold"))
    page.blank()


def agent_command() -> list[str]:
    """Return the command that starts the agent of this installation, wherever an editor starts it."""
    program = Path(sys.argv[0])
    if program.stem == "callsheet":
        found = shutil.which(os.fspath(program.absolute()))
        if found is not None:
            return [found, "agent"]
    return [sys.executable, "-m", "callsheet", "agent"]


def editor_settings(command: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Return for each known editor its name, the file of its settings, and what to paste there."""
    program, args = command[0], list(command[1:])
    started: dict[str, object] = {"command": program, "args": args}
    lua = ", ".join(map(_json, args))
    return (
        ("Zed", "settings.json", _servers({"type": "custom", **started})),
        ("JetBrains", "~/.jetbrains/acp.json", _servers(started)),
        (
            "Neovim",
            "avante.nvim",
            'require("avante").setup({\n'
            '  provider = "callsheet",\n'
            "  acp_providers = {\n"
            "    callsheet = {\n"
            f"      command = {_json(program)},\n"
            f"      args = {{ {lua} }},\n"
            "    },\n"
            "  },\n"
            "})",
        ),
    )


def _servers(server: dict[str, object]) -> str:
    """Return the settings that both editors read, a line for each key."""
    keys = ",\n".join(f"      {_json(key)}: {_json(value)}" for key, value in server.items())
    return f'{{\n  "agent_servers": {{\n    "Callsheet": {{\n{keys}\n    }}\n  }}\n}}'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
