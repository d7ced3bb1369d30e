"""A client of ACP v2 in front of an agent of v1."""

from __future__ import annotations

from typing import Any

import pytest

from callsheet.tap.bridging.translated import KEEP
from callsheet.tap.bridging.v1_turns import MANY
from tests.support.bridging import (
    ASK_V1,
    INFO,
    MODES,
    TEXT,
    Talk,
    prompt,
    states,
    updates,
    v1_agent,
)

CANCEL = {"sessionId": "s"}
OPTION = {
    "id": "model",
    "name": "Model",
    "category": "model",
    "type": "select",
    "currentValue": "a",
    "options": [{"group": "g", "name": "G", "options": [{"value": "a", "name": "A"}]}],
}
MODE_OPTION = {
    "id": "how",
    "name": "Mode",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [{"value": "ask", "name": "Ask"}, {"value": "code", "name": "Code"}],
}


# Greeting


def test_the_agent_is_asked_for_v1_and_the_client_answered_in_v2() -> None:
    talk = Talk(1, 2)
    elicitation = {"form": {}, "_meta": {"x": 1}}
    capabilities = {"auth": {"terminal": {}}, "elicitation": elicitation}
    said = talk.client(
        "initialize", {"protocolVersion": 2, "info": INFO, "capabilities": capabilities}
    )
    told = said.to_agent[0]["params"]
    assert (told["protocolVersion"], told["clientInfo"]) == (1, INFO)
    offered = told["clientCapabilities"]
    assert offered["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert (offered["terminal"], offered["auth"]) == (False, {"terminal": True})
    assert offered["elicitation"] == elicitation
    assert set(offered["session"]) == {"compaction", "configOptions", "notices"}
    said = talk.answer(
        "agent",
        {
            "protocolVersion": 1,
            "agentInfo": {"name": "a", "version": "2"},
            "agentCapabilities": {
                "promptCapabilities": {"image": True, "audio": False},
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {"delete": {}, "list": {}},
            },
            "authMethods": [
                {"id": "login", "name": "Log in"},
                {"type": "terminal", "id": "tty", "name": "T", "args": ["-t"], "env": {"A": "1"}},
            ],
        },
    )
    result = said.to_client[0]["result"]
    assert (result["protocolVersion"], result["info"]["name"]) == (2, "a")
    assert result["capabilities"]["session"] == {
        "prompt": {"image": {}},
        "mcp": {"stdio": {}, "http": {}},
        "delete": {},
    }
    login, terminal = result["authMethods"]
    assert (login["type"], login["methodId"]) == ("agent", "login")
    assert (terminal["type"], terminal["env"]) == ("terminal", [{"name": "A", "value": "1"}])
    assert not talk.bridging.is_idle


def test_an_agent_that_says_nothing_of_itself_is_unknown() -> None:
    talk = Talk(1, 2)
    talk.client("initialize", {"protocolVersion": 2, "info": INFO})
    said = talk.answer("agent", {"protocolVersion": 1})
    assert said.to_client[0]["result"]["info"] == {"name": "unknown", "version": "unknown"}


def test_a_client_that_speaks_only_v1_is_passed_through() -> None:
    talk = Talk(1, 2)
    said = talk.client("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    assert said.to_agent[0]["params"] == {"protocolVersion": 1, "clientCapabilities": {}}
    result = {"protocolVersion": 1, "agentCapabilities": {}}
    assert talk.answer("agent", result).to_client[0]["result"] == result
    assert talk.bridging.is_idle
    request = {"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": 3}
    assert talk.bridging.from_client(request).to_agent[0] is request
    assert talk.bridging.from_agent(request).to_client[0] is request


def test_an_agent_that_answers_in_v2_is_passed_through() -> None:
    talk = Talk(1, 2)
    talk.client("initialize", {"protocolVersion": 2, "info": INFO})
    result = {"protocolVersion": 2, "info": INFO}
    assert talk.answer("agent", result, odd=True).to_client[0]["result"] == result
    assert talk.bridging.is_idle


def test_an_agent_that_speaks_only_v2_is_asked_again_as_the_client_asked() -> None:
    talk = Talk(1, 2)
    asked = {"protocolVersion": 2, "info": INFO}
    talk.client("initialize", asked)
    error = {"code": -32022, "message": "no", "data": {"requested": 1, "supported": [2]}}
    said = talk.answer("agent", error=error)
    assert (said.to_client, said.to_agent[0]["params"]) == ([], asked)
    talk.answer("agent", {"protocolVersion": 2, "info": INFO})
    assert talk.bridging.is_idle


def test_a_failed_greeting_is_passed_on() -> None:
    talk = Talk(1, 2)
    talk.client("initialize", {"protocolVersion": 2, "info": INFO})
    error = {"code": -32603, "message": "broken"}
    assert talk.answer("agent", error=error).to_client[0]["error"] == error


def test_logging_in_and_out_go_by_their_other_names() -> None:
    talk = v1_agent(auth={"logout": {}})
    said = talk.client("auth/login", {"methodId": "login"})
    assert (said.to_agent[0]["method"], said.to_agent[0]["params"]) == (
        "authenticate",
        {"methodId": "login"},
    )
    assert talk.answer("agent", {}).to_client[0]["result"] == {}
    assert talk.client("auth/logout", {}).to_agent[0]["method"] == "logout"


def test_logging_out_is_refused_where_the_agent_does_not_offer_it() -> None:
    said = v1_agent().client("auth/logout", {})
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32601)
    assert said.lost == {"auth/logout": 1}


# Sessions


def test_servers_are_told_as_v1_has_them() -> None:
    servers = [
        {"type": "stdio", "name": "a", "command": "/bin/a"},
        {"type": "http", "name": "b", "url": "http://b"},
    ]
    said = v1_agent().client("session/new", {"cwd": "/code", "mcpServers": servers})
    assert said.to_agent[0]["params"]["mcpServers"] == [
        {"name": "a", "command": "/bin/a", "args": [], "env": []},
        {"type": "http", "name": "b", "url": "http://b", "headers": []},
    ]


def test_a_server_that_v1_does_not_know_is_refused() -> None:
    servers = [{"type": "_pigeon"}]
    said = v1_agent().client("session/new", {"cwd": "/code", "mcpServers": servers})
    assert said.to_agent == []
    assert "_pigeon" in said.to_client[0]["error"]["message"]


def test_resuming_from_the_start_is_loading() -> None:
    talk = v1_agent(loadSession=True)
    params = {"sessionId": "old", "cwd": "/code", "replayFrom": {"type": "start"}}
    said = talk.client("session/resume", params)
    assert said.to_agent[0]["method"] == "session/load"
    assert said.to_agent[0]["params"] == {"sessionId": "old", "cwd": "/code", "mcpServers": []}
    (first,) = talk.tell({"sessionUpdate": "user_message_chunk", "content": TEXT}, "old")
    (again,) = talk.tell({"sessionUpdate": "user_message_chunk", "content": TEXT}, "old")
    (reply,) = talk.tell({"sessionUpdate": "agent_message_chunk", "content": TEXT}, "old")
    assert first["messageId"] == again["messageId"] != reply["messageId"]
    said = talk.answer("agent", {"modes": MODES})
    assert states(said) == ["idle"]
    assert said.to_client[-1]["result"]["configOptions"][0]["configId"] == "mode"


def test_resuming_without_a_replay_keeps_what_is_told_again_from_the_client() -> None:
    talk = v1_agent(loadSession=True)
    said = talk.client("session/resume", {"sessionId": "old", "cwd": "/code"})
    assert said.to_agent[0]["method"] == "session/load"
    assert talk.bridging.is_muted("old")
    assert not talk.bridging.is_muted("s")
    assert talk.tell({"sessionUpdate": "user_message_chunk", "content": TEXT}, "old") == []
    commands = {"sessionUpdate": "available_commands_update", "availableCommands": []}
    assert len(talk.tell(commands, "old")) == 1
    said = talk.answer("agent", {})
    assert said.to_client[-1]["result"] == {"configOptions": [], "availableCommands": []}
    assert not talk.bridging.is_muted("old")


def test_an_agent_that_can_resume_is_asked_to() -> None:
    talk = v1_agent(loadSession=True, sessionCapabilities={"resume": {}})
    said = talk.client("session/resume", {"sessionId": "old", "cwd": "/code"})
    assert said.to_agent[0]["method"] == "session/resume"
    error = {"code": -32002, "message": "gone"}
    assert talk.answer("agent", error=error).to_client[0]["error"] == error


def test_a_session_of_this_connection_is_resumed_by_what_is_known_of_it() -> None:
    talk = v1_agent(modes=True)
    prompt(talk)
    said = talk.client("session/resume", {"sessionId": "s", "cwd": "/code"})
    assert said.to_agent == []
    assert states(said) == ["running"]
    assert said.to_client[-1]["result"]["configOptions"][0]["currentValue"] == "ask"


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({}, -32002),
        ({"replayFrom": {"type": "start"}}, -32602),
        ({"replayFrom": {"type": "_x"}}, -32602),
    ],
)
def test_an_agent_that_keeps_nothing_can_not_resume(more: dict[str, Any], code: int) -> None:
    said = v1_agent().client("session/resume", {"sessionId": "old", "cwd": "/code", **more})
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], code)


