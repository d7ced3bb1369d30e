"""The model that plays a script answers every dialect as a model would, and refuses everything else."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.live import model as models
from tests.live.dialects.steps import PROMPT, Step, Use
from tests.live.model import Model

ASKED = [{"role": "user", "content": PROMPT}]
CHAT = {"model": "m", "messages": ASKED, "tools": [{"function": {"name": "run"}}]}
RESPONSES = {"model": "m", "input": ASKED, "tools": [{"name": "run"}]}
MESSAGES = {"model": "m", "messages": ASKED, "tools": [{"name": "run"}]}
GEMINI = {"contents": ASKED, "tools": [{"functionDeclarations": [{"name": "run"}]}]}
PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1beta/models/m:streamGenerateContent": GEMINI,
}
RUN = Use("run", {"command": "echo a long enough command"}, id="call_7")


@pytest.fixture
def model() -> Iterator[Model]:
    with Model().serving() as served:
        yield served


def ask(model: Model, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of an answer."""
    with httpx2.Client(trust_env=False) as client:
        answer = client.post(f"{model.url}{path}?alt=sse", json=body)
    assert answer.status_code == 200
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def chat_calls(events: list[dict[str, Any]]) -> tuple[str, str, str, int]:
    deltas = [one["choices"][0]["delta"] for one in events if one["choices"]]
    parts = [call for delta in deltas for call in delta.get("tool_calls", ())]
    arguments = [part["function"]["arguments"] for part in parts]
    return parts[0]["id"], parts[0]["function"]["name"], "".join(arguments), len(arguments)


def responses_calls(events: list[dict[str, Any]]) -> tuple[str, str, str, int]:
    kind = "response.function_call_arguments.delta"
    pieces = [one["delta"] for one in events if one["type"] == kind]
    (item,) = events[-1]["response"]["output"]
    return item["call_id"], item["name"], "".join(pieces), len(pieces)


def messages_calls(events: list[dict[str, Any]]) -> tuple[str, str, str, int]:
    (block,) = [one["content_block"] for one in events if one["type"] == "content_block_start"]
    deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    pieces = [delta["partial_json"] for delta in deltas]
    return block["id"], block["name"], "".join(pieces), len(pieces)


def gemini_calls(events: list[dict[str, Any]]) -> tuple[str, str, str, int]:
    (event,) = events
    (part,) = event["candidates"][0]["content"]["parts"]
    call = part["functionCall"]
    return call["id"], call["name"], json.dumps(call["args"]), 1


READERS = (chat_calls, responses_calls, messages_calls, gemini_calls)


@pytest.mark.parametrize(("path", "read"), list(zip(PATHS, READERS, strict=True)))
def test_call_arrives_as_it_was_scripted(model: Model, path: str, read: Any) -> None:
    model.plays(Step((RUN,)))

    key, name, arguments, pieces = read(ask(model, path, PATHS[path]))

    assert (key, name, json.loads(arguments)) == ("call_7", "run", RUN.arguments)
    assert pieces > 1 or read is gemini_calls
    assert model.tools == {"run"}


@pytest.mark.parametrize("path", PATHS)
def test_text_comes_when_the_script_is_over(model: Model, path: str) -> None:
    told = json.dumps(ask(model, path, PATHS[path]))

    assert "That is all." in told


ANSWERED = [*ASKED, {"role": "assistant", "content": "That is all."}]
SUGGESTING = [*ANSWERED, {"role": "user", "content": "What could the user say next?"}]
GOING_ON = [*ANSWERED, {"role": "tool", "tool_call_id": "call_6", "content": "done"}]


def test_errand_takes_no_step(model: Model) -> None:
    model.plays(Step((RUN,)))

    ask(model, "/v1/chat/completions", {"model": "m", "messages": ASKED})
    ask(model, "/v1/chat/completions", CHAT | {"messages": SUGGESTING})

    assert (
        chat_calls(ask(model, "/v1/chat/completions", CHAT | {"messages": GOING_ON}))[0] == "call_7"
    )


def test_text_that_a_tool_takes_as_it_is_comes_so(model: Model) -> None:
    model.plays(Step((Use("apply_patch", text="*** Begin Patch\n*** End Patch"),)))

    events = ask(model, "/v1/responses", RESPONSES)

    (item,) = events[-1]["response"]["output"]
    assert item["type"] == "custom_tool_call"
    assert item["input"] == "*** Begin Patch\n*** End Patch"


def test_other_hosts_are_refused_and_noted(model: Model) -> None:
    with httpx2.Client(trust_env=False, proxy=model.url) as client:
        with pytest.raises(httpx2.ProxyError):
            client.get("https://models.example/catalogue")
        assert client.get("http://updates.example/latest").status_code == 404

    assert model.strayed == [
        "CONNECT models.example:443",
        "GET http://updates.example/latest",
    ]


def test_too_many_requests_are_noted_and_get_no_answer(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "MOST_REQUESTS", 1)
    ask(model, "/v1/messages", MESSAGES)

    with pytest.raises(httpx2.RemoteProtocolError):
        ask(model, "/v1/messages", MESSAGES)

    assert "more than 1 requests" in model.strayed[0]


def test_nothing_is_left_of_a_model_that_has_served() -> None:
    before = threading.active_count()
    with Model().serving() as model:
        ask(model, "/v1/messages", MESSAGES)
        url = model.url

    with pytest.raises(httpx2.ConnectError), httpx2.Client(trust_env=False) as client:
        client.get(url)
    until = time.monotonic() + 5
    while threading.active_count() > before:
        assert time.monotonic() < until
        time.sleep(0.01)
