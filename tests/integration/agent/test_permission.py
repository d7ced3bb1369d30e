"""Asking the client: what is shown, what is remembered, and that only a clear yes is a yes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from callsheet.acp.jsonrpc import Response
from callsheet.agent.handler import Turn
from callsheet.report.content import ToolCallContent
from callsheet.tools.errors import ExecutionFailed
from callsheet.tools.result import ToolResult
from callsheet.tools.session import Call
from callsheet.tools.tool import tool
from tests.support.agent_client import Buffers, Client, Message, Refused, choose, doing, play

ASK = "session/request_permission"


class Ran:
    """A handler that runs tools, and keeps their results: one after another, or all at once."""

    def __init__(self, *calls: tuple[str, dict[str, Any]], together: bool = False) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = list(calls)
        self.results: list[ToolResult] = []
        self.handler: Any = doing(self._together if together else self._turn)

    async def _turn(self, _: object, turn: Turn) -> None:
        for name, arguments in self.calls:
            self.results.append(await turn.run(name, arguments))

    async def _together(self, _: object, turn: Turn) -> None:
        self.results += await turn.run_all(self.calls)

    @property
    def successes(self) -> list[bool]:
        return [result.success for result in self.results]


def bash(*commands: str) -> Ran:
    return Ran(*[("bash", {"command": command}) for command in commands])


def shown_in(asked: Message) -> Message:
    """Return the call that a request shows, in either version."""
    return asked["toolCall"] if "toolCall" in asked else asked["subject"]["toolCall"]


def names(client: Client) -> list[dict[str, str]]:
    """Return the names of the options of each request, by their kinds."""
    return [{one["kind"]: one["name"] for one in asked["options"]} for asked in client.asked(ASK)]


async def run(ran: Ran, cwd: Path, *answers: str, **more: Any) -> Client:
    """Run a turn in which questions are answered like this, and give the client when it is over."""
    async with play(handler=ran.handler, **more) as client:
        client.on[ASK] = choose(*answers)
        assert await client.prompt(await client.new_session(cwd)) == "end_turn"
    return client


# What is shown


@pytest.mark.parametrize("version", [1, 2])
async def test_request_carries_what_was_announced_under_the_same_id(
    tmp_path: Path, version: int
) -> None:
    client = await run(bash("echo hi"), tmp_path, "allow_once", version=version)
    (asked,) = client.asked(ASK)
    announced = next(update for update in client.updates_of() if "toolCallId" in update)
    shown = shown_in(asked)
    for field in ("toolCallId", "title", "kind", "rawInput", "name"):
        assert shown[field] == announced[field], field
    assert shown["rawInput"] == {"command": "echo hi"}
    assert client.call()["status"] == "completed"


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("answer", ["allow_once", "reject_once"])
async def test_the_change_is_shown_before_it_is_asked_about(
    tmp_path: Path, version: int, answer: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    ran = Ran(("edit", {"path": "a.txt", "old_text": "two", "new_text": "2"}))
    client = await run(ran, tmp_path, answer, version=version)
    (asked,) = client.asked(ASK)
    (diff,) = [item for item in shown_in(asked)["content"] if item["type"] == "diff"]
    if version == 1:
        assert diff == {
            "type": "diff",
            "path": str(path),
            "oldText": "one\ntwo\n",
            "newText": "one\n2\n",
        }
    else:
        assert "-two\n+2\n" in diff["patch"]["text"], diff
    before = client.received.index(next(m for m in client.received if m.get("method") == ASK))
    told = [str(m) for m in client.received[:before] if m.get("method") == "session/update"]
    assert any("'diff'" in one for one in told), "the call has it, too, before anybody is asked"
    diffs = [item for item in client.call()["content"] if item["type"] == "diff"]
    assert diffs == [diff], "and once"
    assert ran.successes == [answer == "allow_once"]
    assert path.read_text() == ("one\n2\n" if ran.successes[0] else "one\ntwo\n")


async def test_what_would_be_written_and_deleted_is_shown(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old\n")
    (tmp_path / "gone.txt").write_text("gone\n")
    ran = Ran(
        ("write", {"path": "new.txt", "content": "new\n"}),
        ("write", {"path": "old.txt", "content": "other\n"}),
        ("delete", {"path": "gone.txt"}),
    )
    client = await run(ran, tmp_path, "allow_once")
    assert ran.successes == [True] * 3
    shown = [
        [(item["oldText"], item["newText"]) for item in shown_in(asked)["content"]]
        for asked in client.asked(ASK)
    ]
    assert shown == [[(None, "new\n")], [("old\n", "other\n")], [("gone\n", "")]]


async def test_unsaved_text_is_in_the_change_that_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    ran = Ran(("edit", {"path": "a.txt", "old_text": "one", "new_text": "1"}))
    abilities = {"fs": {"readTextFile": True, "writeTextFile": True}}
    async with play(handler=ran.handler, capabilities=abilities) as client:
        Buffers(client).texts[str(path)] = "typed\none\n"
        client.on[ASK] = choose("allow_once")
        await client.prompt(await client.new_session(tmp_path))
        (item,) = shown_in(client.asked(ASK)[0])["content"]
    assert (item["oldText"], item["newText"]) == ("typed\none\n", "typed\n1\n")
    assert ran.successes == [True]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("edit", {"path": "a.txt", "old_text": "no such", "new_text": "x"}, "old_text is not in"),
        ("edit", {"path": "b.txt", "old_text": "x", "new_text": "y"}, "does not exist"),
        ("write", {"path": "a.txt/b", "content": ""}, "is a file, not a directory"),
        ("delete", {"path": "b.txt"}, "does not exist"),
    ],
)
async def test_what_can_not_be_done_is_not_asked_about(
    tmp_path: Path, name: str, arguments: dict[str, Any], said: str
) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    ran = Ran((name, arguments))
    client = await run(ran, tmp_path, "allow_once")
    assert client.asked(ASK) == []
    assert said in str(ran.results[0].error)
    assert client.call()["status"] == "failed"


async def test_a_change_that_is_not_the_one_allowed_is_asked_about_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\n")
    ran = Ran(("edit", {"path": "a.txt", "old_text": "one", "new_text": "1"}))

    async with play(handler=ran.handler) as client:

        def answer(_: Message) -> Message:
            if len(client.asked(ASK)) == 1:
                path.write_text("zero\none\n")  # somebody is quicker than the answer
            return {"outcome": {"outcome": "selected", "optionId": "allow_once"}}

        client.on[ASK] = answer
        await client.prompt(await client.new_session(tmp_path))
        shown = [shown_in(asked)["content"][0]["oldText"] for asked in client.asked(ASK)]
    assert shown == ["one\n", "zero\none\n"]
    assert path.read_text() == "zero\n1\n"
    assert ran.successes == [True]


async def test_two_edits_of_one_file_at_once_are_both_shown_as_they_will_be(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    ran = Ran(
        ("edit", {"path": "a.txt", "old_text": "one", "new_text": "1"}),
        ("edit", {"path": "a.txt", "old_text": "two", "new_text": "2"}),
        together=True,
    )
    await run(ran, tmp_path, "allow_once")
    assert ran.successes == [True, True]
    assert path.read_text() == "1\n2\n"


async def test_a_tool_of_ones_own_may_show_what_it_would_do(tmp_path: Path) -> None:
    async def preview(call: Call, count: int) -> list[Any]:
        if count > 3:
            raise ExecutionFailed("there are only 3 left")
        return [f"would take {count}", ToolCallContent.diff("/stock.txt", "3\n", f"{3 - count}\n")]

    @tool(kind="other", preview=preview)
    def take(call: Call, count: int) -> str:
        """Take some."""
        return f"took {count}"

    ran = Ran(("take", {"count": 2}), ("take", {"count": 4}))
    client = await run(ran, tmp_path, "allow_once", tools=[take])
    (asked,) = client.asked(ASK)
    assert [item["type"] for item in shown_in(asked)["content"]] == ["content", "diff"]
    assert shown_in(asked)["content"][0]["content"]["text"] == "would take 2"
    assert [result.error for result in ran.results] == [None, "there are only 3 left"]


# What is remembered


async def test_always_is_for_the_program_with_its_subcommand(tmp_path: Path) -> None:
    ran = bash("uname", "uname -a", "pwd", "uname | cat", "uname -a -i")
    client = await run(ran, tmp_path, "allow_always")
    assert [one["allow_always"] for one in names(client)] == [
        "Always allow `uname`",
        "Always allow `pwd`",
        "Always allow exactly this",
        "Always allow exactly this",
    ]
    assert names(client)[0] == {
        "allow_once": "Allow once",
        "allow_always": "Always allow `uname`",
        "reject_once": "Reject",
        "reject_always": "Always reject `uname`",
    }


async def test_what_is_always_allowed_covers_no_option_that_does_more(tmp_path: Path) -> None:
    for first, second in (
        ("git status", "git -c core.fsmonitor=./evil status"),
        ("git diff", "git diff --output=pwned"),
        ("npm test", "npm test --script-shell=./evil"),
        ("cat a", "cat /etc/passwd"),
        ("echo x", "printf -v 'a[$(touch pwned)]' x"),
    ):
        client = await run(bash(first, first, second), tmp_path, "allow_always", "reject_once")
        asked = [shown_in(one)["rawInput"]["command"] for one in client.asked(ASK)]
        assert asked == [first, second]


async def test_a_command_of_its_own_is_asked_about_again_once_it_is_another(tmp_path: Path) -> None:
    ran = bash("echo 1 && echo 2", "echo 1 && echo 2", "echo 1 && echo 3", "echo 1")
    client = await run(ran, tmp_path, "allow_always")
    assert [shown_in(one)["rawInput"]["command"] for one in client.asked(ASK)] == [
        "echo 1 && echo 2",
        "echo 1 && echo 3",
        "echo 1",
    ]


async def test_an_environment_of_its_own_is_not_what_was_always_allowed(tmp_path: Path) -> None:
    ran = bash("uname", "uname")
    ran.calls[1][1]["env"] = {"LD_PRELOAD": "/tmp/evil.so"}
    client = await run(ran, tmp_path, "allow_always")
    assert len(client.asked(ASK)) == 2
    assert names(client)[1]["allow_always"] == "Always allow exactly this"


async def test_always_rejected_is_not_asked_about_and_ends_denied(tmp_path: Path) -> None:
    ran = bash("uname", "uname", "pwd")
    client = await run(ran, tmp_path, "reject_always", "allow_once")
    assert ran.successes == [False, False, True]
    assert len(client.asked(ASK)) == 2
    for index in (0, 1):
        assert client.call(index)["status"] == "failed"
        assert client.call(index)["_meta"]["callsheet"]["reason"] == "denied"


async def test_always_for_edits_is_for_all_that_edit_in_the_workspace(tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    ran = Ran(
        ("write", {"path": "a.txt", "content": "a\n"}),
        ("edit", {"path": "a.txt", "old_text": "a", "new_text": "b"}),
        ("write", {"path": str(tmp_path / "out.txt"), "content": "x"}),
        ("write", {"path": str(tmp_path / "out.txt"), "content": "y"}),
        ("write", {"path": str(tmp_path / "other.txt"), "content": "z"}),
        ("delete", {"path": "a.txt"}),
        ("bash", {"command": "pwd"}),
    )
    client = await run(ran, inside, "allow_always")
    assert ran.successes == [True] * 7
    assert [one["allow_always"] for one in names(client)] == [
        "Always allow edits in the workspace",
        f"Always allow `write {tmp_path / 'out.txt'}`",
        f"Always allow `write {tmp_path / 'other.txt'}`",
        "Always allow `delete`",
        "Always allow `pwd`",
    ]


async def test_always_is_for_one_session(tmp_path: Path) -> None:
    ran = bash("uname")
    async with play(handler=ran.handler) as client:
        client.on[ASK] = choose("allow_always")
        for _ in range(2):
            await client.prompt(await client.new_session(tmp_path))
        assert len(client.asked(ASK)) == 2


async def test_always_fetching_is_for_a_host_and_for_what_only_reads(tmp_path: Path) -> None:
    ran = Ran(
        ("fetch", {"url": "http://127.0.0.1:9/a"}),
        ("fetch", {"url": "http://127.0.0.1:9/b", "method": "HEAD"}),
        ("fetch", {"url": "http://127.0.0.1:9/b", "method": "POST"}),
        ("fetch", {"url": "http://user:secret@localhost:9/b"}),
    )
    client = await run(ran, tmp_path, "allow_always")
    assert [one["allow_always"] for one in names(client)] == [
        "Always allow `fetch 127.0.0.1:9`",
        "Always allow `fetch POST 127.0.0.1:9`",
        "Always allow `fetch localhost:9`",
    ]


async def test_always_answered_for_one_of_many_answers_the_others(tmp_path: Path) -> None:
    ran = Ran(*[("write", {"path": f"{i}.txt", "content": "x"}) for i in range(5)], together=True)
    client = await run(ran, tmp_path, "allow_always")
    assert ran.successes == [True] * 5
    assert len(client.asked(ASK)) == 1


@pytest.mark.parametrize(("mode", "done"), [("all", True), ("read_only", False)])
async def test_a_mode_that_is_chosen_meanwhile_holds_for_what_waits(
    tmp_path: Path, mode: str, done: bool
) -> None:
    ran = Ran(*[("write", {"path": f"{i}.txt", "content": "x"}) for i in range(3)], together=True)
    async with play(handler=ran.handler) as client:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        client.on[ASK] = lambda _: answer
        session = await client.new_session(tmp_path)
        turn = client.start_prompt(session)
        await client.until(lambda: client.asked(ASK))
        await client.request("session/set_mode", {"sessionId": session, "modeId": mode})
        answer.set_result({"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        await turn
        assert len(client.asked(ASK)) == 1
    assert ran.successes == [True, done, done]


async def test_the_always_option_is_in_the_users_language(tmp_path: Path) -> None:
    client = await run(bash("uname"), tmp_path, "allow_once", locale="de")
    assert names(client)[0]["allow_always"] == "`uname` immer erlauben"


# Answers


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("answer", ["unheard_of", "", "allow", "ALLOW_ONCE"])
async def test_an_unknown_answer_is_no_approval(tmp_path: Path, version: int, answer: str) -> None:
    ran = bash("touch done")
    client = await run(ran, tmp_path, answer, version=version)
    assert ran.successes == [False]
    assert not (tmp_path / "done").exists()
    assert client.call()["_meta"]["callsheet"]["reason"] == "denied"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"outcome": None},
        {"outcome": "selected"},
        {"outcome": {"outcome": "selected"}},
        1,
        [],
    ],
)
async def test_an_answer_that_is_none_is_no_approval(tmp_path: Path, answer: Any) -> None:
    ran = bash("touch done")
    async with play(handler=ran.handler) as client:
        client.on[ASK] = lambda _: answer
        await client.prompt(await client.new_session(tmp_path))
    assert ran.successes == [False]
    assert not (tmp_path / "done").exists()


async def test_an_error_is_no_approval(tmp_path: Path) -> None:
    ran = bash("touch done")

    def refuse(_: Message) -> Message:
        raise Refused("unknown method", -32601)

    async with play(handler=ran.handler) as client:
        client.on[ASK] = refuse
        await client.prompt(await client.new_session(tmp_path))
        assert client.call()["status"] == "failed"
    assert not (tmp_path / "done").exists()


@pytest.mark.parametrize(("version", "status"), [(1, "failed"), (2, "cancelled")])
async def test_the_answer_cancelled_cancels_the_call(
    tmp_path: Path, version: int, status: str
) -> None:
    ran = bash("touch done")
    client = await run(ran, tmp_path, "cancelled", version=version)
    assert not (tmp_path / "done").exists()
    assert client.call()["status"] == status
    assert client.call()["_meta"]["callsheet"]["reason"] == "cancelled"
    assert ran.results[0].metadata["error_code"] == "cancelled"


@pytest.mark.parametrize("version", [1, 2])
async def test_waiting_for_an_answer_blocks_nothing_else(tmp_path: Path, version: int) -> None:
    (tmp_path / "a.txt").write_text("text\n")
    ran = Ran(("bash", {"command": "echo hi"}), ("read", {"path": "a.txt"}), together=True)
    async with play(handler=ran.handler, version=version) as client:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        client.on[ASK] = lambda _: answer
        session = await client.new_session(tmp_path)
        turn = client.start_prompt(session)
        await client.until(lambda: client.asked(ASK))
        await client.until(lambda: any(c["status"] == "completed" for c in client.calls.values()))
        assert (await client.request("session/list", {}))["sessions"]
        assert await client.new_session(tmp_path) != session
        assert not turn.done()
        answer.set_result({"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        assert await turn == "end_turn"
    assert ran.successes == [True, True]


@pytest.mark.parametrize("version", [1, 2])
async def test_cancelling_while_it_is_asked_ends_the_call_and_takes_the_question_back(
    tmp_path: Path, version: int
) -> None:
    ran = bash("touch done")
    async with play(handler=ran.handler, version=version) as client:
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        client.on[ASK] = lambda _: answer
        session = await client.new_session(tmp_path)
        turn = client.start_prompt(session)
        await client.until(lambda: client.asked(ASK))
        client.send_cancel(session)
        assert await turn == "cancelled"
        assert client.call()["_meta"]["callsheet"]["reason"] == "cancelled"
        asked = next(m for m in client.received if m.get("method") == ASK)
        taken_back = [m for m in client.received if m.get("method") == "$/cancel_request"]
        assert [m["params"]["requestId"] for m in taken_back] == [asked["id"]]
        allowed = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
        client.post(Response(asked["id"], allowed))  # it comes too late
        assert (await client.request("session/list", {}))["sessions"]
    assert not (tmp_path / "done").exists()


@tool(kind="delete")
def drop_database(name: str) -> str:
    """Drop a database."""
    return f"dropped {name}"


async def test_what_changes_no_files_is_asked_about_although_edits_are_allowed(tmp_path: Path):
    ran = Ran(("drop_database", {"name": "main"}), ("write", {"path": "a.txt", "content": "a"}))
    client = await run(ran, tmp_path, "reject_once", tools=[drop_database], permission="edits")
    assert len(client.asked(ASK)) == 1
    assert ran.successes == [False, True]


async def test_always_is_not_for_another_directory(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    in_sub = ("bash", {"command": "echo hi", "cwd": "sub"})
    ran = Ran(("bash", {"command": "echo hi"}), in_sub, in_sub)
    client = await run(ran, tmp_path, "allow_always", "allow_always")
    assert [one["allow_always"] for one in names(client)] == [
        "Always allow `echo`",
        "Always allow `echo (in sub)`",
    ]
    assert ran.successes == [True] * 3