def test_sessions_are_listed_by_the_agent_or_by_what_is_known() -> None:
    said = v1_agent().client("session/list", {})
    assert said.to_client[0]["result"] == {"sessions": [{"sessionId": "s", "cwd": "/code"}]}
    said = v1_agent().client("session/list", {"cwd": "/elsewhere"})
    assert said.to_client[0]["result"] == {"sessions": []}
    said = v1_agent(sessionCapabilities={"list": {}}).client("session/list", {})
    assert [one["method"] for one in said.to_agent] == ["session/list"]


def test_an_agent_that_can_not_close_has_its_turn_cancelled_first() -> None:
    talk = v1_agent()
    prompt(talk)
    turn = talk.last
    said = talk.client("session/close", {"sessionId": "s"})
    assert [one["method"] for one in said.to_agent] == ["session/cancel"]
    assert said.to_client == []
    said = talk.answer("agent", {"stopReason": "cancelled"}, turn)
    assert states(said) == [("idle", "cancelled")]
    assert said.to_client[-1]["result"] == {}
    assert v1_agent().client("session/close", {"sessionId": "s"}).to_client[0]["result"] == {}


def test_a_turn_is_over_before_its_session_is_closed() -> None:
    talk = v1_agent(sessionCapabilities={"close": {}})
    prompt(talk)
    turn = talk.last
    talk.client("session/close", {"sessionId": "s"})
    said = talk.answer("agent", {})
    assert states(said) == [("idle", "cancelled")]
    assert said.to_client[-1]["result"] == {}
    late = talk.answer("agent", {"stopReason": "cancelled"}, turn)
    assert late.to_client == [], "nothing is said of a session that was closed"


