"""Shapes of tools that touch neither files nor programs: thinking, planning, asking, delegating."""

from __future__ import annotations

from typing import cast

from callsheet.describe import i18n as say
from callsheet.describe.arguments import PATH, Arguments, first, text_of
from callsheet.describe.paths import PathContext, some
from callsheet.describe.shapes import TEXT_WIDTH, DescriptionDraft

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


def think(_: Arguments, __: PathContext) -> DescriptionDraft:
    """Think aloud."""
    return DescriptionDraft(say.THINK)


def todos(arguments: Arguments, _: PathContext) -> DescriptionDraft:
    """Write the list of what to do; or read it, if there is nothing to write."""
    if arguments.get("action") in ("read", "list", "get"):
        return DescriptionDraft(say.TODO_READ)
    return _counted(arguments, say.TODO, say.TODO_BARE)


def read_todos(_: Arguments, __: PathContext) -> DescriptionDraft:
    """Read the list of what to do."""
    return DescriptionDraft(say.TODO_READ)


def plan(arguments: Arguments, _: PathContext) -> DescriptionDraft:
    """Write the plan."""
    return _counted(arguments, say.PLAN, say.PLAN_BARE)


def _counted(arguments: Arguments, message: str, bare: str) -> DescriptionDraft:
    items = first(arguments, _ITEMS)
    return (
        DescriptionDraft(message, {"count": len(cast(list[object], items))})
        if isinstance(items, list)
        else DescriptionDraft(bare)
    )


def agent(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Return a task to another agent."""
    task = text_of(arguments, (*_TASK, *_AGENT))
    return (
        DescriptionDraft(say.AGENT, {"task": workspace.say(task, TEXT_WIDTH)})
        if task
        else DescriptionDraft(say.AGENT_BARE)
    )


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
        return DescriptionDraft(say.ASK_BARE)
    return DescriptionDraft(say.ASK, {"question": workspace.say(question, TEXT_WIDTH)})


def enter_plan(_: Arguments, __: PathContext) -> DescriptionDraft:
    """Begin to plan only."""
    return DescriptionDraft(say.ENTER_PLAN)


def leave_plan(_: Arguments, __: PathContext) -> DescriptionDraft:
    """End planning."""
    return DescriptionDraft(say.LEAVE_PLAN)


def mode(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Switch the agent's mode."""
    name = text_of(arguments, ("mode", "mode_slug", "mode_id", "modeId", "target_mode", "to"))
    return (
        DescriptionDraft(say.MODE, {"mode": workspace.say(name, 40)})
        if name
        else DescriptionDraft(say.MODE_BARE)
    )


def skill(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Use a skill."""
    name = text_of(arguments, ("skill", "name", "skill_name", "command"))
    return (
        DescriptionDraft(say.SKILL, {"name": workspace.say(name, 40)})
        if name
        else DescriptionDraft(say.SKILL_BARE)
    )


def remember(_: Arguments, __: PathContext) -> DescriptionDraft:
    """Keep something for later sessions."""
    return DescriptionDraft(say.REMEMBER)


def screenshot(_: Arguments, __: PathContext) -> DescriptionDraft:
    """Take a picture of the screen."""
    return DescriptionDraft(say.SCREENSHOT)


def finish(_: Arguments, __: PathContext) -> DescriptionDraft:
    """Report that the task is done."""
    return DescriptionDraft(say.FINISH)


def anything(arguments: Arguments, workspace: PathContext) -> DescriptionDraft:
    """Describe a call of an unknown tool: only its name and its path are known."""
    path = text_of(arguments, PATH)
    shown, location = workspace.place(path)
    return DescriptionDraft("", {"path": shown} if location is not None else {}, some(location))
