"""What is peculiar to each known agent, as data: one `Profile` each.

The general repair (`callsheet.tap.repair`) knows what many agents do. A profile holds only what it
can't know: an agent that hides the tool's name in an id, that makes titles out of inputs it never
reports, or that reports a refusal as plain text in the result. All of it is optional, and an agent
without a profile is repaired all the same.

To add an agent, write a section with its functions and its `Profile`, and add that to `PROFILES`.
The functions get a call as it was observed: everything the agent has reported of it so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeAlias

from msgspec import Struct

from callsheet.observe.evidence import texts
from callsheet.observe.model import ObservedCall, obj, text
from callsheet.report.status import Reason

NameOf: TypeAlias = Callable[[ObservedCall], str | None]
InputOf: TypeAlias = Callable[[ObservedCall], Any]
FailureOf: TypeAlias = Callable[[ObservedCall], Reason | None]


class Profile(Struct, frozen=True, kw_only=True):
    """What is specific to one agent. All attributes are optional.

    Attributes:
        agents: Prefixes of the agent's `agentInfo.name`, in lower case.
        name_of: Returns the name of a call's tool, where the agent puts it in an id or in a title.
        input_of: Returns a call's input, where it is reported by other means than `rawInput`.
        failure_of: Returns why an ended call failed, whatever status the agent reported, or None if
            nothing shows that it failed, or why.
    """

    agents: tuple[str, ...] = ()
    name_of: NameOf | None = None
    input_of: InputOf | None = None
    failure_of: FailureOf | None = None


# Shared by several agents

_NAME = re.compile(r"[A-Za-z][\w-]*").fullmatch
_NOTES = re.compile(
    r" \[(?:current working directory|in) [^\]\n]{1,400}\](?: \(.*\))?$", re.DOTALL
).sub


def without_notes(title: str) -> str:
    """Return a command that is a title, without where it runs and what for, which Gemini appends."""
    return _NOTES("", title)


def _opening_title(call: ObservedCall) -> str:
    return text(call.opening.get("title")) or ""


def _announced_name(call: ObservedCall) -> str | None:
    """Return the title of the announcement, for agents that announce calls under the tool's name.

    Replayed calls are announced with whole titles, so theirs is no name.
    """
    title = _opening_title(call)
    return title if _NAME(title) and not call.is_replayed else None


def _reason_by_prefix(call: ObservedCall, prefixes: Iterable[tuple[str, Reason]]) -> Reason | None:
    """Return the reason whose prefix the call's text begins with: its content, or its raw output."""
    fields = call.fields
    shown = next(texts(fields.get("content")), "") or text(fields.get("rawOutput")) or ""
    begin = shown[:200].lstrip("` \n")
    return next((reason for prefix, reason in prefixes if begin.startswith(prefix)), None)


def _by_prefix(*prefixes: tuple[str, Reason]) -> FailureOf:
    return lambda call: _reason_by_prefix(call, prefixes)


# Claude Agent: what never ran is marked in `_meta`, beside the tool's name.


def _claude_failure(call: ObservedCall) -> Reason | None:
    claude = obj(obj(call.fields.get("_meta")).get("claudeCode"))
    kind = text(claude.get("nonExecutionKind"))
    return Reason.DENIED if kind in ("user-rejected", "permission-rule") else None


CLAUDE = Profile(
    agents=("@agentclientprotocol/claude", "@zed-industries/claude", "claude"),
    failure_of=_claude_failure,
)


# Codex: input and output are its own events, as Rust serializes them; the tool is known by their
# fields.

_CODEX_SOURCES = {
    "unified_exec_startup": "exec_command",
    "unified_exec_interaction": "write_stdin",
    "user_shell": "user_shell",
}


def _codex_name(call: ObservedCall) -> str | None:
    event = obj(call.fields.get("rawInput")) or obj(call.asked.get("rawInput"))
    if "changes" in event:
        return "apply_patch"
    if "command" in event:
        default = "shell" if "source" in event else "exec_command"
        return _CODEX_SOURCES.get(text(event.get("source")) or "", default)
    return "web_search" if "action" in event and "query" in event else None