# Options and modes


def test_modes_become_an_option() -> None:
    talk = v1_agent(modes=True)
    params = {"sessionId": "s", "configId": "mode", "type": "id", "value": "code"}
    said = talk.client("session/set_config_option", params)
    assert said.to_agent[0]["method"] == "session/set_mode"
    assert said.to_agent[0]["params"] == {"sessionId": "s", "modeId": "code"}
    (option,) = talk.answer("agent", {}).to_client[0]["result"]["configOptions"]
    assert (option["category"], option["currentValue"]) == ("mode", "code")
    assert [one["value"] for one in option["options"]] == ["ask", "code"]
    assert talk.tell({"sessionUpdate": "current_mode_update", "currentModeId": "code"}) == []
    (told,) = talk.tell({"sessionUpdate": "current_mode_update", "currentModeId": "ask"})
    assert told["configOptions"][0]["currentValue"] == "ask"


def test_modes_are_not_told_twice() -> None:
    talk = v1_agent()
    talk.client("session/new", {"cwd": "/code"})
    said = talk.answer("agent", {"sessionId": "t", "modes": MODES, "configOptions": [MODE_OPTION]})
    (option,) = said.to_client[0]["result"]["configOptions"]
    assert option["configId"] == "how"
    (told,) = talk.tell({"sessionUpdate": "current_mode_update", "currentModeId": "code"}, "t")
    assert told["configOptions"][0]["currentValue"] == "code"
    params = {"sessionId": "t", "configId": "how", "type": "id", "value": "ask"}
    said = talk.client("session/set_config_option", params)
    assert said.to_agent[0]["params"] == {"sessionId": "t", "configId": "how", "value": "ask"}
    said = talk.answer("agent", {"configOptions": [MODE_OPTION]})
    assert said.to_client[0]["result"]["configOptions"][0]["configId"] == "how"


