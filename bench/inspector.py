"""The web inspector on a hundred thousand calls, and while a thousand more come in every second.

The server is a real process, asked as the page asks it. The live calls are those of a real session in another
process, which stores them in the same history; in the end, every one of them must be there. The browser is
the machine's Chromium, and its own entries say how long it was busy.

    python -m bench.inspector URL RATE SECONDS

is that other process: it prints the ids of its calls.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from statistics import quantiles
from time import perf_counter, sleep
from typing import Any

from tests.support.inspector import InspectorProcess
from tests.support.processes import rss_mb

from callsheet import Session
from callsheet.history import History, store_at

from . import mix
from .history_lookup import fill
from .table import Claim, Figures, Subject

CALLS = 100_000
ASKED = 400
RATE, SECONDS = 1000, 30
WINDOW = 60
LIST_MS, FILTER_MS, FIRST_MS = 200.0, 200.0, 500.0
GROWTH_MB = 30.0
LONG_TASK_MS = 200.0
FILTERS = (
    "tool:bash", "status:failed", "kind:read dur>5ms", "dur<10ms", "size>2kB -tool:bash", "text:test",
    "path:test tool:read", '"import os"', "-text:assert", "is:repaired", "session:00001", "id:ab1",
)  # fmt: skip

_WATCH = """
window.busy = []; window.shown = null;
new PerformanceObserver((list) => busy.push(...list.getEntries().map((one) => one.duration)))
  .observe({ type: "longtask", buffered: true });
