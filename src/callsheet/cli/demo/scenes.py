"""What is done in the demo: what the user types, what they answer, and how each call should end."""

from __future__ import annotations

from typing import NamedTuple

OLD = "PRICES[name] for name in basket"
NEW = "PRICES[name] * count for name, count in basket.items()"


class Scene(NamedTuple):
    """One turn. `ends` says how its calls should end, in the order of their announcement."""

    caption: str
    prompt: str
    ends: tuple[str, ...] = ("completed",)
    answer: str = "allow_once"
    cancel_after: float | None = None


def scenes(python: str) -> tuple[Scene, ...]:
    """Give all scenes. `python` is what the interpreter is called."""
    check = f"!{python} check.py"
    goods = ("bread 3", "milk 4", "eggs 2")
    at_once = "\n".join(["/parallel", *[f"!{python} stock.py {one}" for one in goods]])
    return (
        Scene("A file is read.", "/read prices.py"),
        Scene("A command fails.", check, ends=("exit_code",)),
        Scene("A file is edited, with the user's permission.", f'/edit prices.py "{OLD}" "{NEW}"'),
        Scene("A command's output is shown while it runs.", check, answer="allow_always"),
        Scene("Three calls run at the same time.", at_once, ends=("completed",) * 3),
        Scene("The user says no.", "/delete prices.py", ends=("denied",), answer="reject_once"),
        Scene("A command prints secrets. They don't leave the agent.", "!cat .env"),
        Scene("The user cancels.", f"!{python} watch.py", ends=("cancelled",), cancel_after=1.0),
    )
