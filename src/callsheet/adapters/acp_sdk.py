"""The official Python SDK of ACP: a session whose updates go through an agent's own connection.

    async def prompt(self, prompt, session_id, **kwargs):
        async with connected_session(self.conn, session_id, cwd=self.cwd) as session:
            async with session.call("bash", {"command": "make"}) as call:
                …

Updates are sent as they are, not as the SDK's models, which drop what they don't know: those of 0.12 drop the
`name`. A client of the SDK gets these models, and `tool_name` finds the name in them.
"""

from __future__ import annotations

from typing import Any, Unpack

from callsheet.acp.peer import peer_of
from callsheet.adapters.framework import name_framework, require
from callsheet.limits.to_json import jsonsafe
from callsheet.report.json import JsonObject, JsonValue, is_object
from callsheet.runtime.options import SessionOptions
from callsheet.runtime.permission import Question
from callsheet.tools.session import Session

VERSIONS = ("agent-client-protocol", "0.12", "2")


def connected_session(
    connection: Any,
    session_id: str,
    *,
    client_capabilities: Any = None,
    client_info: Any = None,
    **options: Unpack[SessionOptions],
) -> Session:
    """Return a session that reports through a connection of the SDK, and asks its client for permission.

    Args:
        connection: What the SDK gives to the agent's `on_connect`.
        session_id: The id that the agent has returned from `new_session`.
        client_capabilities: What the client has sent in `initialize`: how it shows terminals depends on it.
        client_info: The client's name, from `initialize`.
        options: As in `Session`.

    Returns:
        The session, to be entered by `async with`, for a turn or for longer.

    Raises:
        UnknownFramework: The SDK is not installed, or is too old.
    """
    require(*VERSIONS)
    wire = _Wire(connection)
    info = _as_json(client_info)
    client = {"clientCapabilities": _as_json(client_capabilities), "clientInfo": info}
    given: SessionOptions = {
        "peer": peer_of(client, 1),
        "on_params": wire.update,
        "on_permission": wire.ask,
        **options,
    }
    session = Session(session_id, **given)
    name_framework(session, VERSIONS[0], info)
    return session


def tool_name(update: Any) -> str | None:
    """Return the name of the tool that an update of the SDK's models is about, as far as it is known."""
    name = getattr(update, "name", None)
    meta: Any = getattr(update, "field_meta", None)
    return name if isinstance(name, str) else meta.get("tool_name") if is_object(meta) else None


class _Wire:
    """The connection below the SDK's models, or the models where there is none."""

    def __init__(self, connection: Any) -> None:
        self._connection: Any = connection
        self._raw: Any = getattr(connection, "_conn", None)

    async def update(self, params: JsonObject) -> None:
        if hasattr(self._raw, "send_notification"):
            await self._raw.send_notification("session/update", params)
            return
        from acp.schema import SessionNotification

        model = SessionNotification.model_validate(params)
        await self._connection.session_update(model.session_id, model.update)

    async def ask(self, question: Question) -> JsonValue:
        params = question.params()
        if hasattr(self._raw, "send_request"):
            return await self._raw.send_request("session/request_permission", params)
        from acp.schema import RequestPermissionRequest

        model = RequestPermissionRequest.model_validate(params)
        answer = await self._connection.request_permission(
            session_id=model.session_id, tool_call=model.tool_call, options=model.options
        )
        return _as_json(answer)


def _as_json(value: Any) -> JsonObject:
    """Return a model of the SDK, or what looks like it, with ACP's own names."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    safe = jsonsafe(value)
    return safe if is_object(safe) else {}