new MutationObserver(() => {
  const row = document.querySelector(".row:not(.skeleton) .title");
  if (row && window.shown === null) window.shown = performance.now();
}).observe(document, { childList: true, subtree: true });
"""


def measure() -> Subject:
    """Fill a history, and look at it."""
    rows: list[tuple[str, str, str]] = []
    kept: Figures = {}
    with tempfile.TemporaryDirectory(prefix="callsheet-bench-") as place:
        url = f"sqlite:///{place}/history.sqlite"
        _fill(url)
        ui = InspectorProcess(url, XDG_STATE_HOME=place)
        try:
            claims, notes = _measure(ui, url, rows, kept)
        finally:
            ui.end()
    return Subject("The web inspector", ("", "p50", "p95"), rows, claims, notes, kept)


def _fill(url: str) -> None:
    store = store_at(url)
    store.open()
    fill(store, mix.templates(), CALLS)
    while store.index(2000):
        pass
    store.close()


def _measure(
    ui: InspectorProcess, url: str, rows: list[tuple[str, str, str]], kept: Figures
) -> tuple[list[Claim], list[str]]:
    _times(ui, ("", *FILTERS), 40)
    before = rss_mb(ui.process.pid)
    claims: list[Claim] = []
    for name, filters, limit in (
        (f"a list of {WINDOW} of {CALLS:,} calls, anywhere", ("",), LIST_MS),
        ("the same, filtered", FILTERS, FILTER_MS),
    ):
        p50, p95 = _shares(_times(ui, filters, ASKED))
        rows.append((name, f"{p50:.1f} ms", f"{p95:.1f} ms"))
        claims.append(Claim(f"{name}, p95", p95, limit, unit=" ms"))
        kept[name] = {"p50_ms": round(p50, 2), "p95_ms": round(p95, 2)}
    browser = _Browser(ui.url)
    try:
        first = browser.first_list_ms()
        live, missing, states = _live(ui, url)
        longest, busy = browser.busy_ms()
    finally:
        browser.close()
    p50, p95 = _shares(live)
    rows.append((f"a list while {RATE:,} calls a second come", f"{p50:.1f} ms", f"{p95:.1f} ms"))
    grown = rss_mb(ui.process.pid) - before
    name = f"calls of {RATE * SECONDS:,} that are not shown in the end"
    claims += [
        Claim(name, missing, 0, unit=""),
        Claim("the server's memory, after all of it", grown, GROWTH_MB, unit=" MB more"),
    ]
    kept |= {
        "live_missing": missing,
        "live_list_p95_ms": round(p95, 2),
        "grown_mb": round(grown, 1),
    }
    notes = [f"{states:,} events in {SECONDS} s; the server held {before:.0f} MB before"]
    if first is None:
        return claims, [*notes, "the browser is left out: there is no Chromium on this machine"]
    kept |= {
        "first_list_ms": round(first),
        "longest_task_ms": round(longest),
        "busy_ms": round(busy),
    }
    claims += [
        Claim("first list on screen after the load event", first, FIRST_MS, unit=" ms"),
        Claim("the page's longest task while calls come", longest, LONG_TASK_MS, unit=" ms"),
    ]
    return claims, [
        *notes,
        f"tasks of over 50 ms took {busy / 1e3:.1f} s of {SECONDS} s in the page",
    ]


def _times(ui: InspectorProcess, filters: tuple[str, ...], count: int) -> list[float]:
    pick, took = random.Random(count), list[float]()
    for number in range(count):
        where = pick.choice((-WINDOW, pick.randrange(CALLS)))
        begun = perf_counter()
        ui.get("calls", filter=filters[number % len(filters)], offset=where, limit=WINDOW)
        took.append((perf_counter() - begun) * 1e3)
    return took


def _shares(took: list[float]) -> tuple[float, float]:
    shares = quantiles(took, n=100)
    return shares[49], shares[94]


# Live


def _live(ui: InspectorProcess, url: str) -> tuple[list[float], int, int]:
    """Let a process make calls while they are looked at.

    Return how long lists took, how many calls are missing in the end, and how many events came.
    """
    command = [sys.executable, "-m", "bench.inspector", url, str(RATE), str(SECONDS)]
    took, states = list[float](), 0
    before = ui.get("calls", limit=0)["total"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=mix.ROOT) as writer:
        assert writer.stdout is not None
        made: list[str] = []
        reading = threading.Thread(target=lambda: made.extend(writer.stdout.read().split()))  # pyright: ignore
        reading.start()
        with ui.events() as wait_for:
            while ui.get("calls", limit=0)["total"] < before + RATE * SECONDS:
                wait_for(lambda _: True)
                states += 1
                begun = perf_counter()
                ui.get("calls", offset=-WINDOW, limit=WINDOW)
                took.append((perf_counter() - begun) * 1e3)
                if writer.poll() is not None:
                    break
        reading.join()
    shown = set[str]()
    for offset in range(before, before + len(made), 200):
        page = ui.get("calls", offset=offset, limit=200)["calls"]
        shown |= {row["id"] for row in page if row["status"] == "completed"}
    return took, RATE * SECONDS - len(shown.intersection(made)), states


async def _write(url: str, rate: int, seconds: int) -> None:
    """Make calls at a steady rate, and store them."""
    ids: list[str] = []
    async with (
        History(url) as history,
        Session("sess_live", sinks=[history.session("sess_live", cwd="/")]) as session,
    ):
        begun = perf_counter()
        while len(ids) < rate * seconds:
            due = min(rate * seconds, int((perf_counter() - begun) * rate) + 1)
            for number in range(len(ids), due):
                async with session.call("read", {"path": f"src/part{number}.py"}) as call:
                    call.succeed(f"line of part {number}")
                ids.append(call.id)
            await asyncio.sleep(0.005)
    print("\n".join(ids))


# The browser


class _Browser:
    """Chromium with the page open; without Chromium, nothing."""

    def __init__(self, url: str) -> None:
        self._playwright: Any = None
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        with suppress(ImportError):
            from playwright.sync_api import sync_playwright

            if found is not None:
                self._playwright = sync_playwright().start()
                options = {"executable_path": found, "args": ["--no-sandbox"]}
                self._page = self._playwright.chromium.launch(**options).new_page()
                self._page.add_init_script(_WATCH)
                self._page.goto(url)

    def first_list_ms(self) -> float | None:
        """Return how long after the load event the first calls were there."""
        if self._playwright is None:
            return None
        # `wait_for_function` would evaluate a text in the page, which its policy forbids.
        while self._page.evaluate("window.shown") is None:
            sleep(0.05)
        ms = "shown - performance.getEntriesByType('navigation')[0].loadEventEnd"
        first = max(0.0, self._page.evaluate(ms))
        self._page.evaluate("busy.length = 0")
        return first

    def busy_ms(self) -> tuple[float, float]:
        """Return how long the longest task was, and all tasks of over 50 ms."""
        if self._playwright is None:
            return 0.0, 0.0
        sleep(1)
        last = f"part{RATE * SECONDS - 1}.py"
        if not self._page.evaluate(f"document.body.innerText.includes('{last}')"):
            raise RuntimeError(f"the page does not show the last call, which reads {last}")
        busy = self._page.evaluate("busy") or [0.0]
        return max(busy), sum(busy)

    def close(self) -> None:
        """Close the browser."""
        if self._playwright is not None:
            self._page.context.browser.close()
            self._playwright.stop()


if __name__ == "__main__":
    os.environ["CALLSHEET_HISTORY"] = "off"  # but for the one that is named
    asyncio.run(_write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
