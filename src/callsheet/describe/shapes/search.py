"""Shapes of tools that look for something: in files, by name, on the web."""

from __future__ import annotations

import re

from callsheet.describe import i18n as say
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
from callsheet.describe.paths import PathContext, some, to_line
from callsheet.describe.shapes import HALF_PATH_WIDTH, PATTERN_WIDTH, TEXT_WIDTH, DescriptionDraft
from callsheet.describe.titles import humanise
from callsheet.report.fields import ToolKind

_NARROWED = (
    "include",
    "include_pattern",
    "glob",
    "file_pattern",
    "filePattern",
    "files",
    "type",
    "file_mask",
)
_URL_IN_TEXT = re.compile(r"https?://[^\s<>\"'`)\]]+")
_SHOWN_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//(?:[^/?#@]*@)?([^?#]*)(\?[^#]*)?")


def search(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Search in files."""
    return _sought(arguments, workspace, PATTERN, (say.SEARCH, say.SEARCH_IN, say.SEARCH_BARE))


def find(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Find files by name."""
    return _sought(arguments, workspace, GLOB, (say.FIND, say.FIND_IN, say.FIND_BARE))


def _sought(
    arguments: Arguments,
    workspace: PathContext,
    keys: tuple[str, ...],
    messages: tuple[str, str, str],
) -> DescriptionDraft:
    alone, inside, bare = messages
    pattern = text_of(arguments, keys)
    shown, location = workspace.place(text_of(arguments, DIRECTORY), width=HALF_PATH_WIDTH)
    locations = some(location)
    if not pattern:
        return DescriptionDraft(bare, {}, locations)
    said = workspace.say(pattern, PATTERN_WIDTH)
    if not shown or shown == ".":
        narrowed = text_of(arguments, _NARROWED)
        shown = workspace.say(narrowed, HALF_PATH_WIDTH) if narrowed and narrowed != pattern else ""
    if not shown:
        return DescriptionDraft(alone, {"pattern": said}, locations)
    return DescriptionDraft(inside, {"pattern": said, "path": shown}, locations)


def web_search(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Search the web."""
    query = text_of(arguments, (*QUERY, *PATTERN))
    if not query:
        return DescriptionDraft(say.WEB_BARE)
    return DescriptionDraft(say.WEB, {"query": workspace.say(query, TEXT_WIDTH)})


def ask_index(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Search something that isn't files: tools, documents, conversations."""
    query = text_of(arguments, (*QUERY, *PATTERN))
    return (
        DescriptionDraft(say.SEARCH, {"pattern": workspace.say(query, TEXT_WIDTH)})
        if query
        else DescriptionDraft(say.SEARCH_BARE)
    )


def fetch(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Fetch from the web. The address may stand in a prompt."""
    url = text_of(arguments, URL)
    if not url:
        match = _URL_IN_TEXT.search(text_of(arguments, ("prompt", "query", "text", "input", "")))
        url = match[0] if match else ""
    kind, why = _more_than_fetching(arguments)
    if not url:
        return DescriptionDraft(say.FETCH_BARE, kind=kind, why=why)
    location = workspace.locate(url) if url[:5].lower() == "file:" else None
    return DescriptionDraft(say.FETCH, {"url": show_url(url, workspace)}, some(location), kind, why)


def _more_than_fetching(arguments: Arguments) -> tuple[ToolKind | None, str]:
    """Sending with POST, or clicking in a browser, does more than fetch."""
    for key, harmless in _FETCHING:
        if key in arguments:
            value = arguments[key]
            if value and not (isinstance(value, str) and value.lower() in harmless):
                return ToolKind.EXECUTE, f"its {key} does more than fetch"
    return None, ""


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
        return workspace.say(url, TEXT_WIDTH)
    place = match[1].rstrip("/") if not match[2] else match[1]
    return workspace.say(f"{place}{match[2] or ''}", TEXT_WIDTH) or workspace.say(url, TEXT_WIDTH)


def resource(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Read a resource of an MCP server."""
    uri = text_of(arguments, ("uri", "url", "resource", "path", "name"))
    if not uri:
        return DescriptionDraft(say.RESOURCE_BARE)
    location = workspace.locate(uri) if uri[:5].lower() == "file:" else None
    return DescriptionDraft(say.RESOURCE, {"uri": workspace.say(uri, TEXT_WIDTH)}, some(location))


def language_server(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Ask a language server; the operation names what for."""
    path = text_of(arguments, PATH)
    operation = humanise(text_of(arguments, ("operation", "action", "method")))
    if not path or not operation:
        return DescriptionDraft(say.SEARCH_BARE)
    shown, location = workspace.place(path, to_line(arguments.get("line")))
    said = workspace.say(operation, PATTERN_WIDTH)
    return DescriptionDraft(
        "{operation}: {path}", {"operation": said, "path": shown}, some(location)
    )


def resources(_: Arguments, __: PathContext) -> DescriptionDraft:
    """List the resources of MCP servers."""
    return DescriptionDraft(say.RESOURCES)
