"""LangChain, and graphs of LangGraph: a callback handler that reports the tool calls of a run.

    reports = report_calls(session)
    config = {"callbacks": [reports], "configurable": {"thread_id": "1"}}
    result = await agent.ainvoke({"messages": […]}, config)
    while command := await reports.decided(result):  # HumanInTheLoopMiddleware asks, in the editor
        result = await agent.ainvoke(command, config)

Runs are a tree, and the nearest tool above a call is its parent. Whatever takes `callbacks` takes this
handler, also an ACP server of LangChain's own.
"""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

from callsheet.adapters.argument_stream import whole_arguments
from callsheet.adapters.framework import derived, harmless, imported, require
from callsheet.adapters.reporter import Reporter
from callsheet.report.json import JsonObject, is_list, is_object
from callsheet.runtime.clock import new_call_id
from callsheet.runtime.session import RuntimeSession

VERSIONS = ("langchain-core", "1.2", "2")
GRAPHS = ("langgraph", "1.0", "2")


def report_calls(session: RuntimeSession | Reporter) -> Any:
    """Return a handler for `config={"callbacks": […]}`, of runs that are async or not.

    Raises:
        UnknownFramework: LangChain is not installed, or is too old.
    """
    require(*VERSIONS)
    reporter = session if isinstance(session, Reporter) else Reporter(session, VERSIONS[0])
    return derived(ReportingCallbacks, VERSIONS, "langchain_core.callbacks", "BaseCallbackHandler")(
        reporter
    )


