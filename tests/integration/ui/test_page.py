"""The page of `callsheet view -o`, in a real browser without a network: how it is used, and what can't be done to it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support import ROOT
from tests.support.shells import CALLSHEET

KIMI = ROOT / "tests" / "recordings" / "kimi-cli-1.51.0.mixed-none.jsonl"
Open = Callable[..., Page]


def made(recording: Path, page: Path, *options: str) -> Path:
    """Make a page of a recording."""
    done = subprocess.run(
        [*CALLSHEET, "view", str(recording), "-o", str(page), *options],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return page


@pytest.fixture(scope="module")
def kimi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(KIMI, tmp_path_factory.mktemp("page") / "kimi.html", "--before")


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Open a page without a network. Whatever it asks for, and every error of its script, fails the test."""
    pages: list[Page] = []
    troubles: list[str] = []

    def open_(file: Path, mark: str = "", **options: Any) -> Page:
        size = {"width": 1280, "height": 800}
        context = browser.new_context(**{"viewport": size, "offline": True, **options})
        page = context.new_page()
        page.on("request", lambda asked: _note(asked.url, file))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on(
            "console", lambda said: troubles.append(said.text) if said.type == "error" else None
        )
        page.goto(f"file://{file}{mark}")
        pages.append(page)
        return page

    def _note(url: str, file: Path) -> None:
        if not (url.startswith((f"file://{file}", "data:", "blob:"))):
            troubles.append(f"it asked for {url}")

    yield open_
    for page in pages:
        page.context.close()
    assert troubles == []


def rows(page: Page) -> list[str]:
    return page.locator(".row .title").all_inner_texts()


def test_it_is_small_and_lists_every_call(kimi: Path, opened: Open) -> None:
    assert kimi.stat().st_size < 300_000
    page = opened(kimi)
    expect(page.locator("h1")).to_have_text("Kimi Code CLI 1.51.0")
    expect(page.locator(".row")).to_have_count(11)
    assert rows(page)[0] == "Reading README.md"


def test_a_filter_narrows_the_list_and_says_what_it_does_not_understand(
    kimi: Path, opened: Open
) -> None:
    page = opened(kimi)
    for query, count in {
        "status:failed": 1,
        "kind:execute -status:failed": 2,
        "path:src/app.py": 3,
        'text:"about to fail"': 1,
        "dur>100ms kind:edit": 2,
        "is:asked": 5,
        "reading": 4,
        "nothing at all": 0,
    }.items():
        page.locator("#search").fill(query)
        expect(page.locator("form output")).to_have_text(f"{count} of 11")
    page.locator("#search").fill("colour:red dur>soon")
    expect(page.locator("form .bad")).to_have_text("not understood: colour:red dur>soon")


def test_a_call_shows_before_and_after_its_diff_its_data_its_frames_and_findings(
    kimi: Path, opened: Open
) -> None:
    page = opened(kimi)
    page.locator(".row", has_text="Editing src/app.py").click()
    expect(page.locator(".sides h4").nth(0)).to_contain_text("StrReplaceFile: src/app.py")
    expect(page.locator(".sides h4").nth(1)).to_contain_text("Editing src/app.py")
    expect(page.locator(".diff .gone").first).to_contain_text('return "hello"')
    expect(page.locator(".diff .new").first).to_contain_text('return "hello, world"')
    expect(page.locator(".timing")).to_contain_text("allowed (Approve once)")
    page.get_by_role("tab", name="data").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("path: ")
    page.get_by_role("tab", name="frames").click()
    expect(page.locator(".frames h3").nth(0)).to_contain_text("before")
    page.locator(".frames summary").first.click()
    expect(page.locator(".frames").first).to_contain_text("sessionUpdate")
    page.get_by_role("tab", name="findings").click()
    expect(page.locator(".findings")).to_contain_text("complete/title")
    expect(page.locator(".findings")).to_contain_text("Fix: ")


