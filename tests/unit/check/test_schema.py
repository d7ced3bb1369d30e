"""Each message against the official schema of the version that was agreed on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scripts.refresh_schemas import SHIPPED, TARGET, UNSTABLE, shipped

from callsheet.acp import schemas
from tests.support import RECORDINGS
from tests.support.talk import Talk, everything, findings, rules


def turn(version: int = 1) -> Talk:
    return Talk(version).opened().prompt()


def breaches(talk: Talk) -> list[tuple[str | None, str]]:
    return [(one.field, one.message) for one in findings(talk, "schema")]


def told(version: int = 1, **fields: Any) -> Talk:
    """Make a call with these fields."""
    kind = "tool_call" if version == 1 else "tool_call_update"
    update = {
        "sessionUpdate": kind,
        "toolCallId": "a",
        "title": "Run",
        "status": "completed",
        **fields,
    }
    return turn(version).note("agent", "session/update", {"sessionId": "s", "update": update})


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_valid_is_not_found(version: int) -> None:
    talk = turn(version).call("a", "pending", title="Run").question("a", title="Run").decide()
    talk.call("a", "in_progress", locations=[{"path": "/a", "line": 1}], _meta={"own": 1}, own=True)
    talk.call("a", "completed", rawOutput=[1, "x"]).stop()
    for style in ("dir", "raw", "agent"):
        assert rules(talk.lines(style), "schema") == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "done"}, ("update.status", "`status` is none of those that there are: `pending`")),
        ({"kind": "party"}, ("update.kind", "`kind` is none of those that there are: `read`")),
        ({"title": 5}, ("update.title", "`title` must be a text")),
        ({"content": "text"}, ("update.content", "`content` must be a list")),
        ({"content": [{"type": "x"}]}, ("update.content[0].type", "`type` is none of those")),
        ({"content": [{"type": "diff", "path": "/a"}]}, ("update.content[0]", "`newText` is missing")),
        (
            {"content": [{"type": "content", "content": {"type": "text"}}]},
            ("update.content[0].content", "`text` is missing"),
        ),
        ({"locations": [{"path": "/a", "line": -1}]}, ("update.locations[0].line", "`line` must be at least 0")),
        ({"locations": [{"line": 1}]}, ("update.locations[0]", "`path` is missing")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_plain_words(
    fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    ((field, message),) = breaches(told(**fields))
    assert field == expected[0]
    assert message.startswith(expected[1])


def test_each_version_has_its_own_rules() -> None:
    line_0 = {"locations": [{"path": "/a", "line": 0}]}
    assert breaches(told(1, **line_0)) == []
    assert breaches(told(2, **line_0)) == [
        ("update.locations[0].line", "`line` must be at least 1")
    ]
    assert breaches(told(1, status="cancelled")) != []
    assert breaches(told(2, status="cancelled")) == []


def test_a_message_is_not_shown() -> None:
    words = "word " * 100
    (found,) = findings(told(content=[{"type": words, "text": words}], title=words), "schema")
    assert "word word" not in str(found)


def test_answers_are_judged_by_what_was_asked() -> None:
    assert breaches(turn().stop("whatever"))[0][0] == "result.stopReason"
    talk = Talk().hello()
    key = talk.ask("client", "session/new", {"cwd": "/w", "mcpServers": []})
    assert breaches(talk.answer("agent", key, {})) == [("result", "`sessionId` is missing")]
    talk = turn()
    key = talk.ask("agent", "fs/write_text_file", {"sessionId": "s", "path": "/a", "content": ""})
    assert breaches(talk.answer("client", key, None)) == []  # there is nothing to say
    assert breaches(turn().say("agent", {"id": 9, "error": {"code": "x", "message": "?"}})) != []


def test_what_no_schema_has_is_not_judged() -> None:
    talk = turn().note("agent", "_own/thing", {"x": 1}).note("client", "session/set_model", {})
    assert breaches(talk) == []
    third = Talk(3).hello().note("agent", "session/update", {"x": 1})
    assert breaches(third) == []


def test_before_a_version_is_agreed_on_each_will_do() -> None:
    newer = Talk(2).call("a", "cancelled", title="Run")
    older = Talk(1).call("a", "completed", content=[{"type": "diff", "path": "/a", "newText": ""}])
    assert breaches(newer) == breaches(older) == []
    assert breaches(Talk().note("agent", "session/update", {"x": 1})) != []


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "1.0", "method": "_x"},
        {"method": 5},
        {"id": 1},
        {"id": 1, "result": {}, "error": {"code": 1, "message": "x"}},
        {"params": {}},
    ],
)
def test_what_is_not_json_rpc(message: dict[str, Any]) -> None:
    assert rules(turn().say("agent", message), "schema") == ["schema/not-json-rpc"]


def test_what_real_agents_say_is_valid() -> None:
    for path in RECORDINGS.rglob("*.jsonl"):
        assert rules(path, "schema") == []


def least(version: int, schema: Any) -> Any:
    """Return the smallest value that a definition takes: what is required, and nothing else."""
    definitions = json.loads(TARGET.joinpath(f"v{version}", UNSTABLE).read_bytes())["$defs"]

    def of(schema: Any) -> Any:
        if "$ref" in schema:
            return of(definitions[schema["$ref"].rpartition("/")[2]])
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        value: Any = schema.get("enum", [None])[0]
        for one in (
            *schema.get("allOf", ()),
            *schema.get("anyOf", ())[:1],
            *schema.get("oneOf", ())[:1],
        ):
            made = of(one)
            value = (
                {**value, **made} if isinstance(value, dict) and isinstance(made, dict) else made
            )
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object":
            fields = {name: of(schema["properties"][name]) for name in schema.get("required", ())}
            return {**(value or {}), **fields}
        plain = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": []}
        return plain.get(kind, value)

    return of(schema)


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_whatever_is_official_is_no_error(version: int) -> None:
    definitions = json.loads(TARGET.joinpath(f"v{version}", UNSTABLE).read_bytes())["$defs"]
    told = definitions["SessionUpdate"]
    updates = [least(version, one) for one in told.get("oneOf", told.get("anyOf"))]
    kinds = {update["sessionUpdate"] for update in updates}
    assert {"subagent_update", "session_message", "compaction_update"} <= kinds
    for update in updates:
        if (
            "toolCallId" in update
            or "terminalId" in update
            or update["sessionUpdate"] == "state_update"
        ):
            continue  # there are rules about these
        talk = turn(version).note("agent", "session/update", {"sessionId": "s", "update": update})
        wrong = [one for one in everything(talk.stop()) if one.severity == "error"]
        assert wrong == [], update


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_the_session_of_a_subagent_is_known_once_it_was_announced(version: int) -> None:
    def child(talk: Talk) -> Talk:
        said = {"sessionUpdate": "agent_message_chunk", "messageId": "m"}
        said["content"] = {"type": "text", "text": "Looking around"}  # type: ignore[assignment]
        return talk.note("agent", "session/update", {"sessionId": "child", "update": said})

    announced = {"sessionUpdate": "subagent_update", "sessionId": "child", "title": "Explorer"}
    known = turn(version).note("agent", "session/update", {"sessionId": "s", "update": announced})
    assert [one.rule for one in everything(child(known)) if one.severity == "error"] == []
    assert "order/unknown-session" in [one.rule for one in findings(child(turn(version)))]


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_the_shipped_schemas_are_the_official_ones_without_their_prose(version: int) -> None:
    data = TARGET.joinpath(f"v{version}", UNSTABLE).read_bytes()
    assert SHIPPED.joinpath(f"v{version}.json").read_text() == shipped(data)


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_without_their_prose_the_schemas_judge_alike(version: int) -> None:
    """Of real messages and of such with one thing changed."""
    import jsonschema_rs

    whole = json.loads(TARGET.joinpath(f"v{version}", UNSTABLE).read_bytes())["$defs"]
    name = {1: "SessionNotification", 2: "UpdateSessionNotification"}[version]
    theirs = jsonschema_rs.validator_for({"$ref": f"#/$defs/{name}", "$defs": whole})
    ours = schemas.validator(version, name)
    lines = (
        RECORDINGS.joinpath("claude-agent-acp-0.99.1.mixed-none.jsonl").read_bytes().splitlines()
    )
    params = [json.loads(line)["msg"].get("params", {}) for line in lines]
    judged = [(ours.is_valid(one), theirs.is_valid(one)) for one in _changed(params)]
    assert all(mine == other for mine, other in judged)
    assert len({mine for mine, _ in judged}) == 2


def _changed(messages: list[Any]) -> list[Any]:
    return messages + [
        {**message, "update": {**message["update"], key: value}}
        for message in messages
        for key in message.get("update", {})
        for value in (None, 5, -1, "x", [], {})
    ]


def test_what_is_nested_too_deeply_for_any_reader_is_found() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    talk = turn().note("agent", "session/update", {"sessionId": "s", "update": deep})
    assert any("nested too deeply" in message for _, message in breaches(talk))
