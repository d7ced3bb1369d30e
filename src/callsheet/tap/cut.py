"""Cuts what one side says, which comes in pieces that end anywhere, into whole lines."""

from __future__ import annotations

LONGEST = 64 * 1024 * 1024
"""Bytes of a line that is waited for. The rest of a longer one is passed on as it comes."""


class Cut:
    """Cuts pieces where lines end. Of a line that is too long, parts come as they are."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest: int = longest
        self._rest: list[bytes] = []
        self._size: int = 0
        self._is_long: bool = False

    def take(self, data: bytes) -> tuple[bytes, bytes, bytes]:
        """Take a piece. Gives the end of a long line, whole lines, and the beginning of a long one."""
        if not self._rest and not self._is_long and data.endswith(b"\n"):
            return b"", data, b""
        ended = b""
        if self._is_long:
            end = data.find(b"\n") + 1
            if not end:
                return data, b"", b""
            self._is_long = False
            ended, data = data[:end], data[end:]
        end = data.rfind(b"\n") + 1
        if not end:
            return ended, b"", self._hold(data)
        whole = data[:end]
        if self._rest:
            whole = b"".join((*self._rest, whole))
            self._rest, self._size = [], 0
        return ended, whole, self._hold(data[end:])

    def end(self) -> bytes:
        """Return what had no end."""
        rest, self._rest = b"".join(self._rest), []
        return rest

    def _hold(self, data: bytes) -> bytes:
        if not data:
            return b""
        self._rest.append(data)
        self._size += len(data)
        if self._size <= self._longest:
            return b""
        part, self._rest, self._size, self._is_long = b"".join(self._rest), [], 0, True
        return part


def cut(lines: bytes) -> list[bytes]:
    """Return whole lines one by one, each with its end: line feeds, and nothing else, end one."""
    return [line + b"\n" for line in lines.split(b"\n")[:-1]]
