"""A real browser, the machine's Chromium, driven by Playwright; and pages in it that must not misbehave."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

Open = Callable[..., Page]

VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, without a window. Where there is none, tests are skipped; in CI they fail.

    While it runs, its event loop does: tests of other modules have their own.
    """
    found = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if found is None:
        reason = "no Chromium on this machine: apt-get install chromium"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=found, args=args)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Open an address. What it asks of anybody else, every error of its script and every violation of its policy fails the test.

    `allow` is the beginning of the addresses that it may ask for, `errors` what it may say on the console.
    """
    pages: list[Page] = []
    troubles: list[str] = []

    def open_(url: str, allow: str = "", errors: tuple[str, ...] = (), **options: Any) -> Page:
        size = {"width": 1280, "height": 800}
        context = browser.new_context(**{"viewport": size, **options})
        context.add_init_script(VIOLATIONS)
        page = context.new_page()
        allowed = (allow or url.partition("#")[0], "data:", "blob:")

        def asked(request: Any) -> None:
            if not request.url.startswith(allowed):
                troubles.append(f"it asked for {request.url}")

        def said(message: Any) -> None:
            if message.type == "error" and not any(one in message.text for one in errors):
                troubles.append(message.text)

        page.on("request", asked)
        page.on("console", said)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.goto(url)
        pages.append(page)
        return page

    yield open_
    for page in pages:
        troubles += page.evaluate("window.violations")
        page.context.close()
    assert troubles == []


def titles(page: Page) -> list[str]:
    """Return the titles of the calls that are drawn."""
    return page.locator(".row .title").all_inner_texts()
