"""Calls of an agent that means harm: scripts, links, pictures, escapes and bidi marks, wherever a text can be.

And what is no text where one is expected, names that every object has, and texts that are slow to read.
"""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

TEXTS = [
    "<script>document.title = 'run'</script>",
    "<img src=x onerror=\"document.title='run'\">",
    "</script><script>document.title = 'run'</script>",
    "[click](javascript:document.title='run') ![x](https://example.org/a.png) **[y](data:text/html,x)**",
    '<svg onload="document.title=\'run\'"><a href="https://example.org">x</a></svg>',
    "\x1b]0;run\x07\x1b[2J\x1b[31mred\x1b[0m\x1b]8;;https://example.org\x07link\x1b]8;;\x07\u202egnp.exe",
    "```\n" + "[" * 50_000,
    "x" * 1_000_000,
    "`" * 32_000 + "x" * 32_000,
    "__proto__",
]
BAD = {"toString": 1, "valueOf": 1}
"""An object that JavaScript can't make a text or a number of."""

CALLS = len(TEXTS) + 3


def updates() -> list[dict[str, Any]]:
    """Return the `update` of each notification: one call for each text, and `CALLS` in all."""
    prompt = {"type": "text", "text": "Do your worst"}
    return [
        {"sessionUpdate": "user_message_chunk", "content": prompt},
        {"sessionUpdate": "plan", "entries": [None, 5, {"content": BAD, "status": BAD}]},
        {"sessionUpdate": "usage_update", "used": BAD, "size": BAD, "cost": {"amount": BAD}},
        *(_update(number, text) for number, text in enumerate(TEXTS)),
        *_not_texts(),
        {**_call("prototype", "__proto__"), "kind": "__proto__", "status": "__proto__"},
        *_overwritten(),
        {"sessionUpdate": "plan", "entries": [None]},
    ]


def _call(name: str, by: Any, **notes: Any) -> dict[str, Any]:
    permission = {"by": by, "outcome": by, "option": by, "scope": by, "waitedMs": by}
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": name,
        "title": name,
        "kind": "k" * 100_000,
        "status": "completed",
        "_meta": {"callsheet": {"permission": permission, **notes}},
    }


def _not_texts() -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [
        {"type": "text", "text": BAD},
        {"type": "resource_link", "uri": BAD, "title": BAD},
        {"type": "image", "mimeType": BAD, "data": BAD},
        {"type": "resource", "resource": {"uri": BAD, "text": "x"}},
    ]
    content = [
        *({"type": "content", "content": block} for block in blocks),
        {"type": "diff", "path": BAD, "oldText": BAD, "newText": BAD},
        {"type": "terminal", "terminalId": BAD},
        None,
    ]
    usage = {"cpuMs": BAD, "maxRssKb": BAD}
    call = _call("not texts", BAD, repaired="abc", usage=usage, reason=BAD, parentId=BAD)
    locations = [{"path": BAD, "line": BAD}, None]
    change = {"status": BAD, "title": BAD, "kind": BAD, "content": BAD, "locations": BAD}
    return [
        {**call, "content": content, "locations": locations, "rawInput": BAD, "rawOutput": BAD},
        {"sessionUpdate": "tool_call_update", "toolCallId": "not texts", **change},
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "not texts",
            "status": "completed",
            "title": "not texts",
            "content": content,
            "locations": locations,
        },
    ]


def _overwritten() -> list[dict[str, Any]]:
    """Return a call with one long line in its terminal, which is overwritten in the end."""
    content = [{"type": "terminal", "terminalId": "t"}]
    pieces = ["y" * 8000] * 59 + ["z" * 7000 + "\r\x1b[1Kend"]
    outputs = [{"terminal_output": {"terminal_id": "t", "data": piece}} for piece in pieces]
    change = {"sessionUpdate": "tool_call_update", "toolCallId": "overwritten"}
    return [
        {**_call("overwritten", "user"), "content": content},
        *({**change, "status": "completed", "_meta": output} for output in outputs),
    ]


def _update(number: int, text: str) -> dict[str, Any]:
    blocks = [
        {"type": "text", "text": text},
        {"type": "resource_link", "uri": "javascript:document.title='run'", "name": text[:100]},
        {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
        {"type": "image", "mimeType": "image/png", "data": '" onerror="x'},
        {"type": "image", "mimeType": "image/png", "uri": "https://example.org/a.png", "data": ""},
    ]
    diff = {"type": "diff", "path": text[:200], "oldText": text[:500], "newText": text[:400]}
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": f"c{number}",
        "status": "completed",
        "title": text,
        "kind": ["execute", "read", "edit"][number % 3],
        "rawInput": {text[:50]: text},
        "rawOutput": {"output": text[:1000]},
        "locations": [{"path": text[:200]}],
        "content": [*({"type": "content", "content": block} for block in blocks), diff],
    }


def look_at_everything(page: Page) -> None:
    """Open each tab of the call that is chosen, and its card as each client draws it."""
    for name in ("Data", "Frames", "Findings", "Timing", "Card"):
        page.get_by_role("tab", name=name).click()
    for name in ("Zed", "JetBrains", "Toad", "acpx", "Plain", "All of it"):
        page.get_by_role("radio", name=name).click()
    for more in page.locator(".terminal .more").all():
        more.click()
    expect(page.locator(".undrawn")).to_have_count(0)
    assert page.locator("article a, article script, article iframe").count() == 0
    text = page.locator("body").inner_text()
    assert "\x1b" not in text
    assert "\u202e" not in text