def _codex_failure(call: ObservedCall) -> Reason | None:
    """Return why: the call was declined, or an MCP server returned an error."""
    raw = obj(call.fields.get("rawOutput"))
    if raw.get("status") == "declined":
        return Reason.DENIED
    return Reason.TOOL_ERROR if "Err" in obj(raw.get("result")) or "Err" in raw else None


CODEX = Profile(
    agents=("codex", "@zed-industries/codex"), name_of=_codex_name, failure_of=_codex_failure
)


# fast-agent: announces calls under the tool's name, and puts the server's name before it later.

FAST_AGENT = Profile(
    agents=("fast-agent",),
    name_of=_announced_name,
    failure_of=_by_prefix(
        ("The user has declined permission to use this tool", Reason.DENIED),
    ),
)


# Gemini CLI: never reports an input. The tool's name is in the id, and titles are made of the
# input. How a command ended is only in its text, and only if the command printed nothing.

_GEMINI_ID = re.compile(r"(?P<name>[A-Za-z][\w.:-]*?)(?:__(?!.*__)|-\d{10}).*").fullmatch
_GEMINI_SEARCH = re.compile(
    r"'(?P<pattern>.+?)'(?: in (?P<include>.+?))?(?: within (?P<path>.+))?", re.DOTALL
).fullmatch
_GEMINI_POLICY = re.compile(r'Tool execution for "[^"\n]{1,80}" denied by policy\.').match
_GEMINI_EXIT = re.compile(
    r"Command terminated by signal: \w+|Command exited with code: [1-9]\d*"
).fullmatch
_GEMINI_STOPPED = (
    ("Command cancelled by user.", Reason.CANCELLED),
    ("Command was cancelled by user before it could complete.", Reason.CANCELLED),
    ("Command was automatically cancelled because it exceeded the timeout", Reason.TIMEOUT),
    ("Command automatically cancelled because it exceeded the timeout", Reason.TIMEOUT),
    ("Command timed out after ", Reason.TIMEOUT),
)
_SHORTENED = "..."
_LONGEST = 400


def _gemini_name(call: ObservedCall) -> str | None:
    """Return the name that an id begins with: `read_file__call_1`, in older ones `read_file-1748…`."""
    match = _GEMINI_ID(call.id[:_LONGEST])
    return match["name"] if match else None


def _gemini_input(call: ObservedCall) -> Any:
    """Return what a title shows of the input, by the way that each tool makes its title."""
    title = text(call.fields.get("title")) or text(call.asked.get("title"))
    if not title:
        return None
    match _gemini_name(call):
        case "run_shell_command":
            return {"command": without_notes(title)}
        case "grep_search" | "search_file_content" | "glob":
            return _gemini_search(title)
        case "list_directory":
            return None if _SHORTENED in title else {"path": title}
        case _:
            return None


def _gemini_search(title: str) -> dict[str, str] | None:
    match = _GEMINI_SEARCH(title) if len(title) <= _LONGEST else None
    parts = {} if match is None else match.groupdict()
    return {key: part for key, part in parts.items() if part and _SHORTENED not in part} or None


def _gemini_failure(call: ObservedCall) -> Reason | None:
    """Return what stopped a command, by its text. A command could print the same, but hardly does."""
    fields = call.fields
    shown = next(texts(fields.get("content")), "")[:_LONGEST]
    if call.status == "failed" and _GEMINI_POLICY(shown):
        # What was still to come when the user cancelled is refused with the same text.
        turn = call.turn
        return Reason.DENIED if turn is None or turn.cancelled is None else Reason.CANCELLED
    if fields.get("kind") != "execute":
        return None
    stopped = _reason_by_prefix(call, _GEMINI_STOPPED)
    return stopped or (Reason.EXIT_CODE if _GEMINI_EXIT(shown) else None)


GEMINI = Profile(
    agents=("gemini",), name_of=_gemini_name, input_of=_gemini_input, failure_of=_gemini_failure
)


# Goose: announces calls under the tool's name in a readable form: `developer__shell` is
# `Developer: Shell`.

