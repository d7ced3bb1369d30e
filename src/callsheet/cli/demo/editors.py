"""The lines that make an editor start this agent."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Setting(NamedTuple):
    """What is to be pasted where."""

    editor: str
    file: str
    text: str


def agent_command() -> list[str]:
    """Return the command that starts the agent of this installation, wherever an editor starts it."""
    program = Path(sys.argv[0])
    if program.stem == "callsheet":
        found = shutil.which(os.fspath(program.absolute()))
        if found is not None:
            return [found, "agent"]
    return [sys.executable, "-m", "callsheet", "agent"]


def settings(command: Sequence[str]) -> tuple[Setting, ...]:
    """Return the settings of the editors that are known."""
    program, args = command[0], list(command[1:])
    started: dict[str, object] = {"command": program, "args": args}
    lua = ", ".join(map(_text, args))
    return (
        Setting("Zed", "settings.json", _servers({"type": "custom", **started})),
        Setting("JetBrains", "~/.jetbrains/acp.json", _servers(started)),
        Setting(
            "Neovim",
            "avante.nvim",
            'require("avante").setup({\n'
            '  provider = "callsheet",\n'
            "  acp_providers = {\n"
            "    callsheet = {\n"
            f"      command = {_text(program)},\n"
            f"      args = {{ {lua} }},\n"
            "    },\n"
            "  },\n"
            "})",
        ),
    )


def _servers(server: dict[str, object]) -> str:
    """Return the file that both editors read, a line for each key."""
    keys = ",\n".join(f"      {_text(key)}: {_text(value)}" for key, value in server.items())
    return f'{{\n  "agent_servers": {{\n    "Callsheet": {{\n{keys}\n    }}\n  }}\n}}'


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