def test_the_keyboard_is_enough_and_the_address_leads_back(kimi: Path, opened: Open) -> None:
    page = opened(kimi)
    expect(page.locator(".row")).to_have_count(11)
    for key in "jjk":
        page.keyboard.press(key)
    expect(page.locator('.row[aria-selected="true"] .title')).to_have_text("Reading README.md")
    page.keyboard.press("3")
    expect(page.get_by_role("tab", name="frames")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("kind:read")
    expect(page.locator("form output")).to_have_text("4 of 11")
    again = opened(kimi, "#" + page.url.partition("#")[2])
    expect(again.locator("article h2")).to_contain_text("Reading README.md")
    expect(again.get_by_role("tab", name="frames")).to_have_attribute("aria-selected", "true")


def test_the_timeline_has_a_bar_for_each_call_and_replays(kimi: Path, opened: Open) -> None:
    page = opened(kimi)
    expect(page.locator(".timeline .bar")).to_have_count(11)
    page.locator(".timeline .bar.failed").click()
    expect(page.locator("article h2")).to_contain_text("exit 3")
    page.locator(".scrubber input").fill("300")
    count = page.locator(".row").count()
    assert 0 < count < 11
    expect(page.locator(".row").last.locator(".mark")).not_to_have_attribute(
        "aria-label", "completed"
    )
    page.locator(".scrubber input").fill("1000")
    expect(page.locator(".row")).to_have_count(11)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_system_and_fits_a_phone(scheme: Any, kimi: Path, opened: Open) -> None:
    phone = {"width": 400, "height": 800}
    page = opened(kimi, color_scheme=scheme, viewport=phone)
    page.locator(".row").first.click()
    expect(page.locator(".detail")).to_be_visible()
    expect(page.locator(".list")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
    page.locator(".back").click()
    expect(page.locator(".list")).to_be_visible()


# Hostile recordings

HOSTILE = [
    "<script>document.title = 'run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "</script><script>document.title = 'run'</script>",
    "[click](javascript:document.title='run') ![x](https://example.org/a.png)",
    '<svg onload="document.title=\'run\'"><a href="https://example.org">x</a></svg>',
    "\x1b]0;run\x07\x1b[2J\x1b[31mred\x1b[0m\u202egnp.exe",
    "x" * 1_000_000,
]


def test_nothing_that_an_agent_writes_runs_or_is_fetched(tmp_path: Path, opened: Open) -> None:
    lines: list[str] = []
    for number, text in enumerate(HOSTILE):
        content = [{"type": "content", "content": {"type": "text", "text": text}}]
        link = {"type": "resource_link", "uri": "https://example.org/x", "name": text[:100]}
        svg = {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"}
        content += [{"type": "content", "content": block} for block in (link, svg)]
        fields = {
            "title": text,
            "kind": "execute",
            "rawInput": {text[:50]: text},
            "content": content,
        }
        update = {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "status": "completed"}
        params = {"sessionId": "s", "update": {**update, **fields}}
        lines.append(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    recording = tmp_path / "</title><script>alert(1)</script>.jsonl".replace("/", "_")
    recording.write_text("\n".join(lines))
    page = opened(made(recording, tmp_path / "page.html"))
    title = page.title()
    for number in range(len(HOSTILE)):
        page.locator(".row").nth(number).click()
        for name in ("card", "data", "frames", "findings"):
            page.get_by_role("tab", name=re.compile(name)).click()
    assert page.title() == title
    assert page.locator("article a, article script, article svg").count() == 0
    assert "\x1b" not in page.locator("body").inner_text()


def test_a_page_whose_data_is_broken_says_so(kimi: Path, tmp_path: Path, opened: Open) -> None:
    broken = tmp_path / "broken.html"
    text = kimi.read_text()
    broken.write_text(re.sub(r'(id="data">.{40})', r"\1AAAA", text))
    expect(opened(broken).get_by_role("alert")).to_contain_text("can't be read")
