"""`callsheet ui` in a real browser, on a real history that a real agent and a real tap write to."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from callsheet.history import store_at
from callsheet.testing import AgentClient
from tests.integration.ui import hostile_calls
from tests.integration.ui.conftest import Open, titles
from tests.support import ROOT
from tests.support.engines import batch, call
from tests.support.inspector import InspectorProcess
from tests.support.puppet import puppet
from tests.support.shells import CALLSHEET

PROMPTS = [
    "/read path=README.md",
    "/edit path=app.py old_text=hello new_text=goodbye",
    r"!printf 'half\rdone\n\033[31mred\033[0m\n'",
    "!exit 3",
]


class Desk:
    """A project, its history, and the inspector that looks at it."""

    def __init__(self, root: Path) -> None:
        self.project: Path = root / "project"
        self.project.mkdir()
        (self.project / "README.md").write_text("Read me.\n")
        (self.project / "app.py").write_text("def greet():\n    return 'hello'\n")
        homes = {f"XDG_{name}_HOME": str(root / name) for name in ("DATA", "STATE", "CONFIG")}
        runtime = root / "RUNTIME"
        runtime.mkdir(mode=0o700)
        self.env: dict[str, str] = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            **homes,
            "XDG_RUNTIME_DIR": str(runtime),
            "HOME": str(root),
            "CALLSHEET_HISTORY": f"sqlite:///{root}/history.sqlite",
        }
        self._threads: ThreadPoolExecutor = ThreadPoolExecutor(4)
        self.server: InspectorProcess | None = None

    def start(self, *options: str) -> InspectorProcess:
        """Start the inspector."""
        self.server = InspectorProcess(self.env["CALLSHEET_HISTORY"], *options, **self.env)
        return self.server

    def stop(self) -> None:
        """Stop everything."""
        if self.server is not None and self.server.process.poll() is None:
            self.server.end()
        self._threads.shutdown()

    def beside(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Run something in a thread of its own, for Playwright has an event loop in this one."""
        return self._threads.submit(asyncio.run, work)

    async def talk(self, *prompts: str, command: list[str] | None = None) -> None:
        """Start an agent, and prompt it."""
        agent = command or [*CALLSHEET, "agent"]
        async with AgentClient(agent, env=self.env, on_permission="allow_once") as client:
            session = await client.new_session(str(self.project))
            for prompt in prompts:
                await client.prompt(session, prompt)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A history with two sessions of our agent."""
    desk = Desk(tmp_path_factory.mktemp("desk"))
    try:
        desk.beside(desk.talk(*PROMPTS)).result(60)
        desk.beside(desk.talk(*PROMPTS[:1], *PROMPTS[2:], "!exit 0")).result(60)
        desk.start()
        yield desk
    finally:
        desk.stop()


@pytest.fixture
def own_desk(tmp_path: Path) -> Iterator[Desk]:
    """An empty history of one test."""
    desk = Desk(tmp_path)
    try:
        yield desk
    finally:
        desk.stop()


@pytest.fixture
def look(opened: Open) -> Callable[..., Page]:
    """Open an inspector, at a fragment. What it may ask for is all of its server's."""

    def open_(ui: InspectorProcess, mark: str = "", **options: Any) -> Page:
        url = ui.url + (f"&{mark}" if mark else "")
        return opened(url, allow=ui.url.partition("#")[0], **options)

    return open_


@pytest.fixture
def inspector(desk: Desk, look: Open) -> Callable[..., Page]:
    """Open the inspector of the desk."""
    return lambda mark="", **options: look(desk.server, mark, **options)


def test_all_calls_are_listed_in_order_and_the_token_is_not_in_the_address(
    desk: Desk, inspector: Open
) -> None:
    page = inspector()
    expect(page.locator(".row")).to_have_count(8)
    assert titles(page)[:2] == ["Reading README.md", "Editing app.py"]
    expect(page.locator(".link")).to_have_text("live")
    assert "token" not in page.url
    assert desk.server is not None
    assert desk.server.token not in page.content()


def test_the_server_filters_and_filters_are_saved(inspector: Open) -> None:
    page = inspector()
    page.locator("#search").fill("tool:bash status:failed")
    expect(page.locator("form output")).to_have_text("2 of 8")
    expect(page.locator(".row .title")).to_have_text(["Running exit 3"] * 2)
    page.get_by_role("button", name="Saved").click()
    page.get_by_label("Name of the filter").fill("Trouble")
    page.get_by_role("button", name="Save this filter").click()
    expect(page.locator(".saved b")).to_have_text("Trouble")
    page.locator("#search").fill("colour:red kind:read")
    expect(page.locator(".wrong li")).to_have_count(1)
    expect(page.locator("form output")).to_have_text("2 of 8")
    again = inspector("filter=kind%3Aedit")
    expect(again.locator("form output")).to_have_text("1 of 8")
    again.get_by_role("button", name="Saved (1)").click()
    again.get_by_role("button", name="Trouble tool:bash").click()
    expect(again.locator("form output")).to_have_text("2 of 8")
    again.get_by_role("button", name="Saved (1)").click()
    again.get_by_role("button", name="Remove Trouble").click()
    expect(again.get_by_role("group", name="Saved filters")).to_contain_text("No filter is saved.")


