"""What becomes of each method and each kind of update, when client and agent speak different versions of ACP.

This is the whole truth about what the bridge does with what: the code asks it whether something is refused or
left out, and with which words. `docs/tap-bridge.md` shows it. How things are translated stands in the other
files.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Deed = Literal["passes", "translated", "answered", "refused", "left out", "with the calls"]
"""- `passes`: as it is, byte for byte.
- `translated`: the other side gets the same in its own words.
- `answered`: by the bridge, as the other side can't.
- `refused`: with an error that says why, and counted.
- `left out`: the other side hears nothing of it; counted.
- `with the calls`: it is about a tool call, and the pipeline that puts calls right translates it.
"""


class Row(Struct, frozen=True):
    """What becomes of one thing."""

    deed: Deed
    words: str = ""
    """How, or why not. Of what is refused, this is what the one who asked is told."""


class Table(Struct, frozen=True):
    """All of it, for an agent of one version and a client of the other."""

    client: dict[str, Row]
    """The methods that a client calls."""
    agent: dict[str, Row]
    """The methods that an agent calls."""
    updates: dict[str, Row]
    """The kinds of `session/update`."""


_PASSES = Row("passes")
_CALLS = Row("with the calls")
_NO_FILES = "a client of ACP v2 has no files or terminals for the agent; initialize has said so"
_NO_FILES_ROW = Row("refused", _NO_FILES)

V1_AGENT = Table(
    client={
        "initialize": Row(
            "translated",
            "the agent is asked for v1, and told that the client has no files or terminals; capabilities by "
            "name",
        ),
        "auth/login": Row("translated", "becomes `authenticate`"),
        "auth/logout": Row(
            "translated",
            "becomes `logout`; an error if the agent does not offer it, as v2 has no way to say so before",
        ),
        "session/new": Row(
            "translated",
            "MCP servers; modes become a config option `mode`, unless there is one of that category",
        ),
        "session/list": Row(
            "answered",
            "passes if the agent can list; else the sessions of this connection",
        ),
        "session/resume": Row(
            "translated",
            "`replayFrom` `start` becomes `session/load`; without it `session/resume`, or a load whose "
            "replay is left out; an error if the agent has neither",
        ),
        "session/close": Row(
            "answered",
            "passes if the agent can close; else the turn is cancelled, and then answered",
        ),
        "session/delete": _PASSES,
        "session/set_config_option": Row(
            "translated", "that of the modes becomes `session/set_mode`"
        ),
        "session/prompt": Row(
            "answered",
            "at once, with an id of our own; then `user_message`, `state_update` running, and idle when the "
            "agent answers. A prompt while a turn runs waits for its end",
        ),
        "session/cancel": Row("passes", "prompts that wait are answered: cancelled"),
        "tool_call/cancel": Row(
            "refused", "an agent of ACP v1 can't cancel one call; session/cancel ends the turn"
        ),
        "terminal/cancel": Row(
            "refused", "an agent of ACP v1 can't cancel one terminal; session/cancel ends the turn"
        ),
        "$/cancel_request": Row("passes", "but for a prompt, which was answered at once"),
    },
    agent={
        "session/update": Row("translated", "by its kind, see below"),
        "session/request_permission": Row(
            "with the calls",
            "while it is open, the state is `requires_action`; an outcome that v1 does not know is "
            "`cancelled`",
        ),
        "elicitation/create": Row(
            "translated", "what v1 may leave out is filled in; the state is `requires_action`"
        ),
        "elicitation/complete": _PASSES,
        "fs/read_text_file": _NO_FILES_ROW,
        "fs/write_text_file": _NO_FILES_ROW,
        "terminal/create": _NO_FILES_ROW,
        "terminal/output": _NO_FILES_ROW,
        "terminal/release": _NO_FILES_ROW,
        "terminal/wait_for_exit": _NO_FILES_ROW,
        "terminal/kill": _NO_FILES_ROW,
        "$/cancel_request": _PASSES,
    },
    updates={
        "user_message_chunk": Row("translated", "gets a `messageId` where it has none"),
        "agent_message_chunk": Row("translated", "gets a `messageId` where it has none"),
        "agent_thought_chunk": Row("translated", "gets a `messageId` where it has none"),
        "tool_call": _CALLS,
        "tool_call_update": _CALLS,
        "plan": Row("translated", "becomes `plan_update` of the plan `plan`"),
        "available_commands_update": Row("translated", "commands and their input get a `type`"),
        "current_mode_update": Row("translated", "becomes `config_option_update`"),
        "config_option_update": Row("translated", "`id` becomes `configId`, `group` `groupId`"),
        "session_info_update": _PASSES,
        "usage_update": _PASSES,
        "notice": _PASSES,
        "compaction_update": _PASSES,
        "compaction_summary_chunk": _PASSES,
    },
)
"""The agent speaks v1, the client v2."""

V2_AGENT = Table(
    client={
        "initialize": Row(
            "translated",
            "the agent is asked for v2, with the words of v1 beside, should it speak v1 after all; "
            "capabilities by name",
        ),
        "authenticate": Row("translated", "becomes `auth/login`"),
        "logout": Row("translated", "becomes `auth/logout`"),
        "session/new": Row(
            "translated",
            "MCP servers, but for SSE, which is refused; the option of category `mode` is told as modes too; "
            "commands follow as an update",
        ),
        "session/load": Row("translated", "becomes `session/resume` with `replayFrom` `start`"),
        "session/resume": Row("translated", "MCP servers and options, as in `session/new`"),
        "session/list": _PASSES,
        "session/delete": Row("passes", "a prompt that is open is answered first: cancelled"),
        "session/close": Row("passes", "a prompt that is open is answered first: cancelled"),
        "session/set_mode": Row(
            "translated", "becomes `session/set_config_option` of the option of category `mode`"
        ),
        "session/set_config_option": Row("translated", "its value gets a `type`"),
        "session/prompt": Row(
            "translated",
            "the answer is held back until the state is idle, and gives its stop reason; "
            "`error` becomes an error, one that v1 does not know `end_turn`",
        ),
        "session/cancel": _PASSES,
        "$/cancel_request": Row("passes", "for a prompt it becomes `session/cancel`"),
    },
    agent={
        "session/update": Row("translated", "by its kind, see below"),
        "session/request_permission": Row(
            "with the calls", "v1 can only ask about a tool call; other requests are refused"
        ),
        "elicitation/create": Row("translated", "formats that v1 does not know are left out"),
        "elicitation/complete": _PASSES,
        "$/cancel_request": _PASSES,
    },
    updates={
        "user_message_chunk": Row("translated", "but for the echo of the prompt, which v1 has not"),
        "user_message": Row("translated", "as `agent_message`; the echo of the prompt is left out"),
        "agent_message_chunk": Row("translated", "content that v1 does not know is named in words"),
        "agent_message": Row(
            "translated",
            "becomes chunks of what is new. What was shown can't be taken back: a text that replaces it is "
            "shown as a message of its own, and counted",
        ),
        "agent_thought_chunk": Row("translated", "content that v1 does not know is named in words"),
        "agent_thought": Row("translated", "as `agent_message`"),
        "state_update": Row(
            "answered",
            "idle answers the prompt. Work that nobody asked for has no words in v1, and is counted",
        ),
        "tool_call_content_chunk": _CALLS,
        "tool_call_update": _CALLS,
        "terminal_update": _CALLS,
        "terminal_output_chunk": _CALLS,
        "plan_update": Row(
            "translated",
            "all plans of the session become one `plan`, without what was cancelled; a plan that is no list "
            "is left out",
        ),
        "available_commands_update": Row("translated", "commands of other types are left out"),
        "config_option_update": Row(
            "translated",
            "and `current_mode_update` if the mode changed; options of other types are left out; true or "
            "false becomes a choice for clients that don't know it",
        ),
        "session_info_update": _PASSES,
        "usage_update": _PASSES,
        "notice": Row(
            "translated", "left out for a client that has not said that it shows notices"
        ),
        "compaction_update": Row("translated", "left out for a client that has not said it knows"),
        "compaction_summary_chunk": Row(
            "translated", "left out for a client that has not said it knows"
        ),
    },
)
"""The agent speaks v2, the client v1."""

OTHER_UPDATES = {1: Row("passes", "v2 is open"), 2: Row("left out", "v1's readers reject them")}
"""Kinds of update that the agent's version does not know, by that version. Other methods pass."""
