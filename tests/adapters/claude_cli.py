"""A scripted Claude Code: speaks its protocol on stdin and stdout, and plays the steps of `CLAUDE_STEPS`."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any

from tests.adapters import kit

IDS = itertools.count()
STEPS: list[Any] = json.loads(os.environ.get("CLAUDE_STEPS") or "[]")


class ScriptedCli:
    def __init__(self) -> None:
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._playing: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit=1 << 24)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            message = json.loads(line)
            if message["type"] == "control_request":
                answer = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                self.send(type="control_response", response=answer)
            elif message["type"] == "control_response":
                response = message["response"]
                self._answers.pop(response["request_id"]).set_result(response.get("response"))
            elif message["type"] == "user":
                task = asyncio.ensure_future(self.play(message))
                self._playing.add(task)
                task.add_done_callback(lambda done: done.exception() and os._exit(1))

    @staticmethod
    def send(**message: Any) -> None:
        sys.stdout.write(json.dumps({"session_id": "s1", "uuid": "u", **message}) + "\n")
        sys.stdout.flush()

    def say(self, blocks: list[Any], parent: str | None = None) -> None:
        """Send a message of the model, in pieces and whole."""
        for index, block in enumerate(blocks):
            is_text = block["type"] == "text"
            begin = {**block, "text": ""} if is_text else {**block, "input": {}}
            self._piece(parent, type="content_block_start", index=index, content_block=begin)
            for char in block["text"] if is_text else kit.typed(block["input"]):
                kind = {"type": "text_delta", "text": char}
                delta = kind if is_text else {"type": "input_json_delta", "partial_json": char}
                self._piece(parent, type="content_block_delta", index=index, delta=delta)
        usage = {"input_tokens": 90, "output_tokens": 10}
        message = {"role": "assistant", "content": blocks, "model": "scripted", "usage": usage}
        self.send(type="assistant", message=message, parent_tool_use_id=parent)

    def _piece(self, parent: str | None, **event: Any) -> None:
        if "--include-partial-messages" in sys.argv:
            self.send(type="stream_event", event=event, parent_tool_use_id=parent)

    async def play(self, prompt: Any) -> None:
        text = ""
        for step in STEPS:
            if isinstance(step, str):
                text = kit.looked(prompt) if step == kit.LOOK else step
                self.say([{"type": "text", "text": text}])
            else:
                await self.call(step)
        self.send(
            type="result",
            subtype="success",
            duration_ms=1,
            duration_api_ms=1,
            is_error=False,
            num_turns=1,
            result=text,
            usage={"input_tokens": 90, "output_tokens": 10},
            total_cost_usd=0.01,
            modelUsage={"scripted": {"contextWindow": 1000}},
        )

    async def call(self, step: Any, parent: str | None = None) -> None:
        uses = [
            {"type": "tool_use", "id": f"toolu_{next(IDS)}", "name": name, "input": arguments}
            for name, arguments in step
        ]
        self.say(uses, parent)
        await asyncio.gather(*(self.run(use, parent) for use in uses))

    async def run(self, use: Any, parent: str | None) -> None:
        content, is_error = await self.outcome(use)
        block = {"type": "tool_result", "tool_use_id": use["id"], "content": content}
        message = {"role": "user", "content": [{**block, "is_error": is_error}]}
        data = kit.measure(**use["input"]) if use["name"] == "measure" else None
        self.send(type="user", message=message, parent_tool_use_id=parent, tool_use_result=data)

    async def outcome(self, use: Any) -> tuple[Any, bool]:
        """Run a tool, and return what the model is given."""
        name, arguments = use["name"], use["input"]
        if name == "remove_note":
            key = f"r{use['id']}"
            self._answers[key] = asyncio.get_running_loop().create_future()
            asked = {"subtype": "can_use_tool", "tool_name": name, "input": arguments}
            self.send(
                type="control_request", request_id=key, request={**asked, "tool_use_id": use["id"]}
            )
            answer = await self._answers[key]
            if answer["behavior"] == "deny":
                return answer["message"], True
        elif name == "delegate":
            task = {
                "task_id": "t1",
                "description": "reading",
                "usage": {},
                "tool_use_id": use["id"],
            }
            self.send(type="system", subtype="task_progress", **task)
            await self.call([("read_note", arguments)], use["id"])
            return "read", False
        elif name == "doze":
            return "Command timed out after 50ms", True
        elif name == "picture":
            source = {"type": "base64", "media_type": "image/png", "data": kit.DOT}
            return [{"type": "image", "source": source}], False
        elif name == "hang":
            await asyncio.sleep(60)
        try:
            result = getattr(kit, name)(**arguments)
            result = await result if asyncio.iscoroutine(result) else result
        except ValueError as exc:
            return str(exc), True
        return result if isinstance(result, str) else json.dumps(result), False


if __name__ == "__main__":
    if "-v" in sys.argv or "--version" in sys.argv:
        sys.stdout.write("9.9.9 (Claude Code)\n")
    else:
        kit.Stage.met = []
        asyncio.run(ScriptedCli().serve())