def test_the_list_counts_findings_of_old_and_new_calls(own_desk: Desk, look: Open) -> None:
    kimi = ROOT / "tests" / "recordings" / "kimi-cli-1.51.0.mixed-none.jsonl"
    bare = [*CALLSHEET, "history", "import", str(kimi), "--no-repair"]
    subprocess.run(bare, env=own_desk.env, capture_output=True, timeout=60, check=True)
    page = look(own_desk.start())
    badges = page.locator(".row .badge:not(.mended)")
    expect(badges).to_have_count(11)
    count = badges.first.inner_text()
    expect(badges.first).to_have_attribute("title", f"{count} findings")
    page.locator(".row").first.click()
    expect(page.get_by_role("tab", name="Findings").locator(".badge")).to_have_text(count)
    own_desk.beside(own_desk.talk("/list path=.")).result(60)
    expect(page.locator(".row").last.locator(".title")).to_contain_text("Listing")
    expect(badges).to_have_count(11)


def test_what_is_filtered_is_exported(inspector: Open) -> None:
    page = inspector("filter=status%3Afailed")
    expect(page.locator("form output")).to_have_text("2 of 8")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export filtered").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["failed", "failed"]


def test_a_running_agent_and_its_calls_are_seen_while_they_run(own_desk: Desk, look: Open) -> None:
    page = look(own_desk.start(), errors=("503",))
    expect(page.get_by_role("alert")).to_contain_text("There is no history")
    expect(page.locator(".empty")).to_contain_text("callsheet tap -- your-agent")
    work = own_desk.beside(own_desk.talk("!until [ -e gate ]; do sleep 0.05; done; echo through"))
    row = page.locator(".row")
    expect(row).to_have_class("row in_progress", timeout=20_000)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator(".running li")).to_contain_text("agent", timeout=20_000)
    row.click()
    expect(page.locator("article .timing")).to_contain_text("has not ended")
    (own_desk.project / "gate").touch()
    expect(row).to_have_class("row completed", timeout=20_000)
    expect(page.locator("article")).to_contain_text("through")
    work.result(30)
    expect(page.locator(".running")).to_have_count(0, timeout=20_000)


def test_the_newest_call_stays_in_sight_unless_one_scrolls_away(own_desk: Desk, look: Open) -> None:
    own_desk.beside(own_desk.talk(*["/list path=."] * 8)).result(60)
    page = look(own_desk.start(), viewport={"width": 1280, "height": 300})

    def row(number: int) -> Locator:
        return page.locator(f'[aria-posinset="{number}"]')

    expect(row(8)).to_be_in_viewport()
    page.locator(".list").hover()
    page.mouse.wheel(0, -1000)
    expect(row(1)).to_be_in_viewport()
    own_desk.beside(own_desk.talk("/list path=.")).result(60)
    expect(page.locator(".newest")).to_have_text("1 new ↓")
    expect(row(1)).to_be_in_viewport()
    page.locator(".newest").click()
    expect(row(9)).to_be_in_viewport()
    own_desk.beside(own_desk.talk("/list path=.")).result(60)
    expect(row(10)).to_be_in_viewport()


def test_a_call_shows_its_diff_its_terminal_and_its_frames(inspector: Open) -> None:
    page = inspector("filter=kind%3Aedit", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".row").click()
    page.get_by_role("button", name="Copy as command").click()
    expect(page.locator(".toast")).to_have_text("Copied the command.")
    command = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert command[:4] == ["callsheet", "call", "edit", "--json"]
    assert json.loads(command[4])["new_text"] == "goodbye"
    expect(page.locator(".diff .gone:not(.no)")).to_contain_text("'hello'")
    expect(page.locator(".diff .new:not(.no)")).to_contain_text("'goodbye'")
    for name, text in {"Data": "old_text:", "Frames": "tool_call", "Timing": "announced"}.items():
        page.get_by_role("tab", name=name).click()
        expect(page.get_by_role("tabpanel")).to_contain_text(text)
    page.locator(".chevron").click()
    expect(page.get_by_role("region", name="Frames")).to_contain_text("tool_call")
    page.locator("#search").fill("printf")
    expect(page.locator("form output")).to_have_text("2 of 8")
    page.locator(".row").first.click()
    page.get_by_role("tab", name="Card").click()
    terminal = page.locator(".terminal pre").first
    expect(terminal).to_contain_text("done\nred")
    expect(terminal).not_to_contain_text("half")
    expect(terminal.locator(".fg1")).to_have_text("red")
    page.get_by_role("button", name="Open session").click()
    for query, count in {"red": 1, "nothing": 0}.items():
        page.locator("#search").fill(f"kind:execute {query}")
        expect(page.locator("form output")).to_have_text(f"{count} of 4")


