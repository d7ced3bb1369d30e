"""The editors that speak ACP and the agents that people use in them: where they are, how they are set up.

Zed and JetBrains have their agents in a JSON file, under `agent_servers`. Such a file belongs to its user,
and may have comments: `with_entry` puts one entry into it and leaves every other byte as it was. Neovim's
settings are a program, so there is only text to paste.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from callsheet.cli.options import SCRIPTS
from callsheet.report.errors import CallsheetError
from callsheet.report.json import is_object

SERVERS = "agent_servers"
ADAPTER = "opencode"
"""CodeCompanion's adapter for an agent that it does not know: the one that asks for no sign-in."""

_BOM = "\ufeff"


class BadSettingsFile(CallsheetError):
    """An editor's settings can't be read, or have something else where agents are."""


class AcpAgent(NamedTuple):
    """An agent that people tap: its name, the program that must be there, and its arguments."""

    title: str
    program: str
    arguments: tuple[str, ...] = ()
    adapter: str = ADAPTER
    """CodeCompanion's adapter that knows how to sign in to it."""


AGENTS: Mapping[str, AcpAgent] = {
    "claude": AcpAgent(
        "Claude", "npx", ("-y", "@agentclientprotocol/claude-agent-acp"), "claude_code"
    ),
    "codex": AcpAgent("Codex", "npx", ("-y", "@zed-industries/codex-acp"), "codex"),
    "copilot": AcpAgent("Copilot", "copilot", ("--acp",), "copilot_acp"),
    "fast-agent": AcpAgent("fast-agent", "fast-agent-acp"),
    "gemini": AcpAgent("Gemini", "gemini", ("--acp",), "gemini_cli"),
    "goose": AcpAgent("Goose", "goose", ("acp",), "goose"),
    "kimi": AcpAgent("Kimi", "kimi", ("acp",), "kimi_cli"),
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
        if not self.file:
            return None
        own = os.environ.get("XDG_CONFIG_HOME", "") if sys.platform != "darwin" else ""
        if self.file[0] == ".config" and Path(own).is_absolute():
            return Path(own).joinpath(*self.file[1:])
        return Path.home().joinpath(*self.file)


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


def typed_callsheet() -> str:
    """Return how callsheet is started here: by its path, if it is not on PATH, as after `make run`."""
    if shutil.which("callsheet"):
        return "callsheet"
    program, *rest = callsheet_command()
    return " ".join((os.path.relpath(program), *rest))


def is_callsheet(command: Sequence[object]) -> bool:
    """Return whether a command starts callsheet: by its name, or as a module of Python."""
    return Path(str(command[0])).name.startswith("callsheet") or list(command[1:3]) == [
        "-m",
        "callsheet",
    ]


def tapped_program(command: Sequence[object]) -> str | None:
    """Return the program of the agent behind a tap; None if the command is no tap."""
    if not is_callsheet(command) or "tap" not in command or "--" not in command:
        return None
    behind = command[list(command).index("--") + 1 :]
    return str(behind[0]) if behind else None


def from_anywhere(argument: str) -> str:
    """Return an argument that names a file that is there, such as `FILE.py:CLASS`, by its whole path."""
    option, equals, value = argument.partition("=") if argument[:1] == "-" else ("", "", argument)
    path, colon, rest = os.path.expanduser(value).partition(":")  # noqa: PTH111 - it may be no path
    # A word such as `acp` is hardly meant as the file that happens to have that name.
    if (os.sep in path or "." in path) and os.path.isfile(path):  # noqa: PTH113
        return option + equals + os.path.abspath(path) + colon + rest  # noqa: PTH100 - links stay
    return argument


def missing_scripts(command: Sequence[object]) -> list[str]:
    """Return the scripts in a command that an editor, which has a directory of its own, would not find."""
    words = [str(word).rpartition("=")[2] for word in command]
    paths = [Path(word.partition(":")[0]) for word in words if "://" not in word]
    return [
        str(path)
        for path in dict.fromkeys(paths)
        if path.suffix in SCRIPTS and not (path.is_absolute() and path.is_file())
    ]


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


class Style(NamedTuple):
    """How a file is written: what a level is indented by, and what ends a line."""

    unit: str
    newline: str

    def lines(self, value: object, depth: int) -> str:
        """Return a value as it stands at a level."""
        made = json.dumps(value, indent=self.unit, ensure_ascii=False)
        return made.replace("\n", self.newline + self.unit * depth)


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            line = text.count("\n", 0, place) + 1
            raise BadSettingsFile(f"line {line} is not JSON: {text[place : place + 20]!r}")
        if match.lastgroup != "gap":
            yield Token(place, match.end(), match[0])
        place = match.end()


def parsed(text: str) -> object:
    """Return what JSON with comments and trailing commas says. Raise `BadSettingsFile`."""
    kept: list[Token] = []
    for token in _tokens(text.removeprefix(_BOM)):
        if token.text in "]}" and kept and kept[-1].text == ",":
            kept.pop()
        kept.append(token)
    try:
        return json.loads("\n".join(token.text for token in kept) or "{}")
    except json.JSONDecodeError as exc:
        # Each token stands in a line of its own there, so the line is the token's number.
        place = kept[exc.lineno - 1].begin if exc.lineno <= len(kept) else len(text)
        line = text.count("\n", 0, place) + 1
        raise BadSettingsFile(f"line {line} is not JSON: {exc.msg}") from None


def entry_in(text: str, name: str) -> object:
    """Return what settings have under an agent's name; None without it. Raise `BadSettingsFile`."""
    whole = parsed(text)
    servers = whole.get(SERVERS) if is_object(whole) else None
    return servers.get(name) if is_object(servers) else None


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
        raise BadSettingsFile(f"{SERVERS} is not an object")
    if servers.get(name) == entry:  # pyright: ignore[reportUnknownMemberType]
        return text
    mark = _BOM if text.startswith(_BOM) else ""
    return mark + _put(text.removeprefix(_BOM), name, entry)


def _put(text: str, name: str, entry: object) -> str:
    """Return settings with an agent in them, indented as they are."""
    tokens = list(_tokens(text))
    newline = "\r\n" if "\r\n" in text else "\n"
    if not tokens:  # an empty file, or one with comments only
        text = f"{text}{newline if text else ''}{{{newline}}}{newline}"
        tokens = list(_tokens(text))
    indented = re.search(r"^([ \t]+)[\"}]", text, re.MULTILINE)
    style = Style(indented[1] if indented else "  ", newline)
    servers = _value_of(tokens, 0, SERVERS)
    if servers < 0:
        return _inserted(text, tokens, 0, SERVERS, {name: entry}, style, depth=1)
    old = _value_of(tokens, servers, name)
    if old < 0:
        return _inserted(text, tokens, servers, name, entry, style, depth=2)
    made = style.lines(entry, 2)
    return text[: tokens[old].begin] + made + text[tokens[_end(tokens, old)].end :]


def _value_of(tokens: list[Token], opened: int, key: str) -> int:
    """Return the token at which a key's value begins, in the object that a token opens; -1 without it."""
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
    text: str,
    tokens: list[Token],
    opened: int,
    key: str,
    value: object,
    style: Style,
    *,
    depth: int,
) -> str:
    """Return the text with a key as the first of the object that a token opens."""
    place = tokens[opened].end
    is_empty = tokens[opened + 1].text == "}"
    before = style.newline + style.unit * depth
    made = f"{before}{json.dumps(key, ensure_ascii=False)}: {style.lines(value, depth)}"
    rest = text[place:]
    if is_empty:
        gap = "" if "\n" in rest.partition("}")[0] else style.newline + style.unit * (depth - 1)
        return text[:place] + made + gap + rest
    return text[:place] + made + "," + rest
