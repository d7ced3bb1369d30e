"""A client of ACP v1 in front of an agent of v2."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.tap.bridging.messages import MANY
from tests.support.bridging import INFO, TEXT, Talk, prompt, updates, v2_agent

MODE = {
    "configId": "how",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}
SWITCH = {"configId": "fast", "name": "Fast", "type": "boolean", "currentValue": True}
ODD = {"configId": "odd", "name": "Odd", "type": "_range", "currentValue": 3}
BOOLEANS = {"session": {"configOptions": {"boolean": {}}}}
RUNNING = {"sessionUpdate": "state_update", "state": "running"}


def idle(reason: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    told = {} if reason is None else {"stopReason": reason}
    return {"sessionUpdate": "state_update", "state": "idle", **told, **more}


def say(talk: Talk, update: dict[str, Any]) -> Any:
    return talk.notify("agent", "session/update", {"sessionId": "s", "update": update})


def message(kind: str, *texts: str, key: str = "m") -> dict[str, Any]:
    blocks = [{"type": "text", "text": text} for text in texts]
    return {"sessionUpdate": kind, "messageId": key, "content": blocks}


def chunk(text: str, key: str = "m", kind: str = "agent_message_chunk") -> dict[str, Any]:
    return {"sessionUpdate": kind, "messageId": key, "content": {"type": "text", "text": text}}


def accepted(talk: Talk, key: str = "u") -> Any:
    """Let the client prompt, and the agent take it in. Gives the id of the request."""
    prompt(talk)
    turn = talk.last
    assert talk.answer("agent", {"messageId": key}).to_client == []
    return turn


# Greeting


def test_the_agent_is_asked_for_v2_and_the_client_answered_in_v1() -> None:
    talk = Talk(2, 1)
    capabilities = {
        "fs": {"readTextFile": True},
        "auth": {"terminal": True},
        "elicitation": {"form": {}},
    }
    params = {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": capabilities}
    told = talk.client("initialize", params).to_agent[0]["params"]
    assert (told["protocolVersion"], told["info"]) == (2, INFO)
    assert told["capabilities"] == {"auth": {"terminal": {}}, "elicitation": {"form": {}}}
    session = {"prompt": {"image": {}}, "mcp": {"stdio": {}, "http": {}}, "delete": {}}
    said = talk.answer(
        "agent",
        {
            "protocolVersion": 2,
            "info": {"name": "a", "version": "2"},
            "capabilities": {"session": session},
            "authMethods": [
                {"type": "agent", "methodId": "login", "name": "Log in"},
                {
                    "type": "terminal",
                    "methodId": "t",
                    "name": "T",
                    "env": [{"name": "A", "value": "1"}],
                },
                {"type": "_iris", "methodId": "i", "name": "I"},
            ],
        },
    )
    result = said.to_client[0]["result"]
    assert (result["protocolVersion"], result["agentInfo"]["name"]) == (1, "a")
    offered = result["agentCapabilities"]
    assert offered["loadSession"] is True
    assert offered["promptCapabilities"] == {
        "image": True,
        "audio": False,
        "embeddedContext": False,
    }
    assert offered["mcpCapabilities"] == {"http": True, "sse": False}
    assert set(offered["sessionCapabilities"]) == {"list", "resume", "close", "delete"}
    assert offered["auth"] == {"logout": {}}
    login, terminal = result["authMethods"]
    assert (login, terminal["env"]) == ({"id": "login", "name": "Log in"}, {"A": "1"})
    assert talk.bridging.lost == {"login of type _iris": 1}


def test_a_client_that_says_nothing_of_itself_is_unknown() -> None:
    said = Talk(2, 1).client("initialize", {"protocolVersion": 1})
    assert said.to_agent[0]["params"]["info"] == {"name": "unknown", "version": "unknown"}


def test_an_agent_that_speaks_v1_after_all_has_been_told_everything() -> None:
    talk = Talk(2, 1)
    params = {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": {"terminal": True}}
    told = talk.client("initialize", params).to_agent[0]["params"]
    assert (told["clientInfo"], told["clientCapabilities"]) == (INFO, {"terminal": True})
    result = {"protocolVersion": 1}
    assert talk.answer("agent", result, odd=True).to_client[0]["result"] == result
    assert talk.bridging.is_idle


def test_a_client_that_speaks_v2_is_passed_through() -> None:
    talk = Talk(2, 1)
    params = {"protocolVersion": 2, "info": INFO}
    assert talk.client("initialize", params).to_agent[0]["params"] == params
    assert talk.bridging.is_idle


def test_a_client_that_speaks_v2_may_be_answered_in_v1() -> None:
    talk = Talk(2, 1)
    talk.client("initialize", {"protocolVersion": 2, "info": INFO})
    result = {"protocolVersion": 1}
    assert talk.answer("agent", result, odd=True).to_client[0]["result"] == result
    assert (talk.bridging.client_version, talk.bridging.is_idle) == (1, True)


def test_a_client_of_v1_is_served_also_where_an_agent_turns_out_to_speak_v2() -> None:
    talk = Talk(1, 2)
    talk.client("initialize", {"protocolVersion": 1})
    said = talk.answer("agent", {"protocolVersion": 2, "info": INFO}, odd=True)
    assert said.to_client[0]["result"]["protocolVersion"] == 1
    accepted(talk)
    assert say(talk, idle()).to_client[0]["result"] == {"stopReason": "end_turn"}


def test_logging_in_and_out_go_by_their_other_names() -> None:
    talk = v2_agent()
    assert talk.client("authenticate", {"methodId": "login"}).to_agent[0]["method"] == "auth/login"
    assert talk.answer("agent", {}).to_client[0]["result"] == {}
    assert talk.client("logout", {}).to_agent[0]["method"] == "auth/logout"


# Sessions


def test_a_session_is_told_with_modes_and_its_commands_follow() -> None:
    talk = v2_agent()
    stdio = {"name": "a", "command": "/bin/a", "args": [], "env": []}
    said = talk.client("session/new", {"cwd": "/code", "mcpServers": [stdio]})
    assert said.to_agent[0]["params"]["mcpServers"] == [{**stdio, "type": "stdio"}]
    commands = [
        {
            "type": "command",
            "name": "go",
            "description": "Go.",
            "input": {"type": "text", "hint": "h"},
        },
        {"type": "command", "name": "up", "description": "Up.", "input": {"type": "_dial"}},
        {"type": "_macro", "name": "do", "description": "Do."},
    ]
    opened = {"sessionId": "t", "configOptions": [MODE], "availableCommands": commands}
    said = talk.answer("agent", opened)
    result = said.to_client[0]["result"]
    assert result["modes"]["currentModeId"] == "ask"
    assert [one["id"] for one in result["modes"]["availableModes"]] == ["ask", "code"]
    assert result["configOptions"][0]["id"] == "how"
    (told,) = updates(said)
    assert told["availableCommands"] == [
        {"name": "go", "description": "Go.", "input": {"hint": "h"}},
        {"name": "up", "description": "Up."},
    ]
    assert talk.bridging.lost == {"input of a command": 1, "command of type _macro": 1}


def test_a_server_by_sse_is_refused() -> None:
    servers = [{"type": "sse", "name": "a", "url": "http://a", "headers": []}]
    said = v2_agent().client("session/new", {"cwd": "/code", "mcpServers": servers})
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32602)


def test_nothing_is_told_of_a_session_before_the_client_knows_of_it() -> None:
    talk = v2_agent()
    talk.client("session/new", {"cwd": "/code", "mcpServers": []})
    info = {"sessionUpdate": "session_info_update", "title": "T"}
    assert talk.tell(info, "t") == []
    assert talk.tell(info, "s") == [info], "of others it is"
    said = talk.answer("agent", {"sessionId": "t"})
    assert [one.get("id") is not None for one in said.to_client] == [True, False]
    assert updates(said) == [info]


def test_loading_is_resuming_from_the_start() -> None:
    talk = v2_agent()
    accepted(talk, "u")
    talk.client("session/load", {"sessionId": "s", "cwd": "/code", "mcpServers": []})
    talk.tell(message("user_message", "hello", key="u"))
    told = talk.tell(message("agent_message", "hi"))
    assert told == [chunk("hi")]
    assert talk.tell(idle(None)) == []
    said = talk.answer("agent", {"configOptions": [MODE]})
    assert set(said.to_client[0]["result"]) == {"configOptions", "modes"}


def test_what_is_loaded_again_is_told_again() -> None:
    talk = v2_agent()
    assert talk.tell(message("agent_message", "hi")) == [chunk("hi")]
    assert talk.tell(message("agent_message", "hi")) == []
    said = talk.client("session/load", {"sessionId": "s", "cwd": "/code", "mcpServers": []})
    assert said.to_agent[0]["method"] == "session/resume"
    assert said.to_agent[0]["params"]["replayFrom"] == {"type": "start"}
    assert talk.tell(message("user_message", "hello", key="u")) == [
        chunk("hello", "u", "user_message_chunk")
    ]
    assert talk.tell(message("agent_message", "hi")) == [chunk("hi")]


def test_resuming_asks_for_no_replay() -> None:
    said = v2_agent().client("session/resume", {"sessionId": "old", "cwd": "/code"})
    assert "replayFrom" not in said.to_agent[0]["params"]


def test_closing_answers_a_prompt_that_is_open() -> None:
    talk = v2_agent()
    turn = accepted(talk)
    talk.client("session/close", {"sessionId": "s"})
    said = talk.answer("agent", {})
    assert said.to_client[0] == {
        "jsonrpc": "2.0",
        "id": turn,
        "result": {"stopReason": "cancelled"},
    }
    assert said.to_client[1]["result"] == {}


# Options and modes


def test_choosing_a_mode_is_choosing_an_option() -> None:
    talk = v2_agent(configOptions=[MODE])
    said = talk.client("session/set_mode", {"sessionId": "s", "modeId": "code"})
    chosen = {"sessionId": "s", "configId": "how", "type": "id", "value": "code"}
    assert said.to_agent[0]["params"] == chosen
    said = talk.answer("agent", {"configOptions": [{**MODE, "currentValue": "code"}]})
    assert said.to_client[0]["result"] == {}
    (told,) = updates(said)
    assert told["configOptions"][0]["currentValue"] == "code"


def test_there_may_be_no_modes_to_choose_from() -> None:
    said = v2_agent().client("session/set_mode", {"sessionId": "s", "modeId": "code"})
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32602)


def test_choosing_an_option_tells_the_mode() -> None:
    talk = v2_agent(configOptions=[MODE])
    params = {"sessionId": "s", "configId": "how", "value": "code"}
    said = talk.client("session/set_config_option", params)
    assert said.to_agent[0]["params"] == {**params, "type": "id"}
    said = talk.answer("agent", {"configOptions": [{**MODE, "currentValue": "code"}]})
    assert said.to_client[0]["result"]["configOptions"][0]["id"] == "how"
    assert updates(said) == [{"sessionUpdate": "current_mode_update", "currentModeId": "code"}]
    told = {"sessionUpdate": "config_option_update", "configOptions": [MODE]}
    options, mode = talk.tell(told)
    assert options["sessionUpdate"] == "config_option_update"
    assert mode["currentModeId"] == "ask"


def test_a_switch_is_a_choice_for_clients_that_know_none() -> None:
    told = {"sessionUpdate": "config_option_update", "configOptions": [SWITCH, ODD]}
    talk = v2_agent()
    (update,) = talk.tell(told)
    (option,) = update["configOptions"]
    assert (option["type"], option["currentValue"]) == ("select", "true")
    assert talk.bridging.lost == {"option of type _range": 1}
    params = {"sessionId": "s", "configId": "fast", "value": "false"}
    said = talk.client("session/set_config_option", params)
    assert said.to_agent[0]["params"] == {**params, "type": "boolean", "value": False}
    talk = v2_agent(client=BOOLEANS)
    (update,) = talk.tell(told)
    assert update["configOptions"][0]["type"] == "boolean"
    params = {"sessionId": "s", "configId": "fast", "type": "boolean", "value": False}
    assert talk.client("session/set_config_option", params).to_agent[0]["params"] == params


# Turns


def test_a_prompt_is_answered_when_the_work_is_over() -> None:
    talk = v2_agent()
    turn = accepted(talk)
    assert say(talk, RUNNING).to_client == []
    said = say(talk, idle("max_tokens", _meta={"tokens": 3}))
    result = {"stopReason": "max_tokens", "_meta": {"tokens": 3}}
    assert said.to_client == [{"jsonrpc": "2.0", "id": turn, "result": result}]
    assert say(talk, idle("max_tokens")).to_client == [], "a state may be told twice"
    assert talk.bridging.lost == {}


def test_work_that_fails_answers_with_an_error() -> None:
    talk = v2_agent()
    accepted(talk)
    error = {"code": -32000, "message": "log in first"}
    assert say(talk, idle("error", error=error)).to_client[0]["error"] == error
    accepted(talk)
    assert say(talk, idle("error")).to_client[0]["error"]["code"] == -32603


@pytest.mark.parametrize(("reason", "lost"), [(None, 0), ("_bored", 1)])
def test_a_reason_that_v1_does_not_know_is_the_end_of_the_turn(
    reason: str | None, lost: int
) -> None:
    talk = v2_agent()
    accepted(talk)
    assert say(talk, idle(reason)).to_client[0]["result"] == {"stopReason": "end_turn"}
    assert sum(talk.bridging.lost.values()) == lost


def test_the_end_of_earlier_work_is_not_the_end_of_a_new_prompt() -> None:
    talk = v2_agent()
    assert say(talk, RUNNING).to_client == []
    assert talk.bridging.lost == {"state_update": 1}, "v1 knows no work that nobody asked for"
    prompt(talk)
    turn = talk.last
    assert say(talk, idle()).to_client == []
    talk.answer("agent", {"messageId": "u"})
    say(talk, RUNNING)
    assert say(talk, idle()).to_client[0]["id"] == turn


def test_work_may_be_over_before_the_prompt_is_answered() -> None:
    talk = v2_agent()
    prompt(talk)
    say(talk, RUNNING)
    assert say(talk, idle("refusal")).to_client == []
    said = talk.answer("agent", {"messageId": "u"})
    assert said.to_client[0]["result"] == {"stopReason": "refusal"}


def test_prompts_of_one_turn_end_with_it() -> None:
    talk = v2_agent()
    both = [accepted(talk, "u"), accepted(talk, "v")]
    assert [one["id"] for one in say(talk, idle()).to_client] == both


def test_a_prompt_that_was_refused_gets_the_agents_words() -> None:
    talk = v2_agent()
    prompt(talk)
    error = {"code": -32602, "message": "no pictures"}
    assert talk.answer("agent", error=error).to_client[0]["error"] == error
    prompt(talk)
    said = talk.answer("agent", error={"code": -32800, "message": "cancelled"})
    assert said.to_client[0]["result"] == {"stopReason": "cancelled"}


def test_taking_back_a_prompt_cancels_the_turn() -> None:
    talk = v2_agent()
    prompt(talk)
    said = talk.notify("client", "$/cancel_request", {"requestId": talk.last})
    assert said.to_agent[0]["method"] == "$/cancel_request"
    talk.answer("agent", {"messageId": "u"})
    said = talk.notify("client", "$/cancel_request", {"requestId": talk.last})
    assert said.to_agent[0]["method"] == "session/cancel"


def test_an_empty_prompt_is_refused() -> None:
    said = v2_agent().client("session/prompt", {"sessionId": "s", "prompt": []})
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32602)


def test_nothing_is_left_open_when_the_agent_ends() -> None:
    talk = v2_agent()
    turn = accepted(talk)
    (answer,) = talk.hold(talk.bridging.agent_gone()).to_client
    assert (answer["id"], answer["error"]["code"]) == (turn, -32603)


# What is said


def test_the_echo_of_a_prompt_is_not_told() -> None:
    talk = v2_agent()
    prompt(talk)
    assert talk.tell(message("user_message", "hello", key="u")) == []
    talk.answer("agent", {"messageId": "u"})
    assert talk.tell(chunk("!", "u", "user_message_chunk")) == []
    other = message("user_message", "from elsewhere", key="v")
    assert talk.tell(other) == [chunk("from elsewhere", "v", "user_message_chunk")]


def test_a_chunk_passes_as_it_is() -> None:
    talk = v2_agent()
    told = {"sessionId": "s", "update": chunk("hi")}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": told}
    assert talk.bridging.from_agent(message).to_client[0] is message


def test_of_a_message_that_is_told_as_a_whole_only_the_rest_is_new() -> None:
    talk = v2_agent()
    talk.tell(chunk("Héll"))
    talk.tell(chunk("o"))
    assert talk.tell(message("agent_message", "Héllo")) == []
    assert talk.tell(message("agent_message", "Hé", "llo, w", "orld")) == [
        chunk(", w"),
        chunk("orld"),
    ]
    assert talk.tell(message("agent_message", "Héllo, world")) == []
    assert talk.tell({"sessionUpdate": "agent_message", "messageId": "m"}) == []
    assert talk.bridging.lost == {}


def test_a_picture_is_not_shown_twice() -> None:
    talk = v2_agent()
    picture = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    told = {**message("agent_message"), "content": [TEXT, picture]}
    assert [one["content"]["type"] for one in talk.tell(told)] == ["text", "image"]
    assert talk.tell({**told, "content": [TEXT, picture, TEXT]}) == [chunk("hello")]


def test_a_message_that_is_replaced_is_shown_as_another() -> None:
    talk = v2_agent()
    talk.tell(chunk("Hello"))
    (told,) = talk.tell(message("agent_message", "Hullo"))
    assert told["content"]["text"] == "Hullo"
    assert told["messageId"] != "m"
    (more,) = talk.tell(chunk("!"))
    assert more["messageId"] == told["messageId"], "and goes on as that"
    assert talk.tell(message("agent_message", "Hullo!")) == []
    assert talk.tell({**message("agent_message"), "content": None}) == []
    assert talk.bridging.lost == {"agent_message that was replaced": 2}


def test_what_is_remembered_of_messages_is_bounded() -> None:
    talk = v2_agent()
    for number in range(MANY + 50):
        talk.tell(chunk("x", f"m{number}"))
    shown = talk.bridging._direction.sessions["s"].shown  # type: ignore[attr-defined]
    assert len(shown._messages) == MANY


def test_content_that_v1_does_not_know_is_named() -> None:
    talk = v2_agent()
    sketch = {"type": "_sketch", "lines": []}
    (told,) = talk.tell({**chunk(""), "content": sketch})
    assert told["content"] == {"type": "text", "text": "(content of type `_sketch`)"}
    block = {**TEXT, "annotations": {"audience": ["user", "_boss"]}}
    (told,) = talk.tell({**chunk(""), "content": block})
    assert told["content"]["annotations"] == {"audience": ["user"]}
    assert talk.bridging.lost == {"content of type _sketch": 1}


def test_all_plans_become_one() -> None:
    talk = v2_agent()

    def plan(key: str, *statuses: str, **more: Any) -> dict[str, Any]:
        entries = [
            {"content": f"{key}{i}", "priority": "low", "status": s} for i, s in enumerate(statuses)
        ]
        told = {"type": "items", "planId": key, "entries": entries, **more}
        return {"sessionUpdate": "plan_update", "plan": told}

    talk.tell(plan("a", "completed"))
    (told,) = talk.tell(plan("b", "pending", "cancelled", "_stuck"))
    assert [(one["content"], one["status"]) for one in told["entries"]] == [
        ("a0", "completed"),
        ("b0", "pending"),
        ("b2", "pending"),
    ]
    (told,) = talk.tell(plan("a"))
    assert [one["content"] for one in told["entries"]] == ["b0", "b2"]
    assert talk.tell(plan("c", type="_map")) == []
    assert talk.bridging.lost == {"entry of a plan": 1, "plan of type _map": 1}


NEWS = [
    {"sessionUpdate": "notice", "severity": "info", "title": "T"},
    {
        "sessionUpdate": "compaction_update",
        "compactionId": "c",
        "status": "completed",
        "summary": [TEXT],
    },
    {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": TEXT},
]


@pytest.mark.parametrize("update", NEWS, ids=lambda update: update["sessionUpdate"])
def test_news_that_a_client_has_not_asked_for_is_counted(update: dict[str, Any]) -> None:
    talk = v2_agent()
    assert talk.tell(update) == []
    assert talk.bridging.lost == {update["sessionUpdate"]: 1}
    asking = v2_agent(client={"session": {"notices": {}, "compaction": {}}})
    assert asking.tell(update) == [update]


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "session_info_update", "title": "T"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    ],
    ids=lambda update: update["sessionUpdate"],
)
def test_what_both_versions_say_alike_passes(update: dict[str, Any]) -> None:
    assert v2_agent().tell(update) == [update]


def test_updates_that_v1_does_not_know_are_left_out() -> None:
    talk = v2_agent()
    assert talk.tell({"sessionUpdate": "_weather", "sun": True}) == []
    assert talk.bridging.lost == {"_weather": 1}


def test_what_is_malformed_passes_as_it_came() -> None:
    talk = v2_agent()
    for update in (
        {"sessionUpdate": "plan_update", "plan": 3},
        {"sessionUpdate": "agent_message", "messageId": 3},
        {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": {"type": "text"}},
    ):
        assert talk.tell(update, odd=True) == [update]


# What is asked


def test_a_form_is_asked_without_formats_that_v1_does_not_know() -> None:
    talk = v2_agent()
    fields = {
        "a": {"type": "string", "format": "_phone"},
        "b": {"type": "string", "format": "email"},
    }
    schema = {"type": "object", "properties": fields}
    params = {"message": "m", "mode": "form", "sessionId": "s", "requestedSchema": schema}
    said = talk.agent("elicitation/create", params)
    asked = said.to_client[0]["params"]["requestedSchema"]["properties"]
    assert asked == {"a": {"type": "string"}, "b": {"type": "string", "format": "email"}}
    assert said.lost == {"format _phone": 1}
    answer = {"action": "decline"}
    assert talk.answer("client", answer).to_agent[0]["result"] == answer


def test_a_permission_request_needs_no_state() -> None:
    said = v2_agent().bridging.permission_asked("s", {"id": 1})
    assert (said.to_agent, said.to_client) == ([], [])


def test_a_page_to_visit_passes() -> None:
    params = {
        "message": "m",
        "mode": "url",
        "elicitationId": "e",
        "url": "http://x",
        "requestId": 1,
    }
    assert v2_agent().agent("elicitation/create", params).to_client[0]["params"] is params


# Bounds, and what passes


def test_what_the_agent_refuses_is_passed_on() -> None:
    error = {"code": -32000, "message": "log in first"}
    talk = v2_agent()
    for method, params in (
        ("session/new", {"cwd": "/code", "mcpServers": []}),
        ("session/set_config_option", {"sessionId": "s", "configId": "x", "value": "y"}),
    ):
        talk.client(method, params)
        assert talk.answer("agent", error=error).to_client[0]["error"] == error


def test_commands_are_told_as_v1_has_them() -> None:
    command = {"type": "command", "name": "go", "description": "Go."}
    update = {"sessionUpdate": "available_commands_update", "availableCommands": [command]}
    (told,) = v2_agent().tell(update)
    assert told["availableCommands"] == [{"name": "go", "description": "Go."}]


def test_a_prompt_is_told_in_words_that_v2_knows() -> None:
    block = {**TEXT, "annotations": {"priority": 7}}
    said = v2_agent().client("session/prompt", {"sessionId": "s", "prompt": [block]})
    assert said.to_agent[0]["params"]["prompt"] == [{**TEXT, "annotations": {}}]


def test_a_prompt_of_a_closed_session_is_answered_once() -> None:
    talk = v2_agent()
    prompt(talk)
    turn = talk.last
    talk.client("session/close", {"sessionId": "s"})
    assert len(talk.answer("agent", {}).to_client) == 2
    assert talk.answer("agent", {"messageId": "u"}, turn).to_client == []


def test_echoes_and_plans_are_bounded() -> None:
    talk = v2_agent()
    for number in range(300):
        accepted(talk, f"u{number}")
        plan = {"type": "items", "planId": f"p{number}", "entries": []}
        talk.tell({"sessionUpdate": "plan_update", "plan": plan})
    session = talk.bridging._direction.sessions["s"]  # type: ignore[attr-defined]
    assert (len(session.echoes), len(session.plans._plans)) == (64, 64)