def test_a_session_has_a_timeline_a_story_and_a_replay_and_an_address(inspector: Open) -> None:
    page = inspector("filter=kind%3Aedit")
    page.locator(".row").click()
    page.get_by_role("button", name="Open session").click()
    expect(page.locator(".timeline .bar")).to_have_count(4)
    expect(page.locator("article h2")).to_contain_text("Editing app.py")
    expect(page.locator(".turn-row")).to_have_count(4)
    page.get_by_label("Replay to a moment").fill("0")
    expect(page.locator(".timeline .bar")).not_to_have_count(4)
    again = inspector(page.url.partition("#")[2])
    expect(again.locator("article h2")).to_contain_text("Editing app.py")
    page.go_back()
    expect(page.locator("form output")).to_have_text("1 of 8")


def test_more_sessions_stay_in_the_list_when_another_is_used(own_desk: Desk, look: Open) -> None:
    store = store_at(own_desk.env["CALLSHEET_HISTORY"])
    store.open()
    store.write(batch([call(n, session=f"s{n}") for n in range(60)]))
    page = look(own_desk.start(), "view=sessions")
    rows = page.locator(".session-list li")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="More").click()
    expect(rows).to_have_count(60)
    store.write(batch([call(61, session="new"), call(62, session="s3")]))
    expect(rows).to_have_count(61)
    expect(rows.first).to_contain_text("2 calls")
    expect(page.get_by_role("button", name="More")).to_have_count(0)
    store.close()


def test_two_sessions_are_compared(inspector: Open) -> None:
    page = inspector("view=sessions")
    marks = page.locator(".session-list input")
    marks.nth(0).check()
    marks.nth(1).check()
    page.get_by_role("button", name="Compare", exact=True).last.click()
    rows = page.locator(".pairs tbody tr")
    expect(rows).to_have_count(5)
    expect(page.locator(".pairs .gap")).to_have_count(2)  # only one session edits, only one exits 0
    expect(page.locator(".pairs tr", has_text="Editing app.py")).to_have_class("differs")
    page.get_by_label("Only differences").check()
    expect(page.locator(".pairs tr", has_text="Reading README.md")).to_have_count(0)
    assert "with=" in page.url


def test_the_keyboard_walks_through_the_calls(inspector: Open) -> None:
    page = inspector()
    expect(page.locator(".row")).to_have_count(8)
    chosen = page.locator('[aria-selected="true"] .title')
    page.get_by_role("listbox").focus()
    page.keyboard.press("g")
    expect(chosen).to_have_text("Reading README.md")
    page.keyboard.press("j")
    expect(chosen).to_have_text("Editing app.py")
    page.keyboard.press("o")
    expect(page.get_by_role("region", name="Frames")).to_contain_text("tool_call")
    expect(page.locator("article h2")).to_contain_text("Editing app.py")
    page.keyboard.press("Enter")
    expect(page.get_by_role("tabpanel")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("article")).to_have_count(0)
    expect(page.get_by_role("listbox")).to_be_focused()


def test_a_row_that_is_not_read_yet_is_chosen_when_it_is(own_desk: Desk, look: Open) -> None:
    store = store_at(own_desk.env["CALLSHEET_HISTORY"])
    store.open()
    store.write(batch([call(n) for n in range(1000)]))
    page = look(own_desk.start())
    chosen, title = page.locator('.slot[aria-selected="true"] .title'), page.locator("article h2")
    expect(page.locator('[aria-posinset="1000"]')).to_be_visible()
    for key, name in (("g", "Running make 0"), ("G", "Running make 999")):
        page.keyboard.press(key)
        expect(chosen).to_have_text(name)
        expect(title).to_have_text(name)
    store.write(batch([call(1000, at=1.0)]))  # an older one: all rows move
    expect(page.locator("form output")).to_have_text("1,001")
    expect(page.locator('[aria-posinset="1001"]')).to_have_attribute("aria-selected", "true")
    expect(chosen).to_have_text("Running make 999")
    store.close()


