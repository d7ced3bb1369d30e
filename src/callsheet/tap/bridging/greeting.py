"""What client and agent say of themselves in `initialize`, in the other's version."""

from __future__ import annotations

from callsheet.acp.blocks import as_list, as_object
from callsheet.observe.values import obj
from callsheet.report.json import JsonObject, JsonValue, is_object

from .translated import Translated

NOBODY: JsonObject = {"name": "unknown", "version": "unknown"}
"""v2 wants to know who it is. In v1, one need not say."""


# The client


def client_for_v1(params: JsonObject) -> JsonObject:
    """Return the greeting of a client of v2 for an agent of v1.

    Terminals are told of as Zed is: what an agent says of them in `_meta` becomes terminals of v2.
    """
    capabilities = obj(params.get("capabilities"))
    told: JsonObject = {
        "fs": {"readTextFile": False, "writeTextFile": False},
        "terminal": False,
        "session": {"compaction": {}, "configOptions": {"boolean": {}}, "notices": {}},
        "auth": {"terminal": obj(capabilities.get("auth")).get("terminal") is not None},
        "_meta": {**obj(capabilities.get("_meta")), "terminal_output": True},
    }
    if capabilities.get("elicitation") is not None:
        told["elicitation"] = capabilities["elicitation"]
    rest = _without(params, "info", "capabilities")
    return {
        **rest,
        "protocolVersion": 1,
        "clientInfo": params.get("info"),
        "clientCapabilities": told,
    }


def client_for_v2(params: JsonObject) -> JsonObject:
    """Return the greeting of a client of v1 for an agent of v2.

    The words of v1 stay beside those of v2: an agent that answers in v1 after all has been told everything.
    """
    capabilities = obj(params.get("clientCapabilities"))
    told: JsonObject = {}
    if obj(capabilities.get("auth")).get("terminal") is True:
        told["auth"] = {"terminal": {}}
    if capabilities.get("elicitation") is not None:
        told["elicitation"] = capabilities["elicitation"]
    info = params.get("clientInfo") or NOBODY
    return {**params, "protocolVersion": 2, "info": info, "capabilities": told}


# The agent


def agent_for_v2(result: JsonObject) -> JsonObject:
    """Return what an agent of v1 has answered, for a client of v2."""
    capabilities = obj(result.get("agentCapabilities"))
    prompt = obj(capabilities.get("promptCapabilities"))
    offered = obj(capabilities.get("sessionCapabilities"))
    session: JsonObject = {
        "prompt": {
            name: {} for name in ("image", "audio", "embeddedContext") if prompt.get(name) is True
        },
        "mcp": {"stdio": {}},
    }
    if obj(capabilities.get("mcpCapabilities")).get("http") is True:
        session["mcp"]["http"] = {}
    for name in ("delete", "additionalDirectories"):
        if offered.get(name) is not None:
            session[name] = offered[name]
    told: JsonObject = {"session": session}
    if is_object(capabilities.get("_meta")):
        told["_meta"] = capabilities["_meta"]
    answer: JsonObject = {
        **_without(result, "agentInfo", "agentCapabilities", "authMethods"),
        "protocolVersion": 2,
        "info": result.get("agentInfo") or NOBODY,
        "capabilities": told,
    }
    methods = as_list(result.get("authMethods") or [], "authMethods")
    if methods:
        answer["authMethods"] = [_login_for_v2(one) for one in methods]
    return answer


def agent_for_v1(result: JsonObject, said: Translated) -> JsonObject:
    """Return what an agent of v2 has answered, for a client of v1."""
    capabilities = obj(result.get("capabilities"))
    given = capabilities.get("session")
    session = obj(given)
    prompt = obj(session.get("prompt"))
    offered: JsonObject = {} if given is None else {"list": {}, "resume": {}, "close": {}}
    for name in ("delete", "additionalDirectories"):
        if session.get(name) is not None:
            offered[name] = session[name]
    methods = as_list(result.get("authMethods") or [], "authMethods")
    told: JsonObject = {
        "loadSession": given is not None,
        "promptCapabilities": {
            name: prompt.get(name) is not None for name in ("image", "audio", "embeddedContext")
        },
        "mcpCapabilities": {
            "http": obj(session.get("mcp")).get("http") is not None,
            "sse": False,
        },
        "sessionCapabilities": offered,
        "auth": {"logout": {}} if methods else {},
    }
    if is_object(capabilities.get("_meta")):
        told["_meta"] = capabilities["_meta"]
    return {
        **_without(result, "info", "capabilities"),
        "protocolVersion": 1,
        "agentInfo": result.get("info"),
        "agentCapabilities": told,
        "authMethods": [one for method in methods if (one := _login_for_v1(method, said))],
    }


# Ways to log in


def _login_for_v2(value: JsonValue) -> JsonObject:
    method = as_object(value, "authMethod")
    told = {
        **_without(method, "id"),
        "type": method.get("type") or "agent",
        "methodId": method.get("id"),
    }
    if told["type"] == "terminal" and is_object(method.get("env")):
        told["env"] = [{"name": name, "value": value} for name, value in method["env"].items()]
    return told


def _login_for_v1(value: JsonValue, said: Translated) -> JsonObject | None:
    method = as_object(value, "authMethod")
    kind = method.get("type")
    told = {**_without(method, "methodId", "type"), "id": method.get("methodId")}
    if kind == "agent":
        return told
    if kind != "terminal":
        said.lose(f"login of type {kind}")
        return None
    told["type"] = kind
    if "env" in method:
        pairs = [as_object(one, "env") for one in as_list(method["env"], "env")]
        told["env"] = {str(one.get("name")): one.get("value") for one in pairs}
    return told


def _without(value: JsonObject, *names: str) -> JsonObject:
    return {name: field for name, field in value.items() if name not in names}
