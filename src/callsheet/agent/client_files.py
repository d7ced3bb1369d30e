"""Files through the client: what its user has typed and not saved is read, and not lost.

The client is asked for text files of the workspace that are on the disk and not large. If it returns what is
in the file, the file itself is used, because it has more (its bytes, its line endings). Else the client's
text is what is read and edited, and the edit is written through the client. Where the client has no answer,
the file is read from the disk, and then written to the disk as well.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import wait
from pathlib import Path

from callsheet.report.errors import CallsheetError
from callsheet.report.json import EMPTY, JsonObject, is_object
from callsheet.runtime.rpc import Disconnected, RemoteError, RpcPeer
from callsheet.tools.errors import Cancelled, ExecutionFailed, IOFailed, ToolError
from callsheet.tools.files.dirfd import parent_of
from callsheet.tools.files.document import Document, Held, New
from callsheet.tools.files.text_encoding import UTF8, has_surrogates, newline_of, with_newlines
from callsheet.tools.host import GoOn, Host
from callsheet.tools.session import Call

MOST_BYTES = 1_000_000
"""Bytes up to which a file is requested from the client."""

MOST_SENT = 4_000_000
"""A larger text is not sent."""

READ_SECONDS = 5.0
WRITE_SECONDS = 30.0
"""How long the client may take. It may format a file before it has written it."""

_SLICE = 0.05
"""Seconds after which a thread that waits checks whether it still should."""


class ClientFiles(Host):
    """The files of one session: the client's, as far as it reads and writes files, else this machine's."""

    def __init__(self, connection: RpcPeer, capabilities: JsonObject, session_id: str) -> None:
        offered = capabilities.get("fs")
        offered = offered if is_object(offered) else EMPTY
        self._reads: bool = offered.get("readTextFile") is True
        self._writes: bool = offered.get("writeTextFile") is True
        self.by_text: bool = self._reads
        self._connection: RpcPeer = connection
        self._session_id: str = session_id
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()

    async def ask(
        self, method: str, params: JsonObject, seconds: float | None = None
    ) -> JsonObject:
        """Send the client a request, and return its result, or an empty object if the result is no object.

        Args:
            method: The method of ACP.
            params: The params, without `sessionId`.
            seconds: Seconds to wait for the response at most.

        Raises:
            RemoteError: The client has answered with an error.
            Disconnected: The client is gone.
            FrameTooLarge: The request is too large to send.
            TimeoutError: There was no answer within `seconds`.
        """
        params = {"sessionId": self._session_id, **params}
        async with asyncio.timeout(seconds):
            answer = await self._connection.request(method, params)
        return answer if is_object(answer) else EMPTY

    def _ask_in_thread(
        self, method: str, params: JsonObject, seconds: float, go_on: GoOn
    ) -> JsonObject:
        """Send a request from a tool's thread, and wait for the response.

        `go_on` is called every `_SLICE` seconds. If it raises, the request is cancelled.
        """
        asked = asyncio.run_coroutine_threadsafe(self.ask(method, params, seconds), self._loop)
        try:
            while not wait([asked], _SLICE).done:
                go_on()
        except BaseException:
            asked.cancel()
            raise
        return asked.result()

    def look(self, call: Call, path: Path, found: os.stat_result) -> Document | None:
        """Return a file that is to be read, if the client may hold another text of it."""
        if not self._reads or found.st_size > MOST_BYTES or not call.workspace.holds(path):
            return None
        return self.load(call, path, call.check_wanted)

    def load(self, call: Call, path: Path, go_on: GoOn) -> Document:
        """Return a file that is to be changed."""
        document = super().load(call, path, go_on)
        if not self._reads or not _suits(call, path, document):
            return document
        text = self._text(call, path, go_on)
        return document if text is None else _held(document, text)

    def replace(
        self, call: Call, path: Path, new: New, old: Document | None, go_on: GoOn
    ) -> os.stat_result | None:
        """Write a file: through the client, if it is one of its files."""
        if self._is_theirs(call, path, new, old):
            go_on()
            with parent_of(path, [] if old is None else None):
                pass  # only for its directories, which are made where they are missing
            self._write(call, path, _as_taken(new.text, old), go_on)
            return _state(path)
        if old is not None and old.is_unsaved:
            raise ExecutionFailed(
                f"{call.workspace.show(path)} has changes in the editor that are not saved, and it can't be "
                "written through the editor; let the user save it first"
            )
        return super().replace(call, path, new, old, go_on)

    def _is_theirs(self, call: Call, path: Path, new: New, old: Document | None) -> bool:
        if not self._writes or len(new.data) > MOST_SENT or not call.workspace.holds(path):
            return False
        if old is None or old.held is not None:
            return True
        return not self._reads and _suits(call, path, old)

    def _text(self, call: Call, path: Path, go_on: GoOn) -> str | None:
        """Ask for a text. Return None where the answer is of no use: there is still the disk."""
        params = {"path": call.workspace.as_given(path)}
        try:
            answer = self._ask_in_thread("fs/read_text_file", params, READ_SECONDS, go_on)
        except ToolError:
            raise
        except (CallsheetError, TimeoutError):
            return None
        text = answer.get("content")
        return text if isinstance(text, str) and not has_surrogates(text) else None

    def _write(self, call: Call, path: Path, text: str, go_on: GoOn) -> None:
        shown = call.workspace.show(path)
        params = {"path": call.workspace.as_given(path), "content": text}
        try:
            self._ask_in_thread("fs/write_text_file", params, WRITE_SECONDS, go_on)
        except Cancelled as exc:
            unknown = f"It is not known whether the editor has written {shown}"
            raise Cancelled("stopped", output=unknown) from exc
        except RemoteError as exc:
            why = exc.error.get("message") or "it did not say why"
            raise IOFailed(f"{shown} can't be written: the editor refused: {why}") from exc
        except (Disconnected, TimeoutError) as exc:
            why = "is gone" if isinstance(exc, Disconnected) else "does not answer"
            raise IOFailed(
                f"{shown}: the editor that should write it {why}, so it is not known whether it was "
                "written. Read it again"
            ) from exc


def _suits(call: Call, path: Path, document: Document) -> bool:
    """Return whether the client can read and write a file without loss."""
    return (
        document.text is not None
        and document.codec == UTF8
        and document.size <= MOST_BYTES
        and call.workspace.holds(path)
    )


def _held(document: Document, given: str) -> Document:
    """Return a document with the client's text instead of the file's, where they differ."""
    newline = "\r\n" if "\r\n" in given else "\n"
    saved = document.text or ""
    if _is_same(saved.replace("\r\n", "\n"), given.replace("\r\n", "\n")):
        return document._replace(held=Held(newline, False))
    text = with_newlines(given.removeprefix("\ufeff"), newline_of(saved))
    return document._replace(text=text, data=UTF8.encode(text), held=Held(newline, True))


def _is_same(saved: str, given: str) -> bool:
    """Return whether the client's text is what is saved. Some clients leave out the newline at the end."""
    return given == saved or (saved.endswith("\n") and given == saved[:-1])


def _as_taken(text: str, old: Document | None) -> str:
    """Return a text with the line endings that the client uses for it; the file gets the right ones."""
    if old is None or old.held is None or old.held.newline == "\r\n":
        return text
    return text.replace("\r\n", "\n") if newline_of(old.text or "") == "\r\n" else text


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:  # only the client has it, until it saves it
        return None