def test_a_list_that_is_taller_than_browsers_can_draw_is_reached_to_its_end(
    desk: Desk, inspector: Open
) -> None:
    assert desk.server is not None
    row = desk.server.get("calls")["calls"][0]
    page = inspector(errors=("404",))  # these calls are only in the list
    expect(page.locator(".row")).to_have_count(8)
    count = 3_000_000

    def answer(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        offset = int(asked["offset"][0]) % count
        rows = range(offset, min(offset + int(asked["limit"][0]), count))
        calls = [{**row, "id": str(n), "title": f"Call {n}"} for n in rows]
        got = {"version": "", "total": count, "offset": offset, "calls": calls, "wrong": []}
        route.fulfill(json=got)

    page.route("**/api/calls?*", answer)
    page.locator("#search").fill("kind:read")
    last = page.locator(f'[aria-posinset="{count}"]')
    expect(last).to_be_in_viewport()
    page.locator(".list").hover()
    page.mouse.wheel(0, -50_000)
    expect(last).to_have_count(0)
    page.get_by_role("listbox").focus()
    chosen = page.locator('.slot[aria-selected="true"]')
    for key, number in (("G", count), ("k", count - 1), ("PageUp", count - 11), ("g", 1)):
        page.keyboard.press(key)
        expect(chosen).to_have_attribute("aria-posinset", str(number))
        expect(chosen).to_be_in_viewport()
        expect(chosen).to_contain_text(f"Call {number - 1}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_both_schemes(scheme: Any, inspector: Open) -> None:
    page = inspector(viewport={"width": 400, "height": 800}, color_scheme=scheme)
    page.locator(".row").first.click()
    expect(page.locator(".list")).to_be_hidden()
    for view in ("Sessions", "Compare", "Calls"):
        page.get_by_role("navigation").get_by_role("button", name=view).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
    expect(page.locator(".list")).to_be_visible()


def test_nothing_of_a_hostile_agent_runs_or_is_fetched(own_desk: Desk, look: Open) -> None:
    info = {"name": "<script>", "version": "1"}
    answers: dict[str, list[Any]] = {
        "initialize": [{"id": "$id", "result": {"protocolVersion": 1, "agentInfo": info}}],
        "session/new": [{"id": "$id", "result": {"sessionId": "evil"}}],
        "session/prompt": [
            *(
                {"method": "session/update", "params": {"sessionId": "evil", "update": update}}
                for update in hostile_calls.updates()
            ),
            {"id": "$id", "result": {"stopReason": "end_turn"}},
        ],
    }
    steps: list[Any] = []
    for method, lines in answers.items():
        steps += [["await", method], *(["say", {"jsonrpc": "2.0", **line}] for line in lines)]
    script = own_desk.project / "steps.json"
    script.write_text(json.dumps([*steps, ["await", "nothing"]]))
    tap = [*CALLSHEET, "tap", "--", *puppet()[:-1], f"@{script}"]
    own_desk.beside(own_desk.talk("Do your worst", command=tap)).result(60)
    page = look(own_desk.start())
    count = hostile_calls.CALLS
    expect(page.locator(".row")).to_have_count(count)
    for number in range(count):
        page.locator(".row").nth(number).click()
        expect(page.get_by_role("tablist")).to_be_visible()
        hostile_calls.look_at_everything(page)
    page.get_by_role("button", name="Open session").click()
    expect(page.locator(".timeline .bar")).to_have_count(count)
    assert page.title() == "callsheet"


def test_a_list_that_can_not_be_read_says_why(inspector: Open) -> None:
    page = inspector(errors=("503",))
    expect(page.locator(".row")).to_have_count(8)
    why = {"error": "The history is too slow."}
    page.route("**/api/calls?*", lambda route: route.fulfill(status=503, json=why))
    page.locator("#search").fill("kind:edit")
    expect(page.get_by_role("alert")).to_have_text("The history is too slow.")
    page.unroute_all()
    expect(page.locator("form output")).to_have_text("1 of 8")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_page_without_the_token_says_what_to_do(desk: Desk, opened: Open) -> None:
    assert desk.server is not None
    page = opened(desk.server.url.partition("#")[0], errors=("401",))
    expect(page.get_by_role("alert").first).to_contain_text("Open the address that callsheet ui")


def test_a_lost_connection_is_shown_and_comes_back(own_desk: Desk, look: Open) -> None:
    token = own_desk.project / "token"
    token.write_text("t" * 40)
    token.chmod(0o600)
    own_desk.beside(own_desk.talk(PROMPTS[0])).result(60)
    first = own_desk.start("--token-file", str(token))
    page = look(first, errors=("ERR_", "500"))  # 500: it ends while it answers
    expect(page.locator(".link")).to_have_text("live")
    first.end()
    expect(page.get_by_role("alert")).to_contain_text("connection to callsheet ui is lost")
    own_desk.start("--token-file", str(token), "--port", str(first.port))
    expect(page.locator(".link")).to_have_text("live", timeout=20_000)
    expect(page.get_by_role("alert")).to_have_count(0)