def test_a_mode_that_nobody_has_told_of_is_counted() -> None:
    talk = v1_agent()
    assert talk.tell({"sessionUpdate": "current_mode_update", "currentModeId": "code"}) == []
    assert talk.bridging.lost == {"current_mode_update": 1}


def test_options_and_their_groups_get_their_ids() -> None:
    talk = v1_agent(modes=True)
    (told,) = talk.tell({"sessionUpdate": "config_option_update", "configOptions": [OPTION]})
    model, mode = told["configOptions"]
    assert (model["configId"], model["options"][0]["groupId"]) == ("model", "g")
    assert mode["category"] == "mode"
    assert "id" not in model


def test_a_choice_of_nothing_is_left_out() -> None:
    talk = v1_agent()
    empty = {**OPTION, "options": []}
    (told,) = talk.tell({"sessionUpdate": "config_option_update", "configOptions": [empty]})
    assert told["configOptions"] == []
    assert talk.bridging.lost == {"option without a choice": 1}


def test_the_option_of_modes_has_an_id_of_its_own() -> None:
    talk = v1_agent(modes=True)
    taken = {**OPTION, "id": "mode"}
    (told,) = talk.tell({"sessionUpdate": "config_option_update", "configOptions": [taken]})
    assert [one["configId"] for one in told["configOptions"]] == ["mode", "_mode"]


def test_a_switch_passes_and_a_value_of_another_type_does_not() -> None:
    talk = v1_agent()
    params = {"sessionId": "s", "configId": "x", "type": "boolean", "value": True}
    assert talk.client("session/set_config_option", params).to_agent[0]["params"] == params
    params = {"sessionId": "s", "configId": "x", "type": "_range", "value": [1, 2]}
    said = talk.client("session/set_config_option", params)
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32602)


# Turns


def test_a_prompt_is_answered_at_once_and_the_state_tells_of_the_turn() -> None:
    talk = v1_agent()
    said = prompt(talk)
    assert [one["method"] for one in said.to_agent] == ["session/prompt"]
    key = said.to_client[0]["result"]["messageId"]
    heard, running = updates(said)
    assert heard == {"sessionUpdate": "user_message", "messageId": key, "content": [TEXT]}
    assert running["state"] == "running"
    said = talk.answer("agent", {"stopReason": "max_tokens", "_meta": {"tokens": 3}})
    (idle,) = updates(said)
    assert (idle["state"], idle["stopReason"], idle["_meta"]) == (
        "idle",
        "max_tokens",
        {"tokens": 3},
    )


def test_a_turn_that_fails_says_why() -> None:
    talk = v1_agent()
    prompt(talk)
    error = {"code": -32000, "message": "log in first"}
    (idle,) = updates(talk.answer("agent", error=error))
    assert (idle["stopReason"], idle["error"]) == ("error", error)


def test_a_turn_that_was_taken_back_is_cancelled() -> None:
    talk = v1_agent()
    prompt(talk)
    said = talk.answer("agent", error={"code": -32800, "message": "cancelled"})
    assert states(said) == [("idle", "cancelled")]


def test_a_turn_always_ends_whatever_the_agent_answers() -> None:
    talk = v1_agent()
    prompt(talk)
    assert states(talk.answer("agent", {"stopReason": 7}, odd=True)) == [("idle", "end_turn")]


