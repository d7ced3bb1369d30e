"""The server of `callsheet ui`: the page, and what it asks for. See docs/how-to/inspector.md.

It only reads the history. Requests are checked by `security.RequestGate` first.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from callsheet.history import HistoryError, Query, Store, StoredCall, StoredMessage, StoredSession
from callsheet.history.figures import Used
from callsheet.history.filters import parse_filter
from callsheet.history.replay import entries_of
from callsheet.history.rows import UNKNOWN, Origin
from callsheet.ui.answers import export_lines, row_of, session_of, usage_of
from callsheet.ui.live import LiveHistory
from callsheet.ui.page import ICON
from callsheet.ui.saved_filters import MOST_BYTES as MOST_SAVED
from callsheet.ui.saved_filters import SavedFilters, read_filters, write_filters
from callsheet.ui.security import ANY, RequestGate, hosts_of
from callsheet.ui.trace import origin_keys, stored_trace
from callsheet.ui.traced import Trace

MOST_ROWS = 200
MOST_CALLS = 2000
"""Calls of a session that are shown at once: the newest ones."""

MOST_BYTES = 32 << 20
"""Bytes of calls of a session that are shown at once."""

HEARTBEAT = 15.0
"""Seconds after which a stream of events shows that it lives."""

EXPORTED = 50
"""Calls that are read at once to be exported."""

SHELL = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="x-dns-prefetch-control" content="off">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>callsheet</title>
<link rel="icon" href="{ICON}">
<link rel="stylesheet" href="/style.css">
<div id="app"></div>
<script src="/app.js" defer></script>
</html>
"""


