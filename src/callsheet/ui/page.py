"""One HTML page that holds a trace and everything to look at it. It opens from a file, without a network.

The data is packed into the page, and nothing of it is part of the markup. The page's own policy allows only
the script and the style whose hashes it names, and no connection anywhere: what an agent wrote can neither
run nor fetch.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from hashlib import sha256
from html import escape
from importlib.resources import files

import msgspec

from callsheet.ui.trace import Trace, paired

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16' fill='none' "
    "stroke='%232f81f7' stroke-width='1.6'%3E%3Cpath "
    "d='M3 1.6h10v12.8H3zM5.6 4.8h4.8M5.6 8h4.8M5.6 11.2h2.4'/%3E%3C/svg%3E"
)
"""The icon of the tab, so that none is asked for."""


def page_of(trace: Trace, before: Trace | None = None) -> bytes:
    """Return the page.

    Args:
        trace: What is shown.
        before: The same recording as the agent sent it, to be shown beside it.
    """
    if before is not None:
        places = {id(call): place for place, call in enumerate(before.calls)}
        for old, call in paired(before, trace):
            if old is not None and call is not None:
                call.original = places[id(old)]
    data = msgspec.json.encode({"trace": trace, "before": before})
    packed = b64encode(gzip.compress(data, mtime=0)).decode()
    script, style = _static("app.js"), _static("style.css")
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    title = escape(f"{trace.agent or 'calls'} · {trace.source}")
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta http-equiv="x-dns-prefetch-control" content="off">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="{ICON}">
<style>{style}</style>
<div id="app"></div>
<script type="text/plain" id="data">{packed}</script>
<script>{script}</script>
</html>
""".encode()


def _static(name: str) -> str:
    return (files("callsheet.ui") / "static" / name).read_text(encoding="utf-8").rstrip("\n")


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
