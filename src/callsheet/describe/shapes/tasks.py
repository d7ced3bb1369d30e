"""Shapes of tools that touch neither files nor programs: thinking, planning, asking, delegating."""

from __future__ import annotations

from typing import cast

from callsheet.describe.arguments import PATH, Arguments, first, text_of
from callsheet.describe.i18n import N_, NP_
from callsheet.describe.paths import PathContext, some
from callsheet.describe.shapes import (
    NAME_WIDTH,
    TEXT_WIDTH,
    DescriptionDraft,
    Shape,
    fixed,
    quoting,
)

_TASK = (
    *("description", "title", "task", "objective", "task_description", "prompt", "message"),
    *("instructions", "agent", "agent_name", "subagent_type", "subagent", "name"),
)
_MODE = ("mode", "mode_slug", "mode_id", "modeId", "target_mode", "to")
_ITEMS = ("todos", "items", "tasks", "todo_list", "plan", "steps")

think = fixed(N_("Thinking"))
read_todos = fixed(N_("Reading the to-do list"))
enter_plan = fixed(N_("Entering plan mode"))
leave_plan = fixed(N_("Leaving plan mode"))
remember = fixed(N_("Saving a memory"))
screenshot = fixed(N_("Taking a screenshot"))
finish = fixed(N_("Finishing the task"))
agent = quoting(N_("Delegating: {task}"), N_("Delegating a task"), "task", _TASK)
mode = quoting(N_("Switching to {mode} mode"), N_("Switching the mode"), "mode", _MODE, NAME_WIDTH)
skill = quoting(
    N_("Using the skill {name}"),
    N_("Using a skill"),
    "name",
    ("skill", "name", "skill_name", "command"),
    NAME_WIDTH,
)


def _counting(message: str, bare: str) -> Shape:
    """Return the shape of tools that write a list."""

    def counted(arguments: Arguments, _: PathContext) -> DescriptionDraft:
        items = first(arguments, _ITEMS)
        if not isinstance(items, list):
            return DescriptionDraft(bare)
        return DescriptionDraft(message, {"count": len(cast(list[object], items))})

    return counted


plan = _counting(
    NP_("Updating the plan ({count} step)", "Updating the plan ({count} steps)"),
    N_("Updating the plan"),
)
_write_todos = _counting(
    NP_("Updating the to-do list ({count} item)", "Updating the to-do list ({count} items)"),
    N_("Updating the to-do list"),
)


def todos(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Write the list of what to do; or read it, if there is nothing to write."""
    reads = arguments.get("action") in ("read", "list", "get")
    return (read_todos if reads else _write_todos)(arguments, workspace)


def ask(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Ask the user."""
    question = text_of(arguments, ("question", "prompt", "message", "text"))
    questions = arguments.get("questions")
    if not question and isinstance(questions, list) and questions:
        asked = cast(list[object], questions)[0]
        question = (
            text_of(cast(Arguments, asked), ("question", "text"))
            if isinstance(asked, dict)
            else str(asked)
        )
    if not question.strip():
        return DescriptionDraft(N_("Asking a question"))
    return DescriptionDraft(
        N_("Asking: {question}"), {"question": workspace.shorten(question, TEXT_WIDTH)}
    )


def anything(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Describe a call of an unknown tool: only its name and its path are known."""
    path = text_of(arguments, PATH)
    shown, location = workspace.place(path)
    return DescriptionDraft("", {"path": shown} if location is not None else {}, some(location))