class ReportingCallbacks:
    """Reports what is run. LangChain's `BaseCallbackHandler` is added to it."""

    run_inline: bool = True  # else these would be called in threads, and in no order

    def __init__(self, reporter: Reporter) -> None:
        self.reporter: Reporter = reporter
        self._above: dict[Any, Any] = {}
        self._keys: dict[Any, str] = {}
        self._streamed: dict[tuple[Any, Any], str] = {}
        self._wanted: dict[str, Any] = {}

    # The tree of runs

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: Any, **rest: Any) -> None:
        """Remember what is above."""
        self._above[run_id] = rest.get("parent_run_id")

    on_chat_model_start: Any = on_chain_start

    @harmless
    def on_chain_end(self, outputs: Any, *, run_id: Any, **rest: Any) -> None:
        """Report the end of calls that no tool was run for, such as those of unknown tools."""
        self._above.pop(run_id, None)
        messages: Any = outputs.get("messages") if is_object(outputs) else outputs
        for one in messages if is_list(messages) else ():
            key: Any = getattr(one, "tool_call_id", None)
            if key in self.reporter.calls and key not in self._keys.values():
                self.reporter.end(key, one.content, is_error=one.status == "error")

    def on_chain_error(self, error: BaseException, *, run_id: Any, **rest: Any) -> None:
        """Report the end of tools that were cancelled with the run above them, of which no callback tells."""
        for tool in [one for one in self._keys if run_id in self._ancestors(one)]:
            if not _is_interrupt(error):
                self.reporter.end(self._ended(tool), exc=CancelledError())
        self._above.pop(run_id, None)
        if not self._above and not _is_interrupt(error):  # nothing runs any more
            self.reporter.abandon(self.reporter.calls, error)

    @harmless
    def on_llm_end(self, response: Any, *, run_id: Any, **rest: Any) -> None:
        """Remember what the model wants to call: the user may be asked about it."""
        self._answered(run_id)
        message = getattr(response.generations[0][0], "message", None)
        self._wanted |= {one["id"]: one for one in getattr(message, "tool_calls", ())}

    def on_llm_error(self, error: BaseException, *, run_id: Any, **rest: Any) -> None:
        """Report the end of calls that the model did not write to their end."""
        self.reporter.abandon(self._answered(run_id), error)

    def _answered(self, run_id: Any) -> list[str]:
        self._above.pop(run_id, None)
        places = [place for place in self._streamed if place[0] == run_id]
        return [self._streamed.pop(place) for place in places]

    def _ancestors(self, run_id: Any) -> list[Any]:
        found: list[Any] = []
        while (run_id := self._above.get(run_id)) is not None:
            found.append(run_id)
        return found

    def is_in_tool(self, run_id: Any) -> bool:
        """Whether a run is a part of a tool's."""
        return any(one in self._keys for one in self._ancestors(run_id))

    # Tools

    @harmless
    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: Any, **rest: Any) -> None:
        """Report that a tool runs."""
        self._above[run_id] = rest.get("parent_run_id")
        parents = [self._keys[one] for one in self._ancestors(run_id) if one in self._keys]
        key = self._keys[run_id] = str(rest.get("tool_call_id") or run_id)
        self._wanted.pop(key, None)
        name: str = (serialized["name"] if serialized else rest.get("name")) or "tool"
        args: Any = rest["inputs"] if rest.get("inputs") is not None else {"input": input_str}
        self.reporter.start(key, name, args, parent=parents[0] if parents else None)
        self.reporter.runs_here(key)

    @harmless
    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **rest: Any) -> None:
        """Report progress: what a tool dispatches is a text, or has `progress`, `total` and `message`."""
        if (key := self._keys.get(run_id)) and is_object(data):
            message: Any = data.get("message", name)
            self.reporter.progress(key, data.get("progress"), data.get("total"), message)
        elif key:
            self.reporter.progress(key, message=data if isinstance(data, str) else name)

    @harmless
    def on_tool_end(self, output: Any, *, run_id: Any, **rest: Any) -> None:
        """Report a result, or a failure that LangChain has made a message of."""
        key, is_error = self._ended(run_id), getattr(output, "status", None) == "error"
        if hasattr(output, "tool_call_id"):  # a message has objects as JSON text
            content = output.content
            output = whole_arguments(content) if isinstance(content, str) and content else content
        self.reporter.end(key, output, is_error=is_error)

    def on_tool_error(self, error: BaseException, *, run_id: Any, **rest: Any) -> None:
        """Report a failure. An interrupt is none: the tool is run again when it is answered."""
        key = self._ended(run_id)
        if not _is_interrupt(error):
            self.reporter.end(key, exc=error)

    def _ended(self, run_id: Any) -> str:
        self._above.pop(run_id, None)
        return self._keys.pop(run_id, "")

    @harmless
    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: Any, **rest: Any) -> None:
        """Announce calls while a model writes their arguments."""
        for one in getattr(getattr(chunk, "message", None), "tool_call_chunks", None) or ():
            place = run_id, one.get("index")
            if one.get("id") and one.get("name"):
                self._streamed[place] = one["id"]
                self.reporter.open(one["id"], one["name"])
            self.reporter.arguments_piece(self._streamed.get(place, ""), one.get("args") or "")

    # Approval

    async def decided(self, result: Any) -> Any:
        """Ask the client what `HumanInTheLoopMiddleware` asks, and return the command to go on with.

        Returns:
            The command; None if the run was not interrupted, or for something else than a tool.
        """
        answers: JsonObject = {}
        last = result.get("messages", ())[-1:]  # asked about by an earlier process, perhaps
        said = {call["id"]: call for one in last for call in getattr(one, "tool_calls", ())}
        wanted = said | self._wanted
        for interrupt in result.get("__interrupt__", ()):
            value = interrupt.value if is_object(interrupt.value) else {}
            if value.get("type") == "tool_approval":
                answers[interrupt.id] = await self._decide(value, wanted)
            elif is_list(requests := value.get("action_requests")):
                decisions = [await self._decide(one, wanted) for one in requests]
                answers[interrupt.id] = {"decisions": decisions}
        return imported(GRAPHS, "langgraph.types", "Command")(resume=answers) if answers else None

    async def _decide(self, request: Any, wanted: dict[str, Any]) -> JsonObject:
        name, args = request["name"], request["args"]
        same = (key for key, one in wanted.items() if (one["name"], one["args"]) == (name, args))
        key = request.get("tool_call_id") or next(same, "")
        wanted.pop(key, None)  # two calls may be the same
        answer = await self.reporter.approval(key or new_call_id(), name, args, alias=key or None)
        if answer.is_allowed:
            return {"type": "approve"}
        self._wanted.pop(key, None)
        return {"type": "reject", "message": answer.message}


def _is_interrupt(error: BaseException) -> bool:
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)