def test_a_prompt_within_a_turn_waits_for_its_end() -> None:
    talk = v1_agent()
    prompt(talk)
    turn = talk.last
    said = prompt(talk, "and this")
    waiting = talk.last
    assert (said.to_agent, said.to_client) == ([], [])
    said = talk.answer("agent", {"stopReason": "end_turn"}, turn)
    assert states(said) == [("idle", "end_turn"), "running"]
    assert said.to_agent[0]["params"]["prompt"] == [{"type": "text", "text": "and this"}]
    assert said.to_agent[0]["id"] == waiting
    assert states(talk.answer("agent", {"stopReason": "refusal"}, waiting)) == [("idle", "refusal")]


def test_cancelling_drops_the_prompts_that_wait() -> None:
    talk = v1_agent()
    prompt(talk)
    prompt(talk, "and this")
    said = talk.notify("client", "session/cancel", CANCEL)
    assert [one["method"] for one in said.to_agent] == ["session/cancel"]
    assert (said.to_client[0]["id"], said.to_client[0]["error"]["code"]) == (talk.last, -32800)


def test_taking_back_a_prompt_that_was_answered_does_not_end_the_turn() -> None:
    talk = v1_agent()
    prompt(talk)
    said = talk.notify("client", "$/cancel_request", {"requestId": talk.last})
    assert (said.to_agent, said.to_client) == ([], [])
    prompt(talk, "and this")
    said = talk.notify("client", "$/cancel_request", {"requestId": talk.last})
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32800)
    assert len(talk.notify("client", "$/cancel_request", {"requestId": 99}).to_agent) == 1


def test_a_prompt_that_v1_can_not_say_is_refused() -> None:
    talk = v1_agent()
    blocks = [{"type": "_sketch", "lines": []}]
    said = talk.client("session/prompt", {"sessionId": "s", "prompt": blocks})
    assert said.to_agent == []
    assert "_sketch" in said.to_client[0]["error"]["message"]
    assert states(prompt(talk)) == ["running"], "and no turn has begun"


def test_nothing_is_left_open_when_the_agent_ends() -> None:
    talk = v1_agent()
    prompt(talk)
    prompt(talk, "and this")
    said = talk.hold(talk.bridging.agent_gone())
    assert said.to_client[0]["error"]["code"] == -32603
    assert states(said) == [("idle", "error")]


# What is said


def test_messages_get_ids_and_calls_part_them() -> None:
    talk = v1_agent()
    prompt(talk)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": TEXT}
    thought = {"sessionUpdate": "agent_thought_chunk", "content": TEXT}
    told = [talk.tell(one)[0]["messageId"] for one in (chunk, chunk, thought, chunk)]
    assert told[0] == told[1]
    assert len({told[0], told[2], told[3]}) == 3
    talk.bridging.call_told("s")
    (after,) = talk.tell(chunk)
    assert after["messageId"] not in told


def test_a_message_that_has_an_id_passes_as_it_is() -> None:
    talk = v1_agent()
    update = {"sessionUpdate": "agent_message_chunk", "messageId": "m", "content": TEXT}
    message = {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "s", "update": update},
    }
    assert talk.bridging.from_agent(message).to_client[0] is message


def test_the_echo_of_a_prompt_is_told_once() -> None:
    talk = v1_agent()
    prompt(talk)
    assert talk.tell({"sessionUpdate": "user_message_chunk", "content": TEXT}) == []
    other = {"type": "text", "text": "from elsewhere"}
    assert len(talk.tell({"sessionUpdate": "user_message_chunk", "content": other})) == 1


def test_trace_context_stays() -> None:
    talk = v1_agent()
    update = {"sessionUpdate": "agent_message_chunk", "content": TEXT}
    params = {"sessionId": "s", "update": update, "_meta": {"traceparent": "00-1"}}
    (message,) = talk.notify("agent", "session/update", params).to_client
    assert message["params"]["_meta"] == {"traceparent": "00-1"}


def test_a_priority_that_v2_does_not_know_is_left_out() -> None:
    block = {**TEXT, "annotations": {"priority": 7, "audience": ["user"]}}
    (told,) = v1_agent().tell({"sessionUpdate": "agent_message_chunk", "content": block})
    assert told["content"]["annotations"] == {"audience": ["user"]}


