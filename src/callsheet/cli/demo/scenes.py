"""What the demo does, turn by turn, and the small project that it works on."""

from __future__ import annotations

import secrets
import shutil
import string
import tempfile
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

PRICES = '''\
"""What a basket costs, in cents."""

PRICES = {"bread": 320, "milk": 110, "eggs": 295}


def total(basket):
    """Sum up a basket: what, and how many of it."""
    return sum(PRICES[name] for name in basket)
'''

CHECK = '''\
"""Checks prices.py, basket by basket."""

import time

from prices import total

BASKETS = {
    "a loaf": ({"bread": 1}, 320),
    "breakfast": ({"bread": 1, "milk": 1}, 430),
    "a loaf for the neighbour, too": ({"bread": 2}, 640),
    "a cake": ({"eggs": 2, "milk": 1}, 700),
    "pancakes": ({"eggs": 1, "milk": 2}, 515),
    "nothing": ({}, 0),
    "the whole shop": ({"bread": 9, "milk": 9, "eggs": 9}, 6525),
}

for number, (name, (basket, expected)) in enumerate(BASKETS.items(), 1):
    found = total(basket)
    if found != expected:
        raise SystemExit(f"{number}/{len(BASKETS)} {name}: {found}, and should be {expected}")
    print(f"{number}/{len(BASKETS)} {name}: {found}", flush=True)
    time.sleep(0.15)
'''

STOCK = '''\
"""Counts what there is of one thing, slowly."""

import sys
import time

for shelf in range(1, int(sys.argv[2]) + 1):
    time.sleep(0.25)
    print(f"{sys.argv[1]}: shelf {shelf} counted", flush=True)
'''

WATCH = '''\
"""Waits for customers. None comes."""

import time

while True:
    print("waiting ...", flush=True)
    time.sleep(0.25)
'''

_LETTERS = string.ascii_letters + string.digits


class Project:
    """The directory, and the secrets that are in it. They are made up anew each time."""

    def __init__(self) -> None:
        self.path: Path = Path(tempfile.mkdtemp(prefix="callsheet-demo-")).resolve()
        self.secrets: tuple[str, ...] = ("ghp_" + _random(36), _random(24))

    def __enter__(self) -> Self:
        """Fill the directory."""
        token, password = self.secrets
        files = {
            "prices.py": PRICES,
            "check.py": CHECK,
            "stock.py": STOCK,
            "watch.py": WATCH,
            ".env": f"GITHUB_TOKEN={token}\nDATABASE=postgres://shop:{password}@localhost/shop\n",
        }
        for name, text in files.items():
            (self.path / name).write_text(text, encoding="utf-8")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove it."""
        self.remove()

    def remove(self) -> None:
        """Remove the directory and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def _random(size: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(size))


# Turns


OLD = "PRICES[name] for name in basket"
NEW = "PRICES[name] * count for name, count in basket.items()"


class Scene(NamedTuple):
    """One turn.

    `ends` are the statuses or reasons that its calls should end with, in the order of their announcement.
    `answer` is the user's to each request for permission; `mode` is one that they choose before.
    """

    caption: str
    prompt: str
    ends: tuple[str, ...] = ("completed",)
    answer: str = "reject_once"
    mode: str | None = None
    cancel_after: float | None = None


def scenes(python: str) -> tuple[Scene, ...]:
    """Return all scenes. `python` is the name of the interpreter."""
    check = f"!{python} check.py"
    goods = ("bread 3", "milk 4", "eggs 2")
    at_once = "\n".join(["/parallel", *[f"!{python} stock.py {one}" for one in goods]])
    edit = f'/edit prices.py "{OLD}" "{NEW}"'
    return (
        Scene("A file is read.", "/read prices.py"),
        Scene("A command fails.", check, ends=("exit_code",), answer="allow_always"),
        Scene("A file is edited, with the user's permission.", edit, answer="allow_once"),
        Scene("The same command, allowed by now, shows its output while it runs.", check),
        Scene("The user says no.", "!rm prices.py", ends=("denied",)),
        Scene("Three calls run at the same time.", at_once, ends=("completed",) * 3, mode="all"),
        Scene("A command prints secrets. They don't leave the agent.", "!cat .env"),
        Scene("The user cancels.", f"!{python} watch.py", ends=("cancelled",), cancel_after=0.9),
    )
