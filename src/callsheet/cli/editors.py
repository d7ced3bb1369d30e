"""The editors that speak ACP and the agents that people use in them: where they are, how they are set up.

Zed and JetBrains have their agents in a JSON file, under `agent_servers`. Such a file belongs to its user,
and may have comments: `with_entry` puts one entry into it and leaves every other byte as it was. Neovim's
settings are a program, so there is only text to paste.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from callsheet.report.errors import CallsheetError

SERVERS = "agent_servers"


class BadSettingsFile(CallsheetError):
    """An editor's settings can't be read, or have something else where agents are."""


class AcpAgent(NamedTuple):
    """An agent that people tap: its name, the program that must be there, and its arguments."""

    title: str
    program: str
    arguments: tuple[str, ...] = ()


AGENTS: Mapping[str, AcpAgent] = {
    "claude": AcpAgent("Claude", "npx", ("-y", "@agentclientprotocol/claude-agent-acp")),
    "codex": AcpAgent("Codex", "npx", ("-y", "@zed-industries/codex-acp")),
    "copilot": AcpAgent("Copilot", "copilot", ("--acp",)),
    "fast-agent": AcpAgent("fast-agent", "fast-agent-acp"),
    "gemini": AcpAgent("Gemini", "gemini", ("--acp",)),
    "goose": AcpAgent("Goose", "goose", ("acp",)),
    "kimi": AcpAgent("Kimi", "kimi", ("acp",)),
    "opencode": AcpAgent("OpenCode", "opencode", ("acp",)),
    "qwen": AcpAgent("Qwen", "qwen", ("--acp",)),
}


class Editor(NamedTuple):
    """An editor: its name, the programs that show that it is there, and its settings if these are JSON."""

    title: str
    programs: tuple[str, ...]
    file: tuple[str, ...] = ()
    fields: Mapping[str, str] = {}
    """What an entry has beside the command."""

    def settings(self) -> Path | None:
        """Return the file of its settings, whether it exists or not."""
        return Path.home().joinpath(*self.file) if self.file else None


_JETBRAINS = ("idea", "pycharm", "webstorm", "goland", "clion", "rustrover", "phpstorm", "rider")
EDITORS: Mapping[str, Editor] = {
    "zed": Editor(
        "Zed", ("zed", "zeditor"), (".config", "zed", "settings.json"), {"type": "custom"}
    ),
    "jetbrains": Editor("JetBrains", _JETBRAINS, (".jetbrains", "acp.json")),
    "neovim": Editor("Neovim", ("nvim",)),
}


def callsheet_command() -> list[str]:
    """Return the command that starts callsheet: by its whole path, since editors may have another PATH."""
    beside = Path(sys.executable).with_name("callsheet")
    found = str(beside) if beside.exists() else shutil.which("callsheet")
    return [found] if found else [sys.executable, "-m", "callsheet"]


# JSON with comments


_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<gap>\s+|//[^\n]*|/\*.*?\*/)|(?P<mark>[{}\[\]:,])|(?P<word>[^\s{}\[\]:,"/]+)',
    re.DOTALL,
)


class Token(NamedTuple):
    """A piece of JSON that is neither space nor comment: where it begins, where it ends, and the text."""

    begin: int
    end: int
    text: str


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            line = text.count("\n", 0, place) + 1
            raise BadSettingsFile(f"line {line} is no JSON: {text[place : place + 20]!r}")
        if match.lastgroup != "gap":
            yield Token(place, match.end(), match[0])
        place = match.end()


def parsed(text: str) -> object:
    """Return what JSON with comments and trailing commas says. Raise `BadSettingsFile`."""
    kept: list[str] = []
    for token in _tokens(text):
        if token.text in "]}" and kept[-1:] == [","]:
            kept.pop()
        kept.append(token.text)
    try:
        return json.loads(" ".join(kept) or "{}")
    except ValueError as exc:
        raise BadSettingsFile(f"it is no JSON: {exc}") from None


def with_entry(text: str, name: str, entry: object) -> str:
    """Return settings with an agent in them; one of the same name is replaced.

    Args:
        text: JSON, with or without comments; empty for a new file.
        name: The agent's name.
        entry: What the editor needs to know of it.

    Raises:
        BadSettingsFile: The text is no JSON, or `agent_servers` in it is no object.
    """
    whole = parsed(text)
    if not isinstance(whole, dict):
        raise BadSettingsFile("it has no object at its top")
    servers = whole.get(SERVERS, {})  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(servers, dict):
        raise BadSettingsFile(f"{SERVERS} is no object")
    if not text.strip():
        text = "{\n}\n"
    tokens = list(_tokens(text))
    top = 0
    if SERVERS not in whole:
        return _inserted(text, tokens, top, SERVERS, {name: entry}, depth=1)
    inside = _value_of(tokens, top, SERVERS)
    if name not in servers:
        return _inserted(text, tokens, inside, name, entry, depth=2)
    old = _value_of(tokens, inside, name)
    made = _lines(entry, 2)
    return text[: tokens[old].begin] + made + text[tokens[_end(tokens, old)].end :]


def _value_of(tokens: list[Token], opened: int, key: str) -> int:
    """Return the token at which the value of a key begins, in the object that a token opens."""
    place = opened + 1
    found = -1
    while tokens[place].text != "}":
        if json.loads(tokens[place].text) == key:
            found = place + 2  # the last one counts, as in JSON
        place = _end(tokens, place + 2) + 1
        if tokens[place].text == ",":
            place += 1
    return found


def _end(tokens: list[Token], begin: int) -> int:
    """Return the last token of the value that begins at a token."""
    depth, place = 0, begin
    while True:
        depth += (tokens[place].text in "{[") - (tokens[place].text in "}]")
        if depth == 0:
            return place
        place += 1


def _inserted(
    text: str, tokens: list[Token], opened: int, key: str, value: object, *, depth: int
) -> str:
    """Return the text with a key as the first of the object that a token opens."""
    place = tokens[opened].end
    is_empty = tokens[opened + 1].text == "}"
    indent = "  " * depth
    made = f"\n{indent}{json.dumps(key, ensure_ascii=False)}: {_lines(value, depth)}"
    rest = text[place:]
    if is_empty:
        gap = "" if "\n" in rest.partition("}")[0] else "\n" + "  " * (depth - 1)
        return text[:place] + made + gap + rest
    return text[:place] + made + "," + rest


def _lines(value: object, depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + "  " * depth)