def test_a_plan_becomes_the_only_plan() -> None:
    entries = [{"content": "x", "priority": "low", "status": "pending"}]
    (told,) = v1_agent().tell({"sessionUpdate": "plan", "entries": entries})
    assert told["plan"] == {"type": "items", "planId": "plan", "entries": entries}


def test_commands_and_their_input_get_types() -> None:
    talk = v1_agent()
    command = {"name": "go", "description": "Go.", "input": {"hint": "where"}}
    update = {"sessionUpdate": "available_commands_update", "availableCommands": [command]}
    (told,) = talk.tell(update)
    assert told["availableCommands"] == [
        {
            "name": "go",
            "description": "Go.",
            "type": "command",
            "input": {"hint": "where", "type": "text"},
        }
    ]


@pytest.mark.parametrize(
    "update",
    [
        {"sessionUpdate": "session_info_update", "title": "T"},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2},
        {"sessionUpdate": "notice", "severity": "info", "title": "T"},
        {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"},
        {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c", "content": TEXT},
    ],
    ids=lambda update: update["sessionUpdate"],
)
def test_what_both_versions_say_alike_passes(update: dict[str, Any]) -> None:
    assert v1_agent().tell(update) == [update]


def test_what_is_malformed_passes_as_it_came() -> None:
    talk = v1_agent()
    for update in (
        {"sessionUpdate": "plan", "entries": [{"content": 3}]},
        {"sessionUpdate": "agent_message_chunk"},
        {"sessionUpdate": "available_commands_update", "availableCommands": {}},
        {"sessionUpdate": "_invented"},
        {"sessionUpdate": 3},
    ):
        assert talk.tell(update, odd=True) == [update]
    assert talk.bridging.lost == {"malformed": 3}


# What is asked


def test_files_and_terminals_of_the_client_are_refused() -> None:
    talk = v1_agent()
    said = talk.agent("fs/read_text_file", {"sessionId": "s", "path": "/x"})
    assert said.to_client == []
    assert said.to_agent[0]["error"]["code"] == -32601
    assert "initialize has said so" in said.to_agent[0]["error"]["message"]
    talk.agent("terminal/create", {"sessionId": "s", "command": "ls"})
    assert talk.bridging.lost == {"fs/read_text_file": 1, "terminal/create": 1}


def test_while_the_user_is_asked_the_state_says_so() -> None:
    talk = v1_agent()
    prompt(talk)
    first = {"jsonrpc": "2.0", "id": "a", "method": "session/request_permission", "params": ASK_V1}
    assert states(talk.hold(talk.bridging.permission_asked("s", first), first)) == [
        "requires_action"
    ]
    second = {**first, "id": "b"}
    assert states(talk.bridging.permission_asked("s", second)) == []
    yes = {"outcome": {"outcome": "selected", "optionId": "o"}}
    said = talk.answer("client", yes, "a", odd=True)
    assert (said.to_agent[0]["result"], said.to_client) == (yes, [])
    no = {"outcome": {"outcome": "cancelled"}}
    said = talk.answer("client", no, "b", odd=True)
    assert states(said) == ["running"]


def test_an_outcome_that_v1_does_not_know_is_no_yes() -> None:
    talk = v1_agent()
    request = {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "session/request_permission",
        "params": ASK_V1,
    }
    talk.bridging.permission_asked("s", request)
    talk._asked["agent"]["a"] = request["method"]
    said = talk.answer("client", {"outcome": {"outcome": "_later"}}, "a", odd=True)
    assert said.to_agent[0]["result"] == {"outcome": {"outcome": "cancelled"}}
    assert said.lost == {"answer to session/request_permission": 1}


def test_a_form_gets_what_v1_may_leave_out() -> None:
    talk = v1_agent()
    prompt(talk)
    params = {"message": "m", "mode": "form", "sessionId": "s", "requestedSchema": {}}
    said = talk.agent("elicitation/create", params)
    assert states(said) == ["requires_action"]
    asked = said.to_client[-1]["params"]
    assert asked["requestedSchema"] == {"type": "object", "properties": {}}
    said = talk.answer("client", {"action": "accept", "content": {"x": 1}})
    assert said.to_agent[0]["result"] == {"action": "accept", "content": {"x": 1}}
    assert states(said) == ["running"]


def test_one_call_can_not_be_cancelled() -> None:
    said = v1_agent().client("tool_call/cancel", {"sessionId": "s", "toolCallId": "c"})
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32602)
    assert "session/cancel ends the turn" in said.to_client[0]["error"]["message"]


