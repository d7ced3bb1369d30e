"""`result/error-without-message`: an error that doesn't say what went wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from callsheet.lint.finding import Hit, Rule
from callsheet.lint.module import Module
from callsheet.lint.results import Made, Way, is_empty
from callsheet.lint.vocabulary import ERRORS, meaning

_FIX = "say what went wrong, with what it was about, and what would be right"
_WAYS = (Way.HELPER, Way.CALL, Way.HAND)


def check(module: Module) -> Iterator[Hit]:
    """Find failed results and `ToolError`s whose message is missing, None or blank."""
    for made in module.results:
        if (
            made.success is False
            and made.way in _WAYS
            and made.is_ours
            and _says_nothing(made, module)
        ):
            yield Hit(made.node, "an error doesn't say what went wrong: its message is empty", _FIX)
    for node in ast.walk(module.tree):
        name = _mute(node, module) if isinstance(node, ast.Raise) else None
        if name is not None:
            yield Hit(node, f"{name} is raised without a message", _FIX)


def _says_nothing(made: Made, module: Module) -> bool:
    error = made.given.get("error")
    if error is None:
        return made.whole
    return is_empty(module.names.value(error))


def _mute(node: ast.Raise, module: Module) -> str | None:
    """Return the name of the `ToolError` that is raised with nothing to say."""
    raised = node.exc
    func = raised.func if isinstance(raised, ast.Call) else raised
    name = meaning(module.names.dotted(func)) if func is not None else None
    if name not in ERRORS:
        return None
    if not isinstance(raised, ast.Call):
        return name
    words = {keyword.arg: keyword.value for keyword in raised.keywords}
    message = raised.args[0] if raised.args else words.get("message")
    if message is None and None in words:  # **kwargs may hold it
        return None
    return name if is_empty(message) else None


RULE = Rule(
    id="result/error-without-message",
    title="An error without a message",
    why="The message is what a person reads and what a model acts on. Without one, the same call is"
    " made again, and fails again.",
    fix="Say what was wrong, with the value that was given, and what would be right.",
    bad='''\
from callsheet import Call, ToolResult, tool


@tool
def pick(call: Call, colour: str) -> ToolResult:
    """Pick a colour."""
    if colour not in COLOURS:
        return call.error("")
    return call.success(f"Picked {colour}.")
''',
    good='''\
from callsheet import Call, ToolResult, tool


@tool
def pick(call: Call, colour: str) -> ToolResult:
    """Pick a colour."""
    if colour not in COLOURS:
        return call.error(f"no colour {colour!r}: take one of {', '.join(COLOURS)}")
    return call.success(f"Picked {colour}.")
''',
    check=check,
    in_tests=False,
)
