"""Shapes of tools that touch neither files nor programs: thinking, planning, asking, delegating."""

from __future__ import annotations

from typing import cast

from callsheet.describe import i18n as say
from callsheet.describe.arguments import PATH, Arguments, first, text_of
from callsheet.describe.paths import Workspace, some
from callsheet.describe.shapes import TEXT_WIDTH, Draft

_TASK = (
    "description",
    "title",
    "task",
    "objective",
    "task_description",
    "prompt",
    "message",
    "instructions",
)
_AGENT = ("agent", "agent_name", "subagent_type", "subagent", "name")
_ITEMS = ("todos", "items", "tasks", "todo_list", "plan", "steps")


def think(_: Arguments, __: Workspace) -> Draft:
    """Think aloud."""
    return Draft(say.THINK)


def todos(arguments: Arguments, _: Workspace) -> Draft:
    """Write the list of what to do; or read it, if there is nothing to write."""
    if arguments.get("action") in ("read", "list", "get"):
        return Draft(say.TODO_READ)
    return _counted(arguments, say.TODO, say.TODO_BARE)


def read_todos(_: Arguments, __: Workspace) -> Draft:
    """Read the list of what to do."""
    return Draft(say.TODO_READ)


def plan(arguments: Arguments, _: Workspace) -> Draft:
    """Write the plan."""
    return _counted(arguments, say.PLAN, say.PLAN_BARE)


def _counted(arguments: Arguments, message: str, bare: str) -> Draft:
    items = first(arguments, _ITEMS)
    return (
        Draft(message, {"count": len(cast(list[object], items))})
        if isinstance(items, list)
        else Draft(bare)
    )


def agent(arguments: Arguments, workspace: Workspace) -> Draft:
    """Return a task to another agent."""
    task = text_of(arguments, (*_TASK, *_AGENT))
    return (
        Draft(say.AGENT, {"task": workspace.say(task, TEXT_WIDTH)})
        if task
        else Draft(say.AGENT_BARE)
    )


def ask(arguments: Arguments, workspace: Workspace) -> Draft:
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
        return Draft(say.ASK_BARE)
    return Draft(say.ASK, {"question": workspace.say(question, TEXT_WIDTH)})


def enter_plan(_: Arguments, __: Workspace) -> Draft:
    """Begin to plan only."""
    return Draft(say.ENTER_PLAN)


def leave_plan(_: Arguments, __: Workspace) -> Draft:
    """End planning."""
    return Draft(say.LEAVE_PLAN)


def mode(arguments: Arguments, workspace: Workspace) -> Draft:
    """Switch the agent's mode."""
    name = text_of(arguments, ("mode", "mode_slug", "mode_id", "modeId", "target_mode", "to"))
    return Draft(say.MODE, {"mode": workspace.say(name, 40)}) if name else Draft(say.MODE_BARE)


def skill(arguments: Arguments, workspace: Workspace) -> Draft:
    """Use a skill."""
    name = text_of(arguments, ("skill", "name", "skill_name", "command"))
    return Draft(say.SKILL, {"name": workspace.say(name, 40)}) if name else Draft(say.SKILL_BARE)


def remember(_: Arguments, __: Workspace) -> Draft:
    """Keep something for later sessions."""
    return Draft(say.REMEMBER)


def screenshot(_: Arguments, __: Workspace) -> Draft:
    """Take a picture of the screen."""
    return Draft(say.SCREENSHOT)


def finish(_: Arguments, __: Workspace) -> Draft:
    """Say that the task is done."""
    return Draft(say.FINISH)


def anything(arguments: Arguments, workspace: Workspace) -> Draft:
    """A tool of which nothing is known: only its name and its path can be told."""
    path = text_of(arguments, PATH)
    shown, location = workspace.place(path)
    return Draft("", {"path": shown} if location is not None else {}, some(location))
