"""Shapes of tools that touch neither files nor programs: thinking, planning, asking, delegating."""

from __future__ import annotations

from typing import cast

from callsheet.describe import i18n as say
from callsheet.describe.arguments import PATH, Arguments, first, text_of
from callsheet.describe.paths import PathContext, some
from callsheet.describe.shapes import TEXT_WIDTH, CallDraft

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


def think(_: Arguments, __: PathContext) -> CallDraft:
    """Think aloud."""
    return CallDraft(say.THINK)


def todos(arguments: Arguments, _: PathContext) -> CallDraft:
    """Write the list of what to do; or read it, if there is nothing to write."""
    if arguments.get("action") in ("read", "list", "get"):
        return CallDraft(say.TODO_READ)
    return _counted(arguments, say.TODO, say.TODO_BARE)


def read_todos(_: Arguments, __: PathContext) -> CallDraft:
    """Read the list of what to do."""
    return CallDraft(say.TODO_READ)


def plan(arguments: Arguments, _: PathContext) -> CallDraft:
    """Write the plan."""
    return _counted(arguments, say.PLAN, say.PLAN_BARE)


def _counted(arguments: Arguments, message: str, bare: str) -> CallDraft:
    items = first(arguments, _ITEMS)
    return (
        CallDraft(message, {"count": len(cast(list[object], items))})
        if isinstance(items, list)
        else CallDraft(bare)
    )


def agent(arguments: Arguments, workspace: PathContext) -> CallDraft:
    """Return a task to another agent."""
    task = text_of(arguments, (*_TASK, *_AGENT))
    return (
        CallDraft(say.AGENT, {"task": workspace.say(task, TEXT_WIDTH)})
        if task
        else CallDraft(say.AGENT_BARE)
    )


def ask(arguments: Arguments, workspace: PathContext) -> CallDraft:
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
        return CallDraft(say.ASK_BARE)
    return CallDraft(say.ASK, {"question": workspace.say(question, TEXT_WIDTH)})


def enter_plan(_: Arguments, __: PathContext) -> CallDraft:
    """Begin to plan only."""
    return CallDraft(say.ENTER_PLAN)


def leave_plan(_: Arguments, __: PathContext) -> CallDraft:
    """End planning."""
    return CallDraft(say.LEAVE_PLAN)


def mode(arguments: Arguments, workspace: PathContext) -> CallDraft:
    """Switch the agent's mode."""
    name = text_of(arguments, ("mode", "mode_slug", "mode_id", "modeId", "target_mode", "to"))
    return (
        CallDraft(say.MODE, {"mode": workspace.say(name, 40)}) if name else CallDraft(say.MODE_BARE)
    )


def skill(arguments: Arguments, workspace: PathContext) -> CallDraft:
    """Use a skill."""
    name = text_of(arguments, ("skill", "name", "skill_name", "command"))
    return (
        CallDraft(say.SKILL, {"name": workspace.say(name, 40)})
        if name
        else CallDraft(say.SKILL_BARE)
    )


def remember(_: Arguments, __: PathContext) -> CallDraft:
    """Keep something for later sessions."""
    return CallDraft(say.REMEMBER)


def screenshot(_: Arguments, __: PathContext) -> CallDraft:
    """Take a picture of the screen."""
    return CallDraft(say.SCREENSHOT)


def finish(_: Arguments, __: PathContext) -> CallDraft:
    """Say that the task is done."""
    return CallDraft(say.FINISH)


def anything(arguments: Arguments, workspace: PathContext) -> CallDraft:
    """A tool of which nothing is known: only its name and its path can be told."""
    path = text_of(arguments, PATH)
    shown, location = workspace.place(path)
    return CallDraft("", {"path": shown} if location is not None else {}, some(location))
