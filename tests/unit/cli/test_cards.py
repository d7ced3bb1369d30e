"""Cards: what is shown of a call, on a terminal and into a pipe, live and when it has ended."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console, RenderableType

from callsheet import FileChange, Session, ToolCallContent, ToolCallReport, ToolCallStatus
from callsheet.acp import v1, v2
from callsheet.cli.cards.board import Board, PlainBoard, board_for
from callsheet.cli.cards.body import (
    MOST_ROWS,
    BodyLine,
    body_of,
    diff_lines,
    fit_lines,
    last_lines,
    output_lines,
    text_lines,
)
from callsheet.cli.cards.card import ICONS, MARKS, TerminalBoard, ended_card, live_card
from callsheet.cli.output import path_text, visible
from callsheet.report.humanize import bytes_text, duration_text
from callsheet.report.terminal import TerminalState

CWD = "/code"


def no_terminal(_: str) -> TerminalState | None:
    return None


def call(status: str = "completed", **fields: Any) -> ToolCallReport:
    notes = {"durationMs": 1234, **fields.pop("notes", {})}
    known = {"name": "bash", "title": "Running `make`", "kind": "execute", **fields}
    return ToolCallReport("c1", status=status, meta={"callsheet": notes}, **known)


def rows_of(card: RenderableType) -> list[str]:
    """Return the rows of a card as they are printed, without its colours."""
    console = Console(width=200, color_system=None, force_terminal=True)
    with console.capture() as captured:
        console.print(card)
    return [row.rstrip().rstrip("─").rstrip() for row in captured.get().splitlines()]


def shown(report: ToolCallReport, width: int = 60) -> list[str]:
    return rows_of(ended_card(report, no_terminal, width, CWD))


def terminal(data: bytes, *, keep: int = 1 << 18) -> TerminalState:
    state = TerminalState("t1", keep=keep)
    for begin in range(0, len(data), 1000):
        state.write(data[begin : begin + 1000])
    return state


# What is said


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"), (999, "999 ms"), (999.6, "1.0 s"), (1000, "1.0 s"), (59_949, "59.9 s"), (59_951, "1 min 00 s"),
        (185_000, "3 min 05 s"), (3_600_000, "1 h 00 min"), (7_380_000, "2 h 03 min"),
        (100_800_000, "1 d 04 h"),
    ],
)  # fmt: skip
def test_durations_are_reported_as_people_do(milliseconds: float, text: str) -> None:
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345, "12 kB"), (999_600, "1.0 MB"), (5e12, "5000 GB")],
)  # fmt: skip
def test_sizes_are_reported_as_people_do(count: float, text: str) -> None:
    assert bytes_text(count) == text


def test_paths_are_reported_from_where_one_is() -> None:
    assert path_text("/code/a/b.py", "/code") == "a/b.py"
    assert path_text("/codebook/x", "/code") == "/codebook/x"
    assert path_text("/code", "/code") == "."
    assert path_text("/etc/x", "/") == "etc/x"
    assert path_text("/etc/x", "") == "/etc/x"


def test_text_can_do_nothing_to_a_terminal_or_its_reader() -> None:
    assert visible("a\x1b[2Jb\nc\u202ed\x9b") == "a�[2Jb⏎c�d�"


def test_a_card_shows_how_the_call_ended_and_where() -> None:
    card = shown(call(locations=["/code/src/a.py"]))
    assert card == ["╭─ ✓ ❯ Running `make`", "╰─ completed · 1.2 s · src/a.py"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"notes": {"reason": "denied"}}, "denied"),
        ({"notes": {"reason": "timeout"}}, "timed out"),
        ({"notes": {"reason": "tool_error"}}, "failed"),
        ({"notes": {"reason": "exit_code"}, "raw_output": {"exit_code": 3}}, "failed: exit code 3"),
        (
            {"notes": {"reason": "exit_code"}, "raw_output": {"signal": "SIGKILL"}},
            "failed: SIGKILL",
        ),
        ({}, "failed"),
    ],
)
def test_a_failed_card_shows_why(fields: dict[str, Any], message: str) -> None:
    assert shown(call("failed", **fields))[-1] == f"╰─ {message} · 1.2 s"


def test_what_is_reported_of_the_end_is_reported_once() -> None:
    ended = {"notes": {"reason": "exit_code"}, "raw_output": {"exit_code": 3}}
    assert len(shown(call("failed", content=["Exit code 3"], **ended))) == 2
    assert len(shown(call("failed", content=["Exit code 4"], **ended))) == 3
    assert len(shown(call("cancelled", content=["Cancelled"]))) == 2


def test_secrets_that_were_hidden_are_counted() -> None:
    assert "2 redactions" in shown(call(notes={"redactions": 2}))[-1]


def test_many_places_are_counted() -> None:
    places = [f"/code/{letter}.py" for letter in "abcde"]
    assert "a.py · b.py · c.py · and 2 more" in shown(call(locations=places))[-1]


# What is shown


def test_code_blocks_are_shown_without_their_fence() -> None:
    assert [line.text for line in text_lines("```python\nx = 1\n\ty\n```")] == [
        "x = 1",
        "        y",
    ]
    assert [line.text for line in text_lines("a\n```\nb\n```")] == ["a", "```", "b", "```"]
    assert [line.text for line in text_lines("```\n```")] == []


def test_images_sounds_links_and_resources_are_described() -> None:
    items = [
        ToolCallContent.image(b"x" * 3000, "image/png"),
        ToolCallContent.audio(b"x" * 300, "audio/wav"),
        ToolCallContent.link("https://a.example/x", "x", size=2_000_000),
        ToolCallContent.resource("file:///a.bin", b"12345", "application/zip"),
        ToolCallContent.resource("file:///a.txt", "one\ntwo"),
    ]
    assert [line.text for line in body_of(call(content=items), no_terminal, CWD)] == [
        "[image · image/png · 3.0 kB]",
        "[audio · audio/wav · 300 B]",
        "[x · https://a.example/x · 2.0 MB]",
        "[file:///a.bin · application/zip · 5 B]",
        "file:///a.txt",
        "one",
        "two",
    ]  # fmt: skip


def test_content_of_a_future_kind_is_not_hidden() -> None:
    (event,) = v2.decode(
        {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "content": [{"type": "hologram"}]}
    )
    (line,) = body_of(call(content=event.fields["content"]), no_terminal, CWD)
    assert "not known" in line.text


# Diffs


def diff_of(old: str | None, new: str | None) -> list[str]:
    lines = diff_lines(ToolCallContent.diff("/code/a.py", old, new), CWD)
    return [line.text.rstrip() for line in lines]


def test_a_diff_has_line_numbers_and_three_lines_around_each_change() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 31))
    new = old.replace("line 8\n", "line eight\nand a half\n").replace("line 25\n", "")
    assert diff_of(old, new) == [
        "a.py  +2 −2",
        " 5   line 5", " 6   line 6", " 7   line 7",
        " 8 − line 8", " 8 + line eight", " 9 + and a half",
        "10   line 9", "11   line 10", "12   line 11",
        " ⋮",
        "23   line 22", "24   line 23", "25   line 24",
        "25 − line 25",
        "26   line 26", "27   line 27", "28   line 28",
    ]  # fmt: skip


def test_a_line_that_replaces_one_far_from_where_it_was_follows_it() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 31))
    new = "".join(f"new {n}\n" for n in range(100)) + old.replace("line 20\n", "x\n")
    rows = diff_of(old, new)
    assert rows[rows.index(" 20 − line 20") + 1] == "120 + x"
    assert rows.count("  ⋮") == 1


def test_a_diff_of_a_large_file_keeps_its_line_numbers_over_the_wire() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 3001))
    report = call(
        content=[ToolCallContent.diff("/code/a.py", old, old.replace("line 2000\n", "x\n"))]
    )
    board = Collecting()
    board.take(update(v2.encode(report)[0]))
    lines = [line.text for line in body_of(board.done[0], no_terminal, CWD)]
    assert lines[0] == "a.py  +1 −1"
    assert "2000 − line 2000" in lines
    assert "2000 + x" in lines


def test_new_and_deleted_files_are_reported_as_so() -> None:
    assert diff_of(None, "a\nb\n") == ["a.py  new file  +2 −0", "1 + a", "2 + b"]
    assert diff_of("a\n", None) == ["a.py  deleted  +0 −1", "1 − a"]
    assert diff_of("a", "b") == ["a.py  +1 −1", "1 − a", "1 + b"]
    assert diff_of(None, "") == ["a.py  new file"]


def test_each_file_of_a_diff_has_its_name_above() -> None:
    changes = [
        FileChange.of_texts("/code/a.py", "1\n", "2\n"),
        FileChange(path="/code/b.png", operation="modify"),
        FileChange(path="/code/d", operation="move", old_path="/code/c"),
    ]
    lines = diff_lines(ToolCallContent.diffs(*changes), CWD)
    heads = [line.text for line in lines if line.style == "bold"]
    assert heads == ["a.py  +1 −1", "b.png", "d  moved from c"]


def test_lines_that_look_like_headers_are_still_lines_of_the_diff() -> None:
    assert diff_of("-- a\n", "++ b\n") == ["a.py  +1 −1", "1 − -- a", "1 + ++ b"]


# Fitting


def numbers(count: int) -> list[BodyLine]:
    return [BodyLine(str(n)) for n in range(count)]


def test_a_long_body_shows_its_ends_and_counts_the_rest() -> None:
    lines = [line.text for line in fit_lines(numbers(100), 10)]
    assert lines == ["0", "1", "2", "… 91 lines left out …", "94", "95", "96", "97", "98", "99"]


def test_a_body_that_fits_is_shown_whole() -> None:
    assert fit_lines(numbers(10), 10) == numbers(10)


def test_no_card_is_wider_than_it_may_be() -> None:
    text = "\n".join(f"{n} " + "日本語" * (n % 40) for n in range(500))
    for width in (20, 39, 59, 120):
        rows = shown(call(title="t" * 300, content=[text]), width)
        assert max(map(cell_len, rows)) <= width
        assert "lines left out" in " ".join(row[2:] for row in rows)


def test_a_title_that_is_too_long_for_the_edge_is_shown_whole() -> None:
    rows = shown(call(title=" ".join(map(str, range(50)))), 40)
    assert rows[0].endswith("…")
    assert " ".join(row[2:] for row in rows[1:-1]).split() == list(map(str, range(50)))


def test_long_lines_are_broken_and_nothing_is_lost() -> None:
    for width in (8, 20, 41):
        rows = shown(call(content=["x" * 90 + "語" * 30]), width)[1:-1]
        assert "".join(row[2:] for row in rows).endswith("x" * 90 + "語" * 30)


def test_a_line_of_a_megabyte_is_cut_and_counted() -> None:
    rows = shown(call(content=["x" * 1_000_000]), 80)
    assert len(rows) < MOST_ROWS
    assert "999,000 characters left out" in " ".join(row[2:] for row in rows)


# Output


def test_the_last_lines_of_live_output_leave_out_what_was_overwritten() -> None:
    state = terminal(b"one\n10%\r20%\r30%\n\x1b[31mred\x1b[0m\tx\n")
    assert last_lines(state, 2) == ["30%", "red     x"]
    assert last_lines(terminal(b"\n\n"), 5) == []
    assert last_lines(terminal(b"half a character: \xe6\x97"), 5) == ["half a character: "]


def test_live_output_is_cut_to_the_width_and_the_rows() -> None:
    data = b"".join(b"%d %s\n" % (n, "日本語".encode() * 50) for n in range(100))
    report = call("in_progress", content=[ToolCallContent.terminal("t1")])
    card = live_card(report, lambda _: terminal(data), 39, rows=6, elapsed=75.2)
    rows = rows_of(card)
    assert len(rows) == 6 + 2
    assert max(map(cell_len, rows)) <= 39
    assert rows[0] == "╭─ ⠹ ❯ Running `make`  1 min 15 s"
    assert rows[-2].startswith("│ 99 日本")


def test_a_long_title_leaves_room_for_the_time() -> None:
    report = call("in_progress", title="日本語" * 40)
    rows = rows_of(live_card(report, no_terminal, 30, rows=4, elapsed=2))
    assert cell_len(rows[0]) <= 30
    assert rows[0].endswith("…  2.0 s")


def test_progress_is_a_bar_where_the_total_is_known() -> None:
    def row(progress: dict[str, Any]) -> str:
        report = call("in_progress", notes={"progress": progress})
        return rows_of(live_card(report, no_terminal, 60, rows=4, elapsed=0))[1]

    half = row({"done": 5, "total": 10, "message": "x.py"})
    assert half.startswith("│ " + "━" * 10)
    assert half.endswith(" 5/10 · x.py")
    assert row({"done": 50, "total": 10}) == "│ " + "━" * 20 + " 50/10"
    assert row({"message": "on it"}) == "│ on it"


def test_what_is_left_out_of_a_flood_is_counted_to_the_line() -> None:
    data = b"".join(b"line %d\n" % n for n in range(200_000))
    stored = output_lines(terminal(data, keep=1 << 16))
    lines = [line.text for line in fit_lines(stored, 20)]
    assert lines[:2] == ["line 0", "line 1"]
    assert lines[-1] == "line 199999"
    assert f"… {200_000 - len(lines) + 1:,} lines left out …" in lines


def test_a_flood_without_lines_is_counted_in_bytes() -> None:
    lines = output_lines(terminal(b"x" * 1_000_000, keep=1 << 14))
    assert any("left out" in line.text and "kB" in line.text for line in fit_lines(lines, 20))


# Boards


class Collecting(Board):
    """Keeps the reports that have ended."""

    def __init__(self, version: int = 2) -> None:
        super().__init__(version=version)
        self.done: list[ToolCallReport] = []

    def ended(self, report: ToolCallReport) -> None:
        self.done.append(report)

    def refresh(self) -> None: ...
    def note(self, text: str, style: str = "") -> None: ...


def update(raw: Any) -> bytes:
    from callsheet.acp.codec import UpdateFrames

    return UpdateFrames("s").line(raw)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Tty(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def screen(text: str) -> list[str]:
    """Return what a terminal shows after these bytes, as far as boards use it."""
    rows: list[str] = [""]
    at = 0
    text = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", text)
    for part in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", text):
        if part == "\n":
            at += 1
            rows += [""] * (at + 1 - len(rows))
        elif match := re.fullmatch(r"\x1b\[(\d*)A", part):
            at -= int(match[1] or 1)
            assert at >= 0
        elif part == "\x1b[2K":
            rows[at] = ""
        elif part and part != "\r" and not part.startswith("\x1b"):
            assert rows[at] == "", "a row is written over without being erased"
            rows[at] += part
    return rows


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[TerminalBoard, Tty, Clock]]:
    def make(width: int = 60, height: int = 20) -> tuple[TerminalBoard, Tty, Clock]:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("LINES", str(height))
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.delenv("NO_COLOR", raising=False)
        stream, clock = Tty(), Clock()
        board = TerminalBoard(stream, CWD)
        board.clock = clock
        return board, stream, clock

    return make


async def test_a_session_is_shown_live_and_its_cards_stay(on_terminal: Any, tmp_path: Path) -> None:
    board, stream, clock = on_terminal()
    async with Session(sinks=[board], cwd=tmp_path) as session:
        async with session.call("bash", {"command": "make"}) as running:
            running.start()
            running.write("compiling\n")
            await session.flush()
            clock.now += 1
            board.tick()
            rows = screen(stream.getvalue())
            assert "❯ Running `make`  1.0 s ──" in rows[0]
            assert rows[1].rstrip() == "│ compiling"
            running.succeed()
        await session.flush()
    rows = [row for row in screen(stream.getvalue()) if row]
    assert rows[0].startswith("╭─ ✓ ❯ Running `make` ──")
    assert rows[1].rstrip() == "│ compiling"
    assert rows[2].startswith("╰─ completed · ")
    assert len(rows) == 3
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h")


async def test_what_is_redacted_on_the_wire_is_redacted_on_a_card(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    stream = io.StringIO()
    async with Session(sinks=[PlainBoard(stream, str(tmp_path))], cwd=tmp_path) as session:
        async with session.call("bash", {"command": f"echo {secret}"}) as running:
            running.start()
            running.write(f"token {secret}\n")
            running.succeed()
    assert secret not in stream.getvalue()
    assert "redactions" in stream.getvalue()


def test_several_calls_share_the_screen(on_terminal: Any) -> None:
    board, stream, _ = on_terminal(height=6)
    for number in range(9):
        board.take(update(v2.encode(replace(call("in_progress"), tool_call_id=f"c{number}"))[0]))
    board.refresh()
    rows = screen(stream.getvalue())
    assert len(rows) <= 6
    assert rows[-1].rstrip() == "  and 8 more"


def changed_to(status: str) -> dict[str, Any]:
    return {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": status}


def test_the_time_of_a_call_begins_when_it_is_started(on_terminal: Any) -> None:
    board, stream, clock = on_terminal()
    board.take(update(v2.encode(call("pending"))[0]))
    clock.now += 60
    board.take(update(changed_to("in_progress")))
    clock.now += 2
    board.take(update({**changed_to("in_progress"), "title": "Running on"}))
    board.refresh()
    assert "Running on  2.0 s" in screen(stream.getvalue())[0]


def test_notes_are_styled_on_a_terminal(on_terminal: Any) -> None:
    board, stream, _ = on_terminal()
    board.note("hello", "bold")
    assert "\x1b[1mhello" in stream.getvalue()
    piped = PlainBoard(io.StringIO(), CWD)
    piped.note("hello", "bold")
    assert piped._stream.getvalue() == "hello\n"


def test_without_colours_a_terminal_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Tty()
    board = board_for(stream, CWD)
    assert isinstance(board, TerminalBoard)
    board.take(update(v2.encode(call())[0]))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", stream.getvalue())
    assert "✓" in stream.getvalue()


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_terminal_that_can_do_nothing_gets_plain_lines(
    monkeypatch: pytest.MonkeyPatch, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    assert isinstance(board_for(Tty(), CWD), PlainBoard)


def test_every_mark_and_icon_takes_one_cell() -> None:
    assert all(cell_len(sign) == 1 for sign in [*ICONS.values(), *MARKS.values()])


def test_lines_of_another_agent_that_are_wrong_are_passed_over() -> None:
    board = Collecting()
    board.take(b'{"jsonrpc":"2.0","method":"session/update","params":{}}\n')
    board.take(
        b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update"}}}\n'
    )
    board.take(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n')
    board.take(b"not json\n")
    board.take(update(v2.encode(call())[0]))
    assert [report.status for report in board.done] == [ToolCallStatus.COMPLETED]


def test_a_board_reads_v1_as_well() -> None:
    board = Collecting(version=1)
    board.take(update(v1.announce(call("failed", notes={"reason": "denied"}))))
    assert board.done[0].reason == "denied"


# Into a pipe


def lines_of(board: Board, stream: io.StringIO) -> list[str]:
    board.refresh()
    return stream.getvalue().splitlines()


async def test_into_a_pipe_output_comes_live_and_only_once(tmp_path: Path) -> None:
    stream = io.StringIO()
    board = PlainBoard(stream, str(tmp_path))
    async with Session(sinks=[board], cwd=tmp_path) as session:
        async with session.call("bash", {"command": "make"}) as running:
            running.start()
            running.write("one\ntw")
            await session.flush()
            assert lines_of(board, stream) == ["Running `make`", "one"]
            running.write("o\n\x1b[31mred\x1b[0m")
            running.exit(2)
            running.fail(reason="exit_code", raw={"exit_code": 2})
    lines = lines_of(board, stream)
    assert lines[:-1] == ["Running `make`", "one", "two", "red"]
    assert re.fullmatch(r"failed: exit code 2 · \d+ ms.*", lines[-1])


async def test_into_a_pipe_nothing_of_a_quick_flood_is_lost(tmp_path: Path) -> None:
    stream = io.StringIO()
    async with Session(sinks=[PlainBoard(stream, str(tmp_path))], cwd=tmp_path) as session:
        async with session.call("bash", {"command": "seq 50000"}) as running:
            running.start()
            running.write("".join(f"{n}\n" for n in range(50_000)))
            running.succeed()
    assert stream.getvalue().splitlines()[1:-1] == [str(n) for n in range(50_000)]


async def test_into_a_pipe_each_line_stands_below_the_title_of_its_call(tmp_path: Path) -> None:
    stream = io.StringIO()
    async with Session(sinks=[PlainBoard(stream, str(tmp_path))], cwd=tmp_path) as session:
        async with session.call("bash", {"command": "first"}) as first:
            first.start()
            first.write("a\n")
            await session.flush()
            async with session.call("bash", {"command": "second"}) as second:
                second.start()
                second.write("b\n")
                second.succeed()
            await session.flush()
            first.write("c\n")
            first.succeed()
    lines = stream.getvalue().splitlines()
    assert [line for line in lines if not line.startswith("completed")] == [
        "Running `first`", "a", "Running `second`", "b", "Running `first`", "c",
    ]  # fmt: skip


def test_into_a_pipe_goes_no_escape(tmp_path: Path) -> None:
    stream = io.StringIO()
    board = PlainBoard(stream, CWD)
    report = call(
        title="a\x1b[2Jb",
        content=["\x1b]0;x\x07", ToolCallContent.diff("/code/\x1b[1m", "a\n", "b\x1b[2J\n")],
        locations=["/code/\x1b[1mx"],
    )
    board.take(update(v2.encode(report)[0]))
    assert "\x1b" not in stream.getvalue()
    assert "\x07" not in stream.getvalue()


def test_a_terminal_that_was_replaced_is_written_anew() -> None:
    stream = io.StringIO()
    board = PlainBoard(stream, CWD)
    open_one = {"sessionUpdate": "terminal_update", "terminalId": "t1"}
    report = call("in_progress", content=[ToolCallContent.terminal("t1")])
    encoded = base64.b64encode(b"anew\n").decode()
    board.take(update({**open_one, "output": {"data": base64.b64encode(b"old\n").decode()}}))
    board.take(update(v2.encode(report)[0]))
    assert lines_of(board, stream)[-1] == "old"
    board.take(update({**open_one, "output": {"data": encoded}}))
    assert lines_of(board, stream)[-1] == "anew"
