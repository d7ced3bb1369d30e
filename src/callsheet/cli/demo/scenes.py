"""What is done in the demo: what the user types, what they answer, and how each call should end."""

from __future__ import annotations

from typing import NamedTuple

OLD = "PRICES[name] for name in basket"
NEW = "PRICES[name] * count for name, count in basket.items()"


class Scene(NamedTuple):
    """One turn. `ends` says how its calls should end, in the order of their announcement.

    `answer` is the user's to each request for permission; `mode` is one that they choose before.
    """

    caption: str
    prompt: str
    ends: tuple[str, ...] = ("completed",)
    answer: str = "reject_once"
    mode: str | None = None
    cancel_after: float | None = None


def scenes(python: str) -> tuple[Scene, ...]:
    """Return all scenes. `python` is what the interpreter is called."""
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
