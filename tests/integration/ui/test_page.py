"""The page of `callsheet view -o`, in a real browser without a network: how it is used, and what can't be done to it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.ui import hostile_calls
from tests.integration.ui.conftest import Open, titles
from tests.support import ROOT
from tests.support.shells import CALLSHEET

KIMI = ROOT / "tests" / "recordings" / "kimi-cli-1.51.0.mixed-none.jsonl"


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
def offline(opened: Open) -> Callable[..., Page]:
    """Open a file without a network."""
    return lambda file, mark="", **options: opened(f"file://{file}{mark}", offline=True, **options)


def test_it_is_small_and_lists_every_call(kimi: Path, offline: Open) -> None:
    assert kimi.stat().st_size < 300_000
    page = offline(kimi)
    expect(page.locator("h1")).to_have_text("Kimi Code CLI 1.51.0")
    expect(page.locator(".row")).to_have_count(11)
    assert titles(page)[0] == "Reading README.md"


def test_a_filter_narrows_the_list_and_says_what_it_does_not_understand(
    kimi: Path, offline: Open
) -> None:
    page = offline(kimi)
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
    page.locator("#search").fill("colour:red dur>soon kind:read")
    expect(page.locator(".wrong li")).to_have_count(2)
    expect(page.locator(".wrong")).to_contain_text("colour:red: there is no colour")
    expect(page.locator("form output")).to_have_text("4 of 11")


def test_a_call_shows_before_and_after_its_diff_its_data_its_frames_and_findings(
    kimi: Path, offline: Open
) -> None:
    page = offline(kimi)
    expect(page.locator("header")).to_contain_text("72 findings before, 0 after")
    page.locator("#search").fill("kind:edit")
    page.locator(".row", has_text="Editing src/app.py").click()
    expect(page.locator(".sides h4").nth(0)).to_contain_text("StrReplaceFile: src/app.py")
    expect(page.locator(".sides h4").nth(1)).to_contain_text("Editing src/app.py")
    expect(page.locator(".diff .gone:not(.no)").first).to_contain_text('return "hello"')
    expect(page.locator(".diff .new:not(.no)").first).to_contain_text('return "hello, world"')
    expect(page.locator(".diff mark").last).to_have_text(", world")
    old, new = (page.locator(f".diff td.{name}:not(.no)").first for name in ("gone", "new"))
    assert old.bounding_box()["y"] < new.bounding_box()["y"], "one above the other: it is narrow"
    expect(page.locator(".timing")).to_contain_text("allowed (Approve once)")
    page.get_by_role("tab", name="Data").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("path: ")
    page.get_by_role("tab", name="Frames").click()
    expect(page.locator(".frames h3").nth(0)).to_contain_text("Before")
    page.locator(".frames summary").first.click()
    key, size = page.locator(".frame .branch summary").nth(1).locator("span").all()
    assert size.bounding_box()["x"] - key.bounding_box()["x"] < 200, "a size stands by its name"
    expect(page.locator(".frames").first).to_contain_text("sessionUpdate")
    page.get_by_role("tab", name="Findings").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("8 findings before, 0 after.")
    expect(page.locator(".findings")).to_contain_text("complete/title")
    expect(page.locator(".findings")).to_contain_text("Fix: ")
    page.get_by_role("tab", name="Timing").click()
    expect(page.locator(".phases")).to_contain_text("allowed (Approve once)")


def test_a_card_is_drawn_as_each_client_draws_it(kimi: Path, offline: Open) -> None:
    page = offline(kimi)
    page.locator("#search").fill("Glob")
    page.locator(".row").click()
    before, after = page.locator(".sides section").nth(0), page.locator(".sides section").nth(1)
    for client, told in {
        "Zed": "The title is read as Markdown",
        "Toad": "Raw input and raw output are ignored.",
        "acpx": "[tool] Finding files that match",
        "Plain": "It draws only title and status",
    }.items():
        page.get_by_role("radio", name=client).click()
        expect(after).to_contain_text(told)
    page.get_by_role("radio", name="acpx").click()
    expect(before).to_contain_text("The input has none of the keys that it prints")


def test_messages_and_prompts_are_part_of_the_story(offline: Open, tmp_path: Path) -> None:
    words = [
        {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "Hm."}},
        {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "**Done** `x`"},
        },
    ]
    ask = {"sessionId": "s", "prompt": [{"type": "text", "text": "Do it, please"}]}
    lines: list[dict[str, Any]] = [{"id": 1, "method": "session/prompt", "params": ask}]
    lines += [
        {"method": "session/update", "params": {"sessionId": "s", "update": one}} for one in words
    ]
    recording = tmp_path / "words.jsonl"
    recording.write_text("\n".join(json.dumps({"jsonrpc": "2.0", **one}) for one in lines))
    page = offline(made(recording, tmp_path / "words.html"))
    expect(page.locator(".note .title")).to_have_text(["Do it, please", "Hm.", "**Done** `x`"])
    expect(page.locator(".overview")).to_contain_text("The agent only wrote messages")
    page.locator(".note").last.click()
    expect(page.locator("article strong")).to_have_text("Done")
    page.get_by_role("checkbox", name="Messages").uncheck()
    expect(page.locator(".note")).to_have_count(0)


def test_the_keyboard_is_enough_and_the_address_leads_back(kimi: Path, offline: Open) -> None:
    page = offline(kimi)
    page.get_by_role("checkbox", name="Messages").uncheck()
    expect(page.locator(".row")).to_have_count(11)
    page.get_by_role("listbox").focus()
    for key in ("j", "ArrowDown", "k"):
        page.keyboard.press(key)
    chosen = page.locator('[aria-selected="true"] .title')
    expect(chosen).to_have_text("Reading README.md")
    active = page.get_by_role("listbox").get_attribute("aria-activedescendant")
    expect(page.locator(f"#{active} .title")).to_have_text("Reading README.md")
    page.keyboard.press("G")
    expect(chosen).to_contain_text("echo parallel-one")
    page.keyboard.press("g")
    page.keyboard.press("3")
    expect(page.get_by_role("tab", name="Frames")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("kind:read")
    expect(page.locator("form output")).to_have_text("4 of 11")
    again = offline(kimi, "#" + page.url.partition("#")[2])
    expect(again.locator("article h2")).to_contain_text("Reading README.md")
    expect(again.get_by_role("tab", name="Frames")).to_have_attribute("aria-selected", "true")
    again.locator("article h2").click()
    again.keyboard.press("Escape")
    expect(again.locator(".overview")).to_be_visible()


def test_the_timeline_has_a_bar_for_each_call_zooms_and_replays(kimi: Path, offline: Open) -> None:
    page = offline(kimi)
    page.get_by_role("checkbox", name="Messages").uncheck()
    bars = page.locator(".timeline .bar")
    expect(bars).to_have_count(11)
    page.locator(".timeline .bar.failed").click()
    expect(page.locator("article h2")).to_contain_text("exit 3")
    assert page.locator(".timeline .break").count() > 0  # the time before the first call
    width = bars.nth(4).bounding_box()
    page.get_by_role("button", name="Zoom in").click()
    zoomed = bars.first.evaluate_handle("bar => bar.closest('svg')")
    assert "zoomed" in zoomed.evaluate("svg => svg.getAttribute('class')")
    page.keyboard.press("0")
    expect(bars).to_have_count(11)
    assert bars.nth(4).bounding_box() == width
    page.get_by_label("Replay to a moment").fill("300")
    count = page.locator(".row").count()
    assert 0 < count < 11
    expect(page.locator(".row").last.locator("> .mark")).not_to_have_attribute(
        "aria-label", "completed"
    )
    assert bars.count() == count
    page.get_by_label("Replay to a moment").fill("1000")
    expect(page.locator(".row")).to_have_count(11)


def test_what_is_repaired_and_what_is_still_wrong_are_told_apart(
    offline: Open, tmp_path: Path
) -> None:
    recording = KIMI.with_name("fast-agent-0.10.48.mixed-none.jsonl")
    page = offline(made(recording, tmp_path / "page.html", "--before"))
    lists = page.locator(".rules")
    expect(page.locator(".overview h3")).to_contain_text(["What the tap repaired", "still wrong"])
    expect(lists.nth(0)).to_contain_text("lifecycle/never-ended")
    expect(lists.nth(1)).to_contain_text("complete/input")
    expect(lists.nth(1)).not_to_contain_text("lifecycle/never-ended")


def test_what_was_repaired_is_not_shown_as_if_the_agent_had_sent_it(
    offline: Open, tmp_path: Path
) -> None:
    better = tmp_path / "better.jsonl"
    recording = KIMI.with_name("fast-agent-0.10.48.mixed-none.jsonl")
    subprocess.run([*CALLSHEET, "repair", str(recording), "-o", str(better)], check=True)
    head = offline(made(better, tmp_path / "page.html")).locator(".session-head")
    expect(head).to_contain_text("calls repaired")
    expect(head).to_contain_text("5 had not ended")


def test_without_times_lines_are_not_taken_for_seconds(offline: Open, tmp_path: Path) -> None:
    bare = tmp_path / "bare.ndjson"
    messages = [json.loads(line)["msg"] for line in KIMI.read_text().splitlines()]
    bare.write_text("\n".join(map(json.dumps, messages)))
    page = offline(made(bare, tmp_path / "bare.html"))
    row = page.locator(".row", has_text="StrReplaceFile")
    expect(row.locator(".asked")).to_have_text("person")
    row.click()
    expect(page.locator(".timeline .when").first).to_contain_text("line")
    expect(page.locator(".timeline .break")).to_have_count(0)
    expect(page.locator(".timing, .facts")).not_to_contain_text([re.compile(r"\d m?s\b")] * 2)


def test_sub_agents_have_lanes_turns_their_plan_and_output_its_colours(
    offline: Open, tmp_path: Path
) -> None:
    plan = [{"content": "Look around", "status": "completed", "priority": "high"}]
    red = {"type": "text", "text": "\x1b[31mred\x1b[0m as it is"}
    calls = [
        ("t", "Exploring", {}, []),
        ("a", "Reading a", {"parentId": "t"}, [{"type": "content", "content": red}]),
        ("b", "Reading b", {"parentId": "t"}, []),
    ]
    updates: list[dict[str, Any]] = [{"sessionUpdate": "plan", "entries": plan}]
    for name, title, notes, content in calls:
        call = {"toolCallId": name, "title": title, "_meta": {"callsheet": notes}}
        updates.append({**call, "sessionUpdate": "tool_call", "status": "in_progress"})
        end = {"toolCallId": name, "status": "completed", "content": content}
        updates.append({**end, "sessionUpdate": "tool_call_update"})
    ask = {"sessionId": "s", "prompt": [{"type": "text", "text": "Explore"}]}
    lines: list[dict[str, Any]] = [{"id": 1, "method": "session/prompt", "params": ask}]
    lines += [
        {"method": "session/update", "params": {"sessionId": "s", "update": one}} for one in updates
    ]
    recording = tmp_path / "plan.jsonl"
    recording.write_text("\n".join(json.dumps({"jsonrpc": "2.0", **one}) for one in lines))
    page = offline(made(recording, tmp_path / "plan.html"))
    expect(page.locator(".timeline .group")).to_have_text("↳ Exploring")
    expect(page.locator(".row.child .title")).to_have_text(["↳ Reading a", "↳ Reading b"])
    expect(page.locator(".turn-row")).to_contain_text("plan 1/1")
    expect(page.locator(".plan li")).to_contain_text("Look around")
    page.locator(".row", has_text="Reading a").click()
    expect(page.locator(".terminal .fg1")).to_have_text("red")
    page.get_by_role("button", name="Replay the session").click()
    expect(page.locator(".timeline .bar")).not_to_have_count(3)
    page.get_by_role("button", name="Pause the replay").click()
    expect(page.get_by_role("button", name="Replay the session")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_system_and_fits_a_phone(scheme: Any, kimi: Path, offline: Open) -> None:
    phone = {"width": 400, "height": 800}
    page = offline(kimi, color_scheme=scheme, viewport=phone)
    page.locator(".row").first.click()
    expect(page.locator(".detail")).to_be_visible()
    expect(page.locator(".list")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
    page.locator(".back").click()
    expect(page.locator(".list")).to_be_visible()


def test_nothing_that_an_agent_writes_runs_or_is_fetched(tmp_path: Path, offline: Open) -> None:
    lines = [
        {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": one}}
        for one in hostile_calls.updates()
    ]
    recording = tmp_path / "</title><script>alert(1)</script>.jsonl".replace("/", "_")
    recording.write_text("\n".join(map(json.dumps, lines)))
    page = offline(made(recording, tmp_path / "page.html"))
    title = page.title()
    expect(page.locator(".row")).to_have_count(hostile_calls.CALLS)
    for number in range(hostile_calls.CALLS):
        page.locator(".row").nth(number).click()
        hostile_calls.look_at_everything(page)
    expect(page.locator(".terminal")).to_contain_text("end")
    page.locator(".turn-row").click()
    expect(page.locator(".plan li")).to_have_count(1)
    for moment in range(0, 1000, 100):
        page.get_by_label("Replay to a moment").fill(str(moment))
    page.get_by_label("Replay to a moment").fill("1000")
    page.locator("#search").fill("text:valueOf constructor:x")
    expect(page.locator(".wrong")).to_contain_text("there is no constructor")
    expect(page.locator(".row .title")).to_have_text(["not texts"])
    assert page.title() == title


def test_what_can_not_be_drawn_says_so_and_the_rest_is_drawn(kimi: Path, offline: Open) -> None:
    page = offline(kimi)
    page.add_init_script("""
        const trim = String.prototype.trim;
        String.prototype.trim = function () {
          if (this.startsWith("Editing")) throw new Error("no such word");
          return trim.call(this);
        };
    """)
    page.reload()
    page.get_by_role("checkbox", name="Messages").uncheck()
    expect(page.locator(".list .undrawn").first).to_have_text("This can't be drawn: no such word")
    expect(page.locator(".row, .list .undrawn")).to_have_count(11)
    page.locator(".row").first.click()
    expect(page.locator("article h2")).to_contain_text("Reading README.md")


def test_a_filter_has_at_most_a_hundred_words(kimi: Path, offline: Open) -> None:
    page = offline(kimi)
    for query in ("a " * 101, f'text:"{"a " * 101}"', "colour:red " * 101):
        page.locator("#search").fill(query)
        expect(page.locator(".wrong li")).to_contain_text(["a filter has at most 100 words"])
        expect(page.locator("form output")).to_have_text("11 of 11")


def test_a_page_whose_data_is_broken_says_so(kimi: Path, tmp_path: Path, offline: Open) -> None:
    broken = tmp_path / "broken.html"
    text = kimi.read_text()
    broken.write_text(re.sub(r'(id="data">.{40})', r"\1AAAA", text))
    expect(offline(broken).get_by_role("alert")).to_contain_text("can't be read")