class Encoded(Response):
    """A response of JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return msgspec.json.encode(content)


class Inspector:
    """Answers the page's requests.

    Args:
        history: What is shown.
        saved: The file with the saved filters.
    """

    def __init__(self, history: LiveHistory, saved: Path) -> None:
        self._history: LiveHistory = history
        self._saved: Path = saved
        # Making a trace takes long, so it is done beside the event loop, one at a time.
        self._tracing: asyncio.Lock = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return which request is answered by what."""
        page = {
            "/": (SHELL, "text/html"),
            "/app.js": (_static("app.js"), "text/javascript"),
            "/style.css": (_static("style.css"), "text/css"),
        }
        gets: dict[str, Callable[..., Any]] = {
            "/api/calls": self.calls,
            "/api/call": self.call,
            "/api/findings": self.findings,
            "/api/sessions": self.sessions,
            "/api/session": self.session,
            "/api/events": self.events,
            "/api/export": self.export,
            "/api/filters": self.filters,
        }
        return [
            *(Route(path, _file(*found), methods=["GET"]) for path, found in page.items()),
            *(Route(path, answer, methods=["GET"]) for path, answer in gets.items()),
            Route("/api/filters", self.save_filters, methods=["PUT"]),
        ]

    # Calls

    async def calls(self, request: Request) -> Response:
        """Return a window of the calls that a filter selects."""
        query, wrong = _query(request)
        offset, limit = _number(request, "offset", 0), _number(request, "limit", 100)

        def read(store: Store) -> dict[str, Any]:
            version = store.version()
            found = store.window(query, offset, max(0, min(limit, MOST_ROWS)))
            origins = store.origins(head.origin for head in found.heads)
            cwds = store.directories(head.session_id for head in found.heads)
            calls = [
                row_of(head, origins.get(head.origin, UNKNOWN), cwds[head.session_id])
                for head in found.heads
            ]
            return {
                "version": version,
                "total": found.total,
                "offset": found.offset,
                "calls": calls,
                "wrong": wrong,
            }

        return Encoded(await self._history.ask(read))

    async def call(self, request: Request) -> Response:
        """Return all that is known of one call."""
        session_id, call_id = _text(request, "session"), _text(request, "id")

        def read(
            store: Store,
        ) -> tuple[list[StoredCall], StoredSession | None, dict[str | None, Origin]]:
            found = store.calls(Query(session_id=session_id, call_id=call_id, limit=1))
            return found, store.session(session_id), store.origins(origin_keys(found))

        found, session, origins = await self._history.ask(read)
        if not found:
            raise HTTPException(404, f"There is no call {call_id} in session {session_id}.")
        session = session or StoredSession(session_id=session_id)
        trace = await self._trace(session, found, origins)
        if not trace.calls:
            raise HTTPException(404, f"The call {call_id} can't be shown.")
        return Encoded(
            {
                "call": trace.calls[0],
                "hasTimes": trace.has_times,
                "cwd": session.cwd,
                "who": trace.who,
                "at": found[0].head.at,
            }
        )

    async def findings(self, request: Request) -> Response:
        """Return how many findings the calls of a window have that have ended."""
        query, _ = _query(request)
        offset, limit = _number(request, "offset", 0), _number(request, "limit", 0)

        def read(store: Store) -> dict[str, list[StoredCall]]:
            found: dict[str, list[StoredCall]] = {}
            room = MOST_BYTES
            for head in store.window(query, offset, max(0, min(limit, MOST_ROWS))).heads:
                if not head.is_open and (room := room - head.size) >= 0:
                    one = Query(session_id=head.session_id, call_id=head.call_id, limit=1)
                    found.setdefault(head.session_id, []).extend(store.calls(one))
            return found

        counts: list[dict[str, Any]] = []
        for session_id, calls in (await self._history.ask(read)).items():
            trace = await self._trace(StoredSession(session_id=session_id), calls, {})
            counts += [
                {"session": session_id, "id": call.id, "count": len(call.findings)}
                for call in trace.calls
            ]
        return Encoded({"findings": counts})

    async def export(self, request: Request) -> Response:
        """Return every call that a filter selects, whole."""
        query, wrong = _query(request)
        if wrong:
            raise HTTPException(400, "; ".join(wrong))
        page = replace(query, limit=EXPORTED)
        first = await self._history.ask(lambda store: store.calls(page))

        async def lines() -> AsyncIterator[bytes]:
            found = first
            while found:
                yield await self._history.ask(lambda store, found=found: export_lines(store, found))
                head = found[-1].head
                after = replace(page, before=(head.at, head.session_id, head.call_id))
                found = await self._history.ask(lambda store, after=after: store.calls(after))

        name = time.strftime("calls-%Y%m%d-%H%M%S.jsonl")
        return StreamingResponse(
            lines(),
            media_type="application/jsonl",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    # Sessions

    async def sessions(self, request: Request) -> Response:
        """Return some sessions, the most recently used first."""
        limit = max(1, min(_number(request, "limit", 50), MOST_ROWS))
        before = None
        if cursor := request.query_params.get("before"):
            used, _, key = cursor.partition(" ")
            try:
                before = float(used), key
            except ValueError:
                raise HTTPException(400, f"before={cursor}: that is no `next` of ours.") from None

        def read(store: Store) -> tuple[list[StoredSession], dict[str, Used]]:
            found = store.sessions(before=before, limit=limit)
            return found, store.used_in(one.session_id for one in found)

        found, used = await self._history.ask(read)
        last = found[-1] if len(found) == limit else None
        return Encoded(
            {
                "sessions": [session_of(one, used.get(one.session_id)) for one in found],
                "next": f"{last.updated_at!r} {last.session_id}" if last else None,
            }
        )

    async def session(self, request: Request) -> Response:
        """Return a session as a trace."""
        session_id = _text(request, "id")

        def read(
            store: Store,
        ) -> tuple[str, StoredSession | None, list[Any], dict[str | None, Origin], int]:
            version, found = store.version(), store.session(session_id)
            heads = store.heads(Query(session_id=session_id, limit=MOST_CALLS))
            room, after, shown = MOST_BYTES, -1, 0
            for head in heads:
                if (room := room - head.size) < 0 and shown:
                    break
                after, shown = head.position - 1, shown + 1
            is_all = found is None or shown == found.calls
            entries = list(entries_of(store, session_id, -1 if is_all else after))
            origins = store.origins(origin_keys(entries))
            left_out = 0 if is_all or found is None else found.calls - shown
            return version, found, entries, origins, left_out

        version, found, entries, origins, left_out = await self._history.ask(read)
        used = await self._history.ask(lambda store: store.used_in([session_id]))
        if found is None:
            raise HTTPException(404, f"There is no session {session_id}.")
        trace = await self._trace(found, entries, origins)
        trace.usage = usage_of(used.get(session_id))
        if left_out:
            text = f"The oldest {left_out:,} of {found.calls:,} calls are not shown."
            trace.unreadable.insert(0, text)
        return Encoded({"trace": trace, "before": None, "version": version})

    async def _trace(
        self,
        session: StoredSession,
        entries: Sequence[StoredCall | StoredMessage],
        origins: dict[str | None, Origin],
    ) -> Trace:
        async with self._tracing:
            return await asyncio.to_thread(stored_trace, session, entries, origins)

    # News

    async def events(self, request: Request) -> Response:  # noqa: ARG002
        """Return a stream that says whenever something has changed."""
        states = self._history.states(HEARTBEAT)
        first = await anext(states)  # raises if too many listen

        async def events() -> AsyncIterator[bytes]:
            try:
                yield _event(first)
                async for state in states:
                    yield _event(state)
            finally:
                await states.aclose()

        return StreamingResponse(events(), media_type="text/event-stream")

    # Saved filters

    async def filters(self, request: Request) -> Response:  # noqa: ARG002
        """Return the saved filters."""
        return Encoded(read_filters(self._saved))

    async def save_filters(self, request: Request) -> Response:
        """Save filters, in place of those that were saved before."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_SAVED:
                raise HTTPException(400, f"Filters may take {MOST_SAVED:,} bytes.")
        try:
            found = msgspec.json.decode(body, type=SavedFilters)
        except (ValueError, RecursionError):
            shape = '{"filters": [{"name": …, "filter": …}]}'
            raise HTTPException(400, f"Expected {shape}.") from None
        try:
            write_filters(self._saved, found)
        except OSError as exc:
            text = f"{self._saved} can't be written: {exc.strerror or exc}."
            raise HTTPException(503, text) from None
        return Encoded(found)


# What is read from requests


def _text(request: Request, name: str) -> str:
    value = request.query_params.get(name)
    if not value:
        raise HTTPException(400, f"{name} is missing.")
    return value


def _number(request: Request, name: str, default: int) -> int:
    value = request.query_params.get(name) or str(default)
    try:
        number = int(value)
    except ValueError:
        number = 1 << 63
    if abs(number) >= 1 << 62:
        raise HTTPException(400, f"{name}={value[:40]}: expected a whole number.")
    return number


def _query(request: Request) -> tuple[Query, list[str]]:
    terms, wrong = parse_filter(request.query_params.get("filter", ""), time.time())
    return Query(terms=terms), wrong


# What is sent


def _event(state: dict[str, Any] | None) -> bytes:
    if state is None:
        return b": still here\n\n"
    return b"event: state\ndata: " + msgspec.json.encode(state) + b"\n\n"


def _static(name: str) -> bytes:
    return (files("callsheet.ui") / "static" / name).read_bytes()


def _file(content: str | bytes, media_type: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:  # noqa: ARG001
        return Response(content, media_type=media_type)

    return answer


async def _failed(request: Request, exc: Exception) -> Response:  # noqa: ARG001
    if isinstance(exc, HTTPException):
        return JSONResponse({"error": exc.detail}, exc.status_code, exc.headers)
    if isinstance(exc, HistoryError):
        return JSONResponse({"error": str(exc)}, 503)
    return JSONResponse({"error": f"The inspector has failed: {type(exc).__name__}."}, 500)


# Serving


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raise `OSError` if it can't be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(64)
    except OSError:
        made.close()
        raise
    return made


class _Server(uvicorn.Server):
    """A server that ends streams of events at once when it is interrupted."""

    def __init__(self, config: uvicorn.Config, history: LiveHistory) -> None:
        super().__init__(config)
        self._history: LiveHistory = history

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._history.end_news()
        await super().shutdown(sockets)


def serve(
    history: LiveHistory, listening: socket.socket, host: str, token: str, saved: Path
) -> None:
    """Serve until the process is interrupted.

    Args:
        history: What is shown.
        listening: Where requests come from.
        host: The address, as users name it.
        token: What a request for data must know.
        saved: The file with the saved filters.
    """
    port = listening.getsockname()[1]
    inspector = Inspector(history, saved)
    app = Starlette(
        routes=inspector.routes(),
        exception_handlers={HTTPException: _failed, HistoryError: _failed, Exception: _failed},
    )
    gate = RequestGate(
        app, token=token, hosts=hosts_of(host, port), any_address=host in ANY, port=port
    )
    config = uvicorn.Config(
        gate,  # pyright: ignore[reportArgumentType]
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="error",  # what is no request is answered, and not worth a line
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    try:
        _Server(config, history).run(sockets=[listening])
    finally:
        history.close()
