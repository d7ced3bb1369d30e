"""What a client does wrong is answered by a right error of JSON-RPC, and the agent goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from callsheet.testing import assert_every_call_ended
from tests.support import schemas
from tests.support.processes import linux
from tests.support.raw_agent import RawAgent, line_of, local_agent, raw_agent

pytestmark = linux

PARSE, INVALID, UNKNOWN, PARAMS = -32700, -32600, -32601, -32602
NO_SESSION, CANCELLED = -32002, -32800


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawAgent]:
    """One agent that every test of this file does wrong to."""
    with raw_agent(tmp_path_factory.mktemp("shared")) as agent:
        agent.initialize()
        yield agent
        assert agent.is_alive()
        agent.close_stdin()
        assert agent.wait() == 0
        assert_every_call_ended(agent.lines, at_least=0)
        assert agent.leaves_nothing()
        assert b"Traceback" not in agent.stderr


GARBAGE: dict[str, tuple[bytes, int]] = {
    "words": (b"hello", PARSE),
    "binary": (bytes(range(128, 256)), PARSE),
    "NUL": (b"\0\0\0", PARSE),
    "half an object": (b'{"jsonrpc":"2.0","id":', PARSE),
    "two objects": (b"{}{}", PARSE),
    "a broken surrogate": (b'{"jsonrpc":"2.0","id":"\\ud800","method":"x"}', PARSE),
    "no UTF-8": (b'{"jsonrpc":"2.0","id":"\xff","method":"x"}', PARSE),
    "deep nesting": (b"[" * 1_000_000, PARSE),
    "deep objects": (b'{"a":' * 500_000 + b"1" + b"}" * 500_000, PARSE),
    "a number": (b"42", INVALID),
    "null": (b"null", INVALID),
    "an empty object": (b"{}", INVALID),
    "an empty batch": (b"[]", INVALID),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', INVALID),
    "another version": (b'{"jsonrpc":"1.0","method":"session/list"}', INVALID),
    "a fraction as id": (b'{"jsonrpc":"2.0","id":1.5,"method":"session/list"}', INVALID),
    "true as id": (b'{"jsonrpc":"2.0","id":true,"method":"session/list"}', INVALID),
    "an object as id": (b'{"jsonrpc":"2.0","id":{},"method":"session/list"}', INVALID),
    "a number as method": (b'{"jsonrpc":"2.0","method":7}', INVALID),
    "text as params": (b'{"jsonrpc":"2.0","method":"session/list","params":"x"}', INVALID),
    "an answer without id": (b'{"jsonrpc":"2.0","result":{}}', INVALID),
    "an id beyond all numbers": (
        b'{"jsonrpc":"2.0","id":' + b"9" * 400 + b',"method":"session/list"}',
        INVALID,
    ),
    "an id without end": (
        b'{"jsonrpc":"2.0","id":"' + b"i" * 9_000_000 + b'","method":"session/list"}',
        INVALID,
    ),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_an_error_without_an_id(shared: RawAgent, name: str):
    line, code = GARBAGE[name]
    before = len(shared.answers(None))
    shared.send_bytes(line + b"\n")
    shared.until(lambda: len(shared.answers(None)) > before)
    assert shared.answers(None)[before]["error"]["code"] == code
    assert shared.is_alive()


def test_a_line_of_100_mb_is_an_error_and_takes_no_more_memory_than_its_limit(tmp_path: Path):
    with raw_agent(tmp_path) as agent:
        agent.initialize()
        before, most = agent.rss_mb(), 0.0
        piece = b"x" * 1_000_000
        for _ in range(100):
            agent.send_bytes(piece)
            most = max(most, agent.rss_mb())
        agent.send_bytes(b"\n")
        error = agent.answer(None)["error"]
        assert error["code"] == INVALID
        assert "67108864 bytes" in error["message"]
        assert most - before < 120
        assert agent.is_alive()
        agent.until(lambda: agent.rss_mb() - before < 60)


def test_blank_lines_are_ignored(shared: RawAgent):
    count = len(shared.messages)
    shared.send_bytes(b"\n\r\n  \n\t\n")
    assert shared.is_alive()
    assert len(shared.messages) == count + 1


@pytest.mark.parametrize("key", [0, -1, 2**63 - 1, "x" * 1000, "", "\u2028 ünï", "1"], ids=str)
def test_ids_come_back_as_they_were(shared: RawAgent, key: Any):
    shared.send({"id": key, "method": "session/list", "params": {}})
    assert "result" in shared.answer(key)
    assert len(shared.answers(key)) == 1


def test_an_id_in_use_is_refused_and_the_first_request_is_answered(shared: RawAgent):
    session = shared.new_session()
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "!sleep 60"}]}
    request = {"id": "twice", "method": "session/prompt", "params": prompt}
    shared.send(request, request)
    assert shared.answer("twice")["error"]["code"] == INVALID
    shared.send({"method": "session/cancel", "params": {"sessionId": session}})
    shared.until(lambda: len(shared.answers("twice")) == 2)
    assert shared.answers("twice")[1]["result"] == {"stopReason": "cancelled"}
    assert "result" in shared.ask("session/list")


@pytest.mark.parametrize(
    "method", ["", "session", "session/nothing", "toString", "__class__", "fs/read_text_file"]
)
def test_an_unknown_method_is_an_error(shared: RawAgent, method: str):
    assert shared.ask(method)["error"]["code"] == UNKNOWN


@pytest.mark.parametrize("method", ["x" * 20_000_000, "\0", "\U0001f600" * 5000], ids=len)
def test_an_error_does_not_quote_without_end(shared: RawAgent, method: str):
    answer = shared.ask(method)
    assert answer["error"]["code"] == UNKNOWN
    assert len(answer["error"]["message"]) < 3000


def test_an_unknown_notification_is_ignored(shared: RawAgent):
    count = len(shared.messages)
    shared.send({"method": "what/ever", "params": [1]}, {"method": "session/prompt"})
    assert shared.is_alive()
    assert len(shared.messages) == count + 1


def test_other_requests_before_initialize_are_refused(tmp_path: Path):
    with local_agent(tmp_path) as agent:
        for method in ("session/new", "session/list", "session/prompt", "authenticate"):
            error = agent.ask(method, {"cwd": str(tmp_path), "mcpServers": []})["error"]
            assert (error["code"], "initialize first" in error["message"]) == (INVALID, True)
        agent.send({"method": "session/cancel", "params": {"sessionId": "x"}})
        assert "result" in agent.initialize()


def test_initialize_is_accepted_once(shared: RawAgent):
    assert shared.initialize()["error"]["code"] == INVALID


@pytest.mark.parametrize("version", [0, 1, 2, 3, 65535, -1, 10**30])
def test_any_version_is_answered_with_one_that_is_spoken(tmp_path: Path, version: int):
    with local_agent(tmp_path) as agent:
        assert agent.initialize(version)["result"]["protocolVersion"] == 1


# Params, as the schema of v1 has them

METHODS = {
    "initialize": "InitializeRequest",
    "authenticate": "AuthenticateRequest",
    "session/new": "NewSessionRequest",
    "session/close": "CloseSessionRequest",
    "session/set_mode": "SetSessionModeRequest",
    "session/set_config_option": "SetSessionConfigOptionRequest",
    "session/prompt": "PromptRequest",
}
ODD: list[Any] = [None, True, 7, 1.5, "", [], {}, ["x"], {"x": 1}]


def valid(method: str, session: str, cwd: Path) -> dict[str, Any]:
    return {
        "initialize": {"protocolVersion": 1, "clientCapabilities": {}},
        "authenticate": {"methodId": "x"},
        "session/new": {"cwd": str(cwd), "mcpServers": []},
        "session/close": {"sessionId": session},
        "session/set_mode": {"sessionId": session, "modeId": "ask"},
        "session/set_config_option": {
            "sessionId": session,
            "configId": "permission",
            "value": "ask",
        },
        "session/prompt": {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]},
    }[method]


def wrong_params() -> Iterator[Any]:
    for method, name in METHODS.items():
        shape = json.loads((schemas.FOLDER / "v1/schema.json").read_text(encoding="utf-8"))
        for field in shape["$defs"][name]["required"]:
            yield pytest.param(method, name, field, id=f"{method} {field}")


@pytest.mark.parametrize(("method", "name", "field"), list(wrong_params()))
def test_a_required_field_that_is_missing_or_of_another_type_is_named(
    shared: RawAgent, tmp_path: Path, method: str, name: str, field: str
):
    good = valid(method, shared.new_session(), shared.cwd)
    bad = [{key: value for key, value in good.items() if key != field}]
    bad += [{**good, field: odd} for odd in ODD]
    with local_agent(tmp_path) as fresh:
        agent = fresh if method == "initialize" else shared
        asked = 0
        for params in bad:
            if schemas.validator(1, name).is_valid(params):
                continue
            error = agent.ask(method, params)["error"]
            assert error["code"] == PARAMS, (params, error)
            assert field in error["message"], (params, error)
            asked += 1
        assert asked >= 5


BLOCKS: list[Any] = [
    "hello",
    None,
    {},
    {"type": "text"},
    {"type": "text", "text": None},
    {"type": "text", "text": 7},
    {"type": ["text"], "text": "x"},
    {"type": "image", "data": "", "mimeType": "image/png"},
    {"type": "resource_link", "uri": "file:///x"},
    {"type": "resource", "resource": {}},
    {"type": "resource", "resource": {"uri": "file:///x", "text": 1}},
    {"type": "hologram"},
]


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_a_block_that_is_not_as_the_schema_has_it_is_refused(shared: RawAgent, block: Any):
    session = shared.new_session()
    error = shared.ask("session/prompt", {"sessionId": session, "prompt": [block]})["error"]
    assert error["code"] == PARAMS
    assert "prompt[0]" in error["message"]


def test_params_that_are_nested_too_deeply_to_be_checked_are_refused(shared: RawAgent):
    block: Any = {"type": "text", "text": "x"}
    for _ in range(900):
        block = [block]
    params = {"sessionId": shared.new_session(), "prompt": [block]}
    assert shared.ask("session/prompt", params)["error"]["code"] == PARAMS


@pytest.mark.parametrize("params", [[], [1, 2], ["x"]])
def test_params_by_place_are_refused(shared: RawAgent, params: list[Any]):
    shared.send({"id": "placed", "method": "session/new", "params": params})
    before = len(shared.answers("placed"))
    shared.until(lambda: len(shared.answers("placed")) >= before)
    assert shared.answer("placed")["error"]["code"] == PARAMS


@pytest.mark.parametrize(
    "cwd",
    ["", ".", "relative/path", "/does/not/exist", "/etc/passwd", "/\0", "/" + "x" * 5000],
    ids=len,
)
def test_a_directory_that_does_not_exist_is_refused(shared: RawAgent, cwd: str):
    error = shared.ask("session/new", {"cwd": cwd, "mcpServers": []})["error"]
    assert error["code"] == PARAMS
    assert "cwd" in error["message"]


# Sessions and answers that there are not


@pytest.mark.parametrize(
    "method", ["session/prompt", "session/close", "session/set_mode", "session/set_config_option"]
)
def test_an_unknown_session_is_named(shared: RawAgent, method: str):
    error = shared.ask(method, valid(method, "sess_nothing", shared.cwd))["error"]
    assert error["code"] == NO_SESSION
    assert error["data"] == {"sessionId": "sess_nothing"}


def test_a_closed_session_takes_no_prompt(shared: RawAgent):
    session = shared.new_session()
    assert shared.ask("session/close", {"sessionId": session})["result"] == {}
    key = shared.prompt(session, "hello")
    assert shared.answer(key)["error"]["code"] == NO_SESSION
    assert shared.ask("session/close", {"sessionId": session})["error"]["code"] == NO_SESSION


@pytest.mark.parametrize("key", ["sess_nothing", "", None, 7, [], {}, True])
def test_a_cancel_for_an_unknown_session_is_ignored(shared: RawAgent, key: Any):
    count = len(shared.messages)
    shared.send({"method": "session/cancel", "params": {"sessionId": key}})
    assert shared.is_alive()
    assert len(shared.messages) == count + 1


@pytest.mark.parametrize("key", ["nothing", None, 7, 7.5, True, [], {"a": 1}, 10**40])
def test_cancelling_an_unknown_request_is_ignored(shared: RawAgent, key: Any):
    count = len(shared.messages)
    shared.send({"method": "$/cancel_request", "params": {"requestId": key}})
    shared.send({"method": "$/cancel_request"}, {"method": "$/cancel_request", "params": [key]})
    assert shared.is_alive()
    assert len(shared.messages) == count + 1


ANSWERS: list[dict[str, Any]] = [
    {"id": 99_999, "result": {}},
    {"id": "nobody", "result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}},
    {"id": None, "result": None},
    {"id": 99_999, "error": {"code": 1, "message": "no"}},
]


@pytest.mark.parametrize("answer", ANSWERS, ids=repr)
def test_a_response_that_nobody_waits_for_is_ignored(shared: RawAgent, answer: dict[str, Any]):
    count = len(shared.messages)
    shared.send(answer)
    assert shared.is_alive()
    assert len(shared.messages) == count + 1


def test_a_mixture_in_one_piece_is_answered_one_by_one(shared: RawAgent):
    before = len(shared.answers(None))
    lines = [b"garbage\n", line_of({"id": "m1", "method": "session/list"}), b"{}\n", b"[]\n"]
    lines.append(line_of({"id": "m2", "method": "nothing"}))
    shared.send_bytes(b"".join(lines) * 1)
    assert "result" in shared.answer("m1")
    assert shared.answer("m2")["error"]["code"] == UNKNOWN
    assert len(shared.answers(None)) == before + 3