_GOOSE_TITLE = re.compile(
    r"[A-Z][\w-]*(?: [\w-]+)*(?:: [A-Z][\w-]*(?: [\w-]+)*)?", re.ASCII
).fullmatch


def _goose_name(call: ObservedCall) -> str | None:
    title = _opening_title(call)
    return title.lower().replace(": ", "__").replace(" ", "_") if _GOOSE_TITLE(title) else None


GOOSE = Profile(agents=("goose",), name_of=_goose_name)


# Hermes: reports neither names nor inputs. Titles begin with a word for the tool.

_HERMES_TOOLS = {
    "terminal": "terminal",
    "read": "read_file",
    "write": "write_file",
    "patch": "patch",
    "search": "search_files",
    "web search": "web_search",
    "extract": "web_extract",
    "process": "process",
    "delegate": "delegate_task",
    "session search": "session_search",
    "memory": "memory",
    "python": "execute_code",
    "todo": "todo",
    "skill view": "skill_view",
    "skills list": "skills_list",
}
_HERMES_TITLE = re.compile(
    r"((?:web |session |skill |skills )?[a-z]+)(?: \w+)?(?: \([^)\n]*\))?(?::|$)"
).match


def _hermes_name(call: ObservedCall) -> str | None:
    match = _HERMES_TITLE(_opening_title(call)[:200])
    return _HERMES_TOOLS.get(match[1]) if match is not None else None


HERMES = Profile(agents=("hermes",), name_of=_hermes_name)


# Kimi Code CLI: announces calls under the tool's name, and goes on with `Name: the argument`.


def _kimi_name(call: ObservedCall) -> str | None:
    """Return the name before the colon. Replayed calls have whole titles."""
    name, colon, _ = _opening_title(call).partition(": ")
    return name if colon and name.isidentifier() else _announced_name(call)


KIMI = Profile(
    agents=("kimi",),
    name_of=_kimi_name,
    failure_of=_by_prefix(("The tool call is rejected by the user.", Reason.DENIED)),
)


# opencode: what stopped a command stands below its output; a call that can't be made is one of
# `invalid`.

_OPENCODE_NOTES = re.compile(
    r"<(?:shell|bash)_metadata>\n(.*)\n</(?:shell|bash)_metadata>\s*\Z", re.DOTALL
)
_OPENCODE_INVALID = (("The arguments provided to the tool are invalid: ", Reason.TOOL_ERROR),)
_OPENCODE_REFUSED = (
    ("The user rejected permission to use this specific tool call", Reason.DENIED),
)


def _opencode_failure(call: ObservedCall) -> Reason | None:
    """Return why: by the note below a command's output, or because the tool does not exist."""
    fields = call.fields
    raw = obj(fields.get("rawOutput"))
    metadata = obj(raw.get("metadata"))
    if metadata.get("interrupted") is True:
        return Reason.CANCELLED
    if call.status == "failed":
        return _reason_by_prefix(call, _OPENCODE_REFUSED)
    if "error" in obj(fields.get("rawInput")) and fields.get("kind") == "other":
        return _reason_by_prefix(call, _OPENCODE_INVALID)
    if type(metadata.get("exit")) is int:
        return None
    shown = next(texts(fields.get("content")), "") or text(raw.get("output")) or ""
    notes = _OPENCODE_NOTES.search(shown[-_LONGEST:])
    if notes is None:
        return None
    if "exceeding timeout" in notes[1]:
        return Reason.TIMEOUT
    return Reason.CANCELLED if "aborted the command" in notes[1] else None


OPENCODE = Profile(agents=("opencode",), name_of=_announced_name, failure_of=_opencode_failure)


UNKNOWN = Profile()
PROFILES = (CLAUDE, CODEX, FAST_AGENT, GEMINI, GOOSE, HERMES, KIMI, OPENCODE)


@lru_cache(maxsize=64)
def profile_of(agent: str) -> Profile:
    """Return the profile of an agent by its `agentInfo.name`; an empty one for an unknown agent."""
    name = agent.strip().lower()
    return next((one for one in PROFILES if name.startswith(one.agents)), UNKNOWN)
