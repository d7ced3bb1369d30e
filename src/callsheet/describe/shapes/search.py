"""Shapes of tools that look for something: in files, by name, on the web."""

from __future__ import annotations

import re

from callsheet.describe.arguments import (
    DIRECTORY,
    GLOB,
    PATH,
    PATTERN,
    QUERY,
    URL,
    Arguments,
    text_of,
)
from callsheet.describe.i18n import N_
from callsheet.describe.paths import PathContext, some, to_line
from callsheet.describe.shapes import (
    HALF_PATH_WIDTH,
    PATTERN_WIDTH,
    TEXT_WIDTH,
    DescriptionDraft,
    Shape,
    fixed,
    quoting,
)
from callsheet.describe.titles import humanise
from callsheet.report.fields import ToolKind

_NARROWED = (
    *("include", "include_pattern", "glob", "file_pattern", "filePattern", "files", "type"),
    "file_mask",
)
_SEARCH = N_("Searching for '{pattern}'")
_SEARCH_BARE = N_("Searching")
_URL_IN_TEXT = re.compile(r"https?://[^\s<>\"'`)\]]+")
_SHOWN_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//(?:[^/?#@]*@)?([^?#]*)(\?[^#]*)?")


def _seeking(keys: tuple[str, ...], alone: str, inside: str, bare: str) -> Shape:
    """Return the shape of tools that look for a pattern in a directory."""

    def sought(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
        pattern = text_of(arguments, keys)
        shown, location = workspace.place(text_of(arguments, DIRECTORY), width=HALF_PATH_WIDTH)
        locations = some(location)
        if not pattern:
            return DescriptionDraft(bare, {}, locations)
        values: dict[str, str | int] = {"pattern": workspace.shorten(pattern, PATTERN_WIDTH)}
        if not shown or shown == ".":
            narrowed = text_of(arguments, _NARROWED)
            shown = workspace.shorten(narrowed, HALF_PATH_WIDTH) if narrowed != pattern else ""
        if not shown:
            return DescriptionDraft(alone, values, locations)
        return DescriptionDraft(inside, {**values, "path": shown}, locations)

    return sought


search = _seeking(PATTERN, _SEARCH, N_("Searching for '{pattern}' in {path}"), _SEARCH_BARE)
find = _seeking(
    GLOB,
    N_("Finding files that match '{pattern}'"),
    N_("Finding files that match '{pattern}' in {path}"),
    N_("Finding files"),
)
web_search = quoting(
    N_("Searching the web for '{query}'"), N_("Searching the web"), "query", (*QUERY, *PATTERN)
)
ask_index = quoting(_SEARCH, _SEARCH_BARE, "pattern", (*QUERY, *PATTERN))
resources = fixed(N_("Listing resources"))


def fetch(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Fetch from the web. The address may stand in a prompt."""
    url = text_of(arguments, URL)
    if not url:
        match = _URL_IN_TEXT.search(text_of(arguments, ("prompt", "query", "text", "input", "")))
        url = match[0] if match else ""
    kind = _more_than_fetching(arguments)
    if not url:
        return DescriptionDraft(N_("Fetching a web page"), kind=kind)
    location = workspace.locate(url) if url[:5].lower() == "file:" else None
    values: dict[str, str | int] = {"url": show_url(url, workspace)}
    return DescriptionDraft(N_("Fetching {url}"), values, some(location), kind)


def _more_than_fetching(arguments: Arguments) -> ToolKind | None:
    """Sending with POST, or clicking in a browser, does more than fetch."""
    for key, harmless in _FETCHING:
        value = arguments.get(key)
        if value and not (isinstance(value, str) and value.lower() in harmless):
            return ToolKind.EXECUTE
    return None


_FETCHING = (
    ("method", frozenset(("get", "head", "options"))),
    (
        "action",
        frozenset(("launch", "navigate", "goto", "open", "get", "fetch", "screenshot", "close")),
    ),
)


def show_url(url: str, workspace: PathContext) -> str:
    """Return a URL in its readable form: no scheme, no fragment, and never a user's name or password."""
    match = _SHOWN_URL.match(url.strip())
    if match is None:
        return workspace.shorten(url, TEXT_WIDTH)
    place = match[1].rstrip("/") if not match[2] else match[1]
    return workspace.shorten(f"{place}{match[2] or ''}", TEXT_WIDTH) or workspace.shorten(
        url, TEXT_WIDTH
    )


def resource(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Read a resource of an MCP server."""
    uri = text_of(arguments, ("uri", "url", "resource", "path", "name"))
    if not uri:
        return DescriptionDraft(N_("Reading a resource"))
    location = workspace.locate(uri) if uri[:5].lower() == "file:" else None
    values: dict[str, str | int] = {"uri": workspace.shorten(uri, TEXT_WIDTH)}
    return DescriptionDraft(N_("Reading the resource {uri}"), values, some(location))


def language_server(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Ask a language server; the operation names what for."""
    path = text_of(arguments, PATH)
    operation = humanise(text_of(arguments, ("operation", "action", "method")))
    if not path or not operation:
        return DescriptionDraft(_SEARCH_BARE)
    shown, location = workspace.place(path, to_line(arguments.get("line")))
    said = workspace.shorten(operation, PATTERN_WIDTH)
    return DescriptionDraft(
        "{operation}: {path}", {"operation": said, "path": shown}, some(location)
    )