def test_extensions_pass_both_ways() -> None:
    talk = v1_agent()
    message = {"jsonrpc": "2.0", "id": 77, "method": "_x/y", "params": [1]}
    assert talk.bridging.from_client(message).to_agent[0] is message
    answer = {"jsonrpc": "2.0", "id": 77, "result": None}
    assert talk.bridging.from_agent(answer).to_client[0] is answer
    assert talk.bridging.from_agent(message).to_client[0] is message
    assert talk.bridging.from_client(answer).to_agent[0] is answer


def test_a_question_without_an_id_is_refused() -> None:
    message = {"jsonrpc": "2.0", "id": None, "method": "elicitation/create", "params": {}}
    said = v1_agent().bridging.from_agent(message)
    assert said.to_agent[0]["error"]["code"] == -32600


# Bounds, and what passes


def test_what_the_agent_refuses_is_passed_on() -> None:
    error = {"code": -32000, "message": "log in first"}
    talk = v1_agent()
    for method, params in (
        ("session/new", {"cwd": "/code"}),
        (
            "session/set_config_option",
            {"sessionId": "s", "configId": "x", "type": "id", "value": "y"},
        ),
    ):
        talk.client(method, params)
        assert talk.answer("agent", error=error).to_client[0]["error"] == error


def test_a_page_to_visit_passes() -> None:
    talk = v1_agent()
    params = {
        "message": "m",
        "mode": "url",
        "elicitationId": "e",
        "url": "http://x",
        "requestId": 1,
    }
    assert talk.agent("elicitation/create", params).to_client[0]["params"] is params
    said = talk.answer("client", error={"code": -32601, "message": "no"})
    assert said.to_agent[0]["error"]["code"] == -32601


def test_an_answer_that_v1_does_not_know_is_taken_back() -> None:
    talk = v1_agent()
    params = {"message": "m", "mode": "form", "sessionId": "s", "requestedSchema": {}}
    talk.agent("elicitation/create", params)
    said = talk.answer("client", {"action": "accept", "content": {"x": {"deep": 1}}})
    assert said.to_agent[0]["result"] == {"action": "cancel"}


def test_a_prompt_is_told_in_words_that_v1_knows() -> None:
    block = {**TEXT, "annotations": {"audience": ["_boss"]}}
    said = v1_agent().client("session/prompt", {"sessionId": "s", "prompt": [block]})
    assert said.to_agent[0]["params"]["prompt"][0]["annotations"] == {"audience": []}
    assert updates(said)[0]["content"] == [block]


def test_prompts_that_wait_are_bounded() -> None:
    talk = v1_agent()
    for _ in range(MANY + 1):
        assert prompt(talk).lost == {}
    assert prompt(talk).to_client[0]["error"]["code"] == -32600


def test_sessions_and_requests_are_bounded() -> None:
    talk = v1_agent()
    for number in range(KEEP + 10):
        talk.bridging.call_told(f"s{number}")
        talk.bridging.from_client({"id": number, "method": "_x"})
    direction = talk.bridging._direction
    assert len(list(direction.sessions.items())) == KEEP  # type: ignore[attr-defined]
    assert len(direction.asked._waiting) == KEEP


def test_a_greeting_that_can_not_be_read_is_answered() -> None:
    said = Talk(1, 2).client("initialize", {"protocolVersion": 2, "info": 3}, odd=True)
    assert (said.to_agent, said.to_client[0]["error"]["code"]) == ([], -32602)
